"""Columns as unlucky or hostile users have them: one sentence, or the numbers that are there, never other numbers."""

import datetime
import decimal
import os

import numpy as np
import pytest

from rince.errors import UsageError
from rince.pairs.columns import check_different, matrix, values
from rince.pairs.source import source

N = 60
NUMBERS = np.random.default_rng(0).normal(size=(N, 3)).astype(np.float32)


def csv_text(separator=",", end="\n", names=("a", "b", "c")):
    rows = [names, *NUMBERS.tolist()]
    return end.join(separator.join(map(str, row)) for row in rows) + end


@pytest.mark.parametrize(
    "text",
    [
        csv_text(),
        "\ufeff" + csv_text(),
        csv_text(end="\r\n"),
        csv_text(end="\r"),
        csv_text() + "\n\r\n\n",
        '"' + csv_text('","', '"\n"')[:-1],
        csv_text(";"),
        csv_text("\t"),
    ],
    ids=["plain", "byte order mark", "CRLF", "CR", "empty lines at the end", "quoted", "semicolons", "tabs"],
)
def test_a_csv_file_of_any_editor_gives_its_numbers(tmp_path, text):
    (tmp_path / "t.csv").write_bytes(text.encode())
    assert np.allclose(matrix(source(str(tmp_path / "t.csv")), tmp_path), NUMBERS)


@pytest.mark.parametrize(
    ("content", "column", "message"),
    [
        (csv_text(";").replace(".", ","), "", "decimal points"),
        (csv_text(names=("a", "b", "a")), "", "has 2 columns called a: give each a name of its own"),
        (csv_text(names=("a", "b", "a")), ":a", "has 2 columns called a"),
        (csv_text().encode("utf-16"), "", "is not UTF-8 text: convert it"),
        (csv_text().replace("\n", "\n\n", 2), "", "has 0 cells instead of 3 in line 2"),
    ],
    ids=["decimal commas", "a name twice", "a name twice, named", "UTF-16", "empty lines inside"],
)
def test_a_csv_file_that_says_something_else_is_one_sentence(tmp_path, content, column, message):
    (tmp_path / "t.csv").write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(UsageError, match=message):
        matrix(source(f"{tmp_path / 't.csv'}{column}"), tmp_path)


def table_of(folder, **columns):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(arrow.table({name: make(arrow) for name, make in columns.items()}), folder / "t.parquet")


ODD = {
    "dates": lambda arrow: arrow.array([datetime.date(2024, 1, 1 + i % 28) for i in range(N)]),
    "times": lambda arrow: arrow.array([datetime.datetime(2024, 1, 1, i % 24) for i in range(N)]),
    "durations": lambda arrow: arrow.array([datetime.timedelta(i) for i in range(N)]),
    "structs": lambda arrow: arrow.array([{"x": 1.0}] * N),
    "maps": lambda arrow: arrow.array([[("k", 1.0)]] * N, arrow.map_(arrow.string(), arrow.float32())),
    "lists of lists": lambda arrow: arrow.array([[[1.0], [2.0]]] * N),
    "empty lists": lambda arrow: arrow.array([[]] * N, arrow.list_(arrow.float32())),
}


@pytest.mark.parametrize("kind", ODD)
def test_a_column_of_no_numbers_is_named_with_what_it_holds(tmp_path, kind):
    table_of(tmp_path, x=ODD[kind])
    with pytest.raises(UsageError, match=r"in column x(, where|$)"):
        matrix(source(f"{tmp_path / 't.parquet'}:x"), tmp_path)


@pytest.mark.parametrize("kind", ["structs", "maps", "lists of lists", "empty lists"])
def test_ids_are_one_value_per_pair(tmp_path, kind):
    table_of(tmp_path, x=ODD[kind])
    with pytest.raises(UsageError, match=r"column x, .* one value per pair"):
        values(source(f"{tmp_path / 't.parquet'}:x"))


def test_decimals_dictionaries_and_whole_numbers_are_numbers(tmp_path):
    whole = [i % 7 for i in range(N)]
    table_of(
        tmp_path,
        decimals=lambda arrow: arrow.array([decimal.Decimal(i) for i in whole]),
        dictionary=lambda arrow: arrow.array([float(i) for i in whole]).dictionary_encode(),
        bytes=lambda arrow: arrow.array(whole, arrow.int8()),
    )
    assert np.array_equal(matrix(source(str(tmp_path / "t.parquet:*")), tmp_path), np.array([whole] * 3).T)


def test_two_columns_of_one_name_in_a_parquet_file_are_one_sentence(tmp_path):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    columns = [arrow.array(NUMBERS[:, k]) for k in range(3)]
    parquet.write_table(arrow.Table.from_arrays(columns, names=["a", "b", "a"]), tmp_path / "t.parquet")
    assert matrix(source(f"{tmp_path / 't.parquet'}:b"), tmp_path).shape == (N, 1)
    for column in ("", ":a"):
        with pytest.raises(UsageError, match="has 2 columns called a"):
            matrix(source(f"{tmp_path / 't.parquet'}{column}"), tmp_path)


def test_a_column_is_taken_once_however_often_it_is_named(tmp_path):
    (tmp_path / "t.csv").write_text(csv_text())
    assert np.allclose(matrix(source(f"{tmp_path / 't.csv'}:b,*"), tmp_path), NUMBERS[:, [1, 0, 2]])


@pytest.mark.parametrize(
    "array", [NUMBERS.astype(">f4"), np.asfortranarray(NUMBERS), NUMBERS.astype(">f8")], ids=["big-endian", "F", ">f8"]
)
def test_arrays_of_other_machines_give_their_numbers(tmp_path, array):
    np.save(tmp_path / "x.npy", array)
    np.savez_compressed(tmp_path / "x.npz", x=array)
    for name in ("x.npy", "x.npz:x"):
        assert np.allclose(matrix(source(str(tmp_path / name)), tmp_path), NUMBERS)


def test_what_is_no_npy_file_is_not_advised_to_be_loaded_unsafely(tmp_path):
    (tmp_path / "x.npy").write_bytes(b"\x1f\x8b\x08\x00 gzip")
    with pytest.raises(UsageError, match=r"npy .*Python objects$"):
        matrix(source(str(tmp_path / "x.npy")), tmp_path)


def test_names_of_columns_may_hold_colons_and_folders_are_no_files(tmp_path):
    (tmp_path / "t.csv").write_text(csv_text(names=("x:1", "b", "c")))
    assert np.allclose(matrix(source(f"{tmp_path / 't.csv'}:x:1"), tmp_path), NUMBERS[:, :1])
    (tmp_path / "d.npy").mkdir()
    with pytest.raises(UsageError, match=r"d\.npy holds no files"):
        source(str(tmp_path / "d.npy"))


def test_a_file_under_two_names_and_a_column_on_both_sides_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", NUMBERS)
    os.link(tmp_path / "a.npy", tmp_path / "b.npy")
    with pytest.raises(UsageError, match="name two different files"):
        check_different(source(str(tmp_path / "a.npy")), source(str(tmp_path / "b.npy")))
    (tmp_path / "t.csv").write_text(csv_text())
    with pytest.raises(UsageError, match="have columns in common"):
        check_different(source(f"{tmp_path / 't.csv'}:a,b"), source(f"{tmp_path / 't.csv'}:b,c"))
    check_different(source(f"{tmp_path / 't.csv'}:a"), source(f"{tmp_path / 't.csv'}:b,c"))
