"""Batches of clips and sounds: full, repeatable, and honest about the files that could not be used."""

import csv
import multiprocessing
import shutil
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from films import film
from rince.data.acav100m import ACAV100M
from rince.data.hmdb51 import HMDB51
from rince.data.kinetics400 import Kinetics400
from rince.data.ucf101 import UCF101
from rince.data.videos import Videos
from rince.noise.sounds import Overdub, Shift, Silence
from rince.views.clip import ClipRecipe
from rince.views.pair import PairViews
from rince.views.sound import SoundRecipe

COUNT = 12


def tone_of(number):
    return 500 + 250 * number


def hum(number):
    """A tone that tells the video, louder and louder, so that it tells the moment too."""
    return lambda t: (0.1 + 0.2 * t) * np.sin(2 * np.pi * tone_of(number) * t)


def fade(number):
    """Grey that tells the moment."""

    def picture(i, t):
        array = np.zeros((36, 48, 3), dtype=np.uint8)
        array[:] = 40 + 50 * t
        return array

    return picture


@pytest.fixture(scope="session")
def films(tmp_path_factory):
    folder = tmp_path_factory.mktemp("films")
    for i in range(COUNT):
        path = folder / f"{i:02}.{'mp4' if i % 2 else 'avi'}"
        codecs = {"audio": "aac"} if i % 2 else {"video": "mpeg4", "audio": "pcm_s16le"}
        film(path, seconds=2.5, size=(48, 36), picture=fade(i), sound=hum(i), rate=24000, **codecs)
    return folder


@pytest.fixture
def root(films, tmp_path):
    """``train/CLASS/`` with twelve videos in two classes and ``val/CLASS/`` with four of them."""
    for i, path in enumerate(sorted(films.iterdir())):
        for part in ("train", "val")[: 2 if i < 4 else 1]:
            target = tmp_path / "data" / part / ("cat", "dog")[i % 2] / path.name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)
    return tmp_path / "data"


def videos(root, **options):
    return Videos(str(root), **{"size": 16, "batch_size": 4, "workers": 0, "num_frames": 4, **options})


def equal(first, second):
    return all(torch.equal(a, b) for a, b in zip(first[:-1], second[:-1], strict=True))


def trainer(seen=0, rank=0, processes=1):
    method = SimpleNamespace(batches_seen=lambda: seen)
    return SimpleNamespace(lightning_module=method, global_rank=rank, world_size=processes)


def heard(sound, rate=24000):
    """The number of the video whose tone is heard."""
    loudest = np.abs(np.fft.rfft(sound.numpy())).argmax() * rate / len(sound)
    return round((loudest - 500) / 250)


def moment(sound):
    """When the middle of a sound was, from how loud it is."""
    return (float(sound[24000 - 600 : 24000 + 600].square().mean().sqrt()) * 2**0.5 - 0.1) / 0.2


def number(data, item, part="train"):
    return int(data.videos(part).paths[item].rsplit("/", 1)[-1][:2])


def damage(root):
    """Break a truncated, an empty, a text, a sound-only, a mute and a short file into the training part."""
    files = sorted((root / "train").rglob("*.mp4"))
    content = files[0].read_bytes()
    files[0].write_bytes(content[: len(content) // 2])
    files[1].write_bytes(b"")
    files[2].write_text("not a video")
    film(files[3], video=None)
    film(files[4], audio=None)
    return {str(path): path for path in files[:5]}


def read_table(path):
    with open(path, newline="") as file:
        return list(csv.reader(file))


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


def test_a_resumed_run_goes_on_with_the_very_next_batch_and_processes_share_it(root):
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


@pytest.mark.parametrize("workers", [0, 2])
def test_bad_files_are_replaced_and_listed_and_every_batch_is_full(root, tmp_path, workers):
    bad = damage(root)
    data = videos(root, workers=workers)
    data.folder = tmp_path / "run"
    with pytest.warns(UserWarning, match=r"5 videos could not be used; .*skipped\.csv says why"):
        batches = list(data.train_dataloader())
    assert [batch.a.shape[0] for batch in batches] == [4, 4, 4]
    used = {data.videos("train").paths[i] for batch in batches for i in batch.ids}
    assert len(used) <= 7 and not used & set(bad)
    for batch in batches:
        assert all(label == number(data, item) % 2 for label, item in zip(batch.labels, batch.ids, strict=True))
        assert all(heard(sound) == number(data, item) for sound, item in zip(batch.b, batch.ids, strict=True))
    table = read_table(tmp_path / "run" / "skipped.csv")
    assert table[0] == ["path", "reason"] and [row[0] for row in table[1:]] == sorted(bad)
    reasons = [row[1] for row in table[1:]]
    assert reasons[3] == "has no pictures that can be decoded" and reasons[4] == "has no sound"
    assert all(reason.startswith("does not decode as a video") for reason in reasons[:3])
    again = videos(root, workers=2 - workers)
    with pytest.warns(UserWarning, match="5 videos"):
        assert all(equal(a, b) for a, b in zip(batches, again.train_dataloader(), strict=True))


def test_without_sound_a_mute_video_is_as_good_as_any(root):
    bad = damage(root)
    data = videos(root, sound=False)
    with pytest.warns(UserWarning, match="4 videos could not be used"):
        batches = list(data.train_dataloader())
    mute = data.videos("train").paths.index(sorted(bad)[4])
    assert batches[0].clips.shape == (4, 4, 16, 16, 3) and mute in torch.cat([b.ids for b in batches])


def test_more_than_half_bad_is_an_error_of_one_sentence(root, tmp_path):
    damage(root)
    for path in sorted((root / "train" / "cat").iterdir())[:2]:
        path.write_bytes(b"")
    data = videos(root)
    data.folder = tmp_path / "run"
    sentence = (
        r"more than half of the videos cannot be used, 7 of the \d+ that were tried: the first is .* lists them\)$"
    )
    with pytest.raises(ValueError, match=sentence) as caught:
        list(data.train_dataloader())
    assert "\n" not in str(caught.value) and len(read_table(tmp_path / "run" / "skipped.csv")) == 8


@pytest.mark.parametrize("workers", [0, 1])
def test_nothing_but_bad_files_ends_at_once(tmp_path, workers):
    for i in range(300):
        (tmp_path / f"{i}.mp4").write_text("x")
    with pytest.raises(ValueError, match="more than half of the videos cannot be used"):
        next(iter(videos(tmp_path, workers=workers).train_dataloader()))


def test_the_list_of_skipped_files_grows_over_runs_and_joins_processes(root, tmp_path):
    bad = damage(root)
    for rank in (1, 0):
        data = videos(root)
        data.folder, data.trainer = tmp_path / "run", trainer(rank=rank, processes=2)
        with pytest.warns(UserWarning, match="could not be used"):
            list(data.train_dataloader())
        data.teardown()
    assert [row[0] for row in read_table(tmp_path / "run" / "skipped.csv")[1:]] == sorted(bad)


def test_the_test_part_gives_clips_evenly_spaced_and_leaves_bad_videos_out(root):
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


def test_with_folders_for_both_val_is_for_validation_and_test_for_tests(root):
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
    with pytest.raises(ValueError, match=r"data\.sample_rate is 8000, that of SoundRecipe is 24000"):
        data.check_views(PairViews(good.a, SoundRecipe()))


def test_official_lists_take_no_tables(tmp_path):
    for kind in (UCF101, HMDB51):
        with pytest.raises(ValueError, match=f"{kind.__name__} has lists of its own: leave out table"):
            kind(str(tmp_path), table="a.csv")
    with pytest.raises(ValueError, match="leave out test_table"):
        ACAV100M(str(tmp_path), "a.txt", test_table="b.csv")


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


def test_a_table_names_paths_labels_and_starts(films, tmp_path):
    rows = [(path.name, ("b", "a")[i % 2], "1.5" if i % 2 else "") for i, path in enumerate(sorted(films.iterdir()))]
    with open(tmp_path / "list.csv", "w", newline="") as file:
        csv.writer(file).writerows([("path", "label", "start"), *rows])
    options = {"table": str(tmp_path / "list.csv"), "test_table": str(tmp_path / "list.csv"), "validation": 0.25}
    data = videos(films, crop=(1.0, 1.0), batch_size=3, **options)
    assert data.class_names == () and data.classes == 2 and data.class_names == ("a", "b")
    assert [len(data.videos(part).paths) for part in ("train", "validation", "test")] == [9, 3, 12]
    assert not set(data.videos("train").paths) & set(data.videos("validation").paths)
    for batch in data.train_dataloader():
        for clip, label in zip(batch.a, batch.labels, strict=True):
            assert label == 1 or abs(float(clip[0].float().mean()) - (40 + 50 * 1.5)) < 4
    assert next(iter(data.val_dataloader())).b.shape == (3, 48000)
    (tmp_path / "list.csv").write_text("file,label\na.mp4,b\n")
    with pytest.raises(ValueError, match=r"list\.csv has no column 'path'"):
        videos(films, **options).setup()
    for start in ("soon", "inf", "-1"):
        (tmp_path / "list.csv").write_text(f"path,start\na.mp4,{start}\n")
        with pytest.raises(ValueError, match=f"line 2: start must be seconds from 0 on, got '{start}'"):
            videos(films, **options).setup()


def test_a_label_of_minus_one_or_none_is_unknown_and_numbers_are_in_their_order(films, tmp_path):
    labels = ["10", "2", "-1", "", " 2 "]
    lines = [f"{path.name},{label}\n" for path, label in zip(sorted(films.iterdir()), labels, strict=False)]
    (tmp_path / "list.csv").write_text("path,label\n" + "".join(lines))
    data = videos(films, table=str(tmp_path / "list.csv"))
    assert data.classes == 2 and data.class_names == ("2", "10")
    assert data.videos("train").labels.tolist() == [1, 0, -1, -1, 0]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"size": 0}, "size must be at least 1"),
        ({"fps": 0}, "fps must be above 0"),
        ({"clips": 3}, "multiple of clips, 3, and hold two videos or more, got 4"),
        ({"clips": 4}, "multiple of clips, 4, and hold two videos or more, got 4"),
        ({"crop": (0.5, 0.2)}, "0 < least <= largest <= 1"),
        ({"validation": 1.0}, r"in \[0, 1\)"),
        ({"noise": Silence(0.5), "sound": False}, "needs sound: true"),
    ],
)
def test_wrong_options_are_told_at_the_door(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        videos(".", **options)


def test_ucf101_follows_the_official_lists(films, tmp_path):
    paths = sorted(films.iterdir())
    names = ["Archery", "ApplyEyeMakeup"]
    for i, path in enumerate(paths):
        (tmp_path / "UCF-101" / names[i % 2]).mkdir(parents=True, exist_ok=True)
        shutil.copy(path, tmp_path / "UCF-101" / names[i % 2] / path.name)
    lists = tmp_path / "ucfTrainTestlist"
    lists.mkdir()
    (lists / "classInd.txt").write_text("1 ApplyEyeMakeup\r\n2 Archery\r\n")
    files = [f"{names[i % 2]}/{path.name}" for i, path in enumerate(paths)]
    (lists / "trainlist02.txt").write_text("".join(f"{f} {2 - i % 2}\r\n" for i, f in enumerate(files[:8])))
    (lists / "testlist02.txt").write_text("".join(f"{f}\r\n" for f in files[8:]))
    data = UCF101(str(tmp_path / "UCF-101"), split=2, size=16, num_frames=48, batch_size=4, workers=0, test_clips=2)
    batches = list(data.train_dataloader())  # 3 s of videos that last 2.5: they are looped
    assert [b.clips.shape for b in batches] == [(4, 48, 16, 16, 3)] * 2
    assert data.class_names == ("ApplyEyeMakeup", "Archery")
    for batch in batches:
        assert all(label == 1 - number(data, i) % 2 for label, i in zip(batch.labels, batch.ids, strict=True))
    assert [number(data, i, "test") for i in range(4)] == [8, 9, 10, 11]
    with pytest.raises(FileNotFoundError, match=r"trainlist01\.txt, one of the official lists"):
        UCF101(str(tmp_path / "UCF-101")).setup()
    with pytest.raises(FileNotFoundError, match="with the official splits"):
        UCF101(str(tmp_path / "UCF-101" / "Archery")).setup()
    (lists / "classInd.txt").write_text("1 ApplyEyeMakeup\nsomething else here\n")
    with pytest.raises(ValueError, match=r"classInd\.txt must have a number and a name on every line, got 'something"):
        UCF101(str(tmp_path / "UCF-101"), split=2).setup()


def test_hmdb51_follows_the_official_lists(films, tmp_path):
    paths = sorted(films.iterdir())
    lists = tmp_path / "testTrainMulti_7030_splits"
    lists.mkdir()
    for name, use in (("wave", "1201"), ("brush_hair", "1120")):
        (tmp_path / name).mkdir()
        for path in paths[:4]:
            shutil.copy(path, tmp_path / name)
        lines = "".join(f"{path.name} {u} \n" for path, u in zip(paths[:4], use, strict=True))
        (lists / f"{name}_test_split3.txt").write_text(lines)
    data = HMDB51(str(tmp_path), split=3)
    data.setup()
    assert data.class_names == ("brush_hair", "wave")
    listed = {part: [path.split("/")[-2:] for path in data.videos(part).paths] for part in ("train", "test")}
    assert listed["train"] == [
        ["brush_hair", "00.avi"],
        ["brush_hair", "01.mp4"],
        ["wave", "00.avi"],
        ["wave", "03.mp4"],
    ]
    assert listed["test"] == [["brush_hair", "02.avi"], ["wave", "01.mp4"]]
    assert data.videos("train").labels.tolist() == [0, 0, 1, 1]
    with pytest.raises(FileNotFoundError, match=r"holds no lists named CLASS_test_split1\.txt"):
        HMDB51(str(tmp_path)).setup()


def test_kinetics_has_train_and_val_and_other_classes_there_are_told(root):
    data = Kinetics400(str(root))
    assert data.classes == 2 and len(data.videos("test").paths) == 4
    shutil.copytree(root / "val" / "cat", root / "val" / "emu")
    with pytest.raises(ValueError, match="emu is in one only"):
        Kinetics400(str(root)).setup()
    with pytest.raises(FileNotFoundError, match="train"):
        Kinetics400(str(root / "val")).setup()


def test_acav100m_draws_nested_subsets_by_seed(tmp_path):
    (tmp_path / "list.txt").write_text("".join(f"{i}.mp4\n" for i in range(1000)))

    def subset(size, seed=0):
        data = ACAV100M(str(tmp_path), str(tmp_path / "list.txt"), subset=size, subset_seed=seed)
        return data.videos("train").paths

    assert len(subset(None)) == 1000 and len(subset(100)) == 100 and subset(100) == subset(100)
    assert set(subset(100)) < set(subset(300)) and subset(100) != subset(100, seed=1)
    with pytest.raises(ValueError, match="at most the 1000 videos"):
        subset(1001)
    (tmp_path / "list.txt").write_text("path,start\na.mp4,3\n")
    assert ACAV100M(str(tmp_path), str(tmp_path / "list.txt")).videos("train").starts.tolist() == [3.0]


def test_real_videos_make_batches_of_the_protocol(real_data):
    data = Videos(str(real_data("video")), batch_size=4, workers=0)
    with pytest.raises(ValueError, match="more than half"):
        list(data.train_dataloader())  # five of the eight files have no sound
    data = Videos(str(real_data("video")), batch_size=4, workers=0, sound=False)
    batches = list(data.train_dataloader())
    assert [b.clips.shape for b in batches] == [(4, 8, 224, 224, 3)] * 2
