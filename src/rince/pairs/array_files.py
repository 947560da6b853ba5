"""Files of arrays: .npy, .npz, .safetensors and .pt."""

import contextlib
import functools
import io
import itertools
import json
import math
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from rince._support.optional_imports import require
from rince._support.zip_files import opened_zip
from rince.errors import UsageError
from rince.pairs.files import is_url, location, opened, written
from rince.pairs.format import WEIGHT, Format, Selection, check_no_weights
from rince.pairs.source import Source

CHUNK_BYTES = 16_000_000


def _chunks(rows: int, row_bytes: int) -> Iterator[slice]:
    step = max(1, CHUNK_BYTES // max(1, row_bytes))
    return (slice(start, min(rows, start + step)) for start in range(0, rows, step))


def read_npy_header(file: IO[bytes], shard: Path) -> tuple[tuple[int, ...], bool, "np.dtype[Any]"]:
    """Shape, Fortran order and dtype of an open .npy file."""
    version = npy.read_magic(file)
    header = (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(file)
    if header[2].hasobject:
        raise UsageError(
            f"{location(shard)} holds Python objects, which are never loaded: save numbers or texts instead"
        )
    if any(isinstance(length, bool) or length < 0 for length in header[0]) or math.prod(header[0]) > 2**62:
        raise ValueError("its header has an impossible shape")
    return header


def _read_exactly(file: IO[bytes], count: int, shard: Path) -> bytes:
    block = b""
    while len(block) < count:
        data = file.read(count - len(block))
        if not data:
            raise UsageError(f"{location(shard)} is cut off: it has fewer rows than its header says")
        block += data
    return block


class Npy(Format):
    """One array per shard."""

    skips_rows = True

    @property
    def fields(self) -> list[str]:
        return []

    def rows(self, shard: Path) -> int:
        with opened(shard) as file:
            return _length(read_npy_header(file, shard)[0], shard)

    def read(
        self, shard: Path, fields: Sequence[str] = (), start: int = 0, stop: int | None = None
    ) -> Iterator[list[Any]]:
        with opened(shard) as file:
            yield from ([block] for block in _array_blocks(file, shard, start, stop))

    def write(self, shard: Path, target: Path, selection: Selection) -> None:
        with opened(shard) as file, written(target) as out:
            shape, fortran, dtype = read_npy_header(file, shard)
            kept, _ = selection.take(_length(shape, shard), shard)
            _filter_array(file, out, shape, fortran, dtype, kept, shard)


def _length(shape: Sequence[int], shard: Path) -> int:
    if not len(shape):
        raise UsageError(f"{location(shard)} holds a single number, not one row per pair")
    return int(shape[0])


def _array_blocks(file: IO[bytes], shard: Path, start: int, stop: int | None) -> Iterator[NDArray[Any]]:
    shape, fortran, dtype = read_npy_header(file, shard)
    stop = _length(shape, shard) if stop is None else stop
    row_bytes = dtype.itemsize * math.prod(shape[1:])
    if fortran and len(shape) > 1:
        array = np.frombuffer(_read_exactly(file, row_bytes * shape[0], shard), dtype)
        yield array.reshape(shape[::-1]).transpose()[start:stop]
        return
    file.seek(start * row_bytes, io.SEEK_CUR)
    for part in _chunks(stop - start, row_bytes):
        rows = part.stop - part.start
        yield np.frombuffer(_read_exactly(file, rows * row_bytes, shard), dtype).reshape(rows, *shape[1:])


def _filter_array(
    file: IO[bytes], out: Any, shape: Any, fortran: bool, dtype: Any, kept: NDArray[np.bool_] | None, shard: Path
) -> None:
    """Copy an array whose header was just read: all of it, or the kept rows."""
    rows = shape if kept is None else (int(kept.sum()), *shape[1:])
    header = {"descr": npy.dtype_to_descr(dtype), "fortran_order": fortran and kept is None, "shape": rows}
    npy.write_array_header_2_0(out, header)
    row_bytes = dtype.itemsize * math.prod(shape[1:])
    if kept is None:
        while block := file.read(CHUNK_BYTES):
            out.write(block)
    elif fortran and len(shape) > 1:
        array = np.frombuffer(_read_exactly(file, row_bytes * shape[0], shard), dtype).reshape(shape[::-1]).transpose()
        out.write(np.ascontiguousarray(array[kept]).tobytes())
    else:
        for part in _chunks(shape[0], row_bytes):
            rows = part.stop - part.start
            values = np.frombuffer(_read_exactly(file, rows * row_bytes, shard), np.uint8)
            out.write(values.reshape(rows, row_bytes)[kept[part]].tobytes())


class Npz(Format):
    """Named arrays; those with one row per pair are filtered, the others are copied."""

    @contextlib.contextmanager
    def _archive(self, shard: Path) -> Iterator[zipfile.ZipFile]:
        with opened(shard) as file, opened_zip(shard, file) as archive:
            yield archive

    @functools.cached_property
    def fields(self) -> list[str]:
        with self._archive(self.shards[0]) as archive:
            return [name[:-4] for name in archive.namelist() if name.endswith(".npy")]

    @contextlib.contextmanager
    def _array(self, shard: Path, field: str) -> Iterator[IO[bytes]]:
        with self._archive(shard) as archive:
            if f"{field}.npy" not in archive.namelist():
                raise UsageError(f"{location(shard)} has no array {field}")
            with archive.open(f"{field}.npy") as packed:
                yield packed

    def rows(self, shard: Path) -> int:
        with self._array(shard, self.where.column or self.fields[0]) as packed:
            return _length(read_npy_header(packed, shard)[0], shard)

    def read(self, shard: Path, fields: Sequence[str], start: int = 0, stop: int | None = None) -> Iterator[list[Any]]:
        with self._array(shard, fields[0]) as packed:
            yield from ([block] for block in _array_blocks(packed, shard, start, stop))

    def write(self, shard: Path, target: Path, selection: Selection) -> None:
        field = self.where.column or self.fields[0]
        with (
            self._archive(shard) as source,
            written(target) as new,
            zipfile.ZipFile(new, "w", allowZip64=True) as archive,
        ):
            if f"{field}.npy" not in source.namelist():
                raise UsageError(f"{location(shard)} has no array {field}")
            with source.open(f"{field}.npy") as packed:
                pairs = _length(read_npy_header(packed, shard)[0], shard)
            kept, weights = selection.take(pairs, shard)
            if weights is not None:
                check_no_weights(shard, [Path(name).stem for name in source.namelist()])
            for info in source.infolist():
                entry = zipfile.ZipInfo(info.filename, info.date_time)
                entry.compress_type = info.compress_type
                with source.open(info) as packed, archive.open(entry, "w", force_zip64=True) as out:
                    shape, fortran, dtype = read_npy_header(packed, Path(f"{shard}:{info.filename[:-4]}"))
                    per_pair = shape[:1] == (pairs,)
                    _filter_array(packed, out, shape, fortran, dtype, kept if per_pair else None, shard)
            if weights is not None:
                with archive.open(f"{WEIGHT}.npy", "w") as out:
                    npy.write_array(out, weights[kept])


class Tensors(Format):
    """A tensor, or tensors by name, saved by ``torch.save`` or safetensors. Files are loaded without running code.

    Tensors with one row per pair are filtered, anything else is copied.
    """

    def __init__(self, where: Source):
        super().__init__(where)
        self.skips_rows = where.kind == ".safetensors" and not is_url(where.path)

    @functools.cached_property
    def fields(self) -> list[str]:
        content = self._load(self.shards[0])
        named = content.items() if isinstance(content, dict) else ()
        names = [name for name, value in named if hasattr(value, "shape")]
        return sorted(names) if self.where.kind == ".safetensors" else names

    def _load(self, shard: Path) -> Any:
        """A tensor or a dictionary, mapped into memory where possible."""
        import torch

        try:
            if self.where.kind == ".safetensors":
                safetensors = require("safetensors.torch", "audit")
                if not is_url(shard) and shard.suffix.lower() == ".safetensors":
                    return safetensors.load_file(shard)
                with opened(shard) as file:
                    return safetensors.load(file.read())
            with opened(shard) as file:
                mapped = not is_url(shard) and zipfile.is_zipfile(shard)
                content = torch.load(
                    shard if mapped else io.BytesIO(file.read()), map_location="cpu", weights_only=True, mmap=mapped
                )
        except Exception as error:  # a damaged file may raise any exception
            if isinstance(error, (UsageError, FileNotFoundError)):
                raise
            if self.where.kind == ".safetensors":
                raise UsageError(f"{location(shard)} is cut off or not a .safetensors file ({error})") from error
            raise UsageError(
                f"{location(shard)} holds more than tensors, or is not a file of torch.save: save one tensor, or use "
                ".npy or .safetensors"
            ) from error
        tensors = content.values() if isinstance(content, dict) else [content]
        if not any(isinstance(value, torch.Tensor) for value in tensors):
            raise UsageError(f"{location(shard)} must hold one tensor or a dictionary of them")
        return content

    def _tensor(self, content: Any, shard: Path, field: str | None) -> Any:
        import torch

        if isinstance(content, torch.Tensor):
            return content
        field = self.fields[0] if field is None and self.fields else field
        if field not in content or not isinstance(content[field], torch.Tensor):
            raise UsageError(f"{location(shard)} has no tensor {field}; it has {', '.join(self.fields)}")
        return content[field]

    def rows(self, shard: Path) -> int:
        return _length(self._tensor(self._load(shard), shard, self.where.column).shape, shard)

    def read(self, shard: Path, fields: Sequence[str], start: int = 0, stop: int | None = None) -> Iterator[list[Any]]:
        import torch

        tensor = self._tensor(self._load(shard), shard, fields[0] if fields else None)
        plain = tensor.layout == torch.strided and tensor.device.type == "cpu"
        if not plain or tensor.is_nested or tensor.is_quantized or tensor.is_complex():
            raise UsageError(
                f"{location(shard)} does not hold a plain tensor: save it dense, on the CPU and not complex"
            )
        stop = _length(tensor.shape, shard) if stop is None else stop
        exact = not tensor.is_floating_point() or tensor.dtype in (torch.float16, torch.float32, torch.float64)
        for part in _chunks(stop - start, tensor.element_size() * math.prod(tensor.shape[1:])):
            rows = tensor.detach()[start + part.start : start + part.stop]
            yield [(rows if exact else rows.float()).numpy()]

    def write(self, shard: Path, target: Path, selection: Selection) -> None:
        import torch

        content = self._load(shard)
        pairs = _length(self._tensor(content, shard, self.where.column).shape, shard)
        kept, weights = selection.take(pairs, shard)
        mask = torch.from_numpy(np.array(kept))
        if isinstance(content, torch.Tensor):
            new: Any = content[mask]
        else:
            new = {k: _filtered(v, mask) for k, v in content.items()}
            if weights is not None:
                check_no_weights(shard, list(content))
                new[WEIGHT] = torch.from_numpy(weights[kept])
        with written(target) as out:
            if self.where.kind == ".safetensors":
                with opened(shard) as file:
                    metadata = json.loads(file.read(int.from_bytes(file.read(8), "little"))).get("__metadata__")
                out.write(require("safetensors.torch", "audit").save(new, metadata))
            else:
                torch.save(new, out)


def _filtered(value: Any, mask: Any) -> Any:
    """The kept rows of a tensor or a list with one row per pair; anything else unchanged."""
    if isinstance(value, (list, tuple)) and len(value) == len(mask):
        return type(value)(itertools.compress(value, mask.tolist()))
    return value[mask] if hasattr(value, "shape") and value.shape[:1] == mask.shape else value
