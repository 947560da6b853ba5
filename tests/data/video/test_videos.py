"""Batches of clips and sounds: full, repeatable, and of the right moments."""

import multiprocessing
import shutil

import numpy as np
import pytest
import torch

from rince.data.video.clips import ClipFormat, TrainingClips, video_list
from rince.data.video.videos import Videos
from rince.noise.pairs import Overdub, Shift, Silence
from rince.views.pair import ClipRecipe, PairViews, SoundRecipe
from support.video.films import film
from support.video.hums import COUNT, damage, equal, fade, heard, moment, number, trainer, videos


def test_a_batch_pairs_clips_with_the_sound_of_the_same_moment(root):
    data = videos(root)
    batches = list(data.train_dataloader())
    assert len(batches) == len(data.train_dataloader()) == 3
    assert sorted(torch.cat([b.ids for b in batches]).tolist()) == list(range(COUNT))
    for batch in batches:
        assert batch.a.shape == (4, 4, 16, 16, 3) and batch.a.dtype == torch.uint8 and batch.cropped
        assert batch.b.shape == (4, 48000) and batch.b.dtype == torch.float32
        for clip, sound, label, item in zip(*batch[:4], strict=True):
            assert heard(sound) == number(data, item) and label == number(data, item) % 2
            middle = (float(clip.float().mean()) - 40) / 50 + 0.5 / 16  # frames 0 to 3 of 16 a second
            assert abs(moment(sound) - middle) < 0.1
    assert data.class_names == ("cat", "dog") and data.classes == 2 and data.noise_record() == {}


def test_workers_change_nothing_and_neither_does_asking_again(root):
    with_workers = videos(root, workers=2, clips=2).train_dataloader()
    alone = list(videos(root, clips=2).train_dataloader())
    first, second = list(with_workers), list(with_workers)
    assert len(first) == 6 and all(equal(a, b) and equal(a, c) for a, b, c in zip(alone, first, second, strict=True))
    other = videos(root, clips=2)
    other.seed = 1
    assert not equal(alone[0], next(iter(other.train_dataloader())))


def test_resumed_sampler_continues_with_the_next_batch_on_all_ranks(root):
    data = videos(root)
    whole = list(data.train_dataloader())
    data.trainer = trainer(seen=1)
    assert all(equal(a, b) for a, b in zip(whole[1:], data.train_dataloader(), strict=True))
    data.trainer = trainer(seen=3)
    assert not equal(whole[0], next(iter(data.train_dataloader())))  # another epoch, another order
    for rank in (0, 1):
        data.trainer = trainer(rank=rank, processes=2)
        part = next(iter(data.train_dataloader()))
        assert torch.equal(part.a, whole[0].a[2 * rank : 2 * rank + 2])
        assert torch.equal(part.b, whole[0].b[2 * rank : 2 * rank + 2])


def test_several_clips_a_visit_share_the_video_and_not_the_moment(root):
    for batch in videos(root, clips=2).train_dataloader():
        assert batch.ids[0] == batch.ids[1] and batch.ids[2] == batch.ids[3] and batch.ids[0] != batch.ids[2]
        assert not torch.equal(batch.b[0], batch.b[1]) and heard(batch.b[0]) == heard(batch.b[1])


def test_the_workers_of_training_stay_between_epochs_and_go_with_it(root):
    data = videos(root, workers=1, sound=False)
    loader, before = data.train_dataloader(), set(multiprocessing.active_children())
    list(loader)
    (worker,) = set(multiprocessing.active_children()) - before
    list(loader)
    assert set(multiprocessing.active_children()) - before == {worker}
    data.teardown("fit")
    worker.join(20)
    assert not worker.is_alive()


def test_test_clips_are_evenly_spaced_and_skip_bad_videos(root):
    sorted((root / "val").rglob("*.mp4"))[0].write_bytes(b"")
    data = videos(root, test_clips=5, batch_size=10, sound=False)
    with pytest.warns(UserWarning, match="1 videos could not be used"):
        batches = list(data.test_dataloader())
    assert [tuple(b.clips.shape) for b in batches] == [(10, 4, 16, 16, 3), (5, 4, 16, 16, 3)]
    assert batches[0].ids.tolist() == [0] * 5 + [1] * 5 and batches[1].labels.tolist() == [1] * 5
    moments = (batches[0].clips[:5].float().mean((1, 2, 3, 4)) - 40) / 50
    assert np.allclose(np.diff(moments), (2.5 - 0.25) / 4, atol=0.06) and not batches[0].cropped


def test_a_test_hears_sounds_where_training_does(root):
    data = videos(root, test_clips=2, batch_size=10)
    (batch,) = data.test_dataloader()
    assert batch.a.shape == (8, 4, 16, 16, 3) and batch.b.shape == (8, 48000) and batch.b.abs().amax(1).min() > 0


def test_val_and_test_folders(root):
    shutil.copytree(root / "val", root / "test")
    sorted((root / "test").rglob("*.mp4"))[0].unlink()
    data = videos(root)
    assert {part: len(data.videos(part).paths) for part in ("validation", "test")} == {"validation": 4, "test": 3}
    with pytest.raises(ValueError, match="has a validation part of its own"):
        videos(root, validation=0.5).setup()


def test_views_must_fit_the_data(root):
    data = videos(root, size=16, sample_rate=8000)
    good = PairViews(ClipRecipe(size=16), SoundRecipe(sample_rate=8000, window=128))
    data.check_views(good)
    with pytest.raises(ValueError, match=r"data\.size is 16, that of ClipRecipe is 32"):
        data.check_views(PairViews(ClipRecipe(size=32), good.b))
    with pytest.raises(ValueError, match=r"sample_rate is 8000.* 24000"):
        data.check_views(PairViews(good.a, SoundRecipe()))


def test_evaluation_sees_the_middle_of_picture_and_video(films, tmp_path):
    def target(i, t):
        array = np.full((48, 64, 3), 30, dtype=np.uint8)
        array[3:45, 11:53] = 200 if 1.0 <= t < 1.5 else 120  # 42 = 48 * 0.875 pixels
        return array

    (tmp_path / "train").mkdir()
    film(tmp_path / "train" / "a.mp4", seconds=2.5, picture=target)
    data = videos(tmp_path, num_frames=8, size=21)
    (middle,) = data.evaluation_loader("train")
    clips, labels = middle.clips, middle.labels
    assert clips.shape == (1, 8, 21, 21, 3) and labels.tolist() == [-1] and clips[:, :, 1:-1, 1:-1].min() > 170
    (pairs,) = data.pair_batches("train")
    assert torch.equal(pairs.a, clips) and pairs.b.shape == (1, 48000)
    with pytest.raises(ValueError, match="there is no part 'test'"):
        data.test_dataloader()


def test_short_videos_are_skipped_held_or_looped(root):
    short = sorted((root / "train" / "dog").iterdir())[0]
    film(short, seconds=0.5, size=(48, 36), picture=fade(0))
    common = {"num_frames": 16, "crop": (1.0, 1.0), "ratio": (4 / 3, 4 / 3), "sound": False}
    with pytest.warns(UserWarning, match="1 videos could not be used"):
        list(videos(root, **common).train_dataloader())
    for kind in ("hold", "loop"):
        data = videos(root, short=kind, **common)
        found = {int(i): clip for b in data.train_dataloader() for i, clip in zip(b.ids, b.clips, strict=True)}
        clip = found[data.videos("train").paths.index(str(short))].float().mean((1, 2, 3))
        assert abs(float(clip[15] - clip[7])) < 4 and (kind == "loop") == (float(clip[7] - clip[8]) > 10)
        assert not data.skipped.reasons


def test_a_header_that_promises_too_much_costs_no_video(root):
    path = sorted((root / "train" / "dog").iterdir())[0]
    film(path, seconds=1.0, size=(48, 36))
    film(path.with_suffix(".mkv"), seconds=6.0, fps=30, times=np.arange(0, 1, 1 / 30), size=(48, 36), rate=24000)
    path.unlink()
    data = videos(root)
    assert len(list(data.train_dataloader())) == 3 and not data.skipped.reasons


def test_overdubbed_videos_have_the_sound_of_their_partner(root):
    data = videos(root, noise=Overdub(0.5, seed=3))
    batches = list(data.train_dataloader())
    record = data.noise_record()
    assert record["partner_hit"].sum() == 6 and len(str(record["sha256"])) == 64
    clean = {int(i): b.a[k] for b in videos(root).train_dataloader() for k, i in enumerate(b.ids)}
    for batch in batches:
        for clip, sound, item in zip(batch.a, batch.b, batch.ids.tolist(), strict=True):
            assert heard(sound) == number(data, record["partner"][item])
            assert (heard(sound) != number(data, item)) == record["partner_hit"][item]
            assert torch.equal(clip, clean[item])  # the pictures are left alone
    for batch in data.pair_batches("train", noisy=True):
        assert [heard(sound) for sound in batch.b] == [number(data, record["partner"][i]) for i in batch.ids]
    for batch in data.pair_batches("train"):
        assert [heard(sound) for sound in batch.b] == [number(data, i) for i in batch.ids]


def test_shifted_and_silenced_sounds_are_what_the_record_says(root):
    shifted, silent = videos(root, noise=Shift(0.5, 0.3, 0.4)), videos(root, noise=Silence(0.5, seed=1))
    for clean, late, mute in zip(*(d.train_dataloader() for d in (videos(root), shifted, silent)), strict=True):
        for k, item in enumerate(clean.ids.tolist()):
            moved = moment(late.b[k]) - moment(clean.b[k])
            assert abs(moved - shifted.noise_record()["shift"][item]) < 0.03 or not 0.05 < moment(late.b[k]) < 2.45
            assert bool(mute.b[k].any()) != silent.noise_record()["partner_hit"][item]


def test_a_partner_without_sound_is_replaced_too(root, tmp_path):
    damage(root)
    data = videos(root, noise=Overdub(1.0))
    with pytest.warns(UserWarning, match="5 videos"):
        for batch in data.train_dataloader():
            assert all(heard(s) != number(data, i) for s, i in zip(batch.b, batch.ids, strict=True))


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"ratio": (0, 1)}, "ratio must be"),
        ({"clips": 3}, "multiple of clips, 3, and hold at least two videos, got 4"),
        ({"clips": 4}, "multiple of clips, 4, and hold at least two videos, got 4"),
        ({"crop": (0.5, 0.2)}, "crop must be"),
        ({"validation": 1.0}, r"in \[0, 1\)"),
        ({"noise": Silence(0.5), "sound": False}, "needs sound: true"),
    ],
)
def test_wrong_options_are_told_at_the_door(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        videos(".", **options)


def test_real_videos_make_batches_of_the_protocol(real_data):
    data = Videos(str(real_data("video")), batch_size=4, workers=0)
    with pytest.raises(ValueError, match="more than half"):
        list(data.train_dataloader())  # five of the eight files have no sound
    data = Videos(str(real_data("video")), batch_size=4, workers=0, sound=False)
    batches = list(data.train_dataloader())
    assert [b.clips.shape for b in batches] == [(4, 8, 224, 224, 3)] * 2


def test_sound_is_centered_on_the_clip_or_lies_anywhere_around_it(root, monkeypatch):
    from rince.data.video import decode

    shifts = []

    def sounds(self, middles, duration, sample_rate):
        shifts.extend(zip(self.path_starts, middles, strict=True))
        return real(self, middles, duration, sample_rate)

    real = decode.VideoFile.sounds
    real_clips = decode.VideoFile.clips

    def clips(self, starts, num_frames, fps, *rest):
        self.path_starts = [start + num_frames / fps / 2 for start in starts]
        return real_clips(self, starts, num_frames, fps, *rest)

    monkeypatch.setattr(decode.VideoFile, "sounds", sounds)
    monkeypatch.setattr(decode.VideoFile, "clips", clips)
    found = {}
    for position in ("centered", "anywhere"):
        data = Videos(str(root), num_frames=4, size=32, batch_size=4, workers=0, clips=2, audio_position=position,
                      audio_duration=1.0)  # fmt: skip
        shifts.clear()
        first = [batch.b for batch in data.train_dataloader()]
        again = [batch.b for batch in data.train_dataloader()]
        assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
        found[position] = [middle - clip for clip, middle in shifts]
    assert set(found["centered"]) == {0.0}
    # Half of 1 s of sound less 0.25 s of clip, and half a second; never beyond the file.
    assert len(set(found["anywhere"])) > 4 and max(map(abs, found["anywhere"])) <= 0.375 + 0.5


def test_clip_position_is_uniform_as_in_avid():
    form = ClipFormat(num_frames=8, fps=16, audio_duration=2.0, centered=False)  # 0.5 s of frames in 2 s of sound
    reader = TrainingClips(video_list(["a.mp4"]), form, (0.08, 1.0), (3 / 4, 4 / 3), count=4000, seed=0)
    shifts = np.array(reader.sound_shifts((0, 5)))
    assert np.abs(shifts).max() <= 1.25
    assert np.abs(np.histogram(shifts, 5, (-1.25, 1.25))[0] / 4000 - 0.2).max() < 0.03
