"""One column of features made harmless before towers see it: each feature is compared with itself only.

Every feature becomes its rank, spread like a normal variable. So a heavy tail, an outlier or another unit (Unix times
beside shares) changes nothing, and a feature that is constant up to rounding is 0.

A single feature with few different values is a label: its values become indicators, since their order means nothing.
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rince.pairs.matrix import FEWEST_PER_CLASS, MOST_CLASSES, Matrix, RowCheck, chunks, read, release, row_codes

IN_MEMORY = 50_000_000  # numbers; a larger column is read from where it is, batch by batch
SAMPLE_ROWS, SAMPLE_NUMBERS = 20_000, 20_000_000  # what ranks are taken from
LEVELS = torch.special.ndtr(torch.linspace(-3.2, 3.2, 65, dtype=torch.float64)).numpy()
ROUNDING = 4e-7  # a feature that varies by less of its own size is rounding in single precision, not information


class Features:
    """One column whose features are normal scores of ranks, or indicators of labels: mean 0, deviation 1, or all 0.

    Args:
        x: (pairs, width), also a memory map.
        name: What errors call the column.
    """

    def __init__(self, x: Matrix, name: str):
        check = RowCheck(name, zero_is_bad=False)
        width = x.shape[1]
        wanted = max(1000, min(SAMPLE_ROWS, SAMPLE_NUMBERS // width))
        step = max(1, -(-len(x) // wanted))
        row_parts, sample = [], []
        for rows in chunks(*x.shape):
            part = read(x, rows)
            check.see(part, rows.start)
            row_parts.append(row_codes(part))
            sample.append(part[-rows.start % step :: step].clone())
            release(x)
        check.refuse_unusable()
        self.codes = np.concatenate(row_parts)
        self.scale: Scale = Labels.of_column(x) or Ranks(*rank_tables(torch.cat(sample).numpy()))
        self.width = self.scale.width
        small = len(x) * self.width <= IN_MEMORY
        self._all = self.scale.of(read(x, slice(None))) if small else None
        self._x = None if small else x

    def __getitem__(self, rows: NDArray[np.int64]) -> Tensor:
        if self._all is not None:
            return self._all[rows]
        assert self._x is not None
        x = self.scale.of(read(self._x, rows))
        release(self._x)
        return x


class Labels(NamedTuple):
    """What makes standardized indicators of labels: their values in order, and the share of each."""

    values: Tensor
    share: Tensor

    @classmethod
    def of_column(cls, x: Matrix) -> "Labels | None":
        """Of a (pairs, 1) column with few different values; None for any other."""
        if x.shape[1] != 1:
            return None
        values, counts = np.unique(read(x, slice(None)).numpy(), return_counts=True)
        if not 1 < len(values) <= min(MOST_CLASSES, len(x) // FEWEST_PER_CLASS):
            return None
        return cls(torch.from_numpy(values), torch.from_numpy(counts / counts.sum()).float())

    @property
    def width(self) -> int:
        return len(self.values)

    def of(self, x: Tensor) -> Tensor:
        """(rows, 1) labels as (rows, width) indicators; a new label is none of them."""
        return ((x == self.values).float() - self.share) / (self.share * (1 - self.share)).sqrt()


class Ranks(NamedTuple):
    """What makes normal scores of the ranks of features, see ``rank_tables``."""

    knots: Tensor
    values: Tensor

    @property
    def width(self) -> int:
        return len(self.knots)

    def of(self, x: Tensor) -> Tensor:
        """(rows, width) features as normal scores."""
        return interpolated(x, self.knots, self.values)


Scale = Ranks | Labels


def rank_tables(sample: NDArray[np.float32]) -> tuple[Tensor, Tensor]:
    """For every feature of (rows, width) knots, and the standardized normal scores of their ranks: (width, 65) each.

    A value that comes up often has the middle of its ranks.
    """
    rows, width = sample.shape
    ordered = np.sort(sample, axis=0)
    at = np.minimum((LEVELS * rows).astype(np.int64), rows - 1)
    knots = ordered[at].T.copy()
    ranks = np.empty((width, len(LEVELS)))
    for k in range(width):
        below = np.searchsorted(ordered[:, k], knots[k], "left")
        ranks[k] = (below + np.searchsorted(ordered[:, k], knots[k], "right")) / (2 * rows)
    values = torch.special.ndtri(torch.from_numpy(ranks).clamp(0.5 / rows, 1 - 0.5 / rows)).float()
    tables = torch.from_numpy(knots), values
    seen = interpolated(torch.from_numpy(sample), *tables)
    deviation, mean = torch.std_mean(seen, dim=0, correction=0)
    spread = ordered[-1] - ordered[0]
    constant = torch.from_numpy(spread <= ROUNDING * np.abs(ordered[[0, -1]]).max(0))
    deviation[constant | (deviation == 0)] = torch.inf
    return tables[0], (values - mean[:, None]) / deviation[:, None]


def interpolated(x: Tensor, knots: Tensor, values: Tensor, rows: int = 4096) -> Tensor:
    """For every feature of (rows, width) the value at x, a straight line between knots and level beyond them."""
    out = torch.empty_like(x)
    for start in range(0, len(x), rows):
        part = x[start : start + rows].T.contiguous()
        right = torch.searchsorted(knots, part).clamp_(1, knots.shape[1] - 1)
        x0, x1 = knots.gather(1, right - 1), knots.gather(1, right)
        y0, y1 = values.gather(1, right - 1), values.gather(1, right)
        share = ((part - x0) / (x1 - x0).clamp_min(torch.finfo(x.dtype).tiny)).clamp_(0, 1)
        out[start : start + rows] = torch.lerp(y0, y1, share).T
    return out
