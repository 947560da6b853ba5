"""Columns in files: ``PATH`` or ``PATH:COLUMN``, read as memory maps where they can be.

Numbers that do not lie ready on disk (a compressed .npz, a column of a table) are written once, row by row, into a
temporary file, so that nothing is ever held whole.
"""

import csv
import pickle
import shutil
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.lib import format as npy
from numpy.typing import NDArray

from rince._support.optional_imports import require
from rince.audit.tables import TABLES, Source, column_names, listed, number_batches, value_batches

TENSORS = (".pt", ".pth", ".safetensors")
KINDS = (".npy", ".npz", *TABLES, *TENSORS)


def source(text: str, header: bool = True) -> Source:
    """``data.csv:image_*`` as a file that exists and a column."""
    path, column = Path(text), None
    if not path.exists() and ":" in text:
        head, column = text.rsplit(":", 1)
        path = Path(head)
    if not path.is_file():
        raise FileNotFoundError(f"there is no file {path}")
    if path.suffix.lower() not in KINDS:
        raise ValueError(f"{path} cannot be read: files must end in {', '.join(KINDS)}")
    return Source(path, column or None, header)


def check_different(a: Source, b: Source) -> None:
    """Refuse a column as its own partner, which would look like a perfect match."""
    if a.path.resolve() != b.path.resolve() or a.column != b.column:
        return
    if a.path.suffix.lower() not in TABLES:
        raise ValueError(f"A and B are both {a}: name two different files or arrays")
    with _naming(a.path):
        there = column_names(a)
    raise ValueError(
        f"A and B are both {a}: name two different columns, each as {a.path}:COLUMN; it has {listed(there)}"
    )


def matrix(where: Source, scratch: Path) -> NDArray[Any]:
    """A (pairs, width) array, mapped where that is possible; ``scratch`` is a folder for temporary files."""
    kind = where.path.suffix.lower()
    with _naming(where.path):
        if kind == ".npy":
            return np.load(where.path, mmap_mode="r", allow_pickle=False)
        if kind == ".npz":
            return _unpacked(where, scratch)
        if kind in TENSORS:
            return _tensor(where)
        return _collected(where, scratch)


def values(where: Source) -> NDArray[Any]:
    """One value a pair, such as ids or texts: the only column of the file, or the one that is named."""
    kind = where.path.suffix.lower()
    with _naming(where.path):
        if kind in TABLES:
            return np.concatenate([*value_batches(where)] or [np.empty(0, dtype=object)])
        array = _array(where) if kind == ".npz" else matrix(where, where.path.parent)
    if array.ndim != 1:
        raise ValueError(f"{where} must hold one value a pair, got an array of shape {array.shape}")
    return array


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """Errors of readers name the file."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text") from error
    except (ValueError, EOFError, csv.Error, zipfile.BadZipFile) as error:
        if str(path) in str(error):
            raise
        raise ValueError(f"{path} cannot be read: {error}") from error


def _named(where: Source, names: list[str]) -> str:
    if where.column is None and len(names) == 1:
        return names[0]
    if where.column not in names:
        example = f"{where.path}:{names[0] if names else 'NAME'}"
        raise ValueError(f"{where.path} holds {listed(names) or 'no arrays'}: name one, as {example}")
    assert where.column is not None
    return where.column


def _member(where: Source, archive: zipfile.ZipFile) -> str:
    return _named(where, [name[:-4] for name in archive.namelist() if name.endswith(".npy")]) + ".npy"


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


def _tensor(where: Source) -> NDArray[Any]:
    """A tensor of a .safetensors, or of a .pt that holds nothing else: either is read without running any code."""
    import torch

    if where.path.suffix.lower() == ".safetensors":
        safetensors = require("safetensors", "audit")
        try:
            with safetensors.safe_open(where.path, framework="pt") as file:
                tensor = file.get_tensor(_named(where, sorted(file.keys())))
        except safetensors.SafetensorError as error:
            raise ValueError(f"{where.path} cannot be read: {error}") from error
    else:
        tensor = _torch_tensor(where)
    tensor = tensor.detach()
    return (tensor.float() if tensor.dtype in (torch.bfloat16, torch.float16) else tensor).numpy()


def _torch_tensor(where: Source) -> Any:
    import torch

    try:
        found = torch.load(where.path, map_location="cpu", weights_only=True, mmap=zipfile.is_zipfile(where.path))
    except (pickle.UnpicklingError, RuntimeError, EOFError) as error:
        raise ValueError(
            f"{where.path} is not opened, since it holds more than tensors or is no file of torch.save: save one "
            "tensor, or use .npy or .safetensors"
        ) from error
    if isinstance(found, Mapping):
        tensors = {str(name): one for name, one in found.items() if isinstance(one, torch.Tensor)}
        return tensors[_named(where, list(tensors))]
    if not isinstance(found, torch.Tensor):
        raise ValueError(f"{where.path} must hold one tensor or a dictionary of them, got {type(found).__name__}")
    if where.column is not None:
        raise ValueError(f"{where.path} holds one tensor without a name: leave out :{where.column}")
    return found


def _collected(where: Source, scratch: Path) -> NDArray[np.float32]:
    """The columns of a table as one float32 file, which is then mapped."""
    raw = scratch / f"column{len(list(scratch.iterdir()))}.raw"
    count, width = 0, 0
    with open(raw, "wb") as file:
        for block in number_batches(where):
            block.tofile(file)
            count, width = count + len(block), block.shape[1]
    if not count:
        raise ValueError(f"{where} has no rows")
    return np.memmap(raw, dtype=np.float32, mode="r", shape=(count, width))
