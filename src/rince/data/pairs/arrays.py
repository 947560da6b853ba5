"""Your own pairs as two arrays in an .npz file: features of images and texts, two tables, pictures and sounds."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rince.data.images.arrays import array_of, check_rows, read_npz
from rince.data.module import class_numbers
from rince.data.pairs.in_memory import Pairs, Part
from rince.errors import UsageError


class PairedArrays(Pairs):
    """A file with ``a`` and ``b``, which belong together row by row, and, where known, ``labels`` (n,).

    Bytes stay bytes, for image recipes; other numbers become floats. ``test_a``, ``test_b`` and
    ``test_labels`` are the test part; without them every tenth pair is. ``ids`` (n,), where given, name the pairs.

    Example:
        >>> random = np.random.default_rng(0)
        >>> np.savez("pairs.npz", a=random.normal(size=(100, 40)), b=random.normal(size=(100, 24)))
        >>> data = rince.data.PairedArrays("pairs.npz", batch_size=32, wrong_pairs=0.2)
        >>> data.split("test").b.shape
        torch.Size([10, 24])
    """

    _names: np.ndarray

    def __init__(self, path: str, batch_size: int = 256, wrong_pairs: float = 0.0, wrong_pairs_seed: int = 0):
        """
        Args:
            path: The .npz file.
            batch_size: Pairs in a batch of all processes together.
            wrong_pairs: Share of training pairs to be made wrong on purpose.
            wrong_pairs_seed: Seed that chooses these pairs, and whose ``b`` they get.
        """
        super().__init__(batch_size, wrong_pairs, wrong_pairs_seed)
        self.path = Path(path)

    def read(self) -> dict[str, Part]:
        arrays = read_npz(self.path)
        pairs = self._part(arrays, "")
        self._names = np.asarray(arrays.get("ids", np.arange(len(pairs.labels))))
        if self._names.shape != (len(pairs.labels),):
            raise UsageError(f"ids in {self.path} must be {len(pairs.labels)} names, got the shape {self._names.shape}")
        if "test_a" in arrays:
            return {"train": pairs, "test": self._part(arrays, "test_")}
        is_test = torch.arange(len(pairs.labels)) % 10 == 9
        self._names = self._names[~is_test.numpy()]
        return {"train": Part(*(x[~is_test] for x in pairs)), "test": Part(*(x[is_test] for x in pairs))}

    def pair_names(self) -> Sequence[Any]:
        """The array ``ids`` of the file or, without one, the numbers of its rows."""
        self.setup()
        return self._names.tolist()

    def _part(self, arrays: dict[str, np.ndarray], prefix: str) -> Part:
        a, b = (self._side(arrays, f"{prefix}{side}") for side in "ab")
        if len(a) != len(b):
            raise UsageError(
                f"{prefix}a and {prefix}b in {self.path} must have one row per pair, got {len(a)} and {len(b)} rows"
            )
        labels = arrays.get(f"{prefix}labels", np.full(len(a), -1))
        return Part(a, b, class_numbers(labels, len(a), f"{prefix}labels in {self.path}"))

    def _side(self, arrays: dict[str, np.ndarray], name: str) -> Tensor:
        values = array_of(arrays, name, self.path)
        if values.dtype.kind not in "fiub" or values.ndim < 2:
            raise UsageError(
                f"{name} in {self.path} must hold numbers, one row per pair, got {values.dtype} {values.shape}"
            )
        check_rows(values, name, self.path)
        if values.dtype != np.uint8:
            with np.errstate(over="ignore"):  # what is too large is infinite, and told of
                values = values.astype(np.float32)
            if not np.isfinite(values).all():
                raise UsageError(f"{name} in {self.path} holds values that are not finite: drop or mend those pairs")
        return torch.from_numpy(np.ascontiguousarray(values))
