import json

import numpy as np
import pytest

from rince import cli
from rince.commands import compare
from rince.compare.tasks import TwoFiles
from rince.compare.towers import Training


@pytest.fixture
def columns(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    a = random.normal(size=(1200, 8))
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", a @ random.normal(size=(8, 5)))
    monkeypatch.setattr(TwoFiles, "training", Training(epochs=2, batch=100, width=16, dim=8))
    monkeypatch.chdir(tmp_path)
    return ["a.npy", "b.npy"]


SMALL = ["--losses", "infonce", "rince-0.5", "--temperatures", "0.1", "0.5", "--rates", "0", "0.4", "--seeds", "1"]


def test_comparison_of_two_columns_writes_all_files(columns, tmp_path, capsys):
    assert cli.main(["compare", *columns, *SMALL, "--workers", "1", "--out", "out"]) == 0
    shown = capsys.readouterr()
    assert "unknown noise rate" in shown.out and "[8/8]" in shown.err
    assert "R@1 of held-out pairs" in shown.err
    record = json.loads((tmp_path / "out/summary.json").read_text())
    assert len(record["cells"]) == 4 and record["command"].startswith("rince compare a.npy")
    assert len((tmp_path / "out/results.csv").read_text().splitlines()) == 9
    page = (tmp_path / "out/comparison.html").read_text()
    assert "Which loss" in page and "<svg" in page and "Content-Security-Policy" in page
    assert (tmp_path / "out/comparison.png").read_bytes()[:4] == b"\x89PNG"


def test_finished_runs_are_not_repeated(columns, monkeypatch, capsys):
    few = ["--losses", "infonce", "--temperatures", "0.1", "--rates", "0", "0.4", "--seeds", "1"]
    arguments = ["compare", *columns, *few, "--workers", "1", "--out", "out"]
    assert cli.main(arguments) == 0
    monkeypatch.setattr(compare, "one_run", lambda run, **others: pytest.fail("a finished run was done again"))
    assert cli.main(arguments) == 0 and cli.main([*arguments, "--report-only"]) == 0
    assert "2 of 2 runs are already finished" in capsys.readouterr().err


@pytest.mark.parametrize("report_only", [[], ["--report-only"]])
def test_runs_on_other_data_are_rejected(columns, tmp_path, capsys, report_only):
    arguments = ["--losses", "infonce", "--temperatures", "0.1", "--rates", "0", "--seeds", "1", "--workers", "1"]
    assert cli.main(["compare", *columns, *arguments]) == 0
    page = (tmp_path / "runs/compare/columns/comparison.html").read_bytes()
    np.save("c.npy", np.random.default_rng(7).normal(size=(1200, 8)))
    assert cli.main(["compare", "c.npy", "b.npy", *arguments, *report_only]) == 2
    assert "different data: choose another --out" in capsys.readouterr().err
    assert cli.main(["compare", "gone.npy", "b.npy", *arguments, *report_only]) == 2
    assert (tmp_path / "runs/compare/columns/comparison.html").read_bytes() == page


def test_loss_from_the_current_folder_and_growing_q_are_compared(columns, tmp_path):
    (tmp_path / "own_loss.py").write_text("import rince\n\nclass Mine(rince.GCE):\n    pass\n")
    few = ["--temperatures", "0.2", "--rates", "0", "--seeds", "1", "--epochs", "1", "--workers", "1", "--out", "out"]
    assert cli.main(["compare", *columns, "--losses", "own_loss.Mine", "rince-0.01:0.4", *few]) == 0
    labels = (tmp_path / "out/table.md").read_text("utf-8")
    assert "own_loss.Mine" in labels and "RINCE q 0.01 to 0.4" in labels


def test_columns_of_texts_are_compared(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(TwoFiles, "training", Training(epochs=8, batch=100, lr=0.05, dim=16))
    random = np.random.default_rng(0)
    words = random.integers(60, size=(1200, 4))
    (tmp_path / "en.txt").write_text("\n".join(" ".join(f"word{w}" for w in row) for row in words) + "\n")
    rows = "\n".join(f"{k},{' '.join(f'wort{w}' for w in row)}" for k, row in enumerate(words))
    (tmp_path / "de.csv").write_text(f"id,text\n{rows}\n")
    arguments = ["--losses", "infonce", "--temperatures", "0.1", "--rates", "0", "--seeds", "1", "--workers", "1"]
    assert cli.main(["compare", "en.txt", "de.csv:text", *arguments, "--out", "out"]) == 0
    assert json.loads((tmp_path / "out/summary.json").read_text())["cells"][0]["mean"] > 20  # by chance it is 0.25


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (lambda: np.zeros((1200, 3, 2)), "must have the shape (pairs, width), got (1200, 3, 2)"),
        (lambda: np.zeros((1200, 3), dtype=complex), "must hold real numbers, got complex128"),
        (lambda: np.zeros((1200, 0)), "has no columns"),
    ],
)
def test_arrays_that_are_no_columns_are_one_sentence(columns, made, said, capsys):
    np.save("odd.npy", made())
    assert cli.main(["compare", "odd.npy", "b.npy", "--workers", "1", "--out", "out"]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


def test_other_seeds_use_the_tuned_temperature(columns, tmp_path, capsys):
    small = ["--losses", "infonce", "--temperatures", "0.1", "0.5", "--rates", "0", "--seeds", "3", "--epochs", "1"]
    arguments = ["compare", *columns, *small, "--workers", "1", "--out", "out"]
    assert cli.main([*arguments, "--tune-seeds", "1"]) == 0
    runs = [json.loads(path.read_text()) for path in (tmp_path / "out/runs").iterdir()]
    tuning = [run for run in runs if run["settings"]["seed"] == 0]
    chosen = max(tuning, key=lambda run: run["validation"])["settings"]["temperature"]
    others = [run["settings"] for run in runs if run["settings"]["seed"] > 0]
    assert len(tuning) == 2 and [run["temperature"] for run in others] == [chosen, chosen]
    assert "of the first seed" in capsys.readouterr().out
    assert cli.main(["compare", *columns, *small[:-2], "--workers", "1", "--out", "out"]) == 2
    assert "different epochs" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["a.npy", "b.npy", "--tune-seeds", "0"], "--tune-seeds must be at least 1, got 0"),
        (["digits"], "takes two columns A B, got 1"),
        (["a.npy", "b.npy", "c.npy"], "two columns A B, got 3"),
        (["a.npy", "b.npy", "--losses", "infonce", "infonce"], "--losses must be different"),
        (["a.npy", "b.npy", "--losses", "gce", "gce-1"], "--losses must be different"),
        (["a.npy", "b.npy", "--losses", "nonsense"], "unknown loss 'nonsense'"),
        (["a.npy", "b.npy", "--rates", "1.5"], "--rates must lie in [0, 1), got 1.5"),
        (["a.npy", "b.npy", "--temperatures", "0"], "--temperatures must be positive, got 0"),
        (["a.npy", "b.npy", "--seeds", "0"], "--seeds must be at least 1, got 0"),
        (["a.npy", "b.npy"], "does not exist"),
    ],
)
def test_invalid_input_is_a_usage_error(arguments, said, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(["compare", *arguments]) == 2
    error = capsys.readouterr().err
    assert said in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, "a.npy has NaN, infinite or too large values in 1 rows"),
        (1e300, "a.npy has NaN, infinite or too large values in 1 rows"),
        (None, "a.npy are equal"),
    ],
)
def test_columns_unfit_for_a_comparison_are_rejected(tmp_path, monkeypatch, capsys, value, message):
    monkeypatch.chdir(tmp_path)
    columns = [str(tmp_path / name) for name in ("a.npy", "b.npy")]
    a = np.ones((1000, 3)) if value is None else np.random.default_rng(0).normal(size=(1000, 3))
    np.save(tmp_path / "b.npy", np.random.default_rng(1).normal(size=(1000, 3)))
    if value is not None:
        a[7, 1] = value
    np.save(tmp_path / "a.npy", a)
    assert cli.main(["compare", *columns, "--losses", "infonce", "--seeds", "1", "--workers", "1"]) == 2
    assert message in capsys.readouterr().err
