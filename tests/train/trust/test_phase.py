"""`rince train --trust`: from a table, and found on the way, whole or broken off in any phase."""

import csv
import json

import numpy as np
import pytest
import torch

from rince import cli
from rince.noise.pairs import wrong_pairs
from rince.train.trust.phase import fold_of, read_weights, write_weights
from support import ranks
from support.crashes import CrashAfter

N = 400
COMMON = [
    "--method", "CrossModal", "--method.width", "8", "--method.layers", "1", "--method.q_schedule", "linear",
    "--encoder", "Towers", "--encoder.a", "MLP", "--encoder.a.widths", "[8, 16]",
    "--encoder.b", "MLP", "--encoder.b.widths", "[8, 16]",
    "--views", "PairViews", "--views.a", "Unchanged", "--views.b", "Unchanged",
    "--loss.lam", "balanced", "--loss.temperature", "0.1", "--loss.scale", "unit", "--optimiser.lr", "0.01",
    "--data", "PairedArrays", "--data.batch_size", "64", "--trainer.max_epochs", "8",
    "--trainer.log_every_n_steps", "1", "--checkpoint_every", "2", "--probe", "false",
    "--trainer.accelerator", "cpu", "--trainer.enable_progress_bar", "false", "--trainer.enable_model_summary", "false",
    "--trainer.callbacks+=support.crashes.CrashAfter",
]  # fmt: skip


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Pairs that towers learn to match within seconds, 40 % of them mismatched; all but every tenth are trained on."""
    random = np.random.default_rng(0)
    z = random.normal(size=(N, 8)).astype(np.float32)
    a, b = (z + 0.1 * random.normal(size=z.shape).astype(np.float32) for _ in range(2))
    partner, wrong = wrong_pairs(N, 0.4, 0)
    path = tmp_path_factory.mktemp("data") / "pairs.npz"
    np.savez(path, a=a, b=b[partner])
    return path, wrong[np.arange(N) % 10 != 9]


@pytest.fixture
def train(tmp_path, monkeypatch, data):
    def run(name, *options, crash_after=-1):
        monkeypatch.setattr(CrashAfter, "left", crash_after)
        try:
            return cli.main(
                ["train", *COMMON, "--data.path", str(data[0]), "--out", str(tmp_path), "--name", name, *options]
            )
        except RuntimeError as error:
            assert str(error) == "crash"
            return None

    return run


def table(tmp_path, weights, ids=None, name="trust.csv"):
    write_weights(tmp_path / name, np.asarray(weights, np.float32), ids)
    return str(tmp_path / name)


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_a_table_is_matched_by_row_of_the_file_kept_and_logged(train, tmp_path):
    weights = np.linspace(0, 1, N, dtype=np.float32)
    assert train("a", "--trust", table(tmp_path, weights)) == 0
    trained = weights[np.arange(N) % 10 != 9]
    assert np.array_equal(read_weights(tmp_path / "a" / "trust.csv"), trained)
    result = json.loads((tmp_path / "a" / "result.json").read_text())["trust"]
    assert result["pairs"] == 360 and result["below_half"] == (trained < 0.5).sum()
    assert result["mean"] == pytest.approx(trained.mean(), abs=1e-6)
    assert float(rows_of(tmp_path / "a" / "metrics.csv")[0]["trust/mean"]) == pytest.approx(trained.mean(), abs=1e-6)


def test_weights_of_one_train_as_none_do_and_others_do_not(train, tmp_path):
    assert train("plain") == 0
    assert train("ones", "--trust", table(tmp_path, np.ones(N))) == 0
    assert train("half", "--trust", table(tmp_path, np.arange(N) % 2, name="half.csv")) == 0
    encoders = [(tmp_path / name / "last.ckpt") for name in ("plain", "ones", "half")]
    plain, ones, half = (torch.load(path, weights_only=True)["state_dict"] for path in encoders)
    assert all(torch.allclose(plain[name], ones[name], atol=1e-5) for name in plain)
    assert not all(torch.allclose(plain[name], half[name], atol=1e-3) for name in plain)


def test_another_table_does_not_resume_a_run(train, tmp_path, capsys):
    weights = np.linspace(0, 1, N)
    path = table(tmp_path, weights)
    assert train("a", "--trust", path, crash_after=7) is None
    table(tmp_path, weights[::-1])
    assert train("a", "--trust", path) == 2
    assert "was started with another trust" in capsys.readouterr().err
    assert train("a", "--trust", table(tmp_path, weights, name="elsewhere.csv")) == 2
    assert "was started with trust.source" in capsys.readouterr().err
    table(tmp_path, weights)
    assert train("a", "--trust", path) == 0
    assert train("whole", "--trust", path) == 0
    assert (tmp_path / "a" / "metrics.csv").read_bytes() == (tmp_path / "whole" / "metrics.csv").read_bytes()


@pytest.mark.parametrize(
    ("weights", "ids", "sentence"),
    [
        (np.ones(N - 3), None, "has no row for 2 of the 360 training pairs, the first of them '397'"),
        (np.ones(N), [f"x{i}" for i in range(N)], "has no row for 360 of the 360 training pairs"),
        (np.full(N, 1.5), None, "must lie in [0, 1], got 1.5"),
        (np.full(N, np.nan), None, "has no number in row 0"),
        (np.zeros(N), None, "is 0, so there is nothing left to learn from"),
    ],
)
def test_a_bad_table_is_one_sentence_before_anything_is_trained(train, tmp_path, capsys, weights, ids, sentence):
    assert train("a", "--trust", table(tmp_path, weights, ids)) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1
    assert not (tmp_path / "a" / "last.ckpt").exists()


@pytest.fixture(scope="module")
def found(tmp_path_factory, data):
    """One run with trust found on the way, left alone."""
    folder = tmp_path_factory.mktemp("found")
    options = ["--data.path", str(data[0]), "--out", str(folder), "--name", "whole", "--trust", "auto"]
    assert cli.main(["train", *COMMON, *options]) == 0
    return folder / "whole"


def test_trust_is_found_on_the_way(found, data):
    trust = read_weights(found / "trust.csv")
    wrong = data[1]
    assert trust[~wrong].mean() - trust[wrong].mean() > 0.4
    result = json.loads((found / "result.json").read_text())
    assert abs(result["trust"]["noise_rate"] - 0.4) < 0.15 and result["trust"]["noise_found"]
    assert result["trust"]["cost"] <= 2 and result["steps"] == 40
    assert "Audit of pairs" not in (found / "trust" / "audit.html").read_text()
    assert float(rows_of(found / "metrics.csv")[0]["trust/noise_rate"]) == result["trust"]["noise_rate"]
    kept = {path.name for path in (found / "trust" / "fold-1").iterdir() if not path.name.startswith(".")}
    assert kept == {"config.yaml", "metrics.csv", "result.json"}


@pytest.mark.parametrize("after", [[1], [7, 12], [17, 3, 9], [35, 30]])
def test_a_run_broken_off_in_any_phase_resumes_to_the_same_bits(train, tmp_path, found, after):
    """There are 2 x 16 batches before the 40 of the run itself."""
    for batches in after:
        assert train("broken", "--trust", "auto", crash_after=batches) is None
    assert train("broken", "--trust", "auto") == 0
    for name in ("encoder.safetensors", "metrics.csv", "trust.csv"):
        assert (tmp_path / "broken" / name).read_bytes() == (found / name).read_bytes(), name


def test_other_settings_do_not_go_on_with_the_folds_of_a_run(train, tmp_path, capsys):
    assert train("a", "--trust", "auto", crash_after=20) is None
    assert train("a", "--trust", "auto", "--loss.q", "0.9") == 2
    assert "was started with loss.q = 0.5, now it is 0.9" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--trust", "auto", "--trust.folds", "1"], "trust.folds must be at least 2"),
        (["--trust", "auto", "--trust.epochs", "0"], "trust.epochs must be at least 1"),
        (["--trust", "auto", "--trust.folds", "9"], "at least 50 pairs in each of its 9 folds, got 40"),
        (["--trust", "auto", "--trust.folds", "99999999999"], "each of its 99999999999 folds, got 0: give it fewer"),
        (["--trust.epochs", "3"], "are for --trust auto"),
        (["--trust", "nowhere.csv"], "there is no file nowhere.csv"),
    ],
)
def test_settings_that_make_no_sense_are_one_sentence(train, capsys, options, sentence):
    assert train("a", *options) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1


def test_images_that_are_their_own_partners_cannot_be_wrong(tmp_path, capsys):
    options = ["--data", "DigitImages", "--encoder.channels", "1", "--views.size", "8", "--views.mean", "[0.3]"]
    options += ["--views.std", "[0.4]", "--trainer.accelerator", "cpu", "--out", str(tmp_path), "--trust", "auto"]
    assert cli.main(["train", *options, "--name", "a", "--trainer.max_epochs", "1"]) == 2
    assert "pairs every item with itself, which is always right" in capsys.readouterr().err


def test_equal_pairs_share_a_fold():
    equal = np.arange(1000) // 7 * 7
    fold = fold_of(1000, 3, 0, equal).numpy()
    assert (fold == fold[equal]).all() and np.bincount(fold).min() > 250
    assert np.array_equal(fold_of(1000, 3, 0), fold_of(1000, 3, 0, np.arange(1000)))


def test_copies_of_a_wrong_pair_do_not_vouch_for_each_other(tmp_path):
    """Every pair comes up three times. Split at random, models would know copies of the wrong pairs by heart."""
    random = np.random.default_rng(0)
    z = random.normal(size=(300, 8)).astype(np.float32)
    a, b = (z + 0.1 * random.normal(size=z.shape).astype(np.float32) for _ in range(2))
    partner, wrong = wrong_pairs(300, 0.4, 0)
    path = tmp_path / "pairs.npz"
    np.savez(path, a=np.repeat(a, 3, 0), b=np.repeat(b[partner], 3, 0), test_a=a, test_b=b)
    options = ["--data.path", str(path), "--out", str(tmp_path), "--name", "a", "--trust", "auto"]
    assert cli.main(["train", *COMMON, *options]) == 0
    trust = read_weights(tmp_path / "a" / "trust.csv").reshape(300, 3)
    assert np.allclose(trust, trust[:, :1], atol=0.2)
    assert trust[~wrong].mean() - trust[wrong].mean() > 0.4


def test_two_processes_find_and_use_the_same_trust(tmp_path, data, found):
    options = ["--data.path", str(data[0]), "--out", str(tmp_path), "--name", "two", "--trust", "auto"]
    options += ["--trainer.devices", "2", "--trainer.strategy", "ddp"]
    said = ranks.command(["train", *COMMON, *options])
    assert said.count("trust: fold 1 of 2") == 1
    one, two = read_weights(found / "trust.csv"), read_weights(tmp_path / "two" / "trust.csv")
    assert np.allclose(one, two, atol=0.05)
    a, b = (torch.load(folder / "last.ckpt", weights_only=True)["state_dict"] for folder in (found, tmp_path / "two"))
    assert all(torch.allclose(a[name], b[name], atol=0.05) for name in a)
