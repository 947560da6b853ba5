import pytest
import torch

from support.video.hums import damage, equal, heard, number, read_table, trainer, videos


@pytest.mark.parametrize("workers", [0, 2])
def test_bad_files_are_replaced_and_listed_and_every_batch_is_full(root, tmp_path, workers):
    bad = damage(root)
    data = videos(root, workers=workers)
    data.folder = tmp_path / "run"
    with pytest.warns(UserWarning, match=r"5 videos .*skipped\.csv"):
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
