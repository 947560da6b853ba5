"""Videos through `rince train`: resumed to the bit, with bad files listed and noise saved in the run's folder."""

import csv

import numpy as np
import pytest

from rince import cli
from support.crashes import CRASHES, Crash
from support.video.films import film

CONFIG = """
method:
  class_path: rince.methods.cross_modal.CrossModal
  init_args: {hidden: 16, width: 8, layers: 3, q_schedule: linear}
encoder:
  class_path: rince.encoders.heads.Towers
  init_args:
    a: {class_path: rince.encoders.video.R2Plus1D, init_args: {width: 2, blocks: [1, 1]}}
    b: {class_path: rince.encoders.video.AudioConvNet, init_args: {width: 2}}
loss: {class_path: rince.RINCE, init_args: {q: 0.4, lam: 0.01, temperature: 0.2}}
views:
  class_path: rince.views.pair.PairViews
  init_args:
    a: {class_path: rince.views.pair.ClipRecipe, init_args: {size: 16}}
    b: {class_path: rince.views.pair.SoundRecipe, init_args: {sample_rate: 8000, window: 128, hop: 0.016}}
data:
  class_path: rince.data.video.videos.Videos
  init_args:
    root: ROOT
    num_frames: 4
    size: 16
    sample_rate: 8000
    audio_duration: 0.5
    batch_size: 4
    workers: 1
    noise: {class_path: rince.noise.pairs.Overdub, init_args: {rate: 0.4, seed: 1}}
checkpoint_every: 1
trainer:
  max_epochs: 2
  log_every_n_steps: 1
  accelerator: cpu
  enable_progress_bar: false
  enable_model_summary: false
"""


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    folder = tmp_path_factory.mktemp("videos")
    for part, count in (("train", 10), ("val", 4)):
        for i in range(count):
            path = folder / "data" / part / ("cat", "dog")[i % 2] / f"{i}.mp4"
            path.parent.mkdir(parents=True, exist_ok=True)
            film(path, seconds=1.0, size=(32, 24), flash=(0.1 * i % 0.7, 0.1 * i % 0.7 + 0.2), rate=24000)
    (folder / "data" / "train" / "cat" / "0.mp4").write_bytes(b"")
    film(folder / "data" / "train" / "dog" / "3.mp4", seconds=1.0, audio=None)
    (folder / "videos.yaml").write_text(CONFIG.replace("ROOT", str(folder / "data")))
    return folder / "videos.yaml"


@pytest.mark.filterwarnings("ignore:.*could not be used")
def test_a_crashed_run_resumes_to_the_same_bits_and_lists(config, tmp_path, monkeypatch, capsys):
    common = ["train", str(config), "--out", str(tmp_path), CRASHES]
    assert cli.main([*common, "--name", "whole"]) == 0
    monkeypatch.setattr(Crash, "at", 3)
    with pytest.raises(RuntimeError, match="crash"):
        cli.main([*common, "--name", "crashed"])
    monkeypatch.setattr(Crash, "at", -1)
    assert cli.main([*common, "--name", "crashed"]) == 0
    for name in ("encoder.safetensors", "metrics.csv", "skipped.csv", "noise.npz"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "crashed" / name).read_bytes(), name
    with open(tmp_path / "whole" / "skipped.csv", newline="") as file:
        rows = list(csv.reader(file))
    assert [row[0].rsplit("/", 2)[1:] for row in rows[1:]] == [["cat", "0.mp4"], ["dog", "3.mp4"]]
    noise = np.load(tmp_path / "whole" / "noise.npz", allow_pickle=False)
    assert noise["partner_hit"].sum() == 4 and noise["partner"].shape == (10,)
    capsys.readouterr()
    assert cli.main(["evaluate", str(tmp_path / "whole")]) == 0
    shown = capsys.readouterr().out
    assert "recall@1" in shown and "AUC" in shown


def test_more_than_half_bad_is_one_line(config, tmp_path, capsys):
    for i in range(6):
        (tmp_path / "bad").mkdir(exist_ok=True)
        (tmp_path / "bad" / f"{i}.mp4").write_text("x")
    options = ["--data.root", str(tmp_path / "bad"), "--data.noise", "null", "--out", str(tmp_path)]
    assert cli.main(["train", str(config), "--name", "a", *options]) == 2
    error = capsys.readouterr().err
    assert "more than half of the videos cannot be used" in error and error.count("\n") == 1
