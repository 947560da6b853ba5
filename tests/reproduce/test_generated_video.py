import csv

import pytest

pytest.importorskip("av")

from rince.cli import main
from rince.reproduce import generated_video
from rince.reproduce.generated_video import EPOCHS, LEARNING_RATES, PER_CLASS, TUNING_EPOCHS, training, tuning
from rince.train.folder import flat
from rince.train.shipped import SHIPPED

CONFIGS = SHIPPED / "generated_video"
RUN = {
    "loss": "rince", "wrong": 0.0, "seed": 0, "epochs": EPOCHS, "per_class": PER_CLASS, "tuning_epochs": TUNING_EPOCHS,
    "videos_seed": 0,
}  # fmt: skip


def test_the_experiment_and_the_configurations_say_the_same():
    import yaml

    files = {name: flat(yaml.safe_load((CONFIGS / f"{name}.yaml").read_text())) for name in ("train", "finetune")}
    lr = files["finetune"]["optimiser.lr"]
    assert lr in LEARNING_RATES
    for settings, name in ((training(RUN, "data"), "train"), (tuning(RUN, "data", lr), "finetune")):
        file, here = files[name], flat(settings)
        assert {key: here.get(key) for key in file} == file
        alone = {"seed", "data.root", "data.videos_seed", "probe", "trainer.enable_progress_bar", "loss"}
        assert here.keys() - file.keys() <= alone


def test_a_small_experiment_runs_resumes_and_tabulates(tmp_path, monkeypatch, capsys):
    real = generated_video.videos

    def fewer(run, root, batch_size, **options):
        data = real(run, root, batch_size, **options)
        data["init_args"] |= {"train": 16, "test": 8, "batch_size": 8, "workers": 0}
        if "test_clips" in data["init_args"]:
            data["init_args"]["test_clips"] = 2
        return data

    monkeypatch.setattr(generated_video, "videos", fewer)
    monkeypatch.setattr(generated_video, "LEARNING_RATES", (0.001, 0.01))
    monkeypatch.delitem(generated_video.COLUMNS, "tuned 0.003")
    command = ["reproduce", "generated-video", "--seeds", "1", "--epochs", "1", "--tuning-epochs", "2"]
    command += ["--per-class", "1", "--rates", "0.5", "--losses", "infonce", "--root", str(tmp_path / "videos")]
    command += ["--out", str(tmp_path / "out")]
    assert main(command) == 0
    table = capsys.readouterr().out
    assert "nothing (from scratch)" in table and "InfoNCE, 50 % wrong sounds" in table and "1 labelled videos" in table
    assert (tmp_path / "out" / "table.md").read_text() == table
    with open(tmp_path / "out" / "results.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [row["loss"] for row in rows] == ["scratch", "infonce"] and rows[0]["frozen"] == ""
    finished = {p: p.stat().st_mtime_ns for p in (tmp_path / "out" / "runs").rglob("result.json")}
    assert len(finished) == 6
    assert main(command) == 0
    assert capsys.readouterr().out == table
    assert finished == {p: p.stat().st_mtime_ns for p in (tmp_path / "out" / "runs").rglob("result.json")}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--rates", "2"], "--rates must lie in [0, 1], got 2.0"),
        (["--per-class", "0"], "--per-class must be at least 1, got 0"),
        (["--sedes", "1"], "there is no option '--sedes'"),
    ],
)
def test_bad_options_are_one_line(options, sentence, capsys):
    assert main(["reproduce", "generated-video", *options]) == 2
    assert sentence in capsys.readouterr().err
