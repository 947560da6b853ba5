import csv

import numpy as np
import pytest

from rince.audit.columns import codes
from rince.audit.files import matrix, source, values

DATA = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)


def write_csv(path, names, rows):
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([names, *rows])


def test_npy_is_mapped_not_read(tmp_path):
    np.save(tmp_path / "x.npy", DATA)
    found = matrix(source(str(tmp_path / "x.npy")), tmp_path)
    assert isinstance(found, np.memmap) and (found == DATA).all()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz_by_name_or_the_only_array(tmp_path, save):
    save(tmp_path / "two.npz", image=DATA, text=DATA[:, :2])
    save(tmp_path / "one.npz", image=DATA)
    (tmp_path / "s").mkdir()
    assert (matrix(source(f"{tmp_path}/two.npz:text"), tmp_path / "s") == DATA[:, :2]).all()
    assert (matrix(source(f"{tmp_path}/one.npz"), tmp_path / "s") == DATA).all()
    with pytest.raises(ValueError, match=r"holds image, text: name one, as .*two\.npz:image"):
        matrix(source(f"{tmp_path}/two.npz"), tmp_path / "s")


def test_csv_columns_by_name_list_or_pattern(tmp_path, monkeypatch):
    monkeypatch.setattr("rince.audit.files.ROWS", 30)
    write_csv(tmp_path / "t.csv", ["id", "x0", "x1", "y0", "y1"], [[f"n{i}", *row] for i, row in enumerate(DATA)])
    (tmp_path / "s").mkdir()
    assert np.allclose(matrix(source(f"{tmp_path}/t.csv:x*"), tmp_path / "s"), DATA[:, :2])
    assert np.allclose(matrix(source(f"{tmp_path}/t.csv:y1,x0"), tmp_path / "s"), DATA[:, [3, 0]])
    assert list(values(source(f"{tmp_path}/t.csv:id"))) == [f"n{i}" for i in range(100)]
    with pytest.raises(ValueError, match=r"has 'n0' in column id, row 0, where a number should be"):
        matrix(source(f"{tmp_path}/t.csv"), tmp_path / "s")
    with pytest.raises(ValueError, match=r"no column z; it has id, x0"):
        matrix(source(f"{tmp_path}/t.csv:z"), tmp_path / "s")
    with pytest.raises(ValueError, match=r"has the columns id, x0.*: name one"):
        values(source(f"{tmp_path}/t.csv"))


def test_a_short_line_of_a_csv_is_named(tmp_path):
    (tmp_path / "t.csv").write_text("x,y\n1,2\n3\n")
    with pytest.raises(ValueError, match="1 cells instead of 2 in line 3"):
        matrix(source(f"{tmp_path}/t.csv"), tmp_path)


@pytest.mark.parametrize("kind", ["list", "fixed", "columns"])
def test_parquet_lists_and_columns(tmp_path, kind):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    if kind == "columns":
        table = arrow.table({f"e{k}": DATA[:, k] for k in range(4)} | {"id": np.arange(100)})
        column = "e*"
    else:
        type_ = arrow.list_(arrow.float32(), 4 if kind == "fixed" else -1)
        table = arrow.table({"e": arrow.array(list(DATA), type=type_), "id": np.arange(100)})
        column = "e"
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=30)
    (tmp_path / "s").mkdir()
    assert (matrix(source(f"{tmp_path}/t.parquet:{column}"), tmp_path / "s") == DATA).all()
    assert (values(source(f"{tmp_path}/t.parquet:id")) == np.arange(100)).all()


def test_missing_ids_of_tables_equal_no_other(tmp_path, monkeypatch):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("rince.audit.files.ROWS", 4)
    write_csv(tmp_path / "t.csv", ["id", "x"], [[name, 0] for name in ("p", "", "q", "", "p", "q")])
    found = codes(values(source(f"{tmp_path}/t.csv:id")), "ids", 6)
    assert len(set(found)) == 4 and found[0] == found[4] and found[2] == found[5]
    large = 2**60 + 1
    for ids in (["p", None, "q", None, "p", "q"], [large, None, 7, None, large, 7], [0.5, None, 1.5, None, 0.5, 1.5]):
        parquet.write_table(arrow.table({"id": ids}), tmp_path / "t.parquet")
        there = values(source(f"{tmp_path}/t.parquet"))
        found = codes(there, "ids", 6)
        assert len(set(found)) == 4 and found[0] == found[4] and found[2] == found[5]
        assert there[0] == ids[0] and str(there[2]) == str(ids[2])


def test_parquet_lists_of_other_lengths_are_refused(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"e": [[1.0, 2.0], [3.0]]}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="differ in length"):
        matrix(source(f"{tmp_path}/t.parquet:e"), tmp_path)


@pytest.mark.parametrize("name", ["x.npy", "x.npz", "x.parquet", "x.csv"])
def test_an_unreadable_file_is_named(tmp_path, name):
    if name == "x.parquet":
        pytest.importorskip("pyarrow")
    (tmp_path / name).write_bytes(b"\x93 this is not what its name says \xff\xfe\n\x00")
    with pytest.raises(ValueError, match=name.replace(".", r"\.")):
        matrix(source(str(tmp_path / name)), tmp_path)


def test_pickles_are_never_loaded(tmp_path):
    np.save(tmp_path / "x.npy", np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match=r"x\.npy cannot be read"):
        matrix(source(str(tmp_path / "x.npy")), tmp_path)


def test_missing_files_and_other_kinds_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="there is no file"):
        source(str(tmp_path / "x.npy"))
    (tmp_path / "x.txt").write_text("hello")
    with pytest.raises(ValueError, match=r"must end in \.npy"):
        source(str(tmp_path / "x.txt"))
