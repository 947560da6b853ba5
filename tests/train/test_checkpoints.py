"""Checkpoints that are whole files and still not what they should be."""

import io
import os
import shutil
import signal
import warnings

import pytest
import torch

from rince import cli
from rince._support.signals import Terminated, termination_as_exception
from rince.errors import UsageError
from rince.train.checkpoints import WholeFiles
from rince.train.run_folder import RunFolder

TINY = [
    "digits/simclr", "--encoder.width", "2", "--probe", "false", "--data.limit", "64", "--data.batch_size", "32",
    "--trainer.max_epochs", "1", "--trainer.accelerator", "cpu", "--trainer.enable_progress_bar", "false",
    "--trainer.enable_model_summary", "false", "--name", "a",
]  # fmt: skip


def test_full_disk_is_named(tmp_path, monkeypatch):
    """torch speaks of an unexpected position in the file."""
    real = open

    class Full(io.FileIO):
        def write(self, data):
            if self.tell() + len(data) > 30_000:
                raise OSError(28, "No space left on device")
            return super().write(data)

    full = lambda path, mode="r", *a, **k: Full(path, "w") if mode == "wb" else real(path, mode, *a, **k)  # noqa: E731
    monkeypatch.setattr("builtins.open", full)
    with pytest.raises(UsageError, match=r"last\.ckpt .*No space left on device"):
        WholeFiles().save_checkpoint({f"w{i}": torch.ones(100) for i in range(100)}, tmp_path / "last.ckpt")


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    assert cli.main(["train", *TINY, "--out", str(out)]) == 0
    return out / "a"


@pytest.fixture
def folder(finished, tmp_path):
    """A run that was stopped at its end."""
    shutil.copytree(finished, tmp_path / "a")
    for name in ("result.json", "encoder.safetensors"):
        (tmp_path / "a" / name).unlink()
    return RunFolder(tmp_path / "a")


def changed(folder, change):
    state = torch.load(folder.checkpoint, weights_only=True)
    change(state)
    torch.save(state, folder.checkpoint)


@pytest.mark.parametrize(
    "change",
    [
        lambda state: state["state_dict"].update({next(iter(state["state_dict"])): torch.ones(7)}),
        lambda state: state["optimizer_states"][0].update(param_groups=[]),
        lambda state: state.update(callbacks=[1]),
    ],
)
def test_checkpoint_that_does_not_fit_is_one_sentence(folder, tmp_path, capsys, change):
    changed(folder, change)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert cli.main(["train", *TINY, "--out", str(tmp_path)]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "last.ckpt cannot be resumed" in told


def test_a_run_that_slurm_queues_again_goes_on_from_its_own_checkpoint(folder, tmp_path, monkeypatch):
    """Lightning writes another one in the middle of a step, and starts from it where there is no last.ckpt yet."""
    folder.checkpoint.unlink()
    WholeFiles().save_checkpoint({"x": 1}, folder.path / "hpc_ckpt_1.ckpt")
    assert not (folder.path / "hpc_ckpt_1.ckpt").exists()
    torch.save({"x": 1}, folder.path / "hpc_ckpt_2.ckpt")  # of an earlier version
    monkeypatch.setenv("SLURM_NTASKS", "1")
    monkeypatch.setenv("SLURM_JOB_NAME", "train")
    monkeypatch.setenv("SLURM_JOB_ID", "1")
    monkeypatch.setenv("SLURM_PROCID", "0")
    monkeypatch.setenv("SLURM_LOCALID", "0")
    monkeypatch.setenv("SLURM_NODEID", "0")
    assert cli.main(["train", *TINY, "--out", str(tmp_path)]) == 0
    assert not list(folder.path.glob("hpc_ckpt_*"))


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGTERM, Terminated), (signal.SIGINT, KeyboardInterrupt)])
def test_a_run_stopped_while_it_writes_a_checkpoint_says_so(folder, monkeypatch, number, kind):
    """torch turns it into an error about positions in a file."""
    good = folder.checkpoint.read_bytes()

    class Stopped(io.FileIO):
        written = 0

        def write(self, data):
            Stopped.written += 1
            if Stopped.written == 3:
                os.kill(os.getpid(), number)
            return super().write(data)

    save = torch.save
    monkeypatch.setattr("torch.save", lambda state, file: save(state, Stopped(file.fileno(), "w", closefd=False)))
    with termination_as_exception(), pytest.raises(kind):
        WholeFiles().save_checkpoint({"state_dict": {"x": torch.randn(1000)}}, folder.checkpoint)
    assert folder.checkpoint.read_bytes() == good and not list(folder.path.glob(".last*"))


def test_a_damaged_result_is_one_sentence(folder):
    folder.result.write_text("{")
    with pytest.raises(UsageError, match=r"result\.json is"):
        folder.read_result()
