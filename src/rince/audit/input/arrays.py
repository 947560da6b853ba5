"""Arrays of files: matrices mapped into memory where that is possible, and one value per pair.

Numbers that do not lie ready on disk (a compressed .npz, a column of a table) are written once, row by row, into a
temporary file, so that nothing is ever held whole. That file has no name: whatever ends the process, the system
takes it back.
"""

import csv
import shutil
import tempfile
import tokenize
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from rince._support.optional_imports import require
from rince._support.zip_files import opened_zip
from rince.audit.classes import label_numbers
from rince.audit.columns import as_matrix
from rince.audit.input.source import TABLES, TENSORS, Source
from rince.audit.input.tables import NoNumber, chosen, column_names, listed, number_batches, value_batches
from rince.errors import UsageError


def check_different(a: Source, b: Source) -> None:
    """Refuse a column as its own partner, which would look like a perfect match."""
    same = a.path.resolve() == b.path.resolve() or (a.path.exists() and b.path.exists() and a.path.samefile(b.path))
    if not same or a.column != b.column:
        if same and a.kind in TABLES:
            with naming(a.path):
                there = column_names(a)
                both = sorted(set(chosen(a, there)) & set(chosen(b, there)))
            if both:
                raise UsageError(f"A and B are both to hold the column {both[0]} of {a.path}: name it in one of them")
        return
    if a.kind not in TABLES:
        raise UsageError(f"A and B are both {a}: name two different files or arrays")
    with naming(a.path):
        there = column_names(a)
    raise UsageError(
        f"A and B are both {a}: name two different columns, each as {a.path}:COLUMN; it has {listed(there)}"
    )


def matrix(where: Source, scratch: Path) -> NDArray[Any]:
    """A (pairs, width) array, mapped where that is possible; ``scratch`` is a folder for temporary files.

    One value per pair is a column of one feature. A column of a table may also hold labels, few different texts.
    """
    found = _read(where, scratch)
    if not found.ndim:
        raise UsageError(f"{where} holds a single number, not one row per pair")
    return as_matrix(found, str(where)) if found.ndim == 1 else found


def _read(where: Source, scratch: Path) -> NDArray[Any]:
    with naming(where.path):
        if where.kind == ".npy":
            return mapped_npy(where.path)
        if where.kind == ".npz":
            return _unpacked(where, scratch)
        return _tensor(where) if where.kind in TENSORS else _collected(where, scratch)


def mapped_npy(path: Path) -> NDArray[Any]:
    """The array of an .npy file, mapped; whatever its head says, reading it raises one of ``BROKEN``."""
    with _any_shape():
        return np.load(path, mmap_mode="r", allow_pickle=False)


@contextmanager
def _any_shape() -> Iterator[None]:
    """Shapes of heads that numpy lets pass: True is a whole number for it, and too large ones are a warning."""
    try:
        with np.errstate(over="ignore"):
            yield
    except TypeError as error:
        raise ValueError("its head names an impossible shape") from error


def values(where: Source) -> NDArray[Any]:
    """One value per pair, such as ids or texts: the only column of the file, or the one that is named."""
    with naming(where.path):
        if where.kind in TABLES:
            return np.concatenate([*value_batches(where)] or [np.empty(0, dtype=object)])
        array = _array(where) if where.kind == ".npz" else _read(where, where.path.parent)
    if array.ndim != 1 or array.dtype.kind == "V":
        raise UsageError(f"{where} must hold one value per pair, got {array.dtype} of shape {array.shape}")
    return array


# What readers raise for files that are not whole; the last two are numpy's for a header.
READERS = (ValueError, EOFError, OverflowError, csv.Error, zipfile.BadZipFile, NotImplementedError)
BROKEN = (*READERS, SyntaxError, tokenize.TokenError)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Errors of readers name the file."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is not UTF-8 text: save it as such") from error
    except BROKEN as error:
        if isinstance(error, UsageError) or str(path) in str(error):
            raise
        # numpy takes whatever it does not know for Python objects, and says how to load them, which runs their code.
        why = "it is no .npy file, or holds Python objects" if "pickle" in str(error) else error
        raise UsageError(f"{path} cannot be read: {why}") from error
    except OSError as error:
        if error.errno is not None:  # what the system says
            raise
        why = " ".join(str(error).split())  # what pyarrow says of a damaged file
        raise UsageError(f"{path} cannot be read: {why}") from error


def _named(where: Source, names: list[str]) -> str:
    if where.column is None and len(names) == 1:
        return names[0]
    if where.column not in names:
        example = f"{where.path}:{names[0] if names else 'NAME'}"
        raise UsageError(f"{where.path} holds {listed(names) or 'no arrays'}: name one, as {example}")
    assert where.column is not None
    return where.column


@contextmanager
def _member(where: Source) -> Iterator[IO[bytes]]:
    """The array of an .npz, still packed; ``opened_zip`` refuses what was packed out of nothing."""
    with opened_zip(where.path) as archive:
        name = _named(where, [name[:-4] for name in archive.namelist() if name.endswith(".npy")])
        with archive.open(f"{name}.npy") as packed:
            yield packed


def _array(where: Source) -> NDArray[Any]:
    """A small array of an .npz, whole; what its head promises must be there."""
    with _member(where) as packed, tempfile.TemporaryFile() as file:
        shutil.copyfileobj(packed, file, 1 << 20)
        return np.array(_mapped(file))


def _unpacked(where: Source, scratch: Path) -> NDArray[Any]:
    with _member(where) as packed:
        file = _nameless(scratch)
        shutil.copyfileobj(packed, file, 1 << 20)
    return _mapped(file)


def _nameless(scratch: Path) -> IO[bytes]:
    """A temporary file without a name (on Windows, one that goes when it is closed)."""
    return tempfile.TemporaryFile(dir=scratch)


def _mapped(file: IO[bytes]) -> NDArray[Any]:
    """The array of an open .npy file, mapped; numpy refuses one that is shorter than its head says."""
    file.seek(0)
    version = npy.read_magic(file)
    shape, fortran, dtype = (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(file)
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never loaded")
    if not np.prod(shape, dtype=np.float64):
        return np.empty(shape, dtype)
    # Typed loosely: numpy takes an open file here, whatever else it is.
    place: Any = file
    order: Any = "F" if fortran else "C"
    with _any_shape():
        return np.memmap(place, dtype=dtype, mode="r", offset=file.tell(), shape=shape, order=order)


def _tensor(where: Source) -> NDArray[Any]:
    """A tensor of a .safetensors, or of a .pt that holds nothing else: either is read without running any code."""
    import torch

    if where.kind == ".safetensors":
        safetensors = require("safetensors", "audit")
        try:
            with safetensors.safe_open(where.path, framework="pt") as file:
                tensor = file.get_tensor(_named(where, sorted(file.keys())))
        except safetensors.SafetensorError as error:
            raise UsageError(f"{where.path} cannot be read: {error}") from error
    else:
        tensor = _torch_tensor(where)
    if tensor.layout != torch.strided or tensor.is_nested or tensor.is_quantized or tensor.device.type != "cpu":
        raise UsageError(f"{where} holds no plain tensor: save it dense, on the CPU and not quantized")
    if tensor.is_complex():
        raise UsageError(f"{where} holds complex numbers: save their real and imaginary parts as columns")
    tensor = tensor.detach()
    return (
        tensor.float() if tensor.is_floating_point() and tensor.dtype not in (torch.float32, torch.float64) else tensor
    ).numpy()


def _torch_tensor(where: Source) -> Any:
    import torch

    try:
        found = torch.load(where.path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(where.path))
    except OSError:
        raise
    except Exception as error:  # there is no end to what a damaged file provokes
        raise UsageError(
            f"{where.path} is not opened, since it holds more than tensors or is no file of torch.save: save one "
            "tensor, or use .npy or .safetensors"
        ) from error
    if isinstance(found, Mapping):
        tensors = {str(name): one for name, one in found.items() if isinstance(one, torch.Tensor)}
        return tensors[_named(where, list(tensors))]
    if not isinstance(found, torch.Tensor):
        raise UsageError(f"{where.path} must hold one tensor or a dictionary of them, got {type(found).__name__}")
    if where.column is not None:
        raise UsageError(f"{where.path} holds one tensor without a name: leave out :{where.column}")
    return found


def _collected(where: Source, scratch: Path) -> NDArray[np.float32]:
    """The columns of a table as one float32 file, which is then mapped; of labels, their numbers."""
    file: Any = _nameless(scratch)
    count, width = 0, 0
    try:
        for block in number_batches(where):
            file.write(np.ascontiguousarray(block).data)
            count, width = count + len(block), block.shape[1]
    except NoNumber:
        labels = None
        if len(chosen(where, column_names(where))) == 1:
            labels = label_numbers(value_batches(where))
        if labels is None:
            raise
        return labels
    if not count:
        raise UsageError(f"{where} has no rows")
    file.flush()
    return np.memmap(file, dtype=np.float32, mode="r", shape=(count, width))
