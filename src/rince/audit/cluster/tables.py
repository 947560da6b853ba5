"""Partitions of Parquet tables on any file system that fsspec knows: some row groups of two files each."""

import os
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince._support.optional_imports import require
from rince.audit.cluster.files import matching, opened, parquet_file
from rince.audit.columns import Keys, codes
from rince.audit.input.arrow_tables import ROWS, ArrowTable, is_list, number_columns
from rince.audit.input.source import Source
from rince.audit.input.tables import chosen, listed
from rince.audit.partitions.partition import Blocks, Partition
from rince.errors import MissingFile, UsageError

TARGET_NUMBERS = 64_000_000  # of both sides of a partition: 256 MB as they are read, were they read at once
MOST_ROWS = 1_000_000  # of a partition


class Columns(NamedTuple):
    """Columns of the Parquet files of a pattern."""

    files: list[str]
    names: list[str]

    def __str__(self) -> str:
        return f"{self.files[0]}:{','.join(self.names)}"


class Group(NamedTuple):
    """A row group: the number of its file, its own number there, and its rows."""

    file: int
    number: int
    rows: int


class TablePartition(Partition):
    """Row groups of a file of A and of the file of B beside it.

    Args:
        a, b: A file, the columns of it, and the row groups to read.
        rows: How many rows these have.
        values: What else there is: "ids", "duplicates" or "groups", each a file and one column of it.
    """

    def __init__(
        self,
        a: tuple[str, list[str], list[int]],
        b: tuple[str, list[str], list[int]],
        rows: int,
        values: dict[str, tuple[str, str, list[int]]],
    ):
        self.a, self.b, self._rows, self.values = a, b, rows, values
        self.name = a[0] if a[0] == b[0] else f"{a[0]} with {b[0]}"

    @property
    def rows(self) -> int:
        return self._rows

    def blocks(self) -> Blocks:
        yield from aligned(_numbers(*self.a), _numbers(*self.b))

    def ids(self) -> Any:
        return self._column("ids")

    def duplicates(self) -> Any:
        return self._column("duplicates")

    def groups(self) -> Any:
        return self._column("groups")

    def id_type(self) -> Any:
        if "ids" not in self.values:
            return None
        path, column, _ = self.values["ids"]
        with opened(path) as file:
            return parquet_file(file, path).schema_arrow.field(column).type

    def keys(self, start: int) -> Keys:
        """Whole numbers as they are, all else as texts: the same code for the same value in every partition."""
        arrow = require("pyarrow", "cluster")
        found = []
        for name in ("ids", "duplicates"):
            if name in self.values:
                column = self._arrow(name)
                if not arrow.types.is_integer(column.type):
                    column = column.cast(arrow.string())
                found.append(codes(_plain(column), name, self.rows, start))
        return found

    def _arrow(self, name: str) -> Any:
        path, column, groups = self.values[name]
        with opened(path) as file:
            return parquet_file(file, path).read_row_groups(groups, columns=[column]).column(0)

    def _column(self, name: str) -> Any:
        return _plain(self._arrow(name)) if name in self.values else None


def _plain(column: Any) -> NDArray[Any]:
    """A column of Arrow as values; whole numbers stay whole beside missing ones."""
    if column.null_count:
        return np.array(column.to_pylist(), dtype=object)
    return column.to_numpy()


def table_partitions(
    a: str,
    b: str,
    *,
    ids: str | None = None,
    duplicates: str | None = None,
    groups: str | None = None,
    rows: int | None = None,
) -> list[Partition]:
    """The pairs of two columns of Parquet files as partitions: some row groups each, of up to a million rows.

    Args:
        a, b: ``FILES:COLUMN``: a file, a pattern (``'data/*.parquet:image'``) or an address of fsspec
            (``'s3://bucket/*.parquet:image'``), and a column of lists, or several of numbers (comma, ``*``). The files
            of both sides must have the same rows in the same order, file by file.
        ids, duplicates, groups: A column of A's files, or ``FILES:COLUMN``, see :func:`rince.audit.audit`.
        rows: The most rows of a partition; by default what takes 256 MB of memory, at most a million.

    Returns:
        Partitions for :func:`rince.audit.audit_partitions`.

    Raises:
        UsageError: There are no such files or columns, or the files of the two sides do not fit together.

    Example:
        >>> import pyarrow, pyarrow.parquet
        >>> rows = {"image": np.eye(60, 4).tolist(), "text": np.eye(60, 4).tolist(), "id": range(60)}
        >>> pyarrow.parquet.write_table(pyarrow.table(rows), "pairs.parquet", row_group_size=20)
        >>> parts = rince.audit.table_partitions("*.parquet:image", "*.parquet:text", ids="id", rows=40)
        >>> [part.rows for part in parts]
        [40, 20]
    """
    sides = columns_of(a), columns_of(b)
    if sides[0] == sides[1]:
        raise UsageError(f"A and B are both {a}: name two different columns")
    others = {
        name: columns_of(text, beside=sides[0])
        for name, text in (("ids", ids), ("duplicates", duplicates), ("groups", groups))
        if text is not None
    }
    for name, columns in others.items():
        if len(columns.names) != 1:
            raise UsageError(f"{name} must be one column, got {listed(columns.names)}")
    layouts = {files: _layout(list(files)) for files in {tuple(side.files) for side in (*sides, *others.values())}}
    first = layouts[tuple(sides[0].files)]
    for name, columns in (("B", sides[1]), *others.items()):
        _check_aligned(sides[0].files, first, columns.files, layouts[tuple(columns.files)], name)
    most = rows or _rows_for(sides[0])
    return [
        _partition(number, some, sides, others)
        for number in range(len(sides[0].files))
        for some in _divided([group for group in first if group.file == number], most)
    ]


def _partition(
    number: int, groups: list[Group], sides: tuple[Columns, Columns], others: dict[str, Columns]
) -> TablePartition:
    numbers = [group.number for group in groups]
    a, b = ((side.files[number], side.names, numbers) for side in sides)
    values = {name: (column.files[number], column.names[0], numbers) for name, column in others.items()}
    return TablePartition(a, b, sum(group.rows for group in groups), values)


def columns_of(text: str, beside: Columns | None = None) -> Columns:
    """``FILES:COLUMN``, or a column of the files beside."""
    if beside is not None and ":" not in text and not os.path.exists(text):
        return Columns(beside.files, chosen_columns(beside.files[0], text))
    head, column = text, None
    if not matching(text) and (match := re.fullmatch(r"(.+):([^/\\:]+)", text)):
        head, column = match[1], match[2]
    files = matching(head)
    if not files:
        raise MissingFile(f"there is no file {head}")
    wrong = next((file for file in files if not file.lower().endswith(".parquet")), None)
    if wrong is not None:
        raise UsageError(f"{wrong} cannot be read on a cluster: files must end in .parquet")
    return Columns(files, chosen_columns(files[0], column))


def chosen_columns(file: str, column: str | None) -> list[str]:
    with opened(file) as handle:
        schema = parquet_file(handle, file).schema_arrow
    if column is None and len(schema.names) > 1:
        raise UsageError(f"{file} has the columns {listed(schema.names)}: name one, as FILES:COLUMN")
    where: Any = Source(file, column)  # type: ignore[arg-type]
    return chosen(where, schema.names)


def _layout(files: list[str]) -> list[Group]:
    """The row groups of all files, from their last few bytes."""
    found = []
    for number, path in enumerate(files):
        with opened(path) as file:
            about = parquet_file(file, path).metadata
            found += [Group(number, k, about.row_group(k).num_rows) for k in range(about.num_row_groups)]
    return found


def _check_aligned(files: list[str], first: list[Group], others: list[str], other: list[Group], name: str) -> None:
    if first == other:
        return
    if len(files) != len(others):
        raise UsageError(f"A has {len(files)} files and {name} {len(others)}: they must fit together, file by file")
    for number in range(len(files)):
        mine, theirs = ([group for group in groups if group.file == number] for groups in (first, other))
        rows, count = (sum(group.rows for group in groups) for groups in (mine, theirs))
        if rows != count:
            raise UsageError(
                f"{files[number]} has {rows:,} rows and {others[number]}, which {name} has in its place, {count:,}: "
                "the files must fit together, row by row"
            )
        if mine != theirs:
            raise UsageError(
                f"{files[number]} and {others[number]} have the same rows in different row groups: write them with the "
                "same row_group_size"
            )


def _divided(groups: list[Group], rows: int) -> Iterator[list[Group]]:
    """Row groups side by side, as many as have at most so many rows; at least one."""
    part: list[Group] = []
    for group in groups:
        if part and sum(one.rows for one in part) + group.rows > rows:
            yield part
            part = []
        part.append(group)
    if part:
        yield part


def _rows_for(side: Columns) -> int:
    """The rows of a partition: by the width of a side, as far as its type says it, or that of the first row."""
    with opened(side.files[0]) as file:
        table = parquet_file(file, side.files[0])
        batch = next(table.iter_batches(batch_size=1, columns=side.names), None)
    if batch is None or not len(batch):
        return MOST_ROWS
    cells = [batch.column(k)[0].as_py() if is_list(kind) else None for k, kind in enumerate(batch.schema.types)]
    width = sum(len(cell or [0]) for cell in cells)
    return int(min(MOST_ROWS, max(1, TARGET_NUMBERS // (2 * max(1, width)))))


def _numbers(path: str, names: list[str], groups: list[int]) -> Iterator[NDArray[np.float32]]:
    """The columns of some row groups side by side, a block of rows at a time."""
    with opened(path) as file:
        table = parquet_file(file, path)

        def batches(columns: list[str]) -> Iterator[Any]:
            for batch in table.iter_batches(batch_size=ROWS, row_groups=groups, columns=columns):
                yield batch.select(columns)

        for name in names:
            if name not in table.schema_arrow.names:
                raise UsageError(f"{path} has no column {name}; it has {listed(table.schema_arrow.names)}")
        for columns in number_columns(ArrowTable(path, table.schema_arrow, batches), names):
            yield np.hstack([_block(one, path, names) for one in columns])


def _block(column: NDArray[Any], path: str, names: list[str]) -> NDArray[np.float32]:
    try:
        return np.asarray(column, dtype=np.float32).reshape(len(column), -1)
    except (ValueError, TypeError) as error:
        raise UsageError(f"{path} has no numbers in {listed(names)}: encode it first") from error


def aligned(a: Iterator[NDArray[Any]], b: Iterator[NDArray[Any]]) -> Blocks:
    """Blocks of both sides with the same rows, whatever blocks they come in."""
    left, right = next(a, None), next(b, None)
    while left is not None and right is not None:
        count = min(len(left), len(right))
        yield left[:count], right[:count]
        left = left[count:] if count < len(left) else next(a, None)
        right = right[count:] if count < len(right) else next(b, None)
