"""All image methods: they learn, their parts are what the protocols say, and a resumed run equals one in a piece."""

import copy

import pytest
import torch
from lightning.pytorch import Callback, Trainer

from rince import RINCE, CrossView, InfoNCE, Queue, Supervised, TwoView
from rince.data.images import Images
from rince.encoders.convnet import ConvNet
from rince.methods.moco import MoCo
from rince.methods.moco_v3 import MoCoV3
from rince.methods.momentum import follow
from rince.methods.simclr import SimCLR
from rince.methods.supcon import SupCon
from rince.seeds import generator
from rince.views.image import SimCLRViews


class Patterns(Images):
    """Stripes that tell the class, under blots that tell the image."""

    def read(self):
        labels = torch.arange(64) % 4
        stripes = (torch.arange(8)[None, :] * (labels[:, None] + 1) % 5 < 2).float()[:, None, None, :] * 100
        blots = torch.rand(64, 1, 2, 2, generator=generator(0, 1)).repeat_interleave(4, 2).repeat_interleave(4, 3) * 150
        images = (stripes + blots).to(torch.uint8)
        return {"train": (images, labels), "test": (images, labels)}


def make(kind, loss=None, seed=0, **options):
    torch.manual_seed(seed)
    views = SimCLRViews(size=8, crop=(0.5, 1.0), jitter=(0.2, 0.2, 0, 0), grey_chance=0, mean=[0.3], std=[0.3])
    sizes = {"hidden": 16, "width": 8} | ({"queue": 40} if kind is MoCo else {})
    loss = RINCE(q=0.3) if loss is None else loss
    return kind(ConvNet(1, 4), loss, views, lambda p: torch.optim.Adam(p, lr=0.01), **(sizes | options))


def fit(method, epochs=2, callbacks=(), ckpt_path=None, batch_size=16):
    trainer = Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=list(callbacks), use_distributed_sampler=False,
    )  # fmt: skip
    data = Patterns(batch_size)
    data.pairing = method.pairing
    trainer.fit(method, datamodule=data, ckpt_path=ckpt_path, weights_only=True)
    return trainer


class Record(Callback):
    def __init__(self):
        self.losses, self.q = [], []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.losses.append(float(outputs["loss"]))
        self.q.append(getattr(module.loss, "q", None))


KINDS = [SimCLR, SupCon, MoCo, MoCoV3]


@pytest.mark.parametrize("kind", KINDS)
def test_training_brings_views_of_an_image_together(kind):
    slow = kind in (MoCo, MoCoV3)
    method = make(kind, InfoNCE(0.2), **({"momentum": 0.5} if slow else {}))
    record = Record()
    trainer = fit(method, epochs=20 if slow else 8, callbacks=[record])
    assert trainer.global_step == (80 if slow else 32)
    if kind is not MoCo:  # whose queue is empty at first
        assert sum(record.losses[-4:]) < sum(record.losses[:4])
    assert trainer.logged_metrics["positive"] > trainer.logged_metrics["negative"] + 0.05


class Stop(Exception):
    pass


class SaveAndStop(Callback):
    """Writes a checkpoint after a step and breaks off at the start of a later one."""

    def __init__(self, path, at, later=1):
        self.path, self.at, self.later = path, at, later

    def on_train_batch_end(self, trainer, module, *_):
        if trainer.global_step == self.at:
            trainer.save_checkpoint(self.path)

    def on_train_batch_start(self, trainer, module, *_):
        if trainer.global_step == self.at + self.later:
            raise Stop


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("at", [3, 4])
def test_a_resumed_run_equals_one_in_a_piece_bit_for_bit(kind, at, tmp_path):
    options = {"q_schedule": "linear", "warmup_epochs": 0.5}
    whole = make(kind, **options)
    record = Record()
    fit(whole, callbacks=[record])
    with pytest.raises(Stop):
        fit(make(kind, **options), callbacks=[SaveAndStop(tmp_path / "last.ckpt", at)])
    resumed, second = make(kind, seed=5, **options), Record()  # other weights, which the checkpoint replaces
    fit(resumed, callbacks=[second], ckpt_path=tmp_path / "last.ckpt")
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name
    assert record.losses[at:] == second.losses and record.q[at:] == second.q


def test_q_goes_from_its_start_to_the_value_of_the_loss():
    record = Record()
    fit(make(SimCLR, RINCE(q=0.4), q_schedule="linear", q_start=0.01), callbacks=[record])
    assert record.q[0] == pytest.approx(0.01) and record.q[-1] == pytest.approx(0.4)
    assert all(a < b for a, b in zip(record.q, record.q[1:], strict=False))


def test_a_q_schedule_for_a_loss_without_q_is_refused():
    with pytest.raises(ValueError, match="InfoNCE has no q"):
        make(SimCLR, InfoNCE(), q_schedule="linear")


def test_each_method_brings_the_contrast_it_needs():
    for kind, contrast in ((SimCLR, TwoView), (SupCon, TwoView), (MoCo, Queue), (MoCoV3, CrossView)):
        assert isinstance(make(kind).loss.contrast, contrast)
    several = make(SupCon, positives="several")
    assert isinstance(several.loss.contrast, Supervised) and several.pairing == "self"
    assert make(SupCon).pairing == "label" and not make(MoCoV3).loss.contrast.symmetric


def test_several_positives_train_too():
    record = Record()
    fit(make(SupCon, InfoNCE(0.5), positives="several"), epochs=6, callbacks=[record])
    assert sum(record.losses[-4:]) < sum(record.losses[:4])


def test_a_loss_of_the_user_is_used_as_it_is():
    class Mine(torch.nn.Module):
        def forward(self, a, b):
            return (a - b).square().mean()

    fit(make(SimCLR, Mine()), epochs=1)


def test_the_slow_network_follows_by_the_momentum_and_gets_no_gradient():
    slow, fast = torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)
    before = copy.deepcopy(slow)
    follow(slow, fast, 0.9)
    torch.testing.assert_close(slow.weight, 0.9 * before.weight + 0.1 * fast.weight)
    method = make(MoCo)
    fit(method, epochs=1)
    assert all(p.grad is None for p in method.slow_encoder.parameters())
    assert not torch.equal(method.slow_encoder.layers[0].weight, method.encoder.layers[0].weight)


def test_mocos_queue_holds_the_newest_keys():
    method = make(MoCo)
    fit(method)  # 8 batches of 16 keys into 40 places
    assert int(method.loss.contrast.pushed) == 128
    torch.testing.assert_close(method.loss.contrast.keys.norm(dim=1), torch.ones(40))


def test_moco_v3_scales_both_directions_by_two_temperatures():
    method = make(MoCoV3, InfoNCE(0.3))
    calls = []
    method.loss.register_forward_hook(lambda module, inputs, output: calls.append(output.detach()))
    record = Record()
    fit(method, epochs=1, callbacks=[record])
    assert record.losses[0] == pytest.approx(float(2 * 0.3 * (calls[0] + calls[1])), rel=1e-5)


def test_the_momentum_of_moco_v3_rises_to_one():
    method = make(MoCoV3, momentum=0.9)
    assert method.momentum_of(0.0) == pytest.approx(0.9) and method.momentum_of(1.0) == pytest.approx(1.0)


def test_a_collapse_is_noticed():
    method = make(SimCLR, RINCE(), width=0)
    method.encoder.forward = lambda x: torch.ones(len(x), 16) + 0 * method.encoder.layers(x).mean((2, 3))
    with pytest.warns(UserWarning, match="collapsed"):
        fit(method, epochs=2)


def test_a_loss_that_is_not_finite_stops_with_a_way_out():
    class Broken(torch.nn.Module):
        def forward(self, a, b):
            return a.sum() * torch.nan

    with pytest.raises(ValueError, match="became nan at step 0"):
        fit(make(SimCLR, Broken()), epochs=1)


def test_an_encoder_that_does_not_say_its_width_is_refused():
    with pytest.raises(ValueError, match="attribute 'features'"):
        SimCLR(torch.nn.Linear(2, 2), RINCE(), SimCLRViews(), torch.optim.Adam)
