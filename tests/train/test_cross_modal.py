"""Two towers from the command line: train, resume, evaluate, export, several processes."""

import csv
import json

import numpy as np
import pytest
import torch

import rince
from rince import cli
from support import ranks
from support.crashes import CRASHES, Crash
from support.tones import write_digits

CONFIG = """
method:
  class_path: rince.methods.cross_modal.CrossModal
  init_args: {hidden: 16, width: 8, layers: 2, head_norm: false, q_schedule: linear}
encoder:
  class_path: rince.encoders.heads.Towers
  init_args:
    a: {class_path: rince.encoders.images.ConvNet, init_args: {channels: 1, width: 4, norm: group}}
    b: {class_path: rince.encoders.video.AudioConvNet, init_args: {width: 2, norm: group}}
loss: {class_path: rince.RINCE, init_args: {q: 0.4, lam: balanced, temperature: 0.2}}
views:
  class_path: rince.views.pair.PairViews
  init_args:
    a: {class_path: rince.views.image.Recipe, init_args: {size: 8, flip: 0, blur_chance: 0, mean: [0.3], std: [0.4]}}
    b: {class_path: rince.views.pair.SoundRecipe, init_args: {sample_rate: 8000, window: 128, hop: 0.016, shift: 0.05}}
data:
  class_path: rince.data.spoken_digits.SpokenDigits
  init_args: {source: SOURCE, batch_size: 20, wrong_pairs: 0.4}
checkpoint_every: 2
trainer:
  max_epochs: 2
  log_every_n_steps: 1
  accelerator: cpu
  enable_progress_bar: false
  enable_model_summary: false
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cross_modal")
    source = write_digits(folder / "recordings", takes=16)
    (folder / "pairs.yaml").write_text(CONFIG.replace("SOURCE", str(source)))
    return folder / "pairs.yaml"


@pytest.fixture
def train(config, tmp_path, monkeypatch):
    def run(name, *options, crash_at=-1):
        monkeypatch.setattr(Crash, "at", crash_at)
        try:
            return cli.main(["train", str(config), CRASHES, "--out", str(tmp_path), "--name", name, *options])
        except RuntimeError as error:
            assert str(error) == "crash"
            return None

    return run


def test_a_run_is_evaluated_and_exported(train, tmp_path, capsys):
    assert train("a", "--trainer.callbacks+=rince.audit.callback.PairMonitor") == 0
    run = tmp_path / "a"
    result = json.loads((run / "result.json").read_text())
    assert result["steps"] == 6 and 0 <= result["probe"] <= 1 and "pairs/noise_rate" in result
    assert np.load(run / "noise.npz")["partner_hit"].sum() == 24
    assert cli.main(["evaluate", str(run), "--baselines"]) == 0
    rows = json.loads((run / "evaluation-encoder-exact.json").read_text())
    assert set(rows) == {"trained", "untrained"} and 0 <= rows["trained"]["wrong pairs AUC"] <= 100
    assert "trained b to a" in capsys.readouterr().out
    assert cli.main(["evaluate", str(run), "--labels_per_class", "2"]) == 2
    assert "omit --labels-per-class" in capsys.readouterr().err
    assert cli.main(["export", str(run), str(tmp_path / "towers.safetensors")]) == 0
    towers, direct = rince.load_encoder(tmp_path / "towers.safetensors"), rince.load_encoder(run)
    image, sound = torch.rand(2, 1, 8, 8), torch.rand(2, 1, 37, 65)
    with torch.no_grad():
        for ours, theirs in zip(towers(image, sound), direct(image, sound), strict=True):
            assert torch.equal(ours, theirs) and ours.shape == (2, 16)
    assert towers.about["normalize"]["a"]["size"] == 8 and towers.about["normalize"]["b"]["sample_rate"] == 8000


def test_a_crashed_run_resumes_to_the_same_bits(train, tmp_path):
    assert train("whole") == 0
    assert train("crashed", crash_at=5) is None
    assert train("crashed") == 0
    for name in ("encoder.safetensors", "metrics.csv", "noise.npz"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "crashed" / name).read_bytes()


def test_two_processes_have_the_loss_curve_of_one(config, tmp_path):
    """In double precision, so that what differs is the method and not the rounding, which training blows up."""
    common = ["train", str(config), "--trainer.precision", "64-true", "--out", str(tmp_path), "--name"]
    assert cli.main([*common, "1"]) == 0
    ranks.command([*common, "2", "--trainer.devices", "2", "--trainer.strategy", "ddp"])
    curves = []
    for devices in ("1", "2"):
        with open(tmp_path / devices / "metrics.csv", newline="") as file:
            curves.append([float(row["loss"]) for row in csv.DictReader(file)])
    assert len(curves[0]) == 6
    np.testing.assert_allclose(curves[0], curves[1], atol=1e-9, rtol=0)


def test_an_encoder_of_one_side_is_one_clear_sentence(config, capsys, tmp_path):
    options = ["--encoder", "rince.encoders.images.ConvNet", "--out", str(tmp_path)]
    assert cli.main(["train", str(config), *options]) == 2
    error = capsys.readouterr().err
    assert "CrossModal needs encoder with two sides a and b" in error and error.count("\n") == 1
