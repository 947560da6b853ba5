"""Files without the rows that are not kept, or with a trust for every row: in the format they came in, in chunks.

Tables keep all their columns and stay as they are otherwise. Of an archive of arrays (.npz, .safetensors) those with
one row per pair are filtered; the others are copied.
"""

import csv
import json
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from rince._support.optional_imports import require
from rince.audit.columns import check_whole, release
from rince.audit.input.arrays import mapped_npy, naming
from rince.audit.input.source import TEXT_TABLES, Source
from rince.audit.input.text_tables import rows_of
from rince.errors import UsageError

Kept = NDArray[np.bool_]
Weights = NDArray[np.float32]
CHUNK = 16_000_000  # bytes
ROWS = 8192
COLUMN = "trust"


def write_kept(where: Source, target: Path, kept: Kept, weights: Weights | None = None) -> None:
    """A copy of a file with the rows that are ``kept`` and, if given, ``weights`` as a column or array ``trust``.

    Raises:
        UsageError: The file has another number of rows, has a trust already, or is of a kind that cannot be written.
    """
    writer = WRITERS.get(where.path.suffix.lower())
    if writer is None or not where.path.is_file():
        raise UsageError(f"{where.path} cannot be written again: files must end in {', '.join(WRITERS)}")
    with naming(where.path):
        writer(where, target, kept, weights)


def check_rows(path: Path, rows: int, kept: Kept) -> None:
    if rows != len(kept):
        raise UsageError(f"{path} has {rows:,} rows, the audit {len(kept):,}: it is the audit of other pairs")


def _check_new(path: Path, names: list[str]) -> None:
    if COLUMN in names:
        raise UsageError(f"{path} has a {COLUMN!r} already: rename it, or leave out --weights")


def _chunks(rows: int, row_bytes: int) -> Iterator[slice]:
    step = max(1, CHUNK // max(1, row_bytes))
    return (slice(start, min(rows, start + step)) for start in range(0, rows, step))


def _npy(where: Source, target: Path, kept: Kept, weights: Weights | None) -> None:
    array = mapped_npy(where.path)
    check_rows(where.path, len(array) if array.ndim else 0, kept)
    with open(target, "wb") as file:
        _write_array(file, array, kept)
    # The trust cannot become a column here; the command writes it into a file of its own.


def _write_array(file: Any, array: NDArray[Any], kept: Kept) -> None:
    rows = int(kept.sum())
    header = {"descr": npy.dtype_to_descr(array.dtype), "fortran_order": False, "shape": (rows, *array.shape[1:])}
    npy.write_array_header_2_0(file, header)
    for part in _chunks(len(array), array.nbytes // max(1, len(array))):
        check_whole(array)
        file.write(np.ascontiguousarray(array[part][kept[part]]).tobytes())
        release(array)


def _npz(where: Source, target: Path, kept: Kept, weights: Weights | None) -> None:
    with zipfile.ZipFile(where.path) as source, zipfile.ZipFile(target, "w", allowZip64=True) as archive:
        if weights is not None:
            _check_new(where.path, [Path(name).stem for name in source.namelist()])
        filtered = 0
        for info in source.infolist():
            with source.open(info) as packed:
                entry = zipfile.ZipInfo(info.filename, info.date_time)
                entry.compress_type = info.compress_type
                with archive.open(entry, "w", force_zip64=True) as file:
                    filtered += _filter_member(packed, file, kept, where.path)
        if not filtered:
            raise UsageError(f"{where.path} has no array with {len(kept):,} rows: it is the audit of other pairs")
        if weights is not None:
            with archive.open(f"{COLUMN}.npy", "w") as file:
                npy.write_array(file, weights[kept])


def _filter_member(packed: IO[bytes], file: Any, kept: Kept, path: Path) -> int:
    """One array of an archive, row by row, or as it is where it has another number of rows; whether it was filtered."""
    version = npy.read_magic(packed)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read(packed)
    if dtype.hasobject:
        raise UsageError(f"{path} holds Python objects, which are never loaded")
    per_pair = len(shape) > 0 and shape[0] == len(kept)
    if per_pair and fortran and len(shape) > 1:
        raise UsageError(f"{path} has an array in Fortran order, which cannot be read row by row: save it in C order")
    rows = int(kept.sum()) if per_pair else None
    header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": fortran and not per_pair, "shape": shape}
    if rows is not None:
        header["shape"] = (rows, *shape[1:])
    npy.write_array_header_2_0(file, header)
    if rows is None:
        while block := packed.read(CHUNK):
            file.write(block)
        return 0
    row_bytes = dtype.itemsize * int(np.prod(shape[1:], dtype=np.int64))
    for part in _chunks(len(kept), row_bytes):
        block = _read_exactly(packed, row_bytes * (part.stop - part.start), path)
        file.write(np.frombuffer(block, np.uint8).reshape(part.stop - part.start, row_bytes)[kept[part]].tobytes())
    return 1


def _read_exactly(file: IO[bytes], count: int, path: Path) -> bytes:
    block = b""
    while len(block) < count:
        more = file.read(count - len(block))
        if not more:
            raise UsageError(f"{path} is cut off")
        block += more
    return block


def _text(where: Source, target: Path, kept: Kept, weights: Weights | None) -> None:
    delimiter = TEXT_TABLES[where.path.suffix.lower()]
    with (
        open(where.path, newline="", encoding="utf-8-sig") as source,
        open(target, "w", newline="", encoding="utf-8") as file,
    ):
        reader = (cells for _, cells in rows_of(where, source))
        writer = csv.writer(file, delimiter=delimiter, lineterminator=_line_end(where.path))
        if where.header:
            names = next(reader, [])
            if weights is not None:
                _check_new(where.path, names)
                names = [*names, COLUMN]
            writer.writerow(names)
        row = -1
        for row, cells in enumerate(reader):
            if row < len(kept) and kept[row]:
                writer.writerow(cells if weights is None else [*cells, f"{weights[row]:.6g}"])
    check_rows(where.path, row + 1, kept)


def _line_end(path: Path) -> str:
    with open(path, "rb") as file:
        return "\r\n" if file.readline().endswith(b"\r\n") else "\n"


def _parquet(where: Source, target: Path, kept: Kept, weights: Weights | None) -> None:
    arrow, parquet = require("pyarrow", "audit"), require("pyarrow.parquet", "audit")
    source = parquet.ParquetFile(where.path)
    check_rows(where.path, source.metadata.num_rows, kept)
    schema = source.schema_arrow
    if weights is not None:
        _check_new(where.path, schema.names)
        schema = schema.append(arrow.field(COLUMN, arrow.float32()))
    codec = "snappy"
    if source.metadata.num_row_groups and source.metadata.num_columns:
        codec = source.metadata.row_group(0).column(0).compression.lower()
    codec = "none" if codec == "uncompressed" else codec
    start = 0
    with parquet.ParquetWriter(target, schema, compression=codec) as writer:
        for batch in source.iter_batches(batch_size=ROWS):
            part = slice(start, start + len(batch))
            if weights is not None:
                batch = arrow.RecordBatch.from_arrays([*batch.columns, arrow.array(weights[part])], schema=schema)
            writer.write_batch(batch.filter(arrow.array(kept[part])))
            start = part.stop


def _safetensors(where: Source, target: Path, kept: Kept, weights: Weights | None) -> None:
    """The format is a header and the bytes of one tensor after the other, so rows can be copied as bytes."""
    header, begin = _header(where.path)
    about = header.pop("__metadata__", None)
    names = sorted(header, key=lambda name: header[name]["data_offsets"][0])
    filtered = [name for name in names if header[name]["shape"][:1] == [len(kept)]]
    if not filtered:
        raise UsageError(f"{where.path} has no tensor with {len(kept):,} rows: it is the audit of other pairs")
    if weights is not None:
        _check_new(where.path, names)
    rows = int(kept.sum())
    fresh: dict[str, Any] = {} if about is None else {"__metadata__": about}
    place = 0
    for name in names:
        first, last = header[name]["data_offsets"]
        size = (last - first) // max(1, len(kept)) * rows if name in filtered else last - first
        shape = [rows, *header[name]["shape"][1:]] if name in filtered else header[name]["shape"]
        fresh[name] = {"dtype": header[name]["dtype"], "shape": shape, "data_offsets": [place, place + size]}
        place += size
    if weights is not None:
        fresh[COLUMN] = {"dtype": "F32", "shape": [rows], "data_offsets": [place, place + 4 * rows]}
    text = json.dumps(fresh, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    source = np.memmap(where.path, np.uint8, "r")
    with open(target, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name in names:
            first, last = header[name]["data_offsets"]
            values = source[begin + first : begin + last]
            table = values.reshape(len(kept), -1) if name in filtered else values.reshape(-1, 1)
            for part in _chunks(len(table), table.shape[1]):
                check_whole(source)
                file.write((table[part][kept[part]] if name in filtered else table[part]).tobytes())
        if weights is not None:
            file.write(weights[kept].astype("<f4").tobytes())


def _header(path: Path) -> tuple[dict[str, Any], int]:
    size = path.stat().st_size
    try:
        with open(path, "rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > min(size - 8, 100_000_000):
                raise ValueError("its header is longer than the file")
            header = json.loads(file.read(length))
        ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
        if max(ends, default=0) + 8 + length > size:
            raise ValueError("it is cut off")
    except (struct.error, ValueError, KeyError, TypeError, AttributeError) as error:
        raise UsageError(f"{path} is no whole .safetensors file ({error})") from error
    return header, 8 + length


WRITERS: dict[str, Callable[[Source, Path, Kept, Weights | None], None]] = {
    ".npy": _npy,
    ".npz": _npz,
    ".parquet": _parquet,
    ".csv": _text,
    ".tsv": _text,
    ".safetensors": _safetensors,
}
