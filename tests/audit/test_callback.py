import warnings

import numpy as np
import pytest
import torch
from torch import nn

pytest.importorskip("lightning")
from lightning.pytorch import LightningModule, Trainer

import rince
from rince.audit.callback import PairMonitor
from rince.noise import wrong_pairs


class TwoTowers(LightningModule):
    def __init__(self, loss, learning_rate=1e-2):
        super().__init__()
        self.f, self.g = (
            nn.Sequential(nn.Linear(10, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 16)) for _ in "fg"
        )
        self.loss, self.learning_rate = loss, learning_rate
        self.forwards = 0
        self.seen = []

    def training_step(self, batch, index):
        self.forwards += 1
        return self.loss(self.f(batch[0]), self.g(batch[1]))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.learning_rate)

    def on_train_batch_end(self, outputs, batch, index):
        self.seen.append({k: float(v) for k, v in self.trainer.callback_metrics.items() if k.startswith("pairs/")})


def fit(model, monitor, rate=0.0, steps=200):
    random = np.random.default_rng(0)
    hidden = random.normal(size=(2048, 10)).astype(np.float32)
    a, b = hidden, hidden @ random.normal(size=(10, 10)).astype(np.float32)
    data = torch.utils.data.TensorDataset(torch.from_numpy(a), torch.from_numpy(b[wrong_pairs(2048, rate, 0).partner]))
    torch.manual_seed(0)
    loader = torch.utils.data.DataLoader(data, batch_size=256, shuffle=True, drop_last=True)
    trainer = Trainer(
        max_steps=steps, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, log_every_n_steps=10, callbacks=[monitor],
    )  # fmt: skip
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer.fit(model, loader)
    return [str(one.message) for one in caught if str(one.message).startswith("collapse")]


@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_pairs_rise_above_strangers_and_the_noise_rate_is_close(rate):
    torch.manual_seed(0)
    model = TwoTowers(rince.RINCE(q=0.5, lam="balanced", temperature=0.1, contrast=rince.CrossView(), scale="unit"))
    assert fit(model, PairMonitor(), rate) == []
    last = model.seen[-1]
    assert last["pairs/positive"] > last["pairs/negative"] + 0.3
    assert abs(last["pairs/noise_rate"] - rate) < 0.06
    assert model.forwards == 200
    assert not any(module._forward_hooks for module in model.modules())


def test_a_collapse_is_said_once_with_the_way_out():
    class Constant(nn.Module):
        def __init__(self):
            super().__init__()
            self.value = nn.Parameter(torch.ones(16))

        def forward(self, x):
            return self.value.expand(len(x), -1)

    model = TwoTowers(rince.InfoNCE(temperature=0.5, contrast=rince.TwoView()))
    model.f = model.g = Constant()
    said = fit(model, PairMonitor(grace=20), steps=60)
    assert len(said) == 1 and "lam='balanced'" in said[0]


def test_pairs_within_the_margin_of_strangers_count_as_collapsed():
    monitor = PairMonitor(grace=200, margin=0.01)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        monitor._warn(199, 0.505, 0.5)
        monitor._warn(200, 0.511, 0.5)
    with pytest.warns(UserWarning, match="collapse: after 200 steps"):
        monitor._warn(200, 0.505, 0.5)


def test_neighbors_of_the_same_class_are_no_strangers():
    monitor = PairMonitor()
    loss = rince.InfoNCE(temperature=0.5, contrast=rince.Supervised())
    loss.register_forward_hook(monitor._see, with_kwargs=True)
    monitor._training = True
    labels = torch.tensor([0, 0, 1, 1])
    loss(torch.randn(4, 3), torch.randn(4, 3), labels=labels)
    assert len(monitor.negative[0]) == 2


def test_bad_settings_are_refused():
    with pytest.raises(ValueError, match="window"):
        PairMonitor(window=0)
