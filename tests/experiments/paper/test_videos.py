"""Generated videos: what they show, their files, and the data module."""

import hashlib

import numpy as np
import pytest

from experiments.paper.video import videos
from experiments.paper.video.videos import (
    CLASSES,
    FPS,
    SAMPLE_RATE,
    GeneratedVideo,
    answers_of,
    draw_scene,
    encode,
    pictures,
    sound,
    write_videos,
)

av = pytest.importorskip("av")


def scene(name, number=0, **changes):
    found = draw_scene(CLASSES.index(name), np.random.default_rng((7, number)))
    return found._replace(**changes)


def center_of(frames, background):
    """Where the moving shape is in every frame, in shares of the side: (frames, 2) as x, y."""
    size = frames.shape[1]
    weight = np.abs(frames.astype(float) - background).sum(3)
    weight = np.where(weight > 120, weight, 0)
    axis = (np.arange(size) + 0.5) / size
    total = weight.sum((1, 2))
    return np.stack([(weight * axis).sum((1, 2)), (weight * axis[:, None]).sum((1, 2))], 1) / total[:, None]


def plain(found):
    """Black on white with nothing else in the picture."""
    return found._replace(
        colors=np.array([[0.0] * 3, [1.0] * 3, [1.0] * 3]),
        distractor=("disc", 5.0, 5.0, 0.1),
        loudness=0.8,
        hiss=0.001,
    )


def test_the_same_draw_gives_the_same_bytes():
    for name in CLASSES:
        a, b = scene(name), scene(name)
        assert a.label == CLASSES.index(name)
        assert np.array_equal(pictures(a), pictures(b)) and np.array_equal(sound(a), sound(b))
        assert not np.array_equal(pictures(a), pictures(scene(name, 1)))


def test_shapes_of_pictures_and_sound():
    frames, samples = pictures(scene("orbit-disc"), 48, 2.0), sound(scene("orbit-disc"), 2.0)
    assert frames.shape == (32, 48, 48, 3) and frames.dtype == np.uint8
    assert samples.shape == (48000,) and samples.dtype == np.float32 and np.abs(samples).max() <= 1


@pytest.mark.parametrize("shape", ["disc", "cross"])
@pytest.mark.parametrize(("motion", "axis"), [("bounce", 1), ("slide", 0)])
def test_bounces_match_sound_onsets(motion, axis, shape):
    found = plain(scene(f"{motion}-{shape}", period=0.75))
    place = center_of(pictures(found), 255.0)[:, axis]
    middle = (place.max() + place.min()) / 2
    samples, hits = sound(found), found.hits()
    assert len(hits) >= (3 if motion == "bounce" else 7)
    for hit in hits[(hits > 0.1) & (hits < 2.8)]:
        here = round(hit * FPS)
        assert abs(place[here] - middle) > 0.7 * (place.max() - middle)  # at the end of its way
        at, short = round(hit * SAMPLE_RATE), SAMPLE_RATE // 50
        before, after = samples[at - short : at - 24], samples[at : at + short]
        assert np.square(after).mean() > 5 * np.square(before).mean()
    if motion == "bounce":  # the ground is below
        assert place[round(hits[1] * FPS)] > middle


def test_the_pitch_of_an_orbit_rises_and_falls_with_the_shape():
    found = plain(scene("orbit-disc", 3, period=0.75))
    height = -center_of(pictures(found), 255.0)[:, 1]
    samples = sound(found)
    crossings = np.diff(np.sign(samples)) != 0
    step = SAMPLE_RATE // FPS
    pitch = np.convolve(crossings, np.ones(step), "same")[::step][: len(height)]
    assert np.corrcoef(height[2:-2], pitch[2:-2])[0, 1] > 0.9


def test_a_pulse_is_loudest_when_it_is_largest():
    found = plain(scene("pulse-cross", 2, period=0.8))
    area = (pictures(found) < 100).mean((1, 2, 3))
    step = SAMPLE_RATE // FPS
    loud = np.convolve(np.square(sound(found)), np.ones(step), "same")[::step][: len(area)]
    assert np.corrcoef(area, loud)[0, 1] > 0.9


def test_a_cross_sounds_brighter_than_a_disc():
    def brightness(name):
        spectrum = np.abs(np.fft.rfft(sound(plain(scene(name, 4, pitch=300.0)))))
        return (spectrum * np.arange(len(spectrum))).sum() / spectrum.sum()

    for motion in ("bounce", "orbit", "pulse", "slide"):
        assert brightness(f"{motion}-cross") > 1.2 * brightness(f"{motion}-disc")


def test_colors_tell_nothing_of_the_class():
    import torch

    from rince.evaluate.probes import knn_accuracy

    labels = torch.arange(400) % len(CLASSES)
    scenes = [draw_scene(int(label), np.random.default_rng((9, i))) for i, label in enumerate(labels)]
    colors = torch.tensor(np.stack([pictures(s, 16, 1 / FPS).mean((0, 1, 2)) for s in scenes])).float()
    accuracy = knn_accuracy(colors[:300], labels[:300], colors[300:], labels[300:], k=10)
    assert accuracy < 0.25  # an eighth by chance


def digest(folder):
    paths = sorted(p for p in folder.rglob("*") if p.is_file())
    return hashlib.sha256(b"".join(p.read_bytes() for p in paths)).hexdigest(), len(paths)


def test_a_set_is_complete_and_made_once(tmp_path, monkeypatch):
    folder = write_videos(tmp_path, 16, 8, seed=3, size=32)
    assert len(list(folder.glob("train/*/*.mp4"))) == 16 and len(list(folder.glob("test/*/*.mp4"))) == 8
    assert sorted(p.name for p in (folder / "train").iterdir()) == sorted(CLASSES)
    rows = answers_of(folder)
    assert [row["class"] for row in rows[:8]] == list(CLASSES) and all((folder / row["file"]).exists() for row in rows)
    monkeypatch.setattr(videos, "encode", None)  # nothing is drawn the second time
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
    real, calls = videos.encode, []

    def fail(*arguments):
        calls.append(1)
        if len(calls) == 5:
            raise KeyboardInterrupt
        real(*arguments)

    monkeypatch.setattr(videos, "encode", fail)
    with pytest.raises(KeyboardInterrupt):
        write_videos(tmp_path, 8, 8, size=32)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"train": 12, "test": 8}, "train must be a multiple of the 8 classes, got 12"),
        ({"train": 8, "test": 0}, "test must be a multiple of the 8 classes, got 0"),
    ],
)
def test_bad_settings_are_refused(tmp_path, settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        write_videos(tmp_path, **settings)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("codec", ["libx264", "mpeg4"])
def test_a_file_holds_the_pictures_and_the_sound_in_time(tmp_path, monkeypatch, codec):
    monkeypatch.setattr(videos, "_video_codec", lambda av: codec)
    scene = draw_scene(CLASSES.index("bounce-cross"), np.random.default_rng(1))._replace(loudness=0.8)
    shown, heard = pictures(scene), sound(scene)
    encode(tmp_path / "a.mp4", shown, heard)
    with av.open(str(tmp_path / "a.mp4")) as container:
        assert container.streams.audio[0].codec_context.name == "aac"
        frames = list(container.decode(video=0))
    assert [round(float(f.time) * FPS) for f in frames] == list(range(len(shown)))
    found = np.stack([f.to_ndarray(format="rgb24") for f in frames]).astype(float)
    assert np.abs(found - shown).mean() < 8  # of 255; colors are stored at half the resolution
    with av.open(str(tmp_path / "a.mp4")) as container:
        parts = [(float(f.time), f.to_ndarray().reshape(-1)) for f in container.decode(audio=0)]
    samples = np.concatenate([part for _, part in parts])
    samples = samples[round(max(0.0, -parts[0][0]) * SAMPLE_RATE) :][: len(heard)]
    lags = range(-480, 481, 4)  # 20 ms
    best = max(lags, key=lambda lag: np.dot(np.roll(samples, -lag)[:60000], heard[:60000]))
    assert abs(best) <= 240  # 10 ms
    assert np.corrcoef(np.roll(samples, -best)[1000:60000], heard[1000:60000])[0, 1] > 0.95


def make(root, **options):
    return GeneratedVideo(str(root), **{"train": 16, "test": 8, "batch_size": 8, "workers": 0, **options})


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    return tmp_path_factory.mktemp("videos")


def test_it_trains_on_pairs_and_tests_on_several_clips_of_every_video(root):
    data = make(root, test_clips=3)
    assert data.classes == 8 and data.class_names == tuple(sorted(CLASSES))
    batches = list(data.train_dataloader())
    assert len(batches) == 2
    assert batches[0].a.shape == (8, 8, 32, 32, 3) and batches[0].b.shape == (8, 24000) and batches[0].cropped
    assert batches[0].b.abs().max() > 0.05
    tested = list(make(root, test_clips=3, sound=False).test_dataloader())
    ids = np.concatenate([batch.ids for batch in tested])
    assert sorted(ids.tolist()) == sorted(list(range(8)) * 3)
    assert {batch.clips.shape[1:] for batch in tested} == {(8, 32, 32, 3)}


def test_labels_are_those_of_the_answers(root):
    data = make(root, sound=False)
    videos = data.videos("train")
    for path, label in zip(videos.paths, videos.labels, strict=True):
        assert data.class_names[label] in path
    batch = next(iter(data.train_dataloader()))
    assert batch.labels.tolist() == videos.labels[batch.ids].tolist()


def test_few_videos_of_each_class_are_drawn_by_the_seed(root):
    def chosen(seed):
        data = make(root, per_class=1, batch_size=8)
        data.seed = seed
        videos = data.videos("train")
        assert sorted(videos.labels.tolist()) == list(range(8)) and len(data.videos("test").paths) == 8
        return videos.paths

    assert chosen(0) == chosen(0) and len({tuple(chosen(seed)) for seed in range(4)}) > 1


def test_other_numbers_of_frames(root):
    assert next(iter(make(root, num_frames=32, sound=False).train_dataloader())).clips.shape == (8, 32, 32, 32, 3)


def test_more_videos_per_class_than_there_are_is_refused(root):
    with pytest.raises(ValueError, match=r"per_class .* 2 .* got 3"):
        make(root, per_class=3)
    with pytest.raises(ValueError, match=r"train .* 8 classes, got 20"):
        make(root, train=20).prepare_data()
