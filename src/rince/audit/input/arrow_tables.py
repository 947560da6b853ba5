"""Tables of Arrow: Parquet files, Arrow files, folders of Hugging Face datasets, and tables in memory.

All of them are a schema and batches of rows; nothing here holds more than a batch, unless the table is in memory.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince._support.optional_imports import require
from rince.audit.input.source import Source
from rince.errors import UsageError, WrongType

ROWS = 8192


class ArrowTable(NamedTuple):
    """A table that is read in batches: ``batches(names)`` yields record batches with these columns, in this order."""

    name: str
    schema: Any
    batches: Callable[[list[str]], Iterator[Any]]


def open_arrow(where: Source) -> ArrowTable:
    """The table of a file, a pattern of files, or a folder of datasets."""
    files = where.files
    if not files:
        raise UsageError(f"{where.path} holds no data")
    parts = [_open_file(file, where.kind) for file in files]
    first = parts[0]

    def batches(names: list[str]) -> Iterator[Any]:
        for part in parts:
            for name in names:
                if name not in part.schema.names or part.schema.field(name).type != first.schema.field(name).type:
                    raise UsageError(f"{part.name} has no column {name} of the same kind as {first.name}")
            yield from part.batches(names)

    return ArrowTable(str(where.path), first.schema, batches)


def as_arrow(table: Any) -> ArrowTable:
    """A table in memory: of pandas, polars, Arrow or datasets, or whatever else hands out Arrow streams."""
    arrow = require("pyarrow", "audit")
    if isinstance(table, arrow.RecordBatch):
        table = arrow.Table.from_batches([table])
    elif type(table).__module__.split(".")[0] == "datasets":
        table = table.with_format("arrow")[:]
    elif type(table).__module__.split(".")[0] == "pandas":
        table = arrow.Table.from_pandas(table, preserve_index=False)
    elif not isinstance(table, arrow.Table):
        if not hasattr(table, "__arrow_c_stream__"):
            raise WrongType(f"a table must come from pandas, polars, Arrow or datasets, got {type(table).__name__}")
        table = arrow.table(table)
    return ArrowTable("the table", table.schema, lambda names: iter(_in_memory(table, names)))


def _in_memory(table: Any, names: list[str]) -> list[Any]:
    return table.select(names).to_batches(max_chunksize=ROWS)


def _open_file(file: Path, kind: str) -> ArrowTable:
    with _telling(file):
        return _parquet(file) if kind == ".parquet" else _ipc(file)


def _parquet(path: Path) -> ArrowTable:
    file = require("pyarrow.parquet", "audit").ParquetFile(path)

    def batches(names: list[str]) -> Iterator[Any]:
        for batch in _told(path, file.iter_batches(batch_size=ROWS, columns=names)):
            yield batch.select(names)

    return ArrowTable(str(path), file.schema_arrow, batches)


def _ipc(path: Path) -> ArrowTable:
    """An Arrow file or stream, mapped into memory; datasets write streams, feather writes files."""
    arrow, ipc = require("pyarrow", "audit"), require("pyarrow.ipc", "audit")
    with open(path, "rb") as file:
        is_file = file.read(6) == b"ARROW1"

    def open_one() -> Any:
        mapped = arrow.memory_map(str(path))
        return ipc.open_file(mapped) if is_file else ipc.open_stream(mapped)

    def batches(names: list[str]) -> Iterator[Any]:
        reader = open_one()
        whole = (reader.get_batch(k) for k in range(reader.num_record_batches)) if is_file else reader
        for batch in _told(path, whole):
            for start in range(0, len(batch), ROWS):
                yield batch.select(names).slice(start, ROWS)

    return ArrowTable(str(path), open_one().schema, batches)


def _told(path: Path, batches: Any) -> Iterator[Any]:
    """The batches; what is damaged in the middle of a file names the file, too."""
    with _telling(path):
        yield from batches


@contextmanager
def _telling(name: Path | str) -> Iterator[None]:
    """Errors of Arrow name the file, and are no longer than a reader's patience."""
    arrow = require("pyarrow", "audit")
    try:
        yield
    except (arrow.ArrowException, OSError) as error:  # a file that ends too soon is the latter
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{name} cannot be read: {' '.join(str(error).split())[:300]}") from error


def is_list(kind: Any) -> bool:
    types = require("pyarrow", "audit").types
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def is_number(kind: Any) -> bool:
    types = require("pyarrow", "audit").types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)


def number_columns(table: ArrowTable, names: list[str]) -> Iterator[list[NDArray[Any]]]:
    """Columns of numbers in batches; a column of lists becomes arrays (rows, length)."""
    types = require("pyarrow", "audit").types
    lists = {name for name in names if is_list(table.schema.field(name).type)}
    for name in names:
        kind = table.schema.field(name).type
        if types.is_temporal(kind) or types.is_struct(kind) or types.is_map(kind) or types.is_union(kind):
            raise UsageError(f"{table.name} has {kind} in column {name}, where numbers or lists of numbers should be")
    for name in lists:
        inside = table.schema.field(name).type.value_type
        if not (types.is_integer(inside) or types.is_floating(inside)):
            raise UsageError(f"{table.name} has lists of {inside} in column {name}, where lists of numbers should be")
    widths = {name: _width(table, name) for name in lists}

    def batches() -> Iterator[list[NDArray[Any]]]:
        start = 0
        for batch in table.batches(names):
            with _telling(table.name):
                columns = [
                    _flat(batch.column(k), widths[name], name, table, start)
                    if name in lists
                    else batch.column(k).to_numpy(zero_copy_only=False)
                    for k, name in enumerate(names)
                ]
            yield columns
            start += len(batch)

    return batches()


def value_column(table: ArrowTable, name: str) -> Iterator[NDArray[Any]]:
    """A column as it is, in batches; whole numbers stay whole beside missing ones."""
    kind = table.schema.field(name).type
    if require("pyarrow", "audit").types.is_nested(kind):
        raise UsageError(f"{table.name} has {kind} in column {name}, where one value per pair should be")
    for batch in table.batches([name]):
        with _telling(table.name):
            found = _values(batch.column(0))
        yield found


def _values(column: Any) -> NDArray[Any]:
    arrow = require("pyarrow", "audit")
    texts = (arrow.string(), arrow.large_string(), arrow.binary(), arrow.large_binary())
    column = column.dictionary_encode() if column.type in texts else column
    if arrow.types.is_dictionary(column.type) and column.type.value_type in texts:
        # Equal texts become one object: a small file may repeat a long one millions of times.
        used, place = np.unique(column.indices.fill_null(-1).to_numpy(zero_copy_only=False), return_inverse=True)
        found = column.dictionary.take(arrow.array(used[used >= 0])).to_pylist()
        return np.array([*([None] if used[:1] < 0 else []), *found], dtype=object)[place]
    # With gaps numpy would make floats of whole numbers: 7 stays 7, and large ids stay exact.
    if column.null_count:
        return np.array(column.to_pylist(), dtype=object)
    return column.to_numpy(zero_copy_only=False)


def _lengths(column: Any) -> NDArray[np.float64]:
    """The length of every list, NaN for a missing one."""
    lengths = require("pyarrow.compute", "audit").list_value_length(column)
    return lengths.to_numpy(zero_copy_only=False).astype(np.float64)


def _width(table: ArrowTable, name: str) -> int:
    for batch in table.batches([name]):
        lengths = _lengths(batch.column(0))
        known = lengths[~np.isnan(lengths)]
        if len(known) and not known[0]:
            raise UsageError(f"{table.name} has empty lists in column {name}")
        if len(known):
            return int(known[0])
    raise UsageError(f"{table.name} has no lists in column {name}: all of them are missing")


def _flat(column: Any, width: int, name: str, table: ArrowTable, start: int) -> NDArray[np.float32]:
    lengths = _lengths(column)
    there = ~np.isnan(lengths)
    other = np.flatnonzero(there & (lengths != width))
    if len(other):
        raise UsageError(
            f"{table.name} has lists that differ in length in column {name}: {int(lengths[other[0]])} numbers in row "
            f"{start + other[0]}, {width} in those before"
        )
    block = np.full((len(column), width), np.nan, dtype=np.float32)
    block[there] = column.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
    return block
