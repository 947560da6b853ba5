import shutil

import pytest

from rince.data.video.videos import ACAV100M, HMDB51, UCF101
from support.video.hums import number


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
    with pytest.raises(ValueError, match=r"classInd\.txt .* got 'something"):
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


def test_official_lists_take_no_tables(tmp_path):
    for kind in (UCF101, HMDB51):
        with pytest.raises(ValueError, match=f"{kind.__name__} has lists of its own: leave out table"):
            kind(str(tmp_path), table="a.csv")
    with pytest.raises(ValueError, match="leave out test_table"):
        ACAV100M(str(tmp_path), "a.txt", test_table="b.csv")
