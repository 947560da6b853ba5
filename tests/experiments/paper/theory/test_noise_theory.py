"""The figure of noisy pairs: simulation, formula and what is printed."""

import csv

import pytest

from experiments.__main__ import main
from experiments.paper.theory.noise_theory import measured


@pytest.mark.parametrize("rate", [0.0, 0.3, 0.8])
def test_the_simulation_sides_with_the_right_formula(rate):
    row = measured(rate, number=8, lam=0.2, samples=20_000, seed=0)
    assert abs(row["simulated"] - row["right"]) < 4 * row["error"]
    assert (abs(row["simulated"] - row["printed"]) > 50 * row["error"]) == (rate > 0)
    assert row["wasserstein"] == pytest.approx(1 - rate) and row["information"] <= 1 - rate + 1e-12
    assert row["least_lam"] == pytest.approx(1 / 9)


def test_it_writes_all_its_files(tmp_path, capsys):
    assert main(["noise-theory", "--samples", "100", "--rates", "0.5", "0", "--out", str(tmp_path)]) == 0
    assert (tmp_path / "table.md").read_text() == capsys.readouterr().out
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG") and (tmp_path / "figure.svg").exists()
    with open(tmp_path / "results.csv", newline="") as file:
        assert [row["rate"] for row in csv.DictReader(file)] == ["0.0", "0.5"]


def test_a_lam_of_one_is_refused(tmp_path, capsys):
    assert main(["noise-theory", "--lam", "1", "--out", str(tmp_path)]) != 0
    assert "--lam must lie in (0, 1), got 1" in capsys.readouterr().err
