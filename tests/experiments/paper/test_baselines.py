"""BYOL, SimSiam, Barlow Twins and SwAV: their losses against slow references, and that they learn."""

import json
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning.pytorch import Trainer

from experiments.__main__ import main
from experiments.paper.baselines.images import FOLDER, METHODS, ImageBaselines
from experiments.paper.baselines.memory_bank import InstanceDiscrimination, NoiseContrastiveEstimation
from experiments.paper.baselines.methods import (
    BYOL,
    BarlowTwins,
    CrossCorrelation,
    LARSWithBiasRate,
    NegativeCosine,
    SimSiam,
    SwappedPrediction,
    SwAV,
)
from rince import cli
from rince._support.step_seeds import generator
from rince.data.images import Images
from rince.data.pairs import Pairs, Part
from rince.encoders.images import ConvNet
from rince.views.image import SimCLRViews
from support import tiny_data_sets

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


def test_byol_loss_is_squared_distance():
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


def test_swav_assignments_are_balanced():
    scores = torch.randn(60, 6, generator=generator(2)).clamp(-1, 1)
    codes = SwappedPrediction(iterations=200).assign(scores)
    torch.testing.assert_close(codes.sum(1), torch.ones(60))
    torch.testing.assert_close(codes.sum(0), torch.full((6,), 10.0), atol=1e-3, rtol=0)
    assert (codes.argmax(1) == scores.argmax(1)).float().mean() > 0.5


def unlike_scores():
    """Rows of which the second half has much lower scores than the first."""
    return torch.rand(32, 6, generator=generator(5)) - torch.arange(32)[:, None].ge(16) * 1.0


def test_swav_assignments_of_two_ranks_equal_those_of_one(monkeypatch):
    """Two threads stand for the ranks; ``total`` itself is tested with processes."""
    whole, barrier, parts = SwappedPrediction().assign(unlike_scores()), threading.Barrier(2), {}

    def total(x):
        parts[threading.get_ident()] = x
        barrier.wait(timeout=60)
        result = sum(parts.values())
        barrier.wait(timeout=60)
        return result

    monkeypatch.setattr("experiments.paper.baselines.methods.total", total)
    with ThreadPoolExecutor(2) as pool:
        both = torch.cat(list(pool.map(SwappedPrediction().assign, unlike_scores().chunk(2))))
    torch.testing.assert_close(both, whole)


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


def test_biases_have_their_own_learning_rate():
    layer = torch.nn.Linear(3, 2)
    optimizer = LARSWithBiasRate(layer.parameters(), lr=0.0, bias_lr=0.5, momentum=0.0)
    before = {name: value.detach().clone() for name, value in layer.named_parameters()}
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    torch.testing.assert_close(layer.weight, before["weight"])
    torch.testing.assert_close(layer.bias, before["bias"] - 0.5)


def test_nce_matches_its_formula():
    loss = NoiseContrastiveEstimation(temperature=0.5)
    positive, negatives = torch.rand(4, generator=generator(3)), torch.rand(4, 6, generator=generator(4))
    mean = np.exp(negatives.numpy() / 0.5).mean()
    for scale in (1.0, 0.5):  # the second batch keeps the first one's mean
        p, n = np.exp(scale * positive.numpy() / 0.5), np.exp(scale * negatives.numpy() / 0.5)
        expected = -np.log(p / (p + 6 * mean)) - np.log(6 * mean / (n + 6 * mean)).sum(1)
        assert float(loss(scale * positive, scale * negatives)) == pytest.approx(expected.mean(), rel=1e-5)


def memory_method(items=40):
    from rince.encoders import MLP, Towers
    from rince.views import PairViews, Unchanged

    torch.manual_seed(0)
    towers, views = Towers(MLP([6, 8]), MLP([5, 8])), PairViews(Unchanged(), Unchanged())
    adam = lambda p: torch.optim.Adam(p, lr=0.01)  # noqa: E731
    return InstanceDiscrimination(
        towers, NoiseContrastiveEstimation(), views, adam, items, hidden=8, width=4, num_negatives=16
    )


def test_the_memory_moves_towards_new_embeddings_of_its_items_only():
    method, ids = memory_method(), torch.tensor([3, 7])
    before, new = method.memory_a.clone(), torch.eye(4)[:2]
    method.remember(ids, new, new)
    middle = (before[ids] + new) / 2
    torch.testing.assert_close(method.memory_a[ids], middle / middle.norm(dim=1, keepdim=True))
    rest = torch.ones(40, dtype=torch.bool).index_fill_(0, ids, False)
    torch.testing.assert_close(method.memory_a[rest], before[rest])


class Related(Pairs):
    """Two linear views of the same 40 items."""

    def read(self):
        a = torch.randn(40, 6, generator=generator(6))
        pairs = Part(a, a @ torch.randn(6, 5, generator=generator(7)), torch.full((40,), -1))
        return {"train": pairs, "test": pairs}


def test_instance_discrimination_learns_which_items_belong_together():
    method = memory_method()
    trainer = Trainer(
        max_epochs=120, accelerator="cpu", logger=False, enable_checkpointing=False, enable_progress_bar=False,
        enable_model_summary=False, use_distributed_sampler=False,
    )  # fmt: skip
    trainer.fit(method, datamodule=Related(batch_size=20))
    assert trainer.logged_metrics["positive"] > trainer.logged_metrics["negative"] + 0.2
    others = method.other_items(torch.arange(40).repeat(20))
    assert (others != torch.arange(40).repeat(20)[:, None]).all() and others.unique().tolist() == list(range(40))


SMALL = {  # options for a small machine
    "byol": ["--method.hidden", "32", "--method.width", "16"],
    "simsiam": ["--method.hidden", "32", "--method.width", "16", "--method.bottleneck", "8"],
    "barlow_twins": ["--method.hidden", "32", "--method.width", "16"],
    "swav": ["--method.hidden", "32", "--method.prototypes", "12"],
}
QUIET = ["--trainer.enable_progress_bar", "false", "--trainer.enable_model_summary", "false"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", SMALL)
@pytest.mark.filterwarnings("ignore:.*workers.*", "ignore:.*could not be used.*")
def test_imagenet_configuration_trains(name, folder):
    pytest.importorskip("PIL")
    root = str(tiny_data_sets.imagenet(folder / "imagenet"))
    small = ["--data.root", root, "--data.size", "32", "--views.size", "32", "--data.batch_size", "8", *QUIET]
    small += ["--data.workers", "0"]
    config = str(FOLDER / f"imagenet_{name}.yaml")
    assert cli.main(["train", config, "--trainer.max_steps", "2", *small, *SMALL[name]]) == 0
    result = json.loads(Path("runs", f"imagenet_{name}", "result.json").read_text())
    assert result["steps"] == 2 and math.isfinite(result["loss"])
    if name == "byol":  # the encoders of all four are alike
        command = ["finetune", f"runs/imagenet_{name}", "imagenet/linear", "--trainer.max_epochs", "1"]
        assert cli.main([*command, *small]) == 0


@pytest.mark.filterwarnings("ignore:.*workers.*", "ignore:.*could not be used.*")
def test_kinetics_with_a_memory_bank_trains_and_is_fine_tuned(folder):
    pytest.importorskip("av")
    root, config = str(tiny_data_sets.kinetics400(folder / "kinetics400")), str(FOLDER / "kinetics400_xid.yaml")
    small = ["--data.size", "32", "--data.workers", "0", "--trainer.max_epochs", "1", *QUIET]
    towers = ["--encoder.a.width", "4", "--encoder.b.width", "4", "--views.a.size", "32", "--data.batch_size", "4"]
    assert (
        cli.main(["train", config, "--data.root", root, "--method.items", "6", "--data.visits", "1", *small, *towers])
        == 0
    )
    root = str(tiny_data_sets.ucf101(folder / "ucf101"))
    small += ["--views.size", "32", "--data.batch_size", "2", "--data.test_clips", "1", "--method.head_epochs", "0"]
    assert cli.main(["finetune", "runs/kinetics400_xid", "ucf101/finetune", "--data.root", root, *small]) == 0
