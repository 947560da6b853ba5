import argparse

import numpy as np
import pytest
import torch

from experiments.__main__ import main
from experiments.paper.images.cifar10 import AugmentationNoise, LabelNoise, Lam
from experiments.training import settings_of
from rince.train.run_folder import flat


@pytest.fixture
def stem(tmp_path):
    """Features of a fixed stem as the experiments keep them, of ten classes that can be told apart."""
    random = np.random.default_rng(0)
    labels = random.integers(0, 10, 900)
    features = random.normal(size=(10, 512))[labels][:, None] + random.normal(size=(900, 2, 512))
    parts = {"train": slice(0, 600), "validation": slice(600, 750), "test": slice(750, 900)}
    arrays = {name: features[part].astype(np.float32) for name, part in parts.items()}
    arrays |= {f"{name}_labels": labels[part] for name, part in parts.items()}
    out = tmp_path / "out"
    out.mkdir()
    np.savez(out / "stem-10000.npz", **arrays)
    return out


@pytest.fixture
def smaller(monkeypatch):
    """As many images as the stem has, and a small network."""
    real = LabelNoise.changes

    def changes(self, run, options):
        small = {"data.train": 600, "data.batch_size": 64, "encoder.widths": [512, 64], "method.width": 16}
        return real(self, run, options) | small

    monkeypatch.setattr(LabelNoise, "changes", changes)


def settings(experiment, *arguments):
    options = experiment.parser().parse_args(list(arguments))
    return [(run, flat(experiment.settings(run, options))) for run in experiment.runs(options)]


@pytest.mark.parametrize("experiment", [LabelNoise(), AugmentationNoise(), Lam()], ids=lambda e: e.name)
def test_runs_override_only_named_settings(experiment):
    shipped = flat(settings_of(experiment.config, {}))
    places = ("seed", "loss", "method.positives", "method.q_schedule", "trainer.max_epochs", "probe", "data.noise.eta",
              "views.noise.rate", "data.root", "data.source.root", "data.cache")  # fmt: skip
    for _, found in settings(experiment):
        differing = {key for key in found.keys() | shipped.keys() if found.get(key) != shipped.get(key)}
        assert all(key.startswith(places) for key in differing), differing
    assert shipped["trainer.max_epochs"] == experiment.epochs


def test_paper_flips_use_half_of_eta():
    from rince.train.config import instantiate, parse_settings, train_parser

    experiment, parser = LabelNoise(), train_parser()
    options = experiment.parser().parse_args(["--etas", "0.8", "--losses", "rince-1"])
    run = experiment.runs(options)[-1]
    noise = instantiate(parser, parse_settings(parser, experiment.settings(run, options))).data.noise
    assert run["eta"] == 0.8 and noise.rate == 0.4


def test_lam_is_tried_with_and_without_noise():
    found = {
        (run["lam"], run["eta"], values["loss.lam"], values["views.noise.rate"]) for run, values in settings(Lam())
    }
    assert found == {(lam, eta, lam, eta) for lam in (0.01, 0.05, 0.1, 0.2, 0.4) for eta in (0.0, 0.4)}


def test_a_small_experiment_runs_resumes_and_tabulates(stem, smaller, capsys):
    command = ["cifar10-label-noise", "--seeds", "1", "--epochs", "1", "--out", str(stem)]
    command += ["--losses", "infonce", "rince-0.5", "--etas", "0", "0.8", "--positives", "several"]
    assert main(command) == 0
    table = capsys.readouterr().out
    assert "encoder, linear probe: RINCE q 0.5, several positives" in table and "eta 0.8" in table
    finished = {p: p.stat().st_mtime_ns for p in (stem / "runs").rglob("result.json")}
    assert len(finished) == 4  # without noise both losses, as asked for; none of them twice
    assert main(command) == 0
    assert capsys.readouterr().out == table
    assert finished == {p: p.stat().st_mtime_ns for p in (stem / "runs").rglob("result.json")}


def test_pictures_are_drawn_of_the_tables_own_runs(stem, smaller, tmp_path, capsys, monkeypatch):
    """Scores of pairs and maps by t-SNE train nothing that the table has trained."""
    common = ["--seeds", "1", "--epochs", "1", "--losses", "rince-1", "--etas", "0.8"]
    assert main(["cifar10-label-noise", *common, "--out", str(stem)]) == 0
    before = {p: p.stat().st_mtime_ns for p in (stem / "runs").rglob("result.json")}
    monkeypatch.setattr("experiments.paper.images.figures.MAP_IMAGES", 60)
    for name in ("cifar10-pair-scores", "cifar10-tsne"):
        out = tmp_path / name
        assert main([name, *common, "--table", str(stem), "--out", str(out)]) == 0
        assert (out / "figure.png").read_bytes().startswith(b"\x89PNG") and (out / "figure.svg").exists()
    assert "<image" in (out / "figure.svg").read_text()  # the points of a map, not a circle for each
    assert before == {p: p.stat().st_mtime_ns for p in (stem / "runs").rglob("result.json")}
    shown = capsys.readouterr().out
    assert "AUC, %" in shown and "same class among the ten nearest" in shown


def test_pairs_that_are_scored_share_their_noisy_label(stem, smaller, tmp_path):
    common = ["--seeds", "1", "--epochs", "1", "--losses", "infonce", "--etas", "0.8"]
    main(["cifar10-pair-scores", *common, "--table", str(stem), "--out", str(tmp_path / "scores")])
    with np.load(next((tmp_path / "scores" / "numbers").iterdir())) as file:
        right, scores = file["right"], file["scores"]
    # five of ten classes lose 40 % to others: far fewer than half of the pairs are wrong, and some are
    assert 0.1 < (~right).mean() < 0.45 and len(scores) == 600 and (abs(scores) <= 1.001).all()


@pytest.mark.parametrize("neighbors", [True, False])
def test_evaluation_reports_test_neighbors(neighbors):
    import rince
    from experiments.paper.images.cifar10 import evaluate
    from experiments.paper.images.stem import MirrorViews

    class Data:
        def split(self, part):
            return torch.randn(60, 2, 12), torch.arange(60) % 3

    encoder = rince.encoders.MLP([12, 8])
    method = rince.methods.SupCon(encoder, rince.InfoNCE(), MirrorViews(), torch.optim.Adam, width=4)
    found = set(evaluate(method, Data(), neighbors)) - {"headline"}
    linear = {f"{space}_linear_{part}" for space in ("encoder", "projection") for part in ("validation", "test")}
    assert found == linear | ({"encoder_knn_test", "projection_knn_test"} if neighbors else set())


def test_views_are_scored_and_shown(tmp_path, monkeypatch, capsys):
    from experiments.paper.images import figures

    random = np.random.default_rng(0)
    parts = {name: (random.integers(0, 255, (n, 3, 32, 32), dtype=np.uint8), random.integers(0, 10, n))
             for name, n in (("train", 64), ("validation", 32), ("test", 40))}  # fmt: skip
    tensors = {name: tuple(map(torch.from_numpy, part)) for name, part in parts.items()}
    monkeypatch.setattr("rince.data.images.CIFAR10.read", lambda self: dict(tensors))
    real = figures.ViewScores.changes
    monkeypatch.setattr(
        figures.ViewScores, "changes", lambda self, *a: real(self, *a) | {"data.batch_size": 32, "data.limit": 64}
    )
    command = ["view-scores", "--epochs", "1", "--losses", "infonce", "--etas", "0.5"]
    assert main([*command, "--out", str(tmp_path)]) == 0
    assert "AUC of views cropped too far" in capsys.readouterr().out
    with np.load(next((tmp_path / "numbers").iterdir())) as file:
        assert file["pixels"].shape == (2, 16, 16, 16, 3) and (np.diff(file["scores"]) <= 0).all()
        assert file["all_scores"].shape == file["hit"].shape == (40,) and 0 < file["hit"].mean() < 1
    assert (tmp_path / "scores.svg").exists()


def test_bad_options_are_one_sentence(capsys):
    for arguments, message in (
        (["--etas", "2"], "etas must"),
        (["--seeds", "0"], "--seeds"),
        (["--losses", "x"], "'x'"),
    ):
        assert main(["cifar10-label-noise", *arguments]) == 2
        assert message in capsys.readouterr().err


def test_mirror_views_pick_one_side_and_evaluation_the_first():
    from experiments.paper.images.stem import MirrorViews
    from rince._support.step_seeds import Draws, generator

    images = torch.stack([torch.zeros(400, 3), torch.ones(400, 3)], 1)
    first, second = MirrorViews()(images, Draws(generator(0, 1), 400))
    assert 0.4 < first.mean() < 0.6 and not torch.equal(first, second)
    assert (MirrorViews().plain(images) == 0).all()


def test_the_archive_is_fetched_only_on_demand(tmp_path, monkeypatch):
    fetched = []
    monkeypatch.setattr("rince.data.images.fetch", lambda address, path, md5: fetched.append(path))
    experiment = LabelNoise()
    for download in (False, True):
        experiment.check(argparse.Namespace(losses=["infonce"], root=str(tmp_path), download=download))
        assert bool(fetched) == download
    assert fetched == [tmp_path / "cifar-10-python.tar.gz"]


def test_trial_selects_on_one_seed_and_reports_others(tmp_path, monkeypatch, capsys):
    """Accuracy is best at t 0.5, except for GCE (0.2); the test part says the opposite, and must not choose."""
    quality = {"InfoNCE": 3.0, "GCE": 4.0, "RINCE": 2.0}
    trained_with = []

    def fake_trained(settings, folder):
        trained_with.append(settings)
        return settings, None

    def fake_evaluate(settings, data, neighbors):
        kind, arguments = settings["loss"]["class_path"].rpartition(".")[2], settings["loss"]["init_args"]
        distance = abs(arguments["temperature"] - (0.2 if kind == "GCE" else 0.5))
        score = 50 + quality[kind] - arguments.get("q", 0) - distance
        return {"encoder_linear_validation": score, "encoder_linear_test": 80 - score + settings["seed"] / 10}

    monkeypatch.setattr("experiments.paper.images.cifar10_trial.trained", fake_trained)
    monkeypatch.setattr("experiments.paper.images.cifar10_trial.evaluate", fake_evaluate)
    command = ["cifar10-trial", "--noises", "pairs", "--temperatures", "0.2", "0.5", "--out", str(tmp_path)]
    assert main(command) == 0
    seeds = [settings["seed"] for settings in trained_with]
    assert seeds == [0] * 8 + [1] * 4 + [2] * 4 + [3] * 4 + [1] * 3 + [2] * 3 + [3] * 3
    fresh = trained_with[8:]
    assert {(s["loss"]["class_path"], s["loss"]["init_args"]["temperature"]) for s in fresh} == {
        ("rince.InfoNCE", 0.5), ("rince.GCE", 0.2), ("rince.RINCE", 0.5)
    }  # fmt: skip
    longer = [s for s in fresh if s["trainer"]["max_epochs"] == 32]
    assert len(longer) == 9 and not any(s["loss"]["init_args"].get("q") == 1 and "RINCE" in str(s) for s in longer)
    assert all(s["data"]["init_args"]["wrong_pairs"] == 0.4 for s in trained_with)
    told = capsys.readouterr().out
    assert "3 paired seeds" in told and "32 epochs" in told
    assert main([*command, "--report-only"]) == 0 and len(trained_with) == len(seeds), "a finished run was done again"
    assert capsys.readouterr().out == told


def test_trial_does_not_report_the_seed_that_chose(tmp_path):
    from experiments.paper.images.cifar10_trial import reported

    of = [{"settings": {"seed": seed, "length": 1}} for seed in range(3)]
    assert [r["settings"]["seed"] for r in reported(of, 1)] == [1, 2]
