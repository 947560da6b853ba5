"""All image methods: they learn, their parts are what the protocols say, and a resumed run equals one in a piece."""

import copy
import warnings
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist
from lightning.pytorch import Callback, Trainer

import ranks
from rince import RINCE, CrossView, InfoNCE, Queue, Supervised, TwoView
from rince._support.step_seeds import generator
from rince.data.images.in_memory import Images
from rince.encoders.convnet import ConvNet
from rince.errors import UsageError
from rince.methods.moco import MoCo
from rince.methods.moco_v3 import MoCoV3
from rince.methods.momentum import follow
from rince.methods.simclr import SimCLR
from rince.methods.supcon import SupCon
from rince.views.image import SimCLRViews


class Patterns(Images):
    """The class is how bright the image is, and blots tell one image from the next."""

    def read(self):
        labels = torch.arange(64) % 4
        blots = torch.rand(64, 1, 2, 2, generator=generator(0, 1)).repeat_interleave(4, 2).repeat_interleave(4, 3)
        images = (50 * labels[:, None, None, None] + 90 * blots).to(torch.uint8)
        return {"train": (images, labels), "test": (images, labels)}


def make(kind, loss=None, seed=0, **options):
    torch.manual_seed(seed)
    views = SimCLRViews(size=8, crop=(0.5, 1.0), jitter=(0.2, 0.2, 0, 0), grey_chance=0, mean=[0.3], std=[0.3])
    sizes = {"hidden": 16, "width": 8} | ({"queue": 40} if kind is MoCo else {})
    loss = RINCE(q=0.3) if loss is None else loss
    return kind(ConvNet(1, 4), loss, views, lambda p: torch.optim.Adam(p, lr=0.01), **(sizes | options))


def fit(method, epochs=2, callbacks=(), ckpt_path=None, batch_size=16, **options):
    trainer = Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=list(callbacks), use_distributed_sampler=False, **options,
    )  # fmt: skip
    data = Patterns(batch_size)
    data.pairing = method.pairing
    trainer.fit(method, datamodule=data, ckpt_path=ckpt_path, weights_only=True)
    return trainer


class Record(Callback):
    def __init__(self):
        self.losses, self.q, self.rates, self.momenta = [], [], [], []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.losses.append(float(outputs["loss"]))
        self.q.append(getattr(module.loss, "q", None))

    def on_train_batch_start(self, trainer, module, batch, batch_idx):
        self.rates.append(trainer.optimizers[0].param_groups[0]["lr"])
        if hasattr(module, "momentum_of"):
            self.momenta.append(module.momentum_of(module.progress))


KINDS = [SimCLR, SupCon, MoCo, MoCoV3]


@pytest.mark.parametrize("kind", KINDS)
def test_training_brings_views_of_an_image_together(kind):
    method = make(kind, InfoNCE(0.2), **({"momentum": 0.5} if kind in (MoCo, MoCoV3) else {}))
    record = Record()
    trainer = fit(method, epochs=20, callbacks=[record])
    assert trainer.global_step == 80
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


# Four batches an epoch: with three to a step, the last of an epoch is a step of its own.
@pytest.mark.parametrize(
    "epochs, options, batches",
    [
        (3, {"accumulate_grad_batches": 3}, 12),
        (3, {"accumulate_grad_batches": 8}, 12),
        (3, {"accumulate_grad_batches": 3, "max_steps": 3}, 7),
        (3, {"accumulate_grad_batches": 3, "max_steps": 4}, 8),
        (-1, {"accumulate_grad_batches": 3, "max_steps": 5}, 11),
        (-1, {"max_steps": 6}, 6),
        (3, {"max_steps": 6, "limit_train_batches": 3}, 6),
    ],
)
def test_schedules_end_with_the_last_batch_however_gradients_are_accumulated(epochs, options, batches):
    record = Record()
    fit(make(MoCoV3, RINCE(q=0.4), q_schedule="linear", momentum=0.9), epochs, [record], **options)
    assert record.q == pytest.approx([0.01 + 0.39 * i / (batches - 1) for i in range(batches)])
    assert record.momenta[0] == pytest.approx(0.9) and record.momenta[-1] == pytest.approx(1.0)


@pytest.mark.parametrize("epochs, options", [(4, {}), (4, {"max_steps": 7}), (-1, {"max_steps": 7})])
def test_the_warm_up_lasts_as_many_epochs_as_it_should_wherever_training_stops(epochs, options):
    record = Record()
    fit(make(SimCLR, warmup_epochs=1, lr_schedule="constant"), epochs, [record], **options)
    assert record.rates[:7] == pytest.approx([0.0025, 0.005, 0.0075, 0.01, 0.01, 0.01, 0.01])


def test_training_without_end_is_refused():
    with pytest.raises(ValueError, match=r"training needs an end .*: set trainer\.max_steps"):
        fit(make(SimCLR), epochs=-1)


def test_a_q_schedule_for_a_loss_without_q_is_refused():
    with pytest.raises(ValueError, match="InfoNCE has no q"):
        make(SimCLR, InfoNCE(), q_schedule="linear")


def test_each_method_brings_the_contrast_it_needs():
    for kind, contrast in ((SimCLR, TwoView), (SupCon, TwoView), (MoCo, Queue), (MoCoV3, CrossView)):
        assert isinstance(make(kind).contrast, contrast)
    several = make(SupCon, positives="several")
    assert isinstance(several.contrast, Supervised) and several.pairing == "self"
    assert make(SupCon).pairing == "label" and not make(MoCoV3).contrast.symmetric


def test_a_loss_made_for_another_contrast_is_refused():
    message = (
        r"SimCLR compares by TwoView\(\), but the loss was made with CrossView\(symmetric=True\): "
        r"leave the contrast out, RINCE\(\.\.\.\), and SimCLR brings its own"
    )
    with pytest.raises(UsageError, match=message):
        make(SimCLR, RINCE(contrast=CrossView()))
    for kind, contrast in ((SupCon, Supervised()), (MoCo, Queue(8, 40)), (MoCoV3, CrossView())):
        with pytest.raises(UsageError, match=f"{kind.__name__} compares by"):
            make(kind, RINCE(contrast=contrast))
    make(SimCLR, RINCE(contrast=TwoView()))
    make(SupCon, RINCE(contrast=Supervised()), positives="several")
    make(MoCoV3, RINCE(contrast=CrossView(symmetric=False)))


def test_methods_can_share_a_loss():
    loss = InfoNCE(0.2)
    one, other = make(MoCo, loss), make(MoCo, loss)
    fit(one, epochs=1)
    assert int(one.contrast.pushed) == 64 and int(other.contrast.pushed) == 0 and isinstance(loss.contrast, TwoView)


def test_queues_in_checkpoints_of_version_0_1_are_found():
    method, other = make(MoCo), make(MoCo, seed=1)
    fit(method, epochs=1)
    old = {name.replace("contrast.", "loss.contrast."): value for name, value in method.state_dict().items()}
    assert "loss.contrast.keys" in old
    other.load_state_dict(old)
    assert torch.equal(other.contrast.keys, method.contrast.keys) and int(other.contrast.pushed) == 64


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
    assert int(method.contrast.pushed) == 128
    torch.testing.assert_close(method.contrast.keys.norm(dim=1), torch.ones(40))


def test_moco_v3_scales_both_directions_by_two_temperatures():
    method = make(MoCoV3, InfoNCE(0.3))
    calls = []
    method.loss.register_forward_hook(lambda module, inputs, output: calls.append(output.detach()))
    record = Record()
    fit(method, epochs=1, callbacks=[record])
    assert record.losses[0] == pytest.approx(float(2 * 0.3 * (calls[0] + calls[1])), rel=1e-5)


def test_moco_v3_compares_each_view_with_the_other_one():
    method, seen = make(MoCoV3, InfoNCE(0.3)), {"views": [], "slow views": [], "queries": [], "keys": [], "pairs": []}
    for module, name in ((method.encoder, "views"), (method.slow_encoder, "slow views")):
        module.register_forward_pre_hook(lambda _, inputs, name=name: seen[name].append(inputs[0]))
    for module, name in ((method.predictor, "queries"), (method.slow_projector, "keys")):
        module.register_forward_hook(lambda _, inputs, output, name=name: seen[name].append(output))
    method.loss.register_forward_pre_hook(lambda _, inputs: seen["pairs"].append(inputs))
    fit(method, epochs=1, max_steps=1)
    assert not torch.equal(*seen["views"])
    assert all(map(torch.equal, seen["views"], seen["slow views"]))
    for (query, key), own_query, other_key in zip(seen["pairs"], seen["queries"], seen["keys"][::-1], strict=True):
        assert query is own_query and key is other_key


def test_moco_v3_learns_the_temperature_of_the_loss_and_not_of_its_factor():
    temperature = torch.nn.Parameter(torch.tensor(0.3))
    method, gradients = make(MoCoV3, InfoNCE(temperature)), []
    calls = []
    method.loss.register_forward_pre_hook(lambda _, inputs: calls.append([z.detach() for z in inputs]))
    temperature.register_hook(lambda gradient: gradients.append(float(gradient)))
    fit(method, epochs=1, max_steps=1)
    again = torch.tensor(0.3, requires_grad=True)
    plain = InfoNCE(again, CrossView(symmetric=False))
    (plain(*calls[0]) + plain(*calls[1])).backward()
    assert sum(gradients) == pytest.approx(2 * 0.3 * float(again.grad), rel=1e-4)


def test_the_momentum_of_moco_v3_rises_to_one():
    method = make(MoCoV3, momentum=0.9)
    assert method.momentum_of(0.0) == pytest.approx(0.9) and method.momentum_of(1.0) == pytest.approx(1.0)


def test_a_collapse_is_noticed():
    method = make(SimCLR, RINCE(), width=0)
    method.encoder.forward = lambda x: torch.ones(len(x), 16) + 0 * method.encoder.layers(x).mean((2, 3))
    with pytest.warns(UserWarning, match="collapsed"):
        fit(method, epochs=2)


def test_one_flat_epoch_is_no_collapse():
    method = make(SimCLR, RINCE(), width=0)
    layers, epochs = method.encoder.forward, []

    def flat_in_the_first_and_third_epoch(x):
        epochs.append(method.current_epoch)
        return layers(x) if method.current_epoch == 1 else torch.ones(len(x), 16) + 0 * layers(x)

    method.encoder.forward = flat_in_the_first_and_third_epoch
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*collapsed.*")
        fit(method, epochs=3)
    assert set(epochs) == {0, 1, 2}


def keys_of_two_processes(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    method = make(MoCo, width=5)
    method._trainer = SimpleNamespace(world_size=2, global_rank=rank)
    seen = []
    method.slow_encoder = torch.nn.Identity()
    method.slow_encoder.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[0].clone()))
    method.slow_head = torch.nn.Identity()
    views = torch.arange(8.0)[:, None].expand(8, 5) + 100 * rank
    torch.save((views, method.keys(views), seen[0]), f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_moco_encodes_keys_on_other_processes_and_brings_them_back(tmp_path):
    ranks.start(keys_of_two_processes, 2, tmp_path)
    both = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    encoded = torch.cat([seen for _, _, seen in both])
    assert all(torch.equal(keys, views) for views, keys, _ in both)
    assert not any(torch.equal(seen, views) for views, _, seen in both)
    assert torch.equal(encoded.sort(0).values, torch.cat([views for views, _, _ in both]))
    order = encoded[:, 0].argsort()
    assert not torch.equal(order, order.argsort())  # a shuffle that undoes itself would prove nothing


def test_a_loss_that_is_not_finite_stops_with_a_way_out():
    class Broken(torch.nn.Module):
        def forward(self, a, b):
            return a.sum() * torch.nan

    with pytest.raises(ValueError, match="became nan at step 0"):
        fit(make(SimCLR, Broken()), epochs=1)


def test_an_encoder_that_does_not_say_its_width_is_refused():
    with pytest.raises(ValueError, match="attribute 'features'"):
        SimCLR(torch.nn.Linear(2, 2), RINCE(), SimCLRViews(), torch.optim.Adam)


def test_moco_v3s_predictor_ends_without_batch_norm_and_its_projector_with_one():
    method = make(MoCoV3)
    assert isinstance(method.projector[-1], torch.nn.BatchNorm1d)
    assert isinstance(method.predictor[-1], torch.nn.Linear) and method.predictor[-1].bias is None
    assert isinstance(make(MoCoV3, predictor_norm=True).predictor[-1], torch.nn.BatchNorm1d)


def test_a_learning_rate_in_steps_falls_to_a_tenth_twice():
    record = Record()
    fit(make(SimCLR, lr_schedule="steps"), epochs=5, callbacks=[record])
    assert record.rates == pytest.approx([0.01] * 12 + [0.001] * 4 + [0.0001] * 4)
