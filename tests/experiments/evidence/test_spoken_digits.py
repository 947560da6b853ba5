"""The experiment on sounds and images from end to end, on tones written for the purpose."""

import csv

import pytest

from experiments.__main__ import main
from experiments.evidence.spoken_digits import COLUMNS, SpokenDigitsTable, best_temperature
from support.tones import write_digits


def result(loss, temperature, wrong, seed, value, validation):
    scores = dict.fromkeys(COLUMNS, value) | {f"validation {way} class": validation for way in ("a to b", "b to a")}
    return {"settings": {"loss": loss, "temperature": temperature, "wrong": wrong, "seed": seed}, **scores}


def test_temperature_is_chosen_on_validation_per_rate(tmp_path):
    results = [
        result("infonce", t, wrong, seed, value, validation)
        for seed in (0, 1)
        for wrong, t, value, validation in (
            (0.0, 0.1, 50, 80), (0.0, 0.2, 99, 70), (0.0, 0.5, 99, 60),
            (0.4, 0.1, 40, 10), (0.4, 0.2, 99, 20), (0.4, 0.5, 45, 30),
        )
    ]  # fmt: skip
    assert [best_temperature(results, "infonce", rate) for rate in (0.0, 0.4)] == [0.1, 0.5]
    experiment = SpokenDigitsTable()
    asked = [
        "--losses",
        "infonce",
        "--rates",
        "0",
        "0.4",
        "--temperatures",
        "0.1",
        "0.2",
        "0.5",
        "--out",
        str(tmp_path),
    ]
    table = experiment.report(results, experiment.parser().parse_args(asked))
    first = next(line for line in table.splitlines() if "sound found by image: InfoNCE" in line)
    assert "50.0 ± 0.0" in first and "45.0 ± 0.0" in first and "99" not in first
    assert table.count("*") == 3 and "2 seeds" in table


def test_the_experiment_writes_its_files_and_resumes(tmp_path, capsys, monkeypatch):
    source = write_digits(tmp_path / "recordings", takes=16)
    real = SpokenDigitsTable.settings

    def smaller(self, run, options):
        settings = real(self, run, options)
        settings["data"]["init_args"]["batch_size"] = 32
        return settings

    monkeypatch.setattr(SpokenDigitsTable, "settings", smaller)
    command = ["spoken-digits", "--source", str(source), "--out", str(tmp_path / "out")]
    command += ["--losses", "infonce", "warm-up", "--rates", "0.4", "--seeds", "1", "--epochs", "1"]
    command += ["--temperatures", "0.2"]
    assert main(command) == 0
    shown = capsys.readouterr()
    assert "[2/2]" in shown.err and (tmp_path / "out" / "table.md").read_text() == shown.out
    with open(tmp_path / "out" / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["loss"] for row in rows] == ["infonce", "warm-up"]
    assert all(0 <= float(row[column]) <= 100 for row in rows for column in COLUMNS)
    finished = sorted((tmp_path / "out" / "results").iterdir())
    finished[0].unlink()
    assert main([*command, "--report-only"]) == 0
    assert "1 seed" in capsys.readouterr().out
    assert main(command) == 0
    again = capsys.readouterr()
    assert "1 of 2 runs are already finished" in again.err and again.out == shown.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rates", "1.5"], r"--rates must lie in [0, 1], got 1.5"),
        (["--seeds", "0"], "--seeds must be at least 1"),
        (["--source", "nowhere.zip"], "no spoken digits at nowhere.zip"),
        (["--loudness", "3"], "there is no option"),
    ],
)
def test_bad_options_are_one_line(options, message, capsys, tmp_path):
    assert main(["spoken-digits", "--source", str(tmp_path), *options]) == 2
    error = capsys.readouterr().err
    assert message in error and error.count("\n") == 1
