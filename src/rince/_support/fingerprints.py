"""Short texts that differ where data differ."""

import hashlib
from collections.abc import Iterable

from torch import Tensor

PIECE = 1 << 24


def of_tensors(tensors: Iterable[Tensor]) -> str:
    """Of kinds, shapes and all values."""
    digest = hashlib.blake2b(digest_size=16)
    for tensor in tensors:
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)};".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        for piece in flat.split(PIECE):
            digest.update(piece.numpy().data)
    return digest.hexdigest()


def of_lines(lines: Iterable[str]) -> str:
    """Of texts in their order, such as the names of files."""
    digest = hashlib.blake2b(digest_size=16)
    for line in lines:
        digest.update(line.encode("utf-8", "surrogateescape") + b"\n")
    return digest.hexdigest()
