"""Arrow tables: Parquet, Arrow and Feather files, folders of Hugging Face datasets, and tables in memory.

All of them have a schema and batches of rows. At most one batch is held at a time, unless the table is in memory.
"""

import functools
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince._support.optional_imports import require
from rince.errors import UsageError, WrongType
from rince.pairs.files import is_url, location, opened, written
from rince.pairs.format import ROWS, WEIGHT, Format, Selection, check_no_weights
from rince.pairs.source import Source


class ArrowTable(NamedTuple):
    """A table read in batches: ``batches(names)`` yields record batches with these columns, in this order.

    ``parts`` are the tables of several files.
    """

    name: str
    schema: Any
    batches: Callable[[list[str]], Iterator[Any]]
    parts: tuple["ArrowTable", ...] = ()


def open_arrow(source: Source) -> ArrowTable:
    """The table of a file, a pattern of files, or a folder of datasets."""
    segments = source.segments
    if not segments:
        raise UsageError(f"{source.path} holds no data")
    first, *others = (_open_file(*segment, source) for segment in segments)
    parts = (first, *(part._replace(batches=functools.partial(_checked_batches, part, first)) for part in others))

    def batches(names: list[str]) -> Iterator[Any]:
        return itertools.chain.from_iterable(part.batches(names) for part in parts)

    return ArrowTable(location(source.path), first.schema, batches, parts)


def _checked_batches(part: ArrowTable, first: ArrowTable, names: list[str]) -> Iterator[Any]:
    """Batches of a file, whose columns must match those of the first file."""
    for name in names:
        if name not in part.schema.names:
            raise UsageError(f"{part.name} has no column {name} ({first.name} has one)")
        kind, expected = part.schema.field(name).type, first.schema.field(name).type
        if kind != expected and not any(same(kind) and same(expected) for same in (is_number, _is_numbers, _is_text)):
            raise UsageError(f"{part.name} has {kind} in column {name}, where {first.name} has {expected}")
    return part.batches(names)


def _is_numbers(kind: Any) -> bool:
    return is_list(kind) and is_number(kind.value_type)


def _is_text(kind: Any) -> bool:
    types = require("pyarrow", "audit").types
    kind = kind.value_type if types.is_dictionary(kind) else kind
    return types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind)


def as_arrow(table: Any) -> ArrowTable:
    """A table in memory: of pandas, polars, Arrow, datasets, or any object with an Arrow stream."""
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


def _open_file(file: Path, start: int, stop: int | None, source: Source) -> ArrowTable:
    """Rows ``start`` to ``stop`` of a file; a field of a struct (``translation.en``) is a separate column."""
    with _arrow_errors(file):
        table = (_parquet if source.kind == ".parquet" else _ipc)(file, start, stop)
    for name in (source.column or "").split(","):
        if "." in name and name not in table.schema.names:
            table = _with_nested(table, name)
    return table


def _with_nested(table: ArrowTable, name: str) -> ArrowTable:
    arrow, compute = require("pyarrow", "audit"), require("pyarrow.compute", "audit")
    top, *path = name.split(".")
    field = arrow.field("table", arrow.struct(list(table.schema)))
    for part in (top, *path):
        if not arrow.types.is_struct(field.type) or field.type.get_field_index(part) < 0:
            return table
        field = field.type.field(part)

    def batches(names: list[str]) -> Iterator[Any]:
        for batch in table.batches(list(dict.fromkeys(top if column == name else column for column in names))):
            columns = [compute.struct_field(batch[top], path) if column == name else batch[column] for column in names]
            yield arrow.RecordBatch.from_arrays(columns, names=names)

    return ArrowTable(table.name, table.schema.append(field.with_name(name)), batches)


def _parquet(path: Path, start: int, stop: int | None) -> ArrowTable:
    parquet = require("pyarrow.parquet", "audit")
    with opened(path) as file:
        schema = parquet.ParquetFile(file).schema_arrow

    def batches(names: list[str]) -> Iterator[Any]:
        with opened(path) as file, _arrow_errors(path):
            table = parquet.ParquetFile(file)
            rows = [table.metadata.row_group(k).num_rows for k in range(table.metadata.num_row_groups)]
            ends = np.cumsum([0, *rows])
            last = ends[-1] if stop is None else stop
            groups = [k for k in range(len(rows)) if ends[k + 1] > start and ends[k] < last]
            skipped = int(ends[groups[0]]) if groups else 0
            row_batches = table.iter_batches(batch_size=ROWS, columns=names, row_groups=groups)
            for batch in _sliced(row_batches, start - skipped, None if stop is None else stop - skipped):
                yield batch.select(names)

    return ArrowTable(location(path), schema, batches)


def _ipc(path: Path, start: int, stop: int | None) -> ArrowTable:
    """An Arrow file or stream, mapped into memory; datasets write streams, feather writes files."""
    arrow = require("pyarrow", "audit")

    def open_reader() -> Any:
        if not is_url(path):
            return _ipc_reader(arrow.memory_map(str(path)))
        with opened(path) as file:
            return _ipc_reader(arrow.BufferReader(file.read()))

    def batches(names: list[str]) -> Iterator[Any]:
        with _arrow_errors(path):
            for batch in _sliced(_ipc_batches(open_reader()), start, stop):
                for first in range(0, len(batch), ROWS):
                    yield batch.select(names).slice(first, ROWS)

    return ArrowTable(location(path), open_reader().schema, batches)


def _ipc_reader(file: Any) -> Any:
    ipc = require("pyarrow.ipc", "audit")
    is_file = file.read(6) == b"ARROW1"
    file.seek(0)
    return ipc.open_file(file) if is_file else ipc.open_stream(file)


def _ipc_batches(reader: Any) -> Iterator[Any]:
    count = getattr(reader, "num_record_batches", None)
    return iter(reader) if count is None else (reader.get_batch(k) for k in range(count))


def _sliced(batches: Iterator[Any], start: int, stop: int | None) -> Iterator[Any]:
    first = 0
    for batch in batches:
        last = first + len(batch)
        if stop is not None and first >= stop:
            return
        if last > start:
            begin = max(0, start - first)
            yield batch.slice(begin, None if stop is None else stop - first - begin)
        first = last


@contextmanager
def _arrow_errors(name: Path | str) -> Iterator[None]:
    """Turn Arrow errors into usage errors that name the file."""
    arrow = require("pyarrow", "audit")
    try:
        yield
    except (arrow.ArrowException, OSError) as error:  # OSError for a truncated file
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{name} cannot be read: {' '.join(str(error).split())[:300]}") from error


def is_list(kind: Any) -> bool:
    types = require("pyarrow", "audit").types
    return types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind)


def is_number(kind: Any) -> bool:
    types = require("pyarrow", "audit").types
    return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)


def number_columns(table: ArrowTable, names: list[str]) -> Iterator[tuple[str, list[NDArray[Any]]]]:
    """Batches of columns of numbers, each with the name of its file; lists become arrays (rows, length)."""
    types = require("pyarrow", "audit").types
    lists = {name for name in names if is_list(table.schema.field(name).type)}
    for name in names:
        kind = table.schema.field(name).type
        if types.is_temporal(kind) or types.is_struct(kind) or types.is_map(kind) or types.is_union(kind):
            raise UsageError(f"{table.name} has {kind} in column {name}, where numbers or lists of numbers should be")
    for name in lists:
        item_type = table.schema.field(name).type.value_type
        if not (types.is_integer(item_type) or types.is_floating(item_type)):
            raise UsageError(
                f"{table.name} has lists of {item_type} in column {name}, where lists of numbers should be"
            )
    widths = {name: _width(table, name) for name in lists}

    for part in table.parts or (table,):
        start = 0
        for batch in part.batches(names):
            with _arrow_errors(part.name):
                columns = [
                    _flat(batch.column(k), widths[name], name, part, start)
                    if name in lists
                    else batch.column(k).to_numpy(zero_copy_only=False)
                    for k, name in enumerate(names)
                ]
            yield part.name, columns
            start += len(batch)


def value_column(table: ArrowTable, name: str) -> Iterator[NDArray[Any]]:
    """Values of a column, in batches; integers stay integers beside missing values."""
    kind = table.schema.field(name).type
    if require("pyarrow", "audit").types.is_nested(kind):
        raise UsageError(f"{table.name} has {kind} in column {name}, where one value per pair should be")
    for batch in table.batches([name]):
        with _arrow_errors(table.name):
            # Files may differ in number type: cast, so that 7 and 7.0 are equal.
            values = _values(batch.column(0).cast(kind) if is_number(kind) else batch.column(0))
        yield values


def _values(column: Any) -> NDArray[Any]:
    arrow = require("pyarrow", "audit")
    texts = (arrow.string(), arrow.large_string(), arrow.binary(), arrow.large_binary())
    column = column.dictionary_encode() if column.type in texts else column
    if arrow.types.is_dictionary(column.type) and column.type.value_type in texts:
        # Equal texts share one object: a small file may repeat a long text millions of times.
        indices, inverse = np.unique(column.indices.fill_null(-1).to_numpy(zero_copy_only=False), return_inverse=True)
        items = column.dictionary.take(arrow.array(indices[indices >= 0])).to_pylist()
        return np.array([*([None] if indices[:1] < 0 else []), *items], dtype=object)[inverse]
    # numpy would convert integers with gaps to floats, and large ids would not be exact.
    if column.null_count:
        return np.array(column.to_pylist(), dtype=object)
    return column.to_numpy(zero_copy_only=False)


def _lengths(column: Any) -> NDArray[np.float64]:
    """Lengths of lists; NaN for missing lists."""
    lengths = require("pyarrow.compute", "audit").list_value_length(column)
    return lengths.to_numpy(zero_copy_only=False).astype(np.float64)


def _width(table: ArrowTable, name: str) -> int:
    for batch in table.batches([name]):
        lengths = _lengths(batch.column(0))
        present = lengths[~np.isnan(lengths)]
        if len(present) and not present[0]:
            raise UsageError(f"{table.name} has empty lists in column {name}")
        if len(present):
            return int(present[0])
    raise UsageError(f"{table.name} has no lists in column {name}: all of them are missing")


def _flat(column: Any, width: int, name: str, table: ArrowTable, start: int) -> NDArray[np.float32]:
    lengths = _lengths(column)
    present = ~np.isnan(lengths)
    different = np.flatnonzero(present & (lengths != width))
    if len(different):
        raise UsageError(
            f"{table.name} has lists that differ in length in column {name}: {int(lengths[different[0]])} numbers in "
            f"row {start + different[0]}, {width} in those before"
        )
    block = np.full((len(column), width), np.nan, dtype=np.float32)
    block[present] = column.flatten().to_numpy(zero_copy_only=False).reshape(-1, width)
    return block


class Arrow(Format):
    """Parquet, Arrow and Feather files, and folders of Hugging Face datasets."""

    skips_rows = True

    @functools.cached_property
    def fields(self) -> list[str]:
        return list(open_arrow(self.where).schema.names)

    def rows(self, shard: Path) -> int:
        with opened(shard) as file, _arrow_errors(shard):
            if self.where.kind == ".parquet":
                return int(require("pyarrow.parquet", "audit").ParquetFile(file).metadata.num_rows)
            return sum(len(batch) for batch in _ipc_batches(_ipc_reader(file)))

    def read(self, shard: Path, fields: Sequence[str], start: int = 0, stop: int | None = None) -> Iterator[list[Any]]:
        for batch in _open_file(shard, start, stop, self.where).batches(list(fields)):
            yield [column.to_pylist() for column in batch.columns]

    def write(self, shard: Path, target: Path, selection: Selection) -> None:
        arrow, parquet = require("pyarrow", "audit"), require("pyarrow.parquet", "audit")
        ipc = require("pyarrow.ipc", "audit")
        with opened(shard) as file, written(target) as out, _arrow_errors(shard):
            if self.where.kind == ".parquet":
                source = parquet.ParquetFile(file)
                metadata = source.metadata
                codec = "snappy"
                if metadata.num_row_groups and metadata.num_columns:
                    codec = metadata.row_group(0).column(0).compression.lower().replace("uncompressed", "none")
                batches = (source.read_row_group(group) for group in range(metadata.num_row_groups))
                schema = self._schema(shard, source.schema_arrow, selection)
                writer = parquet.ParquetWriter(out, schema, compression=codec)
            else:
                source = _ipc_reader(file)
                batches = (arrow.Table.from_batches([batch]) for batch in _ipc_batches(source))
                schema = self._schema(shard, source.schema, selection)
                is_file = hasattr(source, "num_record_batches")
                writer = (ipc.new_file if is_file else ipc.new_stream)(out, schema)
            with writer:
                for table in batches:
                    kept, weights = selection.take(len(table), shard)
                    if weights is not None:
                        columns = [*table.columns, arrow.array(weights, arrow.float32())]
                        table = arrow.Table.from_arrays(columns, schema=schema)
                    writer.write_table(table.filter(arrow.array(kept)))

    def _schema(self, shard: Path, schema: Any, selection: Selection) -> Any:
        if selection.weights is None:
            return schema
        arrow = require("pyarrow", "audit")
        check_no_weights(shard, schema.names)
        metadata = dict(schema.metadata or {})
        if b"huggingface" in metadata:  # feature types of Hugging Face datasets
            features = json.loads(metadata[b"huggingface"])
            features.get("info", {}).get("features", {})[WEIGHT] = {"dtype": "float32", "_type": "Value"}
            metadata[b"huggingface"] = json.dumps(features).encode()
        return schema.append(arrow.field(WEIGHT, arrow.float32())).with_metadata(metadata or None)
