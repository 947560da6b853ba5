"""The figure of the loss: its numbers by the formula, its files, its errors."""

import csv
import math

import pytest

from experiments.__main__ import main
from experiments.paper.theory.loss_curves import curves


def test_curves_follow_the_formula():
    found = curves([0, 0.5, 1], lam=0.5, low=-3, high=2)
    for q, curve in found.items():
        for score, loss, gradient in list(zip(curve["score"], curve["loss"], curve["gradient"], strict=True))[::12]:
            pos, total = math.exp(score), math.exp(score) + 1
            if q == 0:
                assert loss == pytest.approx(-math.log(pos / total) + math.log(0.5))
                assert gradient == pytest.approx(1 - pos / total)
            else:
                assert loss == pytest.approx((-(pos**q) + (0.5 * total) ** q) / q, abs=1e-12)
                assert gradient == pytest.approx(pos**q - (0.5 * total) ** (q - 1) * 0.5 * pos)


def test_small_q_looks_at_hard_positives_and_large_q_at_easy_ones():
    found = curves([0, 1], lam=0.5, low=-4, high=2)
    assert found[0]["gradient"] == sorted(found[0]["gradient"], reverse=True)
    assert found[1]["gradient"] == sorted(found[1]["gradient"])


def test_it_writes_all_its_files_and_again_the_same(tmp_path, capsys):
    command = ["loss-curves", "--q", "0", "0.5", "--out", str(tmp_path)]
    assert main(command) == 0
    assert (tmp_path / "table.md").read_text() == capsys.readouterr().out
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    drawn = (tmp_path / "figure.svg").read_text()
    assert drawn.startswith("<?xml") and "</svg>" in drawn
    with open(tmp_path / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["q"] for row in rows} == {"0.0", "0.5"} and list(rows[0]) == ["q", "score", "loss", "gradient"]
    assert main(command) == 0
    assert (tmp_path / "figure.svg").read_text() == drawn


@pytest.mark.parametrize("experiment", ["loss-curves", "noise-theory"])
@pytest.mark.parametrize("name", ["results.csv", "table.md", "figure.png"])
def test_files_of_somebody_else_stay(experiment, name, tmp_path, capsys):
    (tmp_path / name).write_text("mine\n")
    assert main([experiment, "--out", str(tmp_path)]) == 2
    assert f"{name} exists" in capsys.readouterr().err
    assert (tmp_path / name).read_text() == "mine\n" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--q", "1.5"], "--q must lie in [0, 1], got 1.5"),
        (["--lam", "0"], "--lam must lie in (0, 1], got 0"),
        (["--scores", "2", "1"], "--scores must go from a lower to a higher score, got 2 1"),
    ],
)
def test_wrong_values_are_one_line(options, message, tmp_path, capsys):
    assert main(["loss-curves", "--out", str(tmp_path / "out"), *options]) != 0
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
