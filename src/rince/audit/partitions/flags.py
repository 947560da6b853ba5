"""Which pairs are flagged, without bringing them together: a score to cut at, and how many ties below it.

Pairs are taken from the lowest score up. Those of one place among mismatched pairs have one probability to be wrong, so
counts of places say at which place the list ends, and after how many of its pairs. Which ones these are is settled by
the scores of that place alone.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince.audit.estimate.places import Counts
from rince.audit.partitions.runner import Runner
from rince.errors import UsageError


class End(NamedTuple):
    """Where the list of suspects ends: the place, how many pairs of it are on the list, and how many are in all."""

    place: int
    of_place: int
    total: int


class Cut(NamedTuple):
    """Pairs below the score are flagged; of those that have it, the first ``ties`` in the order of the data."""

    score: float
    ties: int
    total: int


class Values(NamedTuple):
    """Different scores, in order, and how many pairs have each."""

    score: NDArray[np.float32]
    many: NDArray[np.int64]


def list_end(counts: Counts, chance: NDArray[np.float32], fdr: float) -> End | None:
    """The longest list of lowest scores of which at most ``fdr`` are expected to be right; None if there is none.

    Args:
        counts: How many pairs have each place.
        chance: The probability of the pairs of each of these places to be wrong; places without any are left out.
        fdr: The share of false alarms.
    """
    if not 0 < fdr < 1:
        raise UsageError(f"fdr must lie in (0, 1), got {fdr}")
    some = np.flatnonzero(chance > 0)
    place, count, right = counts.place[some], counts.many[some], 1 - chance[some].astype(np.float64)
    pairs, alarms = np.cumsum(count), np.cumsum(count * right)
    pairs_before, alarms_before = pairs - count, alarms - count * right
    # A whole place, or a part of one whose pairs are more often right than is allowed.
    slack = fdr * pairs_before - alarms_before
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.floor(np.where(right > fdr, slack / (right - fdr), 0) + 1e-9)
    most = np.where(alarms <= fdr * pairs, count, np.clip(part, 0, count - 1)).astype(np.int64)
    ends = np.flatnonzero(most)
    if not len(ends):
        return None
    last = ends[-1]
    return End(int(place[last]), int(most[last]), int(pairs_before[last] + most[last]))


def cut_of(runner: Runner, end: End, scores: list[Any], places: list[Any]) -> tuple[Cut, list[int]]:
    """The score to cut at, and for every partition how many of its pairs with just this score are flagged."""
    found = runner.each(values_at, scores, places, [end.place] * len(scores))
    values: Values = runner.value(runner.merged(together, found))
    before = np.cumsum(values.many) - values.many
    k = int(np.flatnonzero(before < end.of_place)[-1])
    score, ties = float(values.score[k]), int(end.of_place - before[k])
    there = runner.values(runner.each(equal_to, scores, [score] * len(scores)))
    taken = np.clip(ties - (np.cumsum(there) - there), 0, there)
    return Cut(score, ties, end.total), [int(one) for one in taken]


def values_at(scores: NDArray[np.float32], places: NDArray[np.int32], place: int) -> Values:
    return Values(*np.unique(scores[places == place], return_counts=True))


def together(parts: list[Values]) -> Values:
    """The values of several partitions as one."""
    score, place = np.unique(np.concatenate([part.score for part in parts]), return_inverse=True)
    count = np.bincount(place, weights=np.concatenate([part.many for part in parts]), minlength=len(score))
    return Values(score, count.astype(np.int64))


def equal_to(scores: NDArray[np.float32], score: float) -> int:
    return int((scores == np.float32(score)).sum())


def flagged(scores: NDArray[np.float32], chance: NDArray[np.float32], cut: Cut | None, ties: int) -> NDArray[np.bool_]:
    """Whether each pair of a partition is flagged, given its cautious probability to be wrong."""
    if cut is None:
        return np.zeros(len(scores), dtype=bool)
    score = np.float32(cut.score)
    found = (scores < score) & (chance > 0)
    found[np.flatnonzero(scores == score)[:ties]] = True
    return found
