import csv

import pytest

pytest.importorskip("av")

from experiments.__main__ import main
from experiments.paper.video.experiments import CONFIG, TUNING, GeneratedVideoTable
from experiments.training import settings_of
from rince.train.run_folder import flat

FEW = ["--seeds", "1", "--tuning-epochs", "1", "--per-class", "1", "--videos", "16", "--test-videos", "8"]


@pytest.fixture(scope="module")
def videos(tmp_path_factory):
    """Where the videos are generated, once for all experiments."""
    return str(tmp_path_factory.mktemp("videos"))


def test_fine_tuning_at_its_usual_length_is_the_shipped_configuration():
    experiment = GeneratedVideoTable()
    options = experiment.parser().parse_args([])
    run = experiment.runs(options)[1]
    shipped = flat(settings_of(TUNING, {}))
    here = flat(settings_of(TUNING, experiment.tuning(run, options, shipped["optimizer.lr"])))
    alone = {"seed", "data.root", "data.videos_seed", "trainer.enable_progress_bar"}
    assert {key for key in here if here[key] != shipped.get(key)} <= alone
    assert options.epochs == settings_of(CONFIG, {})["trainer"]["max_epochs"]


def test_a_small_experiment_runs_resumes_and_tabulates(videos, tmp_path, capsys):
    command = ["generated-video", *FEW, "--epochs", "1", "--lrs", "0.01", "--rates", "0.5"]
    command += ["--losses", "xid", "--root", videos, "--out", str(tmp_path / "out")]
    assert main(command) == 0
    table = capsys.readouterr().out
    assert "nothing (from scratch)" in table and "xID, 50 % wrong sounds" in table
    assert (tmp_path / "out" / "table.md").read_text() == table and (tmp_path / "out" / "figure.svg").exists()
    with open(tmp_path / "out" / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["loss"] for row in rows] == ["scratch", "xid"] and rows[0]["frozen"] == ""
    finished = {p: p.stat().st_mtime_ns for p in (tmp_path / "out" / "runs").rglob("result.json")}
    assert len(finished) == 4
    assert main(command) == 0
    assert capsys.readouterr().out == table
    assert finished == {p: p.stat().st_mtime_ns for p in (tmp_path / "out" / "runs").rglob("result.json")}


def test_growth_has_a_row_for_every_size_and_a_column_for_every_length(videos, tmp_path, capsys):
    command = ["video-growth", *FEW, "--sizes", "16", "--lengths", "1", "2", "--losses", "warm-up"]
    assert main([*command, "--root", videos, "--out", str(tmp_path / "out")]) == 0
    table = capsys.readouterr().out
    assert "| 16 videos, RINCE, growing q |" in table and "|    1 |    2 |" in table
    for other in (["--lr", "0.01"], ["--videos-seed", "7"], ["--per-class", "2"]):  # results are of other settings
        assert main([*command, "--root", videos, "--out", str(tmp_path / "out"), *other]) == 2
        assert f"different {other[0][2:].replace('-', '_')}: choose another --out" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--rates", "2"], "--rates must lie in [0, 1], got 2.0"),
        (["--per-class", "0"], "--per-class must be at least 1, got 0"),
        (["--sedes", "1"], "there is no option '--sedes'"),
    ],
)
def test_bad_options_are_one_line(options, sentence, capsys):
    assert main(["generated-video", *options]) == 2
    assert sentence in capsys.readouterr().err
