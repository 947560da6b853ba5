"""Figures of the theory: their numbers by the formulas, and their files."""

import csv
import math

import pytest

from experiments.__main__ import main
from experiments.paper.theory import figures


@pytest.mark.parametrize("q", [0.0, 0.5, 1.0])
def test_curves_follow_the_formula(q):
    for score, loss, gradient in figures.curve(q).T[::12].tolist():
        pos, total = math.exp(score), math.exp(score) + 1
        if q == 0:
            assert loss == pytest.approx(-math.log(pos / total) + math.log(0.5))
            assert gradient == pytest.approx(1 - pos / total)
        else:
            assert loss == pytest.approx((-(pos**q) + (0.5 * total) ** q) / q, abs=1e-12)
            assert gradient == pytest.approx(pos**q - (0.5 * total) ** (q - 1) * 0.5 * pos)


def test_small_q_has_largest_gradient_at_hard_positives():
    at_zero, at_one = (figures.curve(q)[2].tolist() for q in (0.0, 1.0))
    assert at_zero == sorted(at_zero, reverse=True) and at_one == sorted(at_one)


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.8])
def test_simulation_agrees_with_the_corrected_formula(rate):
    row = figures.measure(rate, samples=20_000)
    assert abs(row["simulated"] - row["right"]) < 4 * row["error"]
    assert (abs(row["simulated"] - row["printed"]) > 50 * row["error"]) == (rate > 0)
    assert row["wasserstein"] == pytest.approx(1 - rate) and row["information"] <= 1 - rate + 1e-12
    assert row["min_lam"] == pytest.approx(1 / 9)


@pytest.mark.parametrize("name", ["loss-curves", "noise-theory"])
def test_figure_experiment_writes_its_files(name, tmp_path, capsys, monkeypatch):
    measure = figures.measure
    monkeypatch.setattr(figures, "measure", lambda rate: measure(rate, samples=100))
    assert main([name, "--out", str(tmp_path)]) == 0
    assert (tmp_path / "table.md").read_text() == capsys.readouterr().out
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "figure.svg").read_text().startswith("<?xml")
    with open(tmp_path / "results.csv", newline="") as file:
        column = "q" if name == "loss-curves" else "rate"
        assert len({row[column] for row in csv.DictReader(file)}) == (6 if name == "loss-curves" else 10)
