"""--quiet and --json, progress and loggers of the commands."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest

from rince import cli
from rince._support.progress import Progress

TINY = ["digits/simclr", "--data.limit", "64", "--data.batch_size", "32", "--encoder.width", "2", "--probe", "false"]
TINY += ["--trainer.max_epochs", "1", "--trainer.accelerator", "cpu", "--trainer.log_every_n_steps", "1"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    a = np.random.default_rng(0).normal(size=(120, 8)).astype(np.float32)
    b = a.copy()
    b[:30] = np.roll(b[:30], 1, axis=0)
    np.save("a.npy", a)
    np.save("b.npy", b)
    assert cli.main(["audit", "a.npy", "b.npy", "--quiet"]) == 0
    return tmp_path


def test_clean_prints_json_or_nothing(folder, capsys):
    assert cli.main(["clean", "a.npy", "b.npy", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["kept"] == len(np.load("clean/a.npy")) and record["pairs"] == 120
    assert all(Path(file).exists() for file in record["files"])
    assert cli.main(["clean", "a.npy", "b.npy", "--force", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


def test_clean_reports_rate_and_time_left(folder, monkeypatch):
    lines = []
    monkeypatch.setattr("rince._support.progress.LOG_SECONDS", 0.0)
    monkeypatch.setattr(sys.stderr, "write", lines.append)
    assert cli.main(["clean", "a.npy", "b.npy"]) == 0
    assert any("writing pairs: 120 of 120" in line and "left" in line for line in lines)


def test_train_and_evaluate_print_json(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", *TINY, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["steps"] == 2
    assert cli.main(["evaluate", "runs/digits-simclr", "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert "linear" in record["trained"] and Path(record["files"][0]).exists()


def test_train_reports_steps_of_the_whole_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rince._support.progress.LOG_SECONDS", 0.0)
    assert cli.main(["train", *TINY, "--trainer.max_epochs", "2", "--trainer.enable_progress_bar", "true"]) == 0
    lines = capsys.readouterr().err.splitlines()
    assert any(line.startswith("epoch 2 of 2, steps: 4 of 4 (100%)") and "left" in line for line in lines)


def test_quiet_commands_on_a_run_print_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rince._support.progress.LOG_SECONDS", 0.0)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert cli.main(["train", *TINY, "--data.wrong_pairs", "0.4", "--trust", "auto", "--quiet"]) == 0
    assert cli.main(["evaluate", "runs/digits-simclr", "--quiet"]) == 0
    assert cli.main(["finetune", "runs/digits-simclr", "--trainer.max_epochs", "1", "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert cli.main(["finetune", "runs/digits-simclr", "--trainer.max_epochs", "1", "--json", "--name", "again"]) == 0
    (result,) = json.loads(capsys.readouterr().out)
    assert 0 <= result["accuracy"] <= 100


COMPARE = ["compare", "a.npy", "b.npy", "--losses", "infonce", "--temperatures", "0.2", "--rates", "0", "--seeds", "1"]
COMPARE += ["--epochs", "1", "--workers", "1"]


def test_compare_prints_json_or_nothing(folder, capsys):
    np.save("a.npy", np.random.default_rng(0).normal(size=(1200, 8)))
    np.save("b.npy", np.random.default_rng(1).normal(size=(1200, 8)))
    assert cli.main([*COMPARE, "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")
    assert cli.main([*COMPARE, "--json"]) == 0
    record = json.loads(capsys.readouterr().out)
    assert record["cells"] and all(Path(file).exists() for file in record["files"])


def test_compare_without_scipy_ends_before_the_first_run(folder, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "scipy", None)
    assert cli.main(COMPARE) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "needs scipy: run pip install 'rince[train]'" in line and not Path("runs").exists()


def test_resumed_work_does_not_count_towards_the_rate(monkeypatch, capsys):
    clock = iter([0.0, 20.0])
    monkeypatch.setattr("rince._support.progress.time.monotonic", lambda: next(clock))
    Progress("training", total=1000, show=True, done=500).update(600)
    assert capsys.readouterr().err == "training: 600 of 1,000 (60%), 5/s, 80 s left\n"


def test_tensorboard_logs_into_the_run_folder(tmp_path, monkeypatch):
    pytest.importorskip("tensorboard", reason="tensorboard is not installed")
    monkeypatch.chdir(tmp_path)
    assert cli.main(["train", *TINY, "--trainer.logger", "true"]) == 0
    assert list(Path("runs/digits-simclr/tensorboard").glob("events.*"))
    assert Path("runs/digits-simclr/metrics.csv").exists()


def test_mlflow_gets_the_metrics_of_a_run(tmp_path, monkeypatch):
    pytest.importorskip("sqlalchemy", reason="mlflow is not installed")
    mlflow = pytest.importorskip("mlflow", reason="mlflow is not installed")
    monkeypatch.chdir(tmp_path)
    store = "sqlite:///mlflow.db"
    assert cli.main(["train", *TINY, "--trainer.logger", "MLFlowLogger", "--trainer.logger.tracking_uri", store]) == 0
    client = mlflow.MlflowClient(store)
    (found,) = client.search_runs([experiment.experiment_id for experiment in client.search_experiments()])
    assert "loss" in found.data.metrics


def test_wandb_gets_a_run(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="wandb is not installed (make test-peers)")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WANDB_MODE", "offline")
    assert cli.main(["train", *TINY, "--trainer.logger", "WandbLogger", "--trainer.logger.project", "NAME"]) == 0
    assert list(Path("wandb").glob("offline-run-*/*.wandb"))


def test_tensorboard_without_its_package_is_one_sentence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for module in ("lightning.fabric.loggers.tensorboard", "lightning.pytorch.loggers.tensorboard"):
        for name in ("_TENSORBOARD_AVAILABLE", "_TENSORBOARDX_AVAILABLE"):
            monkeypatch.setattr(f"{module}.{name}", False, raising=False)
    assert cli.main(["train", *TINY, "--trainer.logger", "true"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "pip install tensorboard" in line
