"""CrossModal knows nothing of what its sides are: here they are two tables, then clips and sounds."""

import pytest
import torch
from lightning.pytorch import Callback, Trainer
from torch import nn

from rince import RINCE, CrossView, InfoNCE
from rince._support.step_seeds import generator
from rince.audit.callback import PairMonitor
from rince.data.pairs import Pairs, Part
from rince.encoders.heads import Towers
from rince.encoders.images import MLP
from rince.encoders.video import AudioConvNet, R2Plus1D
from rince.evaluate.online import OnlineProbe
from rince.evaluate.pairs import evaluate_pairs
from rince.methods.cross_modal import CrossModal
from rince.views.image import Recipe
from rince.views.pair import ClipRecipe, PairViews, SoundRecipe, Unchanged
from rince.views.views import PairBatch
from support.crashes import SaveAndStop, Stop


class TwoTables(Pairs):
    """Both sides are random maps of the same hidden numbers; the class is the sign of the first two."""

    known = True

    def read(self):
        parts = {}
        maps = torch.randn(6, 20, generator=generator(0, 1)), torch.randn(6, 12, generator=generator(0, 2))
        for i, (name, n) in enumerate((("train", 128), ("test", 64))):
            hidden = torch.randn(n, 6, generator=generator(i, 3))
            labels = 2 * (hidden[:, 0] > 0) + (hidden[:, 1] > 0) if self.known else torch.full((n,), -1)
            parts[name] = Part(torch.tanh(hidden @ maps[0]), torch.tanh(hidden @ maps[1]), labels.long())
        return parts


def make(loss=None, seed=0, norm=True, **options):
    torch.manual_seed(seed)
    towers = Towers(MLP([20, 32, 16], dropout=0.1, norm=norm), MLP([12, 32, 24], norm=norm))
    views = PairViews(Unchanged(), Unchanged())
    options = {"hidden": 32, "width": 8, "layers": 2} | options
    loss = RINCE(q=0.4, lam="balanced", temperature=0.2) if loss is None else loss
    return CrossModal(towers, loss, views, lambda p: torch.optim.Adam(p, lr=0.01), **options)


def fit(method, data=None, epochs=2, callbacks=(), ckpt_path=None):
    trainer = Trainer(
        max_epochs=epochs, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, callbacks=list(callbacks), use_distributed_sampler=False, log_every_n_steps=1,
    )  # fmt: skip
    data = TwoTables(32) if data is None else data
    trainer.fit(method, datamodule=data, ckpt_path=ckpt_path, weights_only=True)
    return trainer


class Record(Callback):
    def __init__(self):
        self.losses, self.q = [], []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        self.losses.append(float(outputs["loss"]))
        self.q.append(getattr(module.loss, "q", None))


def test_tables_find_each_other_after_training_and_not_before():
    data, method = TwoTables(32), make(InfoNCE(temperature=0.2))
    before = evaluate_pairs(method, data)
    fit(method, data, epochs=30)
    after = evaluate_pairs(method, data)
    assert before["a to b recall@1"] < 20 < 40 < after["a to b recall@1"]
    assert after["b to a recall@10"] > 90 and after["a to b class"] > 75
    assert after["a linear"] > 60 and after["b linear"] > 60  # chance is 25


def test_default_contrast_and_heads():
    method = CrossModal(
        Towers(MLP([20, 512]), MLP([12, 512])), InfoNCE(), PairViews(Unchanged(), Unchanged()), torch.optim.Adam
    )
    assert isinstance(method.contrast, CrossView) and method.contrast.symmetric
    for head in (method.head_a, method.head_b):
        linear = [(m.in_features, m.out_features) for m in head if isinstance(m, nn.Linear)]
        assert linear == [(512, 512), (512, 512), (512, 128)]
        assert sum(isinstance(m, nn.ReLU) for m in head) == 2 and len(head) == 5


def test_q_warms_up_over_training():
    record = Record()
    fit(make(q_schedule="linear", q_start=0.01), callbacks=[record])
    assert record.q[0] == pytest.approx(0.01) and record.q[-1] == pytest.approx(0.4)
    assert all(a < b for a, b in zip(record.q, record.q[1:], strict=False))


@pytest.mark.parametrize("at", [3, 4])
def test_a_resumed_run_equals_one_in_a_piece_bit_for_bit(at, tmp_path):
    options = {"q_schedule": "linear", "warmup_epochs": 0.5}
    whole, record = make(**options), Record()
    fit(whole, TwoTables(32, wrong_pairs=0.4), callbacks=[record])
    with pytest.raises(Stop):
        fit(make(**options), TwoTables(32, wrong_pairs=0.4), callbacks=[SaveAndStop(tmp_path / "last.ckpt", at)])
    resumed, second = make(seed=5, **options), Record()
    fit(resumed, TwoTables(32, wrong_pairs=0.4), callbacks=[second], ckpt_path=tmp_path / "last.ckpt")
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name
    assert record.losses[at:] == second.losses and record.q[at:] == second.q


def test_probe_and_monitor_watch_it():
    trainer = fit(make(), callbacks=[OnlineProbe(4), PairMonitor(window=2)])
    assert {"probe", "pairs/positive", "pairs/noise_rate", "positive", "negative"} <= trainer.logged_metrics.keys()


def test_pairs_without_classes_train_and_are_probed_by_nobody():
    data = TwoTables(32)
    data.known = False
    trainer = fit(make(), data, callbacks=[OnlineProbe(4)])
    assert trainer.logged_metrics["probe"] == 0 and data.classes == 0
    found = evaluate_pairs(make(), data)
    assert "a to b recall@1" in found and not any("linear" in key or "class" in key for key in found)


def test_a_loss_of_the_user_is_used_as_it_is():
    class Mine(nn.Module):
        def forward(self, a, b):
            return (a - b).square().mean()

    fit(make(Mine()), epochs=1)


def test_parts_that_do_not_fit_are_named():
    views = PairViews(Unchanged(), Unchanged())
    with pytest.raises(ValueError, match=r"rince.encoders.heads.Towers, got"):
        CrossModal(MLP([2, 2]), InfoNCE(), views, torch.optim.Adam)
    with pytest.raises(ValueError, match=r"rince.views.pair.PairViews, got"):
        CrossModal(Towers(MLP([2, 2]), MLP([2, 2])), InfoNCE(), Recipe(), torch.optim.Adam)
    with pytest.raises(ValueError, match="same number of features, got 2 and 3"):
        CrossModal(Towers(MLP([2, 2]), MLP([2, 3])), InfoNCE(), views, torch.optim.Adam, width=0)
    with pytest.raises(ValueError, match="layers must be at least 1, got 0"):
        make(layers=0)


def test_a_side_is_embedded_without_its_partners():
    method, batch = make().eval(), next(TwoTables(32).pair_batches("test"))
    features = method.embed(batch)
    assert torch.equal(features[1], method.embed_side("b", batch.b)) and features[1].shape == (64, 24)
    assert torch.equal(method.project(features)[0], method.project_side("a", method.embed_side("a", batch.a)))


class OneBatch(Pairs):
    """Clips of noise with sounds of noise, as a loader of videos gives them."""

    def read(self):
        clips = torch.randint(256, (2, 8, 112, 112, 3), dtype=torch.uint8, generator=generator(0, 4))
        part = Part(clips, 0.1 * torch.randn(2, 48000, generator=generator(0, 5)), torch.tensor([0, 1]))
        return {"train": part, "test": part}


def test_full_networks_train_every_weight():
    torch.manual_seed(0)
    towers = Towers(R2Plus1D(), AudioConvNet())
    views = PairViews(ClipRecipe(112), SoundRecipe())
    method = CrossModal(towers, RINCE(q=0.4), views, torch.optim.Adam, q_schedule="linear", q_start=0.01)
    before = {name: p.detach().clone() for name, p in method.named_parameters()}
    trainer = fit(method, OneBatch(2), epochs=1)
    assert trainer.global_step == 1
    unmoved = [name for name, p in method.named_parameters() if torch.equal(p, before[name])]
    assert not unmoved
    batch = PairBatch(torch.zeros(1, 8, 128, 171, 3, dtype=torch.uint8), torch.zeros(1, 48000), *[torch.zeros(1)] * 2)
    assert [x.shape for x in method.eval().project(method.embed(batch))] == [(1, 128), (1, 128)]


def test_negatives_of_both_simclr_readings():
    a, b = torch.randn(6, 8, generator=generator(1)), torch.randn(6, 8, generator=generator(2))
    s = nn.functional.normalize(torch.cat([a, b]).double(), dim=1)
    s = s @ s.T / 0.2
    expected = {"other_side": 0.0, "both_sides": 0.0}
    for i in range(12):
        partner = (i + 6) % 12
        other = [j for j in range(12) if (j < 6) != (i < 6)]
        both = [j for j in range(12) if j != i]
        for name, candidates in (("other_side", other), ("both_sides", both)):
            expected[name] += float(s[i, candidates].logsumexp(0) - s[i, partner]) / 12
    for name, value in expected.items():
        method = make(InfoNCE(temperature=0.2), negatives=name)
        assert float(method.contrastive(a.double(), b.double())) == pytest.approx(value, abs=1e-9)
