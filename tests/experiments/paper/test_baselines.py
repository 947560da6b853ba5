"""BYOL, SimSiam, Barlow Twins and SwAV: their losses against slow references, and that they learn."""

import numpy as np
import pytest
import torch
import torch.distributed as dist
from lightning.pytorch import Trainer

from experiments.__main__ import main
from experiments.paper.baselines.images import METHODS, ImageBaselines
from experiments.paper.baselines.methods import (
    BYOL,
    BarlowTwins,
    CrossCorrelation,
    NegativeCosine,
    SimSiam,
    SwappedPrediction,
    SwAV,
)
from rince._support.step_seeds import generator
from rince.data.images import Images
from rince.encoders.images import ConvNet
from rince.views.image import SimCLRViews
from support import ranks

KINDS = {
    BYOL: (NegativeCosine, {"hidden": 16, "width": 8, "momentum": 0.9}),
    SimSiam: (NegativeCosine, {"hidden": 16, "width": 8, "bottleneck": 4}),
    BarlowTwins: (CrossCorrelation, {"hidden": 16, "width": 8}),
    SwAV: (SwappedPrediction, {"hidden": 16, "width": 8, "prototypes": 6}),
}


class Patterns(Images):
    """Images of blots: each has its own."""

    def read(self):
        blots = torch.rand(64, 1, 2, 2, generator=generator(0, 1)).repeat_interleave(4, 2).repeat_interleave(4, 3)
        both = (250 * blots).to(torch.uint8), torch.arange(64) % 4
        return {"train": both, "test": both}


def make(kind):
    torch.manual_seed(0)
    views = SimCLRViews(size=8, crop=(0.5, 1.0), jitter=(0.2, 0.2, 0, 0), gray_chance=0, mean=[0.3], std=[0.3])
    loss, sizes = KINDS[kind]
    return kind(ConvNet(1, 4), loss(), views, lambda p: torch.optim.Adam(p, lr=0.01), **sizes)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_training_brings_views_of_an_image_together_without_collapse(kind):
    method = make(kind)
    trainer = Trainer(
        max_epochs=12, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, use_distributed_sampler=False,
    )  # fmt: skip
    trainer.fit(method, datamodule=Patterns(16))
    assert trainer.logged_metrics["positive"] > trainer.logged_metrics["negative"] + 0.05
    features = method.eval().encoder(method.plain(Patterns(16).split("test")[0]))
    assert features.std(0).max() > 1e-3
    assert method.project(features).shape[0] == 64


def test_targets_get_no_gradient():
    predictions, targets = torch.randn(5, 3, requires_grad=True), torch.randn(5, 3, requires_grad=True)
    value = NegativeCosine()(predictions, targets)
    value.backward()
    rows = [float(p @ t / p.norm() / t.norm()) for p, t in zip(predictions.detach(), targets.detach(), strict=True)]
    assert float(value) == pytest.approx(-np.mean(rows), abs=1e-6)
    assert targets.grad is None and predictions.grad is not None


def test_byols_loss_is_the_squared_distance_of_unit_vectors_up_to_a_constant():
    method, z = make(BYOL), [torch.randn(6, 8) for _ in range(4)]
    unit = [x / x.norm(dim=1, keepdim=True) for x in z]
    distances = [(unit[0] - unit[1]).square().sum(1).mean(), (unit[2] - unit[3]).square().sum(1).mean()]
    torch.testing.assert_close(method.both_ways((z[0], z[1]), (z[2], z[3]), None) + 4, sum(distances))
    assert not any(p.requires_grad for p in method.slow_projector.parameters())
    assert all(
        torch.equal(a, b)
        for a, b in zip(method.projector.parameters(), method.slow_projector.parameters(), strict=True)
    )


def test_barlows_loss_is_that_of_numpys_correlations():
    random = np.random.default_rng(0)
    z1 = random.normal(size=(40, 5))
    z2 = 0.5 * z1 + random.normal(size=(40, 5))
    c = np.corrcoef(z1.T, z2.T)[:5, 5:]
    expected = ((np.diag(c) - 1) ** 2).sum() + 0.01 * (c**2).sum() - 0.01 * (np.diag(c) ** 2).sum()
    found = CrossCorrelation(0.01)(torch.from_numpy(z1), torch.from_numpy(z2))
    assert float(found) == pytest.approx(expected, rel=1e-4)


def test_swavs_assignments_use_all_prototypes_equally_and_every_row_whole():
    scores = torch.randn(60, 6, generator=generator(2)).clamp(-1, 1)
    codes = SwappedPrediction(iterations=200).assign(scores)
    torch.testing.assert_close(codes.sum(1), torch.ones(60))
    torch.testing.assert_close(codes.sum(0), torch.full((6,), 10.0), atol=1e-3, rtol=0)
    assert (codes.argmax(1) == scores.argmax(1)).float().mean() > 0.5


def unlike_scores():
    """Rows of which the second half has much lower scores than the first."""
    return torch.rand(32, 6, generator=generator(5)) - torch.arange(32)[:, None].ge(16) * 1.0


def assignments_of_two_processes(rank, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
    torch.save(SwappedPrediction().assign(unlike_scores().chunk(2)[rank]), f"{folder}/{rank}.pt")
    dist.destroy_process_group()


def test_swavs_assignments_on_two_processes_are_those_of_one(tmp_path):
    ranks.start(assignments_of_two_processes, 2, tmp_path)
    both = torch.cat([torch.load(tmp_path / f"{rank}.pt") for rank in range(2)])
    torch.testing.assert_close(both, SwappedPrediction().assign(unlike_scores()))


def test_swav_predicts_the_assignment_of_the_other_view():
    loss = SwappedPrediction(temperature=0.2)
    a, b = torch.rand(20, 4, generator=generator(3)), torch.rand(20, 4, generator=generator(4))
    expected = 0.0
    for mine, other in ((a, b), (b, a)):
        for row, code in zip(mine, loss.assign(other), strict=True):
            p = (row / 0.2).exp() / (row / 0.2).exp().sum()
            expected -= float((code * p.log()).sum()) / 40
    assert float(loss(a, b)) == pytest.approx(expected, rel=1e-5)


def test_every_baseline_has_its_settings_on_both_data_sets():
    experiment = ImageBaselines()
    options = experiment.parser().parse_args(["--data", "digits", "cifar10", "--seeds", "1"])
    runs = experiment.runs(options)
    assert len(runs) == 2 * len(METHODS)
    for run in runs:
        settings, own = experiment.settings(run, options), experiment.settings({**run, "data": "digits"}, options)
        assert settings["method"] == own["method"] and settings["loss"] == own["loss"]
        assert ("CIFAR10" in settings["data"]["class_path"]) == (run["data"] == "cifar10")


def test_a_baseline_is_trained_and_tabulated(tmp_path, capsys):
    assert main(["image-baselines", "--methods", "swav", "--seeds", "1", "--epochs", "1", "--out", str(tmp_path)]) == 0
    assert "| swav " in capsys.readouterr().out
