"""Which pairs are flagged, without bringing them together: a score to cut at, and how many ties below it.

Pairs are taken from the lowest score up. Those of one place among mismatched pairs have one probability to be wrong, so
counts of places say at which place the list ends, and after how many of its pairs. Which ones these are is settled by
the scores of that place alone.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince.audit.estimate.places import Counts
from rince.audit.estimate.probability import EXCESS, SIGMAS, few_enough
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
    """The longest list of lowest scores with few enough false alarms (``few_enough``); None if there is none.

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
    spread = right * (1 - right)
    before = Listed(pairs - count, alarms - count * right, np.cumsum(count * spread) - count * spread)
    most = np.zeros(len(some), dtype=np.int64)
    for taken in (_until_too_many(before, count, right, fdr), _until_too_uncertain(before, count, right, fdr), count):
        for one in (taken - 1, taken):  # a root may be off by rounding
            one = np.clip(one, 0, count)
            fine = few_enough(before.pairs + one, before.alarms + one * right, before.variance + one * spread, fdr)
            most = np.where(fine, np.maximum(most, one), most)
    ends = np.flatnonzero(most)
    if not len(ends):
        return None
    last = ends[-1]
    return End(int(place[last]), int(most[last]), int(before.pairs[last] + most[last]))


class Listed(NamedTuple):
    """Lists: how many pairs they have, how many of these are expected to be right, and the variance of that."""

    pairs: NDArray[np.int64]
    alarms: NDArray[np.float64]
    variance: NDArray[np.float64]


def _until_too_many(
    before: Listed, count: NDArray[np.int64], right: NDArray[np.float64], fdr: float
) -> NDArray[np.int64]:
    """After how many pairs of each place the expected share of false alarms is too large."""
    slack = fdr * before.pairs - before.alarms
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.floor(np.where(right > fdr, slack / (right - fdr), 0) + 1e-9)
    return np.clip(part, 0, count).astype(np.int64)


def _until_too_uncertain(
    before: Listed, count: NDArray[np.int64], right: NDArray[np.float64], fdr: float
) -> NDArray[np.int64]:
    """After how many pairs of each place the share may turn out too large.

    What is left of the allowed number grows by a straight line, the deviation by a root, so there are two places at
    which they meet: the list is fine up to the first, or again beyond the second. This is the first.
    """
    left, growth = EXCESS * fdr * before.pairs - before.alarms, EXCESS * fdr - right
    squared = SIGMAS**2
    a, b = growth**2, 2 * left * growth - squared * right * (1 - right)
    c = left**2 - squared * before.variance
    with np.errstate(divide="ignore", invalid="ignore"):
        root = 2 * c / (np.sqrt(b**2 - 4 * a * c) - b)
    return np.clip(np.nan_to_num(np.floor(root + 1e-9), nan=0.0, posinf=0.0, neginf=0.0), 0, count).astype(np.int64)


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
