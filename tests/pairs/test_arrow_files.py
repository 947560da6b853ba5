"""Columns of Parquet files."""

import numpy as np
import pytest

from rince.errors import UsageError
from rince.pairs.columns import matrix, values
from rince.pairs.source import source

DATA = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)


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


def test_parquet_lists_of_other_lengths_are_refused_with_their_row(tmp_path, monkeypatch):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("rince.pairs.arrow_files.ROWS", 2)
    parquet.write_table(arrow.table({"e": [[1.0, 2.0], [1.0, 2.0], None, [3.0]]}), tmp_path / "t.parquet")
    with pytest.raises(ValueError, match=r"column e: 1 numbers in row 3"):
        matrix(source(f"{tmp_path}/t.parquet:e"), tmp_path)


@pytest.mark.parametrize("fixed", [False, True])
def test_missing_lists_and_numbers_of_parquet_are_nan(tmp_path, monkeypatch, fixed):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    monkeypatch.setattr("rince.pairs.arrow_files.ROWS", 2)
    rows = [None, None, [1.0, None], [3.0, 4.0], None]
    type_ = arrow.list_(arrow.float32(), 2 if fixed else -1)
    table = arrow.table({"e": arrow.array(rows, type=type_), "x": [1, None, 3, 4, 5]})
    parquet.write_table(table, tmp_path / "t.parquet")
    (tmp_path / "s").mkdir()
    nan = np.nan
    wanted = [[nan, nan], [nan, nan], [1, nan], [3, 4], [nan, nan]]
    if fixed and int(arrow.__version__.split(".")[0]) < 26:  # which could not read its own files of this kind
        with pytest.raises(UsageError, match="cannot be read"):
            matrix(source(f"{tmp_path}/t.parquet:e"), tmp_path / "s")
        return
    assert np.array_equal(matrix(source(f"{tmp_path}/t.parquet:e"), tmp_path / "s"), wanted, equal_nan=True)
    found = matrix(source(f"{tmp_path}/t.parquet:x"), tmp_path / "s")
    assert np.array_equal(found, [[1], [nan], [3], [4], [5]], equal_nan=True)
    parquet.write_table(arrow.table({"e": arrow.array([None] * 3, type=type_)}), tmp_path / "none.parquet")
    with pytest.raises(ValueError, match="all of them are missing"):
        matrix(source(f"{tmp_path}/none.parquet:e"), tmp_path / "s")


def test_whole_numbers_of_parquet_stay_whole_beside_missing_ones(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    large = 2**53 + 1
    parquet.write_table(arrow.table({"id": [0, None, large], "s": ["a", None, "b"]}), tmp_path / "t.parquet")
    assert list(values(source(f"{tmp_path}/t.parquet:id"))) == [0, None, large]
    assert list(values(source(f"{tmp_path}/t.parquet:s"))) == ["a", None, "b"]


@pytest.mark.parametrize("kind", ("dictionary", "string", "large_string", "binary"))
def test_a_text_that_is_repeated_for_ever_is_held_once(tmp_path, kind):
    """A file of 300 kB may say 3 GB."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    long = b"x" * 1000 if kind == "binary" else "x" * 1000
    column = arrow.array([long, "a", None, long, long] if kind != "binary" else [long, b"a", None, long, long])
    column = column.dictionary_encode() if kind == "dictionary" else column.cast(getattr(arrow, kind)())
    parquet.write_table(arrow.table({"x": column}), tmp_path / "t.parquet")
    found = values(source(f"{tmp_path}/t.parquet:x"))
    assert found.tolist() == column.to_pylist() and found.dtype == object
    assert found[0] is found[3] is found[4]


def test_an_error_of_arrow_names_the_file_and_is_short(tmp_path, monkeypatch):
    """Also one that is no ValueError, for a column of more than two billion letters."""
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({"x": ["a"]}), tmp_path / "t.parquet")

    def fail(column):
        raise arrow.lib.ArrowCapacityError("too many letters " + "x" * 10_000)

    monkeypatch.setattr("rince.pairs.arrow_files._values", fail)
    with pytest.raises(UsageError, match=r"too many letters x{283}$"):
        values(source(f"{tmp_path}/t.parquet:x"))
