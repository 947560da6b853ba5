from types import SimpleNamespace

import pytest
import torch
from lightning.pytorch import Callback, LightningDataModule, Trainer
from torch import nn
from torch.utils.data import DataLoader

from rince._support.step_seeds import generator
from rince.data.images import Images
from rince.encoders.images import ConvNet
from rince.methods.finetune import FineTune, single_view
from rince.views.image import Recipe, SimCLRViews
from rince.views.views import ClipBatch, ImageBatch, PairBatch
from support.crashes import SaveAndStop, Stop


class Shades(Images):
    """The class is how bright the image is."""

    def read(self):
        labels = torch.arange(64) % 4
        noise = torch.randint(0, 20, (64, 1, 8, 8), generator=generator(0, 1))
        images = (60 * labels[:, None, None, None] + noise).to(torch.uint8)
        return {"train": (images, labels), "test": (images, labels)}


def recipe():
    return Recipe(size=8, crop=(0.5, 1.0), jitter=(0, 0, 0, 0), gray_chance=0, mean=[0.4], std=[0.3])


def make(seed=0, momentum=0.0, **options):
    torch.manual_seed(seed)
    options = {"classes": 4, "head_epochs": 1, "milestones": (2, 3), "dropout": 0.2, **options}

    def optimizer(parameters):
        return torch.optim.SGD(parameters, lr=0.1, momentum=momentum, weight_decay=0.1)

    return FineTune(ConvNet(1, 4), nn.CrossEntropyLoss(), recipe(), optimizer, **options)


def fit(method, epochs=3, callbacks=(), ckpt_path=None, data=None, **options):
    trainer = Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=list(callbacks), use_distributed_sampler=False, **options,
    )  # fmt: skip
    trainer.fit(method, datamodule=data or Shades(16), ckpt_path=ckpt_path, weights_only=True)
    return trainer


class Watch(Callback):
    """The encoder and the head after every step, and the learning rate of the step."""

    def __init__(self):
        self.encoders, self.heads, self.rates = [], [], []

    def on_train_batch_start(self, trainer, module, *_):
        self.rates.append(trainer.optimizers[0].param_groups[0]["lr"])

    def on_train_batch_end(self, trainer, module, *_):
        self.encoders.append({name: value.clone() for name, value in module.encoder.state_dict().items()})
        self.heads.append(module.head.weight.detach().clone())


def same(a, b):
    return all(torch.equal(a[name], b[name]) for name in a)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_encoder_is_frozen_during_head_epochs(momentum):
    method, watch = make(momentum=momentum), Watch()
    start = {name: value.clone() for name, value in method.encoder.state_dict().items()}
    fit(method, callbacks=[watch])
    assert any("running_mean" in name for name in start)
    assert all(same(start, encoder) for encoder in watch.encoders[:4])  # 4 steps an epoch
    assert not torch.equal(watch.heads[0], watch.heads[3])
    for name, value in start.items():
        assert not torch.equal(value, watch.encoders[4][name]), name


def test_zero_gradients_do_not_change_a_frozen_encoder():
    method = make()
    method._trainer = SimpleNamespace(world_size=2, global_rank=0, num_training_batches=4)
    method.log = lambda *_, **__: None
    optimizer = torch.optim.SGD(method.parameters(), lr=0.1, momentum=0.9, weight_decay=0.1)
    start = {name: value.clone() for name, value in method.encoder.state_dict().items()}
    images, labels = Shades(16).read()["train"]
    method.batch_loss(ImageBatch(images[:16], labels[:16], torch.arange(16))).backward()
    assert all(not p.grad.any() for p in method.encoder.parameters())
    method.on_before_optimizer_step(optimizer)
    optimizer.step()
    assert same(start, method.encoder.state_dict())


@pytest.mark.parametrize("options", [{"linear": True}, {"head_epochs": 3}])
def test_frozen_features_stay_frozen(options):
    method, watch = make(**options), Watch()
    start = {name: value.clone() for name, value in method.encoder.state_dict().items()}
    fit(method, callbacks=[watch])
    assert same(start, watch.encoders[-1]) and not torch.equal(watch.heads[0], watch.heads[-1])


def test_the_learning_rate_falls_after_the_milestones():
    watch = Watch()
    fit(make(milestones=(1, 2), decay=0.3), callbacks=[watch])
    assert watch.rates == pytest.approx([0.1] * 4 + [0.03] * 4 + [0.009] * 4)


def test_milestones_are_epochs_also_where_steps_end_training_earlier():
    watch = Watch()
    fit(make(milestones=(1,), decay=0.3), epochs=3, callbacks=[watch], max_steps=6)
    assert watch.rates == pytest.approx([0.1] * 4 + [0.03] * 2)


def test_it_learns():
    method = make(dropout=0.0)
    trainer = fit(method, epochs=20)

    trainer.test(method, datamodule=Shades(16), verbose=False)
    result = method.test_result()
    assert result["accuracy"] > 90 and result["test_items"] == 64


@pytest.mark.parametrize("at", [3, 4, 5, 9])  # before, at and after the end of the rest, and in another epoch
def test_a_resumed_run_equals_one_in_a_piece_bit_for_bit(at, tmp_path):
    whole, watch, second = make(momentum=0.9), Watch(), Watch()
    fit(whole, callbacks=[watch])
    with pytest.raises(Stop):
        fit(make(momentum=0.9), callbacks=[SaveAndStop(tmp_path / "last.ckpt", at)])
    resumed = make(seed=5, momentum=0.9)
    fit(resumed, callbacks=[second], ckpt_path=tmp_path / "last.ckpt")
    assert same(whole.state_dict(), resumed.state_dict())
    assert watch.rates[at:] == second.rates


class ClipRecipe(nn.Module):
    """Clips (n, frames, height, width, 3) as images of their first frames."""

    def forward(self, items, draw, cropped=False):
        return self.plain(items)

    def plain(self, items):
        return items[:, 0].permute(0, 3, 1, 2).float() / 255


class Clips(LightningDataModule):
    """Three clips a video; two of them show its class, one another."""

    classes = 2

    def batches(self):
        labels = torch.arange(8) % 2
        clips = (labels * 200)[:, None, None, None, None].expand(8, 2, 8, 8, 3).to(torch.uint8)
        return ClipBatch(clips, labels, torch.arange(8) + 100)

    def train_dataloader(self):
        return DataLoader([self.batches()] * 2, batch_size=None)

    def test_dataloader(self):
        right = self.batches()
        return DataLoader([right, right, right._replace(clips=200 - right.clips)], batch_size=None)


def test_the_clips_of_a_video_vote():
    encoder = ConvNet(3, 4)
    method = FineTune(
        encoder, nn.CrossEntropyLoss(), ClipRecipe(), lambda p: torch.optim.Adam(p, lr=0.01), classes=2, dropout=0.0,
        head_epochs=0,
    )  # fmt: skip
    trainer = fit(method, epochs=25, data=Clips())
    trainer.test(method, datamodule=Clips(), verbose=False)
    assert method.view_accuracy == pytest.approx(2 / 3) and method.votes.accuracy == 1
    assert method.votes.ids.tolist() == list(range(100, 108))


def test_tower_selects_its_side():
    a, b, labels = torch.zeros(2, 3), torch.ones(2, 4), torch.zeros(2).long()
    pair, clip = PairBatch(a, b, labels, labels), ClipBatch(a, labels, labels)
    assert make(tower="b").items(pair) is b and make(tower="a").items(pair) is a
    assert make(tower="b").items(clip) is a and make().items(pair) is a


def test_one_view_of_two_is_taken_where_there_are_two():
    views = SimCLRViews(size=8)
    assert single_view(views, None) is views.first
    both = nn.Module()
    both.a, both.b = recipe(), recipe()
    assert single_view(both, "b") is both.b
    single = recipe()
    assert single_view(single, "a") is single
    with pytest.raises(ValueError, match="Linear does not make a single view"):
        single_view(nn.Linear(2, 2), None)


def test_dropout_of_one_is_refused():
    with pytest.raises(ValueError, match=r"dropout must be in \[0, 1\), got 1.0"):
        make(dropout=1.0)


def test_labels_out_of_range_are_one_sentence():
    with pytest.raises(ValueError, match=r"labels must be in \[0, 2\], got 0 to 3"):
        fit(make(classes=3))


def test_items_without_a_label_count_nothing():
    """Neither in the loss nor in its gradient; a batch of them alone moves nothing."""
    method = make(dropout=0.0)
    method._trainer = SimpleNamespace(world_size=1, global_rank=0, num_training_batches=4)
    method.log = lambda *_, **__: None
    images, labels = Shades(16).read()["train"]
    some = ImageBatch(images[:16], labels[:16].clone(), torch.arange(16))
    some.labels[::4] = -1
    loss = method.batch_loss(some)
    assert torch.isfinite(loss) and float(loss) > 0
    loss.backward()
    assert method.head.weight.grad.abs().sum() > 0
    none = method.batch_loss(some._replace(labels=torch.full((16,), -1)))
    method.head.weight.grad = None
    none.backward()
    assert float(none) == 0 and not method.head.weight.grad.any()


def test_without_classes_it_cannot_be_trained():
    with pytest.raises(ValueError, match=r"method\.classes must be set"):
        make(classes=0).check()


def test_batch_norm_of_a_frozen_encoder_follows_the_batches_if_asked():
    method, watch = make(frozen_norm=False), Watch()
    start = {name: value.clone() for name, value in method.encoder.state_dict().items()}
    fit(method, callbacks=[watch])
    for name, value in start.items():
        moved = not torch.equal(value, watch.encoders[0][name])
        assert moved == any(word in name for word in ("running", "num_batches")), name
