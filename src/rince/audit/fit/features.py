"""Normalization of a feature column for the towers, one feature at a time.

Every feature becomes its rank, spread like a normal variable. So a heavy tail, an outlier or another unit (Unix times
beside shares) changes nothing, and a feature that is constant up to rounding is 0.

A single feature with few different values is a label: its values become indicators, since their order means nothing.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rince.audit.side_features import interpolate, rank_tables
from rince.pairs.matrix import MAX_CLASSES, MIN_PER_CLASS, Matrix, RowCheck, chunks, read, release, row_codes

IN_MEMORY = 50_000_000  # numbers; a larger column is read in batches
SAMPLE_ROWS, SAMPLE_NUMBERS = 20_000, 20_000_000  # sample for computing ranks


class Features:
    """One column whose features are normal scores of ranks, or indicators of labels: mean 0, deviation 1, or all 0.

    Args:
        x: (pairs, width), also a memory map.
        name: Column name in error messages.
    """

    def __init__(self, x: Matrix, name: str):
        check = RowCheck(name, zero_is_bad=False)
        width = x.shape[1]
        sample_rows = max(1000, min(SAMPLE_ROWS, SAMPLE_NUMBERS // width))
        step = max(1, -(-len(x) // sample_rows))
        row_parts, sample = [], []
        for rows in chunks(*x.shape):
            part = read(x, rows)
            check.see(part, rows.start)
            row_parts.append(row_codes(part))
            sample.append(torch.from_numpy(part[-rows.start % step :: step].copy()))
            release(x)
        check.refuse_unusable()
        self.codes = np.concatenate(row_parts)
        self.scale: Scale = Labels.of_column(x) or Ranks(*rank_tables(torch.cat(sample)))
        self.width = self.scale.width
        small = len(x) * self.width <= IN_MEMORY
        self._all = self.scale.of(torch.from_numpy(read(x, slice(None)))) if small else None
        self._x = None if small else x

    def __getitem__(self, rows: NDArray[np.int64]) -> Tensor:
        if self._all is not None:
            return self._all[rows]
        assert self._x is not None
        x = self.scale.of(torch.from_numpy(read(self._x, rows)))
        release(self._x)
        return x


class Labels(NamedTuple):
    """Standardized indicators of labels: the sorted label values, and the share of each."""

    values: Tensor
    share: Tensor

    @classmethod
    def of_column(cls, x: Matrix) -> "Labels | None":
        """Of a (pairs, 1) column with few different values; None for any other."""
        if x.shape[1] != 1:
            return None
        values, counts = np.unique(read(x, slice(None)), return_counts=True)
        if not 1 < len(values) <= min(MAX_CLASSES, len(x) // MIN_PER_CLASS):
            return None
        return cls(torch.from_numpy(values), torch.from_numpy(counts / counts.sum()).float())

    @property
    def width(self) -> int:
        return len(self.values)

    def of(self, x: Tensor) -> Tensor:
        """(rows, 1) labels as (rows, width) indicators; an unseen label matches none."""
        return ((x == self.values).float() - self.share) / (self.share * (1 - self.share)).sqrt()


class Ranks(NamedTuple):
    """Normal scores of the ranks of features, see ``rank_tables``."""

    knots: Tensor
    values: Tensor

    @property
    def width(self) -> int:
        return len(self.knots)

    def of(self, x: Tensor) -> Tensor:
        """(rows, width) features as normal scores."""
        return interpolate(x, self.knots, self.values)


Scale = Ranks | Labels
