"""An experiment made for the purpose: its files, its resumption, its options."""

import argparse
import csv

import pytest

from experiments.experiment import Experiment, several
from experiments.figures import lines
from rince.errors import UsageError


class Squares(Experiment):
    name = "squares"
    summary = "Squares of the seeds, plus a rate."
    corner = "rate"
    epochs = 4
    done: list = []  # noqa: RUF012

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        several(parser, "--rates", [0.0, 0.5], "rates")

    def runs(self, options):
        clean = [
            {"loss": "plain", "rate": 0.0, "seed": seed, "epochs": options.epochs} for seed in range(options.seeds)
        ]
        return clean + [{**run, "rate": rate} for rate in options.rates for run in clean]

    def work(self, run, options):
        self.done.append(run)
        return {"value": run["seed"] ** 2 + run["rate"], "headline": "squared"}

    def cells(self, results, options):
        return [("square", f"{r['settings']['rate']:g}", r["value"]) for r in results]

    def figure(self, results, options):
        return lines([("all", "square", r["settings"]["rate"], r["value"]) for r in results], "rate", "square")


@pytest.fixture
def squares(tmp_path):
    Squares.done.clear()
    return lambda *arguments: Squares().main(["--out", str(tmp_path), *arguments])


def test_explicit_rate_zero_is_the_run_without_noise(squares, capsys):
    """Two runs that are the same are one run, not two of the same name."""
    assert squares("--rates", "0", "--seeds", "2") == 0
    assert [run["seed"] for run in Squares.done] == [0, 1]
    assert "0.5 ± 0.7" in capsys.readouterr().out


def test_all_files_are_written_and_a_second_call_does_nothing_again(squares, tmp_path, capsys):
    squares("--seeds", "2")
    shown = capsys.readouterr().out
    assert (tmp_path / "table.md").read_text() == shown
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "figure.svg").read_text()
    with open(tmp_path / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(row["seed"], row["rate"], row["value"]) for row in rows][-1] == ("1", "0.5", "1.5")
    Squares.done.clear()
    squares("--seeds", "2")
    assert not Squares.done and capsys.readouterr().out == shown


def test_so_far_reports_without_working(squares, capsys):
    squares("--seeds", "1")
    Squares.done.clear()
    capsys.readouterr()
    squares("--seeds", "3", "--so-far")
    assert not Squares.done and "1 seed" in capsys.readouterr().out


def test_a_run_of_another_length_is_refused_not_mixed_in(squares):
    squares("--seeds", "1")
    with pytest.raises(UsageError, match="a run with different epochs"):
        squares("--seeds", "1", "--epochs", "5")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--seeds", "0"], "--seeds must be at least 1, got 0"),
        (["--rates", "1.5"], r"--rates must lie in \[0, 1\], got 1.5"),
        (["--sedes", "1"], "there is no option '--sedes'"),
    ],
)
def test_bad_options_are_one_sentence(arguments, message, squares):
    with pytest.raises(ValueError, match=message):
        squares(*arguments)


def test_a_name_holds_all_settings_but_the_epochs():
    assert Squares().run_name({"loss": "rince-0.5", "rate": 0.4, "seed": 1, "epochs": 9}) == "rince-0.5 rate 0.4 seed 1"
