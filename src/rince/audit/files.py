"""Columns in files: ``PATH`` or ``PATH:COLUMN`` of .npy, .npz, .parquet and .csv, all read as memory maps.

Numbers that do not lie ready on disk (a compressed .npz, a column of a table) are written once, row by row, into a
temporary .npy file, so that nothing is ever held whole.
"""

import csv
import fnmatch
import shutil
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from rince.extras import require

KINDS = (".npy", ".npz", ".parquet", ".csv")
ROWS = 8192


class Source(NamedTuple):
    """A file and, after a colon, what to take from it: an array of an .npz, columns of a table (comma, ``*``)."""

    path: Path
    column: str | None

    def __str__(self) -> str:
        return f"{self.path}:{self.column}" if self.column else str(self.path)


def source(text: str) -> Source:
    """``data.csv:image_*`` as a file that exists and a column."""
    path, column = Path(text), None
    if not path.exists() and ":" in text:
        head, column = text.rsplit(":", 1)
        path = Path(head)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if path.suffix.lower() not in KINDS:
        raise ValueError(f"{path} must end in {', '.join(KINDS)}")
    return Source(path, column)


def matrix(where: Source, scratch: Path) -> NDArray[Any]:
    """A (pairs, width) memory map; ``scratch`` is a folder for temporary files."""
    kind = where.path.suffix.lower()
    try:
        if kind == ".npy":
            return np.load(where.path, mmap_mode="r", allow_pickle=False)
        if kind == ".npz":
            return _unpacked(where, scratch)
        names, batches = _table(where)
        return _collected(where, names, batches, scratch)
    except (ValueError, EOFError, zipfile.BadZipFile) as error:
        if str(where.path) in str(error):
            raise
        raise ValueError(f"{where.path} cannot be read: {error}") from error


def values(where: Source) -> NDArray[Any]:
    """One value a pair, such as ids or texts: the only column of the file, or the one that is named."""
    kind = where.path.suffix.lower()
    if kind in (".npy", ".npz"):
        array = matrix(where, where.path.parent) if kind == ".npy" else _array(where)
        if array.ndim != 1:
            raise ValueError(f"{where} must hold one value a pair, got an array of shape {array.shape}")
        return array
    names, batches = _table(where)
    if len(names) != 1:
        raise ValueError(f"{where.path} has the columns {', '.join(names)}: name one, as {where.path}:{names[0]}")
    return np.concatenate([np.asarray(batch[0], dtype=object) for batch in batches] or [np.empty(0, dtype=object)])


def _member(where: Source, archive: zipfile.ZipFile) -> str:
    names = [name[:-4] for name in archive.namelist() if name.endswith(".npy")]
    if where.column is None and len(names) == 1:
        return names[0] + ".npy"
    if where.column not in names:
        example = f"{where.path}:{names[0] if names else 'NAME'}"
        raise ValueError(f"{where.path} holds {', '.join(names) or 'no arrays'}: name one, as {example}")
    return f"{where.column}.npy"


def _array(where: Source) -> NDArray[Any]:
    with zipfile.ZipFile(where.path) as archive, archive.open(_member(where, archive)) as file:
        return npy.read_array(file, allow_pickle=False)


def _unpacked(where: Source, scratch: Path) -> NDArray[Any]:
    place = scratch / f"column{len(list(scratch.iterdir()))}.npy"
    with (
        zipfile.ZipFile(where.path) as archive,
        archive.open(_member(where, archive)) as packed,
        open(place, "wb") as file,
    ):
        shutil.copyfileobj(packed, file, 1 << 20)
    return np.load(place, mmap_mode="r", allow_pickle=False)


def _table(where: Source) -> tuple[list[str], Iterator[list[Sequence[Any]]]]:
    """The chosen columns of a table: their names, and batches of rows, a sequence a column."""
    reader = _parquet if where.path.suffix.lower() == ".parquet" else _csv
    return reader(where)


def _chosen(where: Source, there: list[str]) -> list[str]:
    if where.column is None:
        return there
    if where.column in there:
        return [where.column]
    patterns = [pattern.strip() for pattern in where.column.split(",")]
    names = [name for pattern in patterns for name in there if fnmatch.fnmatchcase(name, pattern)]
    if not names:
        raise ValueError(f"{where.path} has no column {where.column}; it has {', '.join(there[:20])}")
    return names


def _parquet(where: Source) -> tuple[list[str], Iterator[list[Sequence[Any]]]]:
    arrow, parquet = require("pyarrow", "audit"), require("pyarrow.parquet", "audit")
    try:
        file = parquet.ParquetFile(where.path)
    except arrow.ArrowException as error:
        raise ValueError(f"{where.path} cannot be read: {error}") from error
    names = _chosen(where, file.schema_arrow.names)

    def batches() -> Iterator[list[Sequence[Any]]]:
        for batch in file.iter_batches(batch_size=ROWS, columns=names):
            yield [_flat(batch.column(name), arrow) for name in names]

    return names, batches()


def _flat(column: Any, arrow: Any) -> Any:
    """A column of lists as an array (rows, length), any other as it is."""
    types = arrow.types
    if types.is_integer(column.type) and column.null_count:
        return np.array(column.to_pylist(), dtype=object)  # not as floats: 7 stays 7, and large ids stay exact
    if not (types.is_list(column.type) or types.is_large_list(column.type) or types.is_fixed_size_list(column.type)):
        return column.to_numpy(zero_copy_only=False)
    numbers = column.flatten().to_numpy(zero_copy_only=False)
    lengths = set(require("pyarrow.compute", "audit").list_value_length(column).to_pylist())
    if len(lengths) != 1 or None in lengths:
        raise ValueError("the lists of the column differ in length")
    return numbers.reshape(len(column), -1)


def _csv(where: Source) -> tuple[list[str], Iterator[list[Sequence[Any]]]]:
    try:
        with open(where.path, newline="", encoding="utf-8-sig") as file:
            there = next(csv.reader(file), [])
    except UnicodeDecodeError as error:
        raise ValueError(f"{where.path} is not UTF-8 text") from error
    if not there:
        raise ValueError(f"{where.path} is empty: the first line must name the columns")
    names = _chosen(where, there)
    places = [there.index(name) for name in names]

    def batches() -> Iterator[list[Sequence[Any]]]:
        with open(where.path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
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


def _collected(
    where: Source, names: list[str], batches: Iterator[list[Sequence[Any]]], scratch: Path
) -> NDArray[np.float32]:
    """Batches of columns as one float32 .npy file, which is then mapped."""
    raw = scratch / f"column{len(list(scratch.iterdir()))}.raw"
    count, width = 0, 0
    with open(raw, "wb") as file:
        for batch in batches:
            block = np.hstack([_numbers(column, name, where, count) for name, column in zip(names, batch, strict=True)])
            if count and block.shape[1] != width:
                raise ValueError(f"{where} changes its width from {width} to {block.shape[1]} near row {count}")
            block.tofile(file)
            count, width = count + len(block), block.shape[1]
    if not count:
        raise ValueError(f"{where} has no rows")
    return np.memmap(raw, dtype=np.float32, mode="r", shape=(count, width))


def _numbers(column: Any, name: str, where: Source, start: int) -> NDArray[np.float32]:
    try:
        block = np.asarray(column, dtype=np.float32)
    except (ValueError, TypeError) as error:
        row = next((row for row, cell in enumerate(column) if not _is_number(cell)), 0)
        raise ValueError(
            f"{where.path} has {column[row]!r:.40} in column {name}, row {start + row}, where a number should be"
        ) from error
    return block.reshape(len(block), -1)


def _is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (ValueError, TypeError):
        return False
    return True
