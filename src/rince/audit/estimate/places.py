"""Where scores lie among those of mismatched pairs, counted: all that the verdict needs to know of the pairs.

The place of a score is the number of mismatched pairs below it plus the number of those not above it, so ties lie
between their neighbours. Counts of parts add up to that of the whole, and take the same room however many pairs there
are.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince.audit.estimate.shapes import CELLS, CUTS, normal_scores

STEP = 1 << 18  # the search needs several times the memory of its result


Places = NDArray[np.int32] | NDArray[np.int64]


def places(scores: NDArray[np.float32], ordered: NDArray[np.float32]) -> NDArray[np.int32]:
    """The place of every score among the ordered scores of mismatched pairs."""
    out = np.empty(len(scores), dtype=np.int32)
    for start in range(0, len(scores), STEP):
        part = scores[start : start + STEP]
        out[start : start + STEP] = np.searchsorted(ordered, part, "left") + np.searchsorted(ordered, part, "right")
    return out


def p_of_places(place: Places, size: int) -> NDArray[np.float32]:
    """For every place the share of mismatched pairs that score as high or higher; ties count half."""
    out = np.empty(len(place), dtype=np.float32)
    for start in range(0, len(place), STEP):
        out[start : start + STEP] = (size - 0.5 * place[start : start + STEP] + 0.5) / (size + 1)
    return out


def p_without(place: Places, ordered: NDArray[np.float32], kept: NDArray[np.bool_]) -> NDArray[np.float32]:
    """The same against those mismatched pairs alone that are kept; ``kept`` is in the order of ``ordered``."""
    below = np.concatenate([[0], np.cumsum(kept)])
    left, right = _ends(place, ordered)
    size = below[-1]
    return ((size - 0.5 * (below[left] + below[right]) + 0.5) / (size + 1)).astype(np.float32)


def _ends(place: Places, ordered: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """How many lie below a place and how many not above it: the two differ in the middle of a tie only."""
    middle = place // 2
    value = ordered[np.minimum(middle, len(ordered) - 1)]
    left, right = np.searchsorted(ordered, value, "left"), np.searchsorted(ordered, value, "right")
    between = (place % 2 == 0) & ((middle == left) | (middle == right))
    return np.where(between, middle, left), np.where(between, middle, right)


class Counts(NamedTuple):
    """How many pairs have every place, without those that none has."""

    place: NDArray[np.int64]
    many: NDArray[np.int64]

    @property
    def pairs(self) -> int:
        return int(self.many.sum())


def counted(place: NDArray[np.int32], size: int) -> NDArray[np.int32]:
    """How many pairs have each of the 2 * size + 1 places."""
    return np.bincount(place, minlength=2 * size + 1).astype(np.int32)


def added(counts: list[NDArray[np.int32]]) -> NDArray[np.int32]:
    """The counts of several parts together."""
    total = counts[0].copy()
    for one in counts[1:]:
        total += one
    return total


def compact(counts: NDArray[np.int32]) -> Counts:
    place = np.flatnonzero(counts)
    return Counts(place, counts[place].astype(np.int64))


def in_cells(p: NDArray[np.float32], count: NDArray[np.int64]) -> NDArray[np.int64]:
    """How many pairs lie in every cell of ``shapes.CUTS``, given how many have each p-value."""
    cell = np.searchsorted(CUTS, normal_scores(p))
    return np.bincount(cell, weights=count, minlength=CELLS).astype(np.int64)
