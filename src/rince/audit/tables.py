"""Columns of tables (.parquet, .csv, .tsv), read in batches of rows.

A missing cell is never a reason to stop: it is NaN among numbers and None among ids and texts.
"""

import csv
import fnmatch
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince._support.optional_imports import require

TEXT_TABLES = {".csv": ",", ".tsv": "\t"}
TABLES = (".parquet", *TEXT_TABLES)
ROWS = 8192

Batches = Iterator[list[Any]]


class Source(NamedTuple):
    """A file and, after a colon, what to take from it: an array of an .npz, columns of a table (comma, ``*``).

    Without a ``header`` the columns of a .csv or .tsv are called 0, 1, 2, ...
    """

    path: Path
    column: str | None
    header: bool = True

    def __str__(self) -> str:
        return f"{self.path}:{self.column}" if self.column else str(self.path)


def column_names(where: Source) -> list[str]:
    """All columns of a table."""
    if where.path.suffix.lower() == ".parquet":
        return list(_parquet_file(where).schema_arrow.names)
    return _csv_names(where)


def number_batches(where: Source) -> Iterator[NDArray[np.float32]]:
    """The chosen columns side by side, a block of rows at a time; a column of lists is as wide as its lists."""
    names, batches = _lists(where) if where.path.suffix.lower() == ".parquet" else _cells(where)
    start = 0
    for batch in batches:
        columns = [_numbers(column, name, where, start) for name, column in zip(names, batch, strict=True)]
        yield np.hstack(columns)
        start += len(columns[0])


def value_batches(where: Source) -> Iterator[NDArray[Any]]:
    """The one chosen column, as it is, in batches."""
    parquet = where.path.suffix.lower() == ".parquet"
    names, batches = _values(where) if parquet else _cells(where)
    if len(names) != 1:
        raise ValueError(_which(where, names, names[0], "one"))
    for batch in batches:
        yield np.asarray(batch[0], dtype=object)


def _which(where: Source, there: list[str], example: str, what: str = "those that hold the numbers") -> str:
    return f"{where.path} has the columns {listed(there)}: name {what} as FILE:COLUMN, such as {where.path}:{example}"


def listed(names: list[str]) -> str:
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")


def _chosen(where: Source, there: list[str]) -> list[str]:
    if where.column is None:
        return there
    if where.column in there:
        return [where.column]
    patterns = [pattern.strip() for pattern in where.column.split(",")]
    names = [name for pattern in patterns for name in there if fnmatch.fnmatchcase(name, pattern)]
    if not names:
        raise ValueError(f"{where.path} has no column {where.column}; it has {listed(there)}")
    return names


def _parquet_file(where: Source) -> Any:
    arrow, parquet = require("pyarrow", "audit"), require("pyarrow.parquet", "audit")
    try:
        return parquet.ParquetFile(where.path)
    except arrow.ArrowException as error:
        raise ValueError(f"{where.path} cannot be read: {error}") from error


def _lists(where: Source) -> tuple[list[str], Batches]:
    """Number columns of a Parquet file; lists become arrays (rows, length)."""
    file = _parquet_file(where)
    schema = file.schema_arrow
    names = _chosen(where, schema.names)
    types = require("pyarrow", "audit").types
    lists = {name for name in names if _is_list(schema.field(name).type)}
    if where.column is None and len(names) > 1 and (lists or any(_is_text(schema.field(name).type) for name in names)):
        raise ValueError(_which(where, names, next((n for n in names if n in lists), names[0])))
    for name in lists:
        inside = schema.field(name).type.value_type
        if not (types.is_integer(inside) or types.is_floating(inside)):
            raise ValueError(f"{where.path} has lists of {inside} in column {name}, where lists of numbers should be")
    widths = {name: _width(file, name, where) for name in lists}

    def batches() -> Batches:
        start = 0
        for batch in file.iter_batches(batch_size=ROWS, columns=names):
            yield [
                _flat(batch.column(name), widths[name], name, where, start)
                if name in lists
                else batch.column(name).to_numpy(zero_copy_only=False)
                for name in names
            ]
            start += len(batch)

    return names, batches()


def _is_list(kind: Any) -> bool:
    types = require("pyarrow", "audit").types
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def _is_text(kind: Any) -> bool:
    types = require("pyarrow", "audit").types
    return not (types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind))


def _lengths(column: Any) -> NDArray[np.float64]:
    """The length of every list, NaN for a missing one."""
    lengths = require("pyarrow.compute", "audit").list_value_length(column)
    return lengths.to_numpy(zero_copy_only=False).astype(np.float64)


def _width(file: Any, name: str, where: Source) -> int:
    for batch in file.iter_batches(batch_size=ROWS, columns=[name]):
        lengths = _lengths(batch.column(0))
        known = lengths[~np.isnan(lengths)]
        if len(known):
            return int(known[0])
    raise ValueError(f"{where.path} has no lists in column {name}: all of them are missing")


def _flat(column: Any, width: int, name: str, where: Source, start: int) -> NDArray[np.float32]:
    lengths = _lengths(column)
    there = ~np.isnan(lengths)
    other = np.flatnonzero(there & (lengths != width))
    if len(other):
        raise ValueError(
            f"{where.path} has lists that differ in length in column {name}: {int(lengths[other[0]])} numbers in row "
            f"{start + other[0]}, {width} in those before"
        )
    block = np.full((len(column), width), np.nan, dtype=np.float32)
    block[there] = column.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
    return block


def _values(where: Source) -> tuple[list[str], Batches]:
    file = _parquet_file(where)
    names = _chosen(where, file.schema_arrow.names)

    def batches() -> Batches:
        for batch in file.iter_batches(batch_size=ROWS, columns=names):
            # With gaps numpy would make floats of whole numbers: 7 stays 7, and large ids stay exact.
            yield [
                np.array(column.to_pylist(), dtype=object)
                if column.null_count
                else column.to_numpy(zero_copy_only=False)
                for column in batch.columns
            ]

    return names, batches()


def _csv_names(where: Source) -> list[str]:
    with open(where.path, newline="", encoding="utf-8-sig") as file:
        first: list[str] = next(_reader(where, file), [])
    if not where.header and first:
        return [str(place) for place in range(len(first))]
    if not first:
        raise ValueError(f"{where.path} is empty: the first line must name the columns")
    if _looks_like_data(first):
        shown = ", ".join(first[:4]) + (", ..." if len(first) > 4 else "")
        raise ValueError(
            f"{where.path} seems to have no header, its first line is {shown}: use --no-header to read that line as "
            "data, or put a line with the names of the columns above it"
        )
    return first


def _looks_like_data(first: list[str]) -> bool:
    numbers = [cell for cell in first if _is_number(cell)]
    fractions = [cell for cell in numbers if not cell.strip().isdigit()]
    if len(first) > 1 and first == [str(place) for place in range(len(first))]:
        return False  # what pandas calls columns that have no names
    return len(numbers) == len(first) or 2 * len(fractions) > len(first)


def _reader(where: Source, file: Any) -> Any:
    return csv.reader(file, delimiter=TEXT_TABLES[where.path.suffix.lower()])


def _cells(where: Source) -> tuple[list[str], Batches]:
    there = _csv_names(where)
    names = _chosen(where, there)
    places = [there.index(name) for name in names]

    def batches() -> Batches:
        with open(where.path, newline="", encoding="utf-8-sig") as file:
            reader = _reader(where, file)
            if where.header:
                next(reader)
            rows: list[list[str]] = []
            for row in reader:
                if len(row) != len(there):
                    raise ValueError(
                        f"{where.path} has {len(row)} cells instead of {len(there)} in line {reader.line_num}"
                    )
                rows.append([row[place] for place in places])
                if len(rows) == ROWS:
                    yield list(zip(*rows, strict=True))
                    rows = []
            if rows:
                yield list(zip(*rows, strict=True))

    return names, batches()


def _numbers(column: Any, name: str, where: Source, start: int) -> NDArray[np.float32]:
    try:
        block = np.asarray(column, dtype=np.float32)
    except (ValueError, TypeError):
        wrong = next((row for row, cell in enumerate(column) if not (_is_missing(cell) or _is_number(cell))), None)
        if wrong is not None:
            raise ValueError(_no_number(column[wrong], name, where, start + wrong)) from None
        block = np.array([np.nan if _is_missing(cell) else cell for cell in column], dtype=np.float32)
    return block.reshape(len(block), -1)


def _no_number(cell: Any, name: str, where: Source, row: int) -> str:
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        return (
            f"{where.path} has lists written as text in column {name}: store them in a Parquet or .npy file instead, "
            "or one number a column"
        )
    text = f"{where.path} has {cell!r:.40} in column {name}, row {row}, where a number should be"
    if where.column is None:
        there = column_names(where)
        text += f"; {_which(where, there, there[-1])}"  # what is no number, such as ids, tends to come first
    return text


def _is_missing(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (ValueError, TypeError):
        return False
    return True
