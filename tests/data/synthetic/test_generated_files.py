import hashlib

import numpy as np
import pytest

from rince.data.synthetic import generated_files
from rince.data.synthetic.generated_files import answers_of, encode, write_videos
from rince.data.synthetic.moving_shapes import CLASSES, FPS, SAMPLE_RATE, draw_scene, pictures, sound

av = pytest.importorskip("av")


def digest(folder):
    paths = sorted(p for p in folder.rglob("*") if p.is_file())
    return hashlib.sha256(b"".join(p.read_bytes() for p in paths)).hexdigest(), len(paths)


def test_a_set_is_complete_and_made_once(tmp_path, monkeypatch):
    folder = write_videos(tmp_path, 16, 8, seed=3, size=32)
    assert len(list(folder.glob("train/*/*.mp4"))) == 16 and len(list(folder.glob("test/*/*.mp4"))) == 8
    assert sorted(p.name for p in (folder / "train").iterdir()) == sorted(CLASSES)
    rows = answers_of(folder)
    assert [row["class"] for row in rows[:8]] == list(CLASSES) and all((folder / row["file"]).exists() for row in rows)
    monkeypatch.setattr(generated_files, "encode", None)  # nothing is drawn the second time
    assert write_videos(tmp_path, 16, 8, seed=3, size=32) == folder
    assert [p.name for p in tmp_path.iterdir()] == [folder.name]


def test_the_same_seed_gives_the_same_files_and_another_one_others(tmp_path):
    a = write_videos(tmp_path / "a", 8, 8, seed=1, size=32)
    assert digest(a) == digest(write_videos(tmp_path / "b", 8, 8, seed=1, size=32))
    assert digest(a)[0] != digest(write_videos(tmp_path / "a", 8, 8, seed=2, size=32))[0]


def test_more_training_videos_leave_the_others_as_they_are(tmp_path):
    few, many = write_videos(tmp_path, 8, 8, size=32), write_videos(tmp_path, 16, 8, size=32)
    for name in ("train/orbit-disc/0000.mp4", "test/slide-cross/0000.mp4"):
        assert (few / name).read_bytes() == (many / name).read_bytes()


def test_an_interrupted_set_leaves_nothing_behind(tmp_path, monkeypatch):
    real, calls = generated_files.encode, []

    def fail(*arguments):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        real(*arguments)

    monkeypatch.setattr(generated_files, "encode", fail)
    with pytest.raises(KeyboardInterrupt):
        write_videos(tmp_path, 8, 8, size=32)
    assert list(tmp_path.iterdir()) == []


def test_a_changed_set_is_refused_and_left_alone(tmp_path):
    folder = write_videos(tmp_path, 8, 8, size=32)
    victim = folder / "test" / "orbit-disc" / "0000.mp4"
    victim.write_bytes(victim.read_bytes()[:-20])
    with pytest.raises(ValueError, match="have been changed: delete the folder"):
        write_videos(tmp_path, 8, 8, size=32)
    (folder / "whole.json").unlink()
    with pytest.raises(ValueError, match="have been changed"):
        write_videos(tmp_path, 8, 8, size=32)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"train": 12, "test": 8}, "train must be a multiple of the 8 classes, got 12"),
        ({"train": 8, "test": 0}, "test must be a multiple of the 8 classes, got 0"),
        ({"train": 8, "test": 8, "size": 33}, "size must be an even number of at least 16 pixels, got 33"),
    ],
)
def test_bad_settings_are_refused(tmp_path, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        write_videos(tmp_path, **settings)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("codec", ["libx264", "mpeg4"])
def test_a_file_holds_the_pictures_and_the_sound_in_time(tmp_path, monkeypatch, codec):
    monkeypatch.setattr(generated_files, "_video_codec", lambda av: codec)
    scene = draw_scene(CLASSES.index("bounce-cross"), np.random.default_rng(1))._replace(loudness=0.8)
    shown, heard = pictures(scene), sound(scene)
    encode(tmp_path / "a.mp4", shown, heard)
    with av.open(str(tmp_path / "a.mp4")) as container:
        assert container.streams.audio[0].codec_context.name == "aac"
        frames = list(container.decode(video=0))
    assert [round(float(f.time) * FPS) for f in frames] == list(range(len(shown)))
    found = np.stack([f.to_ndarray(format="rgb24") for f in frames]).astype(float)
    assert np.abs(found - shown).mean() < 8  # of 255; colours are stored at half the resolution
    with av.open(str(tmp_path / "a.mp4")) as container:
        parts = [(float(f.time), f.to_ndarray().reshape(-1)) for f in container.decode(audio=0)]
    samples = np.concatenate([part for _, part in parts])
    samples = samples[round(max(0.0, -parts[0][0]) * SAMPLE_RATE) :][: len(heard)]
    lags = range(-480, 481, 4)  # 20 ms
    best = max(lags, key=lambda lag: np.dot(np.roll(samples, -lag)[:60000], heard[:60000]))
    assert abs(best) <= 240  # 10 ms
    assert np.corrcoef(np.roll(samples, -best)[1000:60000], heard[1000:60000])[0, 1] > 0.95
