import csv

import pytest

from support.video.hums import videos


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
    for start in ("soon", "1:30"):
        (tmp_path / "list.csv").write_text(f"path,start\na.mp4,{start}\n")
        with pytest.raises(ValueError, match=f"line 2: start must be seconds from 0 on, got '{start}'"):
            videos(films, **options).setup()


def test_labels_of_minus_one_or_none_are_unknown(films, tmp_path):
    labels = ["10", "2", "-1", "", " 2 "]
    lines = [f"{path.name},{label}\n" for path, label in zip(sorted(films.iterdir()), labels, strict=False)]
    (tmp_path / "list.csv").write_text("path,label\n" + "".join(lines))
    data = videos(films, table=str(tmp_path / "list.csv"))
    assert data.classes == 2 and data.class_names == ("2", "10")
    assert data.videos("train").labels.tolist() == [1, 0, -1, -1, 0]
