"""Hashes of data."""

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from torch import Tensor

PIECE = 1 << 24


def of_tensors(tensors: "Iterable[Tensor]") -> str:
    """Hash of dtypes, shapes and values."""
    digest = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)};".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        for piece in flat.split(PIECE):
            digest.update(piece.numpy().data)
    return digest.hexdigest()


def of_lines(lines: Iterable[str]) -> str:
    """Hash of texts in order, such as file names."""
    digest = hashlib.blake2b(digest_size=16)
    for line in lines:
        digest.update(line.encode("utf-8", "surrogateescape") + b"\n")
    return digest.hexdigest()


def row_codes(x: "Tensor | NDArray[Any]") -> NDArray[np.int64]:
    """(rows,) 64-bit hashes of the rows. Two different rows collide with a probability of at most 1 in 10^10.

    Two numbers make a word, mixed before and after the multiplication because round numbers end in many zeros.
    """
    odd = x.shape[1] % 2
    multipliers = np.random.default_rng(0).integers(1, 2**63, size=x.shape[1] // 2 + odd, dtype=np.uint64) * 2 + 1
    codes = np.empty(len(x), dtype=np.uint64)
    block = max(16, min(512, 4_000_000 // max(1, x.shape[1])))
    for start in range(0, len(x), block):
        part = np.asarray(x[start : start + block], dtype=np.float32)
        padded = np.zeros((len(part), part.shape[1] + odd), dtype=np.float32)
        np.add(part, 0, out=padded[:, : part.shape[1]])  # makes -0 and 0 the same
        words = padded.view(np.uint64)
        mixed = words ^ (words >> np.uint64(29))
        mixed *= multipliers
        mixed ^= mixed >> np.uint64(32)
        mixed.sum(1, out=codes[start : start + block])
    return codes.view(np.int64)


def equal_rows(*sides: "Tensor") -> NDArray[np.int64] | None:
    """(rows,) index of the first row that is equal on all sides; None if all rows differ."""
    codes = [row_codes(side.flatten(1)) for side in sides]
    _, first, inverse = np.unique(np.stack(codes, axis=1), axis=0, return_index=True, return_inverse=True)
    return None if len(first) == len(codes[0]) else first[inverse.reshape(-1)].astype(np.int64)
