"""Results that version 0.2 wrote, as kept in tests/fixtures/v0.2: read, or refused with one sentence."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import rince
from rince import cli

FIXTURES = Path(__file__).parent / "fixtures" / "v0.2"
RUN = [
    "--data.limit",
    "64",
    "--data.batch_size",
    "32",
    "--encoder.width",
    "1",
    "--encoder.depth",
    "1",
    "--method",
    "SimCLR",
]
RUN += ["--method.hidden", "4", "--method.width", "4", "--probe", "false", "--checkpoint_every", "1", "--loss", "RINCE"]
RUN += ["--loss.q", "0.1", "--loss.lam", "0.01", "--loss.scale", "paper", "--loss.temperature", "0.2"]
RUN += ["--trainer.max_epochs", "2", "--trainer.accelerator", "cpu", "--trainer.log_every_n_steps", "1"]
RUN += ["--trainer.enable_model_summary", "false"]


@pytest.fixture
def old(tmp_path, monkeypatch):
    shutil.copytree(FIXTURES, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("audit", ["audit", "audit-parquet", "audit/audit.csv"])
def test_audit_decides_what_is_dropped(old, audit):
    assert cli.main(["clean", "a.npy", "b.npy", "--audit", audit]) == 0
    flags = [line.endswith(",1") for line in Path("audit/audit.csv").read_text().splitlines()[1:]]
    assert sum(flags) == json.loads(Path("audit/audit.json").read_text())["flagged"] == 17
    assert np.array_equal(np.load("clean/a.npy"), np.load("a.npy")[~np.array(flags)])


def test_audit_of_other_data_is_refused(old, capsys):
    assert cli.main(["clean", "b.npy", "a.npy", "--audit", "audit"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1 and not Path("clean").exists()


def test_two_tables_without_a_name_are_refused(old, capsys):
    shutil.copy("audit-parquet/audit.parquet", "audit")
    assert cli.main(["clean", "a.npy", "b.npy", "--audit", "audit"]) == 2
    assert "audit again" in capsys.readouterr().err


def test_audit_is_reviewed(old, capsys):
    Path("review.csv").write_text("row,id,mark\n0,0,wrong\n50,50,keep\n")
    assert cli.main(["audit", "--review", "review.csv", "--out", "audit"]) == 0


def test_audit_table_weights_pairs(old):
    from rince.trust.table import read_weights

    weights = read_weights("audit", pairs=80)
    assert weights.shape == (80,) and weights.min() >= 0 and weights.max() <= 1


def test_encoder_gives_the_same_features_and_knows_its_inputs(old):
    encoder = rince.load_encoder("finished")
    with torch.no_grad():
        features = encoder(torch.linspace(0, 1, 128).reshape(2, 1, 8, 8))
    assert torch.allclose(features, torch.from_numpy(np.load("finished/features.npy")), atol=1e-6)
    assert encoder.about["normalize"]["size"] == 8


@pytest.mark.parametrize(
    "command",
    [
        ["evaluate", "finished"],
        ["export", "finished", "mine.safetensors"],
        ["finetune", "finished", "--data.limit", "64", "--trainer.max_epochs", "1", "--trainer.accelerator", "cpu"],
    ],
    ids=lambda command: command[0],
)
def test_finished_run_is_read(old, command):
    assert cli.main(command) == 0


def test_unfinished_run_is_refused_and_left_alone(old, capsys):
    before = Path("stopped/last.ckpt").read_bytes()
    assert cli.main(["train", "digits/simclr", *RUN, "--out", ".", "--name", "stopped"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "by a version of rince without the setting" in line
    assert Path("stopped/last.ckpt").read_bytes() == before
