import json
import os

import numpy as np
import pytest

from rince.errors import UsageError
from rince.pairs.columns import matrix, values
from rince.pairs.source import Source, source

arrow = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")


def table(start, rows=10):
    numbers = np.arange(start, start + rows)
    return arrow.table({"e": [[float(k), 1.0] for k in numbers], "id": numbers, "text": [f"text {k}" for k in numbers]})


def save_dataset(folder, parts):
    """A folder as ``Dataset.save_to_disk`` of Hugging Face datasets writes it: Arrow streams and their list."""
    folder.mkdir(parents=True)
    names = []
    for k, part in enumerate(parts):
        names.append(f"data-{k:05d}-of-{len(parts):05d}.arrow")
        with arrow.OSFile(str(folder / names[-1]), "wb") as file, arrow.ipc.new_stream(file, part.schema) as writer:
            writer.write_table(part)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text("{}")


def test_files_of_a_pattern_come_in_the_order_of_their_numbers(tmp_path):
    for k in (10, 2, 1):
        parquet.write_table(table(10 * k), tmp_path / f"part{k}.parquet")
    where = source(f"{tmp_path}/part*.parquet:id")
    assert [file.name for file in where.files] == ["part1.parquet", "part2.parquet", "part10.parquet"]
    assert list(values(where)) == [*range(10, 30), *range(100, 110)]
    assert matrix(source(f"{tmp_path}/part*.parquet:e"), tmp_path)[:, 0].tolist() == list(values(where))


def test_files_of_a_pattern_must_agree(tmp_path):
    parquet.write_table(table(0), tmp_path / "a.parquet")
    parquet.write_table(table(0).drop_columns(["id"]), tmp_path / "b.parquet")
    with pytest.raises(UsageError, match=r"b\.parquet .*column id .*a\.parquet"):
        values(source(f"{tmp_path}/*.parquet:id"))


def test_a_folder_of_datasets_is_read_in_the_order_of_its_list(tmp_path):
    save_dataset(tmp_path / "d", [table(20), table(0)])
    assert list(values(source(f"{tmp_path}/d:id"))) == [*range(20, 30), *range(10)]
    assert matrix(source(f"{tmp_path}/d:e"), tmp_path).shape == (20, 2)


def test_a_folder_of_the_library_itself_is_read(tmp_path):
    datasets = pytest.importorskip("datasets")
    datasets.Dataset.from_dict({"id": list(range(30)), "e": [[1.0, float(k)] for k in range(30)]}).save_to_disk(
        tmp_path / "d", num_shards=2
    )
    assert list(values(source(f"{tmp_path}/d:id"))) == list(range(30))
    assert matrix(source(f"{tmp_path}/d:e"), tmp_path)[:, 1].tolist() == list(range(30))


def test_several_splits_ask_for_one(tmp_path):
    save_dataset(tmp_path / "d" / "train", [table(0)])
    save_dataset(tmp_path / "d" / "test", [table(0)])
    (tmp_path / "d" / "dataset_dict.json").write_text("{}")
    with pytest.raises(UsageError, match=r"\(test, train\).*d/train:COLUMN"):
        source(f"{tmp_path}/d:id")
    assert len(values(source(f"{tmp_path}/d/train:id"))) == 10


@pytest.mark.parametrize(
    "state, message",
    [
        ("{}", "state.json is not that of a saved dataset"),
        ('{"_data_files": [{"filename": "../../etc/passwd"}]}', "it has no file ../../etc/passwd"),
        ('{"_data_files": [], "_indices_data_files": [{"filename": "x"}]}', "flatten_indices"),
    ],
)
def test_a_damaged_folder_of_datasets_is_one_sentence(tmp_path, state, message):
    (tmp_path / "state.json").write_text(state)
    with pytest.raises(UsageError, match=message.replace(".", r"\.")):
        values(source(f"{tmp_path}:id"))


@pytest.mark.parametrize("kind", ["file", "stream"])
def test_arrow_files_and_streams(tmp_path, kind):
    whole = table(0, 20_000)
    make = arrow.ipc.new_file if kind == "file" else arrow.ipc.new_stream
    with arrow.OSFile(str(tmp_path / "t.arrow"), "wb") as file, make(file, whole.schema) as writer:
        writer.write_table(whole)
    assert (values(source(f"{tmp_path}/t.arrow:id")) == np.arange(20_000)).all()
    (tmp_path / "t.arrow").write_bytes((tmp_path / "t.arrow").read_bytes()[:1000])
    with pytest.raises((UsageError, ValueError), match=r"t\.arrow"):
        values(source(f"{tmp_path}/t.arrow:id"))


def test_folders_and_texts_need_encode(tmp_path):
    (tmp_path / "x.txt").write_text("hello\n")
    for what in (tmp_path, tmp_path / "x.txt"):
        with pytest.raises(UsageError, match="add --encode"):
            source(str(what))
        assert source(str(what), raw=True) == Source(what, None)


def test_a_table_beside_folders_of_media_leaves_them_a_folder_of_media(tmp_path):
    (tmp_path / "labels.csv").write_text("a,b\n1,2\n")
    assert source(f"{tmp_path}:a").kind == ".csv"
    (tmp_path / "cats").mkdir()
    (tmp_path / "cats" / "0.png").write_bytes(b"")
    assert source(str(tmp_path), raw=True).kind == "folder"


def test_a_pipe_is_no_file(tmp_path):
    os.mkfifo(tmp_path / "x.csv")
    with pytest.raises(UsageError, match=r"x\.csv is not a regular file"):
        source(str(tmp_path / "x.csv"))
