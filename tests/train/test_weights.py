"""`rince train --trust`: weights from a table, and estimated by each step, whole or interrupted anywhere."""

import csv
import json

import numpy as np
import pytest
import torch

from rince import cli
from rince.noise.pairs import wrong_pairs
from rince.train.config import parse, train_parser
from rince.train.weights import default_folds, fold_config, fold_of, save_weights, saved_weights, warm_up_config
from support import ranks
from support.crashes import CrashAfter

N = 400
COMMON = [
    "--method", "CrossModal", "--method.width", "8", "--method.layers", "1", "--method.q_schedule", "linear",
    "--encoder", "Towers", "--encoder.a", "MLP", "--encoder.a.widths", "[8, 16]",
    "--encoder.b", "MLP", "--encoder.b.widths", "[8, 16]",
    "--views", "PairViews", "--views.a", "Unchanged", "--views.b", "Unchanged",
    "--loss.lam", "balanced", "--loss.temperature", "0.1", "--loss.scale", "unit", "--optimizer.lr", "0.01",
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
    save_weights(tmp_path / name, np.asarray(weights, np.float32), ids)
    return str(tmp_path / name)


def rows_of(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_table_is_matched_by_row_kept_and_logged(train, tmp_path):
    weights = np.linspace(0, 1, N, dtype=np.float32)
    assert train("a", "--trust", table(tmp_path, weights)) == 0
    trained = weights[np.arange(N) % 10 != 9]
    assert np.array_equal(saved_weights(tmp_path / "a" / "trust.csv"), trained)
    result = json.loads((tmp_path / "a" / "result.json").read_text())["trust"]
    assert result["pairs"] == 360 and result["below_half"] == (trained < 0.5).sum()
    assert result["mean"] == pytest.approx(trained.mean(), abs=1e-6)
    assert float(rows_of(tmp_path / "a" / "metrics.csv")[0]["trust/mean"]) == pytest.approx(trained.mean(), abs=1e-6)


def test_weights_of_one_train_like_no_weights(train, tmp_path):
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
    assert "was started with other weights" in capsys.readouterr().err
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
        (np.full(N, 1.5), None, "in [0, 1], got 1.5"),
        (np.full(N, np.nan), None, "got nan in row 0"),
        (np.zeros(N), None, "are 0"),
    ],
)
def test_invalid_table_is_rejected_before_training(train, tmp_path, capsys, weights, ids, sentence):
    assert train("a", "--trust", table(tmp_path, weights, ids)) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1
    assert not (tmp_path / "a" / "last.ckpt").exists()


# --- estimated weights ---


def estimated(folder, data, *options):
    given = ["--data.path", str(data[0]), "--out", str(folder), "--name", "whole", *options]
    assert cli.main(["train", *COMMON, *given]) == 0
    return folder / "whole"


@pytest.fixture(scope="module")
def auto(tmp_path_factory, data):
    return estimated(tmp_path_factory.mktemp("auto"), data, "--trust", "auto")


@pytest.fixture(scope="module")
def warmed_up(tmp_path_factory, data):
    """Step 2: the given features are unrelated noise, from which step 1 cannot tell."""
    folder = tmp_path_factory.mktemp("warm-up")
    noise = np.random.default_rng(5).normal(size=(2, 360, 4))
    np.savez(folder / "noise.npz", a=noise[0], b=noise[1])
    return estimated(folder, data, "--trust", "auto", "--trust.features", str(folder / "noise.npz"))


@pytest.fixture(scope="module")
def copied(tmp_path_factory, data):
    return estimated(tmp_path_factory.mktemp("copies"), data, "--trust", "copies")


@pytest.mark.parametrize(
    ("name", "step", "cost"), [("auto", "features", 1), ("warmed_up", "warm-up", 1.2), ("copied", "copies", 2)]
)
def test_every_step_estimates_the_noise_and_records_its_cost(name, step, cost, request, data):
    folder, wrong = request.getfixturevalue(name), data[1]
    weights = saved_weights(folder / "trust.csv")
    assert weights[~wrong].mean() - weights[wrong].mean() > 0.4
    result = json.loads((folder / "result.json").read_text())
    assert result["trust"]["step"] == step and result["trust"]["noise_found"] and result["steps"] == 40
    assert abs(result["trust"]["noise_rate"] - 0.4) < 0.15 and result["trust"]["cost"] <= cost
    assert float(rows_of(folder / "metrics.csv")[0]["trust/noise_rate"]) == result["trust"]["noise_rate"]
    assert (folder / "trust" / "audit.html").exists()
    assert not [path for path in (folder / "trust").rglob("*") if path.suffix in (".ckpt", ".npz", ".safetensors")]


@pytest.mark.parametrize(
    ("name", "options", "after"),
    [
        ("auto", ["auto"], [1]),
        ("auto", ["auto"], [25]),
        ("warmed_up", ["auto", "features"], [3, 9]),
        ("copied", ["copies"], [7, 12]),
        ("copied", ["copies"], [17, 3, 9]),
    ],
)
def test_interrupted_run_resumes_to_the_same_bits(train, tmp_path, request, name, options, after):
    whole = request.getfixturevalue(name)
    given = ["--trust", options[0]]
    if "features" in options:
        given += ["--trust.features", str(whole.parent / "noise.npz")]
    for batches in after:
        assert train("broken", *given, crash_after=batches) is None
    assert train("broken", *given) == 0
    for file in ("encoder.safetensors", "metrics.csv", "trust.csv"):
        assert (tmp_path / "broken" / file).read_bytes() == (whole / file).read_bytes(), file


def test_other_settings_do_not_resume_the_copies_of_a_run(train, tmp_path, capsys):
    assert train("a", "--trust", "copies", crash_after=20) is None
    assert train("a", "--trust", "copies", "--loss.q", "0.9") == 2
    assert "loss.q = 0.5, now it is 0.9" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--trust", "copies", "--trust.folds", "1"], "trust.folds must be at least 2, got 1"),
        (["--trust", "copies", "--trust.epochs", "0"], "trust.epochs must be at least 1, got 0"),
        (["--trust", "copies", "--trust.folds", "9"], "at least 50 pairs per fold, got 40 in 9 folds"),
        (["--trust", "auto", "--trust.folds", "3"], "trust.folds is for --trust copies"),
        (["--trust.epochs", "3"], "trust.epochs is for --trust copies"),
        (["--trust", "auto", "--trust.features", "nowhere.npz"], "trust.features must be an .npz file"),
        (["--trust", "nowhere.csv"], "nowhere.csv"),
    ],
)
def test_invalid_settings_are_rejected(train, capsys, options, sentence):
    assert train("a", *options) == 2
    error = capsys.readouterr().err
    assert sentence in error and error.count("\n") == 1


def test_data_whose_pairs_cannot_be_wrong_are_rejected(tmp_path, capsys):
    options = ["--data", "DigitImages", "--encoder.channels", "1", "--views.size", "8", "--views.mean", "[0.3]"]
    options += ["--views.std", "[0.4]", "--trainer.accelerator", "cpu", "--out", str(tmp_path), "--trust", "auto"]
    assert cli.main(["train", *options, "--name", "a", "--trainer.max_epochs", "1"]) == 2
    assert "pairs every item with itself" in capsys.readouterr().err


def test_equal_pairs_share_a_fold():
    equal = np.arange(1000) // 7 * 7
    fold = fold_of(1000, 3, 0, equal).numpy()
    assert (fold == fold[equal]).all() and np.bincount(fold).min() > 250
    assert np.array_equal(fold_of(1000, 3, 0), fold_of(1000, 3, 0, np.arange(1000)))


@pytest.mark.parametrize("source", ["auto", "copies"])
def test_duplicates_of_a_wrong_pair_share_a_fold(tmp_path, source):
    """Every pair comes up three times."""
    random = np.random.default_rng(0)
    z = random.normal(size=(300, 8)).astype(np.float32)
    a, b = (z + 0.1 * random.normal(size=z.shape).astype(np.float32) for _ in range(2))
    partner, wrong = wrong_pairs(300, 0.4, 0)
    path = tmp_path / "pairs.npz"
    np.savez(path, a=np.repeat(a, 3, 0), b=np.repeat(b[partner], 3, 0), test_a=a, test_b=b)
    options = ["--data.path", str(path), "--out", str(tmp_path), "--name", "a", "--trust", source]
    assert cli.main(["train", *COMMON, *options]) == 0
    weights = saved_weights(tmp_path / "a" / "trust.csv").reshape(300, 3)
    assert np.allclose(weights, weights[:, :1], atol=0.2)
    assert weights[~wrong].mean() - weights[wrong].mean() > 0.4


@pytest.mark.parametrize(("name", "source"), [("auto", "auto"), ("copied", "copies")])
def test_two_processes_estimate_and_use_the_same_weights(tmp_path, data, request, name, source):
    whole = request.getfixturevalue(name)
    options = ["--data.path", str(data[0]), "--out", str(tmp_path), "--name", "two", "--trust", source]
    options += ["--trainer.devices", "2", "--trainer.strategy", "ddp"]
    output = ranks.command(["train", *COMMON, *options])
    assert output.count("of the pairs are wrong") == 1
    one, two = saved_weights(whole / "trust.csv"), saved_weights(tmp_path / "two" / "trust.csv")
    assert np.allclose(one, two, atol=0.05)
    a, b = (torch.load(folder / "last.ckpt", weights_only=True)["state_dict"] for folder in (whole, tmp_path / "two"))
    assert all(torch.allclose(a[name], b[name], atol=0.05) for name in a)


# --- configurations of copies and warm-ups ---


@pytest.fixture(scope="module")
def parser():
    return train_parser()


def configured(parser, *options):
    return parse(parser, ["--data", "DigitImages", "--trust", "copies", *options])


@pytest.mark.parametrize(
    ("options", "folds", "expected"),
    [
        (["--trainer.max_epochs", "20"], 2, (20, -1)),
        (["--trainer.max_epochs", "20"], 5, (5, -1)),
        (["--trainer.max_steps", "100"], 2, (None, 50)),
        (["--trainer.max_epochs", "20", "--trainer.max_steps", "60", "--trust.epochs", "4"], 3, (4, -1)),
    ],
)
def test_copies_take_no_more_steps_than_the_run(parser, options, folds, expected):
    config = configured(parser, *options)
    fold = fold_config(config, folds)
    assert (fold.trainer.max_epochs, fold.trainer.max_steps) == expected and fold.trust.source is None
    assert config.trust.source == "copies"


@pytest.mark.parametrize("loss", ["InfoNCE", "RINCE", "rince.losses.rince.RINCE"])
def test_infonce_and_rince_are_replaced_by_gce_at_their_temperature(parser, loss):
    options = ["--loss", loss, "--loss.temperature", "0.3", "--method.q_schedule", "linear"]
    options = options[:4] if loss == "InfoNCE" else options
    config = configured(parser, *options)
    fold = fold_config(config, 3)
    assert fold.loss.class_path == "rince.GCE" and fold.method.init_args.q_schedule == "linear"
    assert fold.method.init_args.q_start == 0.7
    assert (fold.loss.init_args.q, fold.loss.init_args.temperature) == (1.0, 0.3)
    assert config.loss.class_path.endswith(loss.rpartition(".")[2]), "the run keeps its own"
    assert fold_config(configured(parser, *options, "--trust.loss", "same"), 3).loss == config.loss


@pytest.mark.parametrize("loss", ["DCL", "torch.nn.Identity"])
def test_other_losses_are_kept(parser, loss):
    config = configured(parser, "--loss", loss)
    assert fold_config(config, 3).loss == config.loss


def test_default_folds_are_two_in_short_runs_and_on_many_pairs():
    assert [default_folds(epochs, 1999) for epochs in (1, 19, 20, 100, -1, None)] == [2, 2, 3, 3, 3, 3]
    assert [default_folds(epochs, 2000) for epochs in (1, 19, 20, 100, -1, None)] == [2] * 6


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--trainer.max_epochs", "20"], (3, -1, 1.0)),
        (["--trainer.max_epochs", "10"], (2, -1, 0.75)),
        (["--trainer.max_epochs", "4"], (1, -1, 0.6)),
        (["--trainer.max_epochs", "4", "--trainer.limit_train_batches", "10"], (1, -1, 6)),
        (["--trainer.max_steps", "105"], (None, 15, None)),
        (["--trainer.max_epochs", "4", "--trainer.max_steps", "1000"], (1, 150, 0.6)),
    ],
)
def test_warm_up_takes_15_percent_of_the_run_with_gce(parser, options, expected):
    config = warm_up_config(configured(parser, *options))
    limits = config.trainer.max_epochs, config.trainer.max_steps, config.trainer.limit_train_batches
    assert limits == expected and config.loss.class_path == "rince.GCE" and config.trust.source is None
