"""`rince train` from the outside: run folders, resuming, refusing, several processes, and what comes after."""

import csv
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from lightning.pytorch import Callback
from safetensors.torch import load_file

import rince
from rince import cli
from support import ranks
from support.crashes import CRASHES, Crash

SMALL = [
    "--encoder.channels", "1", "--encoder.width", "4", "--encoder.norm", "group",
    "--method.hidden", "16", "--method.width", "8", "--method.head_norm", "false",
    "--views.size", "8", "--views.mean", "[0.3]", "--views.std", "[0.4]", "--views.jitter", "[0.4, 0.4, 0, 0]",
    "--data", "DigitImages", "--data.limit", "256", "--data.batch_size", "64",
    "--trainer.max_epochs", "2", "--trainer.log_every_n_steps", "1",
    "--trainer.accelerator", "cpu", "--trainer.enable_progress_bar", "false", "--trainer.enable_model_summary", "false",
]  # fmt: skip


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def train(tmp_path, monkeypatch):
    def run(name, *options, crash_at=-1, crash_at_batch=-1):
        monkeypatch.setattr(Crash, "at", crash_at)
        monkeypatch.setattr(Crash, "at_batch", crash_at_batch)
        try:
            return cli.main(["train", *SMALL, CRASHES, "--out", str(tmp_path), "--name", name, *options])
        except RuntimeError as error:
            assert str(error) == "crash"
            return None

    return run


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """``whole(*options)`` is the folder of a run with these options that was left alone; each is trained once."""
    folders = {}

    def run(*options):
        if options not in folders:
            out = tmp_path_factory.mktemp("whole")
            assert cli.main(["train", *SMALL, CRASHES, "--out", str(out), "--name", "a", *options]) == 0
            folders[options] = out / "a"
        return folders[options]

    return run


def assert_same_bits(one, other):
    for name in ("encoder.safetensors", "metrics.csv"):
        assert (one / name).read_bytes() == (other / name).read_bytes()


def test_run_writes_plain_files_and_is_not_repeated(train, tmp_path, capsys):
    options = ["--data.noise", "rince.noise.labels.LabelFlips", "--data.noise.rate", "0.5"]
    assert train("a", *options) == 0
    folder = tmp_path / "a"
    visible = {p.name for p in folder.iterdir() if not p.name.startswith(".")}
    assert visible == {"config.yaml", "metrics.csv", "last.ckpt", "noise.npz", "encoder.safetensors", "result.json"}
    result = json.loads((folder / "result.json").read_text())
    assert result["steps"] == 8 and result["epochs"] == 2 and 0 <= result["probe"] <= 1
    assert len(rows_of(folder / "metrics.csv")) == 8
    noise = np.load(folder / "noise.npz", allow_pickle=False)
    assert noise["hit"].shape == (256,) and len(str(noise["sha256"])) == 64
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    capsys.readouterr()
    assert train("a", *options) == 2
    assert "finished run: choose another --name" in capsys.readouterr().err
    assert before == {p.name: p.read_bytes() for p in folder.iterdir()}


@pytest.mark.parametrize("at", [0, 5])
def test_a_crashed_run_resumes_to_the_same_bits(train, whole, tmp_path, at):
    assert train("crashed", "--checkpoint_every", "2", crash_at=at) is None
    assert not (tmp_path / "crashed" / "result.json").exists()
    assert train("crashed", "--checkpoint_every", "2") == 0
    assert_same_bits(whole(), tmp_path / "crashed")


# An epoch has 4 steps: checkpoints at its end, and in its middle.
@pytest.mark.parametrize(("every", "steps"), [(4, (5, 9)), (4, (4, 8, 12)), (2, (5, 9, 11)), (2, (5, 7, 9))])
def test_a_run_that_resumes_at_the_end_of_an_epoch_resumes_again(train, whole, tmp_path, every, steps):
    options = ["--checkpoint_every", str(every), "--trainer.max_epochs", "4"]
    for step in steps:
        assert train("crashed", *options, crash_at=step) is None
    assert train("crashed", *options) == 0
    assert json.loads((tmp_path / "crashed" / "result.json").read_text())["steps"] == 16
    assert_same_bits(whole(*options[2:]), tmp_path / "crashed")


# Of the 4 batches of an epoch, three make a step and the last one another.
@pytest.mark.parametrize("batches", [[1], [3], [4, 5], [5, 6], [7]])
def test_accumulating_run_resumes_bit_for_bit(train, whole, tmp_path, batches):
    options = ["--checkpoint_every", "1", "--trainer.accumulate_grad_batches", "3", "--method.q_schedule", "linear"]
    for batch in batches:
        assert train("crashed", *options, crash_at_batch=batch) is None
    assert train("crashed", *options) == 0
    assert_same_bits(whole(*options[2:]), tmp_path / "crashed")
    rows = rows_of(whole(*options[2:]) / "metrics.csv")
    assert [row["step"] for row in rows] == ["0", "1", "2", "3"] and float(rows[-1]["q"]) == 0.5


def test_training_without_end_is_refused_before_anything_is_written(train, tmp_path, capsys):
    assert train("endless", "--trainer.max_epochs", "-1") == 2
    assert "trainer.max_epochs = -1 trains without end: set trainer.max_steps" in capsys.readouterr().err
    assert not (tmp_path / "endless").exists()
    assert train("ends", "--trainer.max_epochs", "-1", "--trainer.max_steps", "6", "--method.warmup_epochs", "1") == 0
    assert len(rows_of(tmp_path / "ends" / "metrics.csv")) == 6


def test_epochs_of_a_limited_number_of_batches_are_all_of_that_length(train, tmp_path):
    limit = ["--trainer.limit_train_batches", "3", "--checkpoint_every", "2"]
    assert train("whole", *limit) == 0
    assert json.loads((tmp_path / "whole" / "result.json").read_text())["steps"] == 6
    assert train("crashed", *limit, crash_at=4) is None and train("crashed", *limit) == 0
    assert_same_bits(tmp_path / "whole", tmp_path / "crashed")


def test_other_settings_do_not_resume_a_run(train, tmp_path, capsys):
    train("a", "--loss.q", "0.3", "--checkpoint_every", "2", crash_at=4)
    assert train("a", "--loss.q", "0.4") == 2
    assert "loss.q = 0.3, now it is 0.4" in capsys.readouterr().err
    assert train("a", "--loss.q", "0.3", "--checkpoint_every", "3") == 0


def test_folder_that_is_not_a_run_is_rejected(train, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    assert train("mine") == 2
    assert "holds thesis.tex but no config.yaml" in capsys.readouterr().err


def test_a_checkpoint_of_another_architecture_is_refused(train, tmp_path, capsys):
    assert train("a") == 0
    config = tmp_path / "a" / "config.yaml"
    config.write_text(config.read_text().replace("width: 4", "width: 8"))
    assert cli.main(["evaluate", str(tmp_path / "a")]) == 2
    error = capsys.readouterr().err
    assert "is of another architecture (size mismatch for " in error
    assert error.count("\n") == 1


def test_a_checkpoint_that_would_run_code_is_refused(train, tmp_path, capsys):
    class Evil:
        def __reduce__(self):
            return Path.mkdir, (tmp_path / "owned",)

    assert train("a") == 0
    torch.save({"state_dict": {"x": Evil()}}, tmp_path / "a" / "last.ckpt")
    assert cli.main(["evaluate", str(tmp_path / "a")]) == 2
    assert "more than weights" in capsys.readouterr().err and not (tmp_path / "owned").exists()


def test_evaluation_and_export_follow(train, tmp_path, capsys):
    assert train("a") == 0
    run = str(tmp_path / "a")
    assert cli.main(["evaluate", run, "--labels_per_class", "5", "--draws", "2", "--baselines"]) == 0
    rows = json.loads((tmp_path / "a" / "evaluation-encoder-exact-5-labels.json").read_text())
    assert set(rows) == {"trained", "untrained", "raw inputs"} and rows["raw inputs"]["linear"][0] > 50
    assert cli.main(["evaluate", run, "--labels_per_class", "5"]) == 2  # nothing is written over
    target = tmp_path / "mine.safetensors"
    assert cli.main(["export", run, str(target)]) == 0
    encoder = rince.load_encoder(target)
    direct = rince.load_encoder(run)
    images = torch.rand(3, 1, 8, 8)
    with torch.no_grad():
        assert torch.equal(encoder(images), direct(images)) and encoder(images).shape == (3, 16)
    assert encoder.about["normalize"]["size"] == 8 and not encoder.training
    assert load_file(target).keys() == encoder.state_dict().keys()
    capsys.readouterr()
    assert cli.main(["export", run, str(target)]) == 2
    assert "--force" in capsys.readouterr().err


def test_print_config_shows_everything_and_trains_nothing(tmp_path, capsys):
    with pytest.raises(SystemExit) as stop:
        cli.main(["train", "--print_config", "--loss.q", "0.25"])
    assert stop.value.code == 0
    shown = capsys.readouterr().out
    assert "q: 0.25" in shown and "temperature: 0.2" in shown and "max_epochs" in shown


def test_two_processes_have_the_loss_curve_of_one(tmp_path):
    """In double precision, so that what differs is the method and not the rounding, which training blows up."""
    command = ["train", *SMALL, "--trainer.precision", "64-true", "--out", str(tmp_path), "--name"]
    assert cli.main([*command, "one"]) == 0
    two = [*command, "two", "--trainer.devices", "2", "--trainer.strategy", "ddp"]
    ranks.command(two)
    one, two = ([float(row["loss"]) for row in rows_of(tmp_path / name / "metrics.csv")] for name in ("one", "two"))
    assert len(one) == 8
    np.testing.assert_allclose(one, two, atol=1e-9, rtol=0)


class Break(Callback):
    """Makes a weight NaN after the last step."""

    def on_train_end(self, trainer, module):
        next(module.encoder.parameters()).data.view(-1)[0] = float("nan")


def test_run_with_weights_that_are_not_finite_is_not_finished(tmp_path, capsys):
    options = ["--trainer.max_steps", "2", "--data.limit", "64", "--data.batch_size", "32", "--out", str(tmp_path)]
    assert cli.main(["train", "digits/simclr", *options, f"--trainer.callbacks+={__name__}.Break"]) == 2
    assert "not finite" in capsys.readouterr().err
    assert not (tmp_path / "digits-simclr" / "result.json").exists()
