"""A fine-tuning that is broken off, killed, or done by two processes, ends as one left alone."""

import signal
import time

import pytest
import torch

from rince import cli
from support import ranks
from support.crashes import CRASHES
from support.finetuned_digits import SHORT, result_of


@pytest.fixture(scope="module")
def whole(pretrained, tmp_path_factory):
    """The run left alone."""
    out = tmp_path_factory.mktemp("whole")
    assert cli.main(["finetune", str(pretrained), *SHORT, CRASHES, "--out", str(out), "--name", "whole"]) == 0
    return out / "whole"


@pytest.mark.parametrize("at", [2, 9])
def test_a_crashed_run_resumes_to_the_same_bits(finetune, whole, tmp_path, at):
    assert finetune("crashed", "--checkpoint_every", "2", crash_at=at) is None
    assert not (tmp_path / "crashed" / "result.json").exists()
    assert finetune("crashed", "--checkpoint_every", "2") == 0
    for name in ("encoder.safetensors", "metrics.csv"):
        assert (whole / name).read_bytes() == (tmp_path / "crashed" / name).read_bytes()
    assert result_of(whole)["accuracy"] == result_of(tmp_path / "crashed")["accuracy"]


@pytest.mark.parametrize("at", [1, 4])
def test_metrics_survive_a_crash_after_a_checkpoint(finetune, whole, tmp_path, monkeypatch, at):
    from rince.train.checkpoints import SaveCheckpoints

    save = SaveCheckpoints.save

    def save_and_die(self, trainer):
        save(self, trainer)
        if trainer.global_step == at:
            raise RuntimeError("crash")

    with monkeypatch.context() as patch:
        patch.setattr(SaveCheckpoints, "save", save_and_die)
        assert finetune("dead", "--checkpoint_every", "1") is None
    assert finetune("dead", "--checkpoint_every", "1") == 0
    for name in ("encoder.safetensors", "metrics.csv"):
        assert (whole / name).read_bytes() == (tmp_path / "dead" / name).read_bytes()


def test_a_killed_run_resumes_to_the_same_bits(pretrained, tmp_path):
    options = ["finetune", str(pretrained), *SHORT, "--trainer.max_epochs", "6", "--checkpoint_every", "3"]
    options += ["--out", str(tmp_path)]
    assert cli.main([*options, "--name", "whole"]) == 0
    begun = ranks.begin([*options, "--name", "killed"])
    process = begun.process
    while not (tmp_path / "killed" / "last.ckpt").exists() and process.is_alive():
        time.sleep(0.01)
    process.kill()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    assert cli.main([*options, "--name", "killed"]) == 0
    for name in ("encoder.safetensors", "metrics.csv"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "killed" / name).read_bytes()


def test_two_processes_learn_what_one_does(pretrained, tmp_path):
    """In double precision, so that what differs is the method and not the rounding; dropout has numbers of its own."""
    options = [*SHORT, "--method.dropout", "0", "--trainer.precision", "64-true", "--out", str(tmp_path)]
    assert cli.main(["finetune", str(pretrained), *options, "--name", "one"]) == 0
    two = ["--name", "two", "--trainer.devices", "2", "--trainer.strategy", "ddp"]
    ranks.command(["finetune", str(pretrained), *options, *two])
    one, both = (torch.load(tmp_path / name / "last.ckpt", weights_only=True)["state_dict"] for name in ("one", "two"))
    for name, value in one.items():
        torch.testing.assert_close(both[name], value, rtol=0, atol=1e-9)
    assert result_of(tmp_path / "one")["accuracy"] == result_of(tmp_path / "two")["accuracy"]
    assert result_of(tmp_path / "two")["test_items"] == 400
