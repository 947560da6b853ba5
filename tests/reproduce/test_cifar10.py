import numpy as np
import pytest
import torch

from rince.reproduce import cifar10, cifar10_augmentation_noise, cifar10_label_noise
from rince.train.folder import flat
from rince.train.shipped import SHIPPED

CONFIGS = SHIPPED / "cifar10"


def written(name):
    import yaml

    return flat(yaml.safe_load((CONFIGS / name).read_text()))


def test_the_experiments_and_the_configurations_say_the_same():
    run = {"loss": "rince-0.5", "temperature": 0.5, "positives": "one", "rate": 0.8, "seed": 0}
    labels = flat(cifar10_label_noise.settings({**run, "epochs": cifar10_label_noise.EPOCHS}, "data", "stem.npz"))
    crops = flat(cifar10_augmentation_noise.settings({**run, "epochs": cifar10_augmentation_noise.EPOCHS}, "data"))
    for settings, name in ((labels, "small-label-noise.yaml"), (crops, "small-augmentation-noise.yaml")):
        file = written(name)
        shared = (settings.keys() & file.keys()) - {"data.cache"}
        assert {key: settings[key] for key in shared} == {key: file[key] for key in shared}
        assert settings.keys() - file.keys() <= {"seed", "views"}
        assert file.keys() - settings.keys() <= {"trainer.enable_model_summary"}


def test_a_small_experiment_runs_resumes_and_tabulates(tmp_path, monkeypatch, capsys):
    random = np.random.default_rng(0)
    labels = random.integers(0, 10, 900)
    features = random.normal(size=(10, 512))[labels][:, None] + random.normal(size=(900, 2, 512))
    parts = {"train": slice(0, 600), "validation": slice(600, 750), "test": slice(750, 900)}
    arrays = {name: features[part].astype(np.float32) for name, part in parts.items()}
    arrays |= {f"{name}_labels": labels[part] for name, part in parts.items()}
    out = tmp_path / "out"
    out.mkdir()
    np.savez(out / "stem-10000.npz", **arrays)
    real = cifar10_label_noise.settings

    def smaller(run, root, cache):
        settings = real(run, root, cache)
        settings["data"]["init_args"] |= {"train": 600, "batch_size": 64}
        return settings

    monkeypatch.setattr(cifar10_label_noise, "settings", smaller)
    monkeypatch.setattr(cifar10_label_noise, "LOSSES", [("infonce", 0.5), ("rince-0.5", 0.5)])
    options = ["--seeds", "1", "--epochs", "1", "--out", str(out)]
    assert cifar10_label_noise.main(options) == 0
    table = capsys.readouterr().out
    assert "several: rince-0.5 t 0.5" in table and "one: infonce t 0.5, no noise" in table
    assert "several, projection: InfoNCE on the validation part t 0.5" in table
    finished = {p: p.stat().st_mtime_ns for p in (out / "runs").rglob("result.json")}
    assert len(finished) == 6
    assert cifar10_label_noise.main(options) == 0
    assert capsys.readouterr().out == table
    assert finished == {p: p.stat().st_mtime_ns for p in (out / "runs").rglob("result.json")}


def test_bad_options_are_one_sentence():
    parser = cifar10.options("cifar10-label-noise", "", 3)
    for arguments, message in (
        (["--rate", "2"], "rate must"),
        (["--sedes", "2"], "--sedes"),
        (["--seeds", "0"], "--seeds"),
    ):
        with pytest.raises(ValueError, match=message):
            cifar10.parsed(parser, arguments)


def test_mirror_views_pick_one_side_and_evaluation_the_first():
    from rince._support.step_seeds import Draws, generator
    from rince.views.mirror import MirrorViews

    images = torch.stack([torch.zeros(400, 3), torch.ones(400, 3)], 1)
    first, second = MirrorViews()(images, Draws(generator(0, 1), 400))
    assert 0.4 < first.mean() < 0.6 and not torch.equal(first, second)
    assert (MirrorViews().plain(images) == 0).all()


def test_the_archive_is_fetched_only_on_demand(tmp_path, monkeypatch):
    fetched = []
    monkeypatch.setattr("rince.data.images.cifar10.fetch", lambda address, path, md5: fetched.append(path))
    parser = cifar10.options("cifar10-label-noise", "", 3)
    cifar10.parsed(parser, ["--root", str(tmp_path)])
    assert not fetched
    cifar10.parsed(parser, ["--root", str(tmp_path), "--download"])
    assert fetched == [tmp_path / "cifar-10-python.tar.gz"]


@pytest.mark.parametrize("experiment", ["cifar10_label_noise", "cifar10_augmentation_noise"])
def test_a_rate_of_zero_is_the_run_without_noise(monkeypatch, experiment):
    import importlib

    module = importlib.import_module(f"rince.reproduce.{experiment}")
    seen = {}

    def carry_out(runs, work, name, label, options, title):
        seen["names"] = [name(run) for run in runs]
        return ""

    monkeypatch.setattr(module, "carry_out", carry_out)
    for rate in ("0", "0.8"):
        assert module.main(["--rate", rate, "--seeds", "1"]) == 0
        assert len(set(seen["names"])) == len(seen["names"])
