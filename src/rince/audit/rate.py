"""The share of mismatched pairs, and its interval.

Scores are brought to a common scale: z is the normal score of a pair's p-value against mismatched pairs, so mismatched
pairs have a standard normal z whatever the scores are. On this scale right pairs of real data are close to normal, too,
so their density is taken to be skew-normal. This is the assumption behind everything the audit says: where right pairs
overlap with mismatched ones, their tail is the one that belongs to the part of them that can be seen. Nor do the lowest
scores of all speak for right pairs: densities with so heavy a lower tail need more evidence.

Every share of mismatched pairs, combined with every density of right pairs, is a mixture that explains the scores more
or less well. The interval reaches from the smallest to the largest share among the mixtures that explain them about as
well as the best. If right pairs stand clear of mismatched ones, all plausible mixtures agree. If scores are weak, a
mixture without mismatched pairs is as plausible as one with many, and the interval says so.

Three allowances keep the interval honest where the assumption is not quite true. The likelihood is tempered by the
misfit of the best mixture. The lower end allows for right pairs that no score understands (``hard_share``). The upper
end is never below what there is room for, whatever right pairs score like (``upper_bound``).
"""

import math
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince._support.normal import normal_cdf, normal_quantile
from rince.errors import UsageError

# --- ranks among mismatched pairs -------------------------------------------------------------------------------------

STEP = 1 << 18  # rows per search, which needs several times the memory of its result
Ranks = NDArray[np.int32] | NDArray[np.int64]


def ranks(scores: NDArray[np.float32], ordered_null: NDArray[np.float32]) -> NDArray[np.int32]:
    """The rank of every score among mismatched pairs: twice the number of those below it, plus that of ties."""
    out = np.empty(len(scores), dtype=np.int32)
    for start in range(0, len(scores), STEP):
        part = scores[start : start + STEP]
        below, not_above = (np.searchsorted(ordered_null, part, side) for side in ("left", "right"))
        out[start : start + STEP] = below + not_above
    return out


def tie_step(null: NDArray[np.float32]) -> float:
    """Width of the jitter that breaks ties of coarse scores (sign bits, small integers); 0 for scores without ties.

    It is less than the smallest gap between distinct values, so their order stays, and flags can be set inside a tie.
    """
    values = np.unique(null).astype(np.float64)
    if np.ptp(values) <= 1e-5 or len(values) > 0.5 * len(null):
        return 0.0
    return 0.9 * max(float(np.diff(values).min()), 1e-6 * float(np.ptp(values)))


def break_ties(scores: NDArray[np.float32], step: float, first: int = 0) -> NDArray[np.float32]:
    """Scores with ties broken by less than ``step``, by row number: the same however rows are divided into shards."""
    if not step:
        return scores
    uniform = np.arange(first + 1, first + 1 + len(scores)) * 0.6180339887498949 % 1
    return (scores + step * (uniform - 0.5)).astype(np.float32)


def p_of_ranks(rank: Ranks, size: int) -> NDArray[np.float32]:
    """For every rank the share of ``size`` mismatched pairs that score as high or higher; ties count half."""
    out = np.empty(len(rank), dtype=np.float32)
    for start in range(0, len(rank), STEP):
        out[start : start + STEP] = (size - 0.5 * rank[start : start + STEP] + 0.5) / (size + 1)
    return out


def p_of_kept(rank: Ranks, ordered_null: NDArray[np.float32], kept: NDArray[np.bool_]) -> NDArray[np.float32]:
    """The same against the kept mismatched pairs only; ``kept`` is in the order of ``ordered_null``."""
    below = np.concatenate([[0], np.cumsum(kept)])
    middle = rank // 2
    value = ordered_null[np.minimum(middle, len(ordered_null) - 1)]
    left, right = (np.searchsorted(ordered_null, value, side) for side in ("left", "right"))
    between = (rank % 2 == 0) & ((middle == left) | (middle == right))  # not in the middle of a tie
    left, right = np.where(between, middle, left), np.where(between, middle, right)
    size = below[-1]
    return ((size - 0.5 * (below[left] + below[right]) + 0.5) / (size + 1)).astype(np.float32)


class RankCounts(NamedTuple):
    """Number of pairs at every rank that occurs. Counts of shards add up to that of the whole."""

    rank: NDArray[np.int64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, rank: Ranks) -> "RankCounts":
        return cls(*np.unique(np.asarray(rank, dtype=np.int64), return_counts=True))

    @classmethod
    def total(cls, parts: list["RankCounts"]) -> "RankCounts":
        """The counts of several shards together."""
        rank, index = np.unique(np.concatenate([part.rank for part in parts]), return_inverse=True)
        counts = np.bincount(index, weights=np.concatenate([part.counts for part in parts]), minlength=len(rank))
        return cls(rank, counts.astype(np.int64))

    @property
    def pairs(self) -> int:
        return int(self.counts.sum())


# --- densities of right pairs -----------------------------------------------------------------------------------------

CUTS = np.arange(-3.25, 2.51, 0.25)
"""Edges of the cells of z. All above the last is one cell: how far above does not matter for mismatched pairs."""
CELLS = len(CUTS) + 1
MIDDLES = np.concatenate([[CUTS[0] - 0.3], (CUTS[1:] + CUTS[:-1]) / 2, [CUTS[-1] + 0.4]])
MEANS = np.concatenate([np.arange(-0.4, 4, 0.1), np.geomspace(4, 12, 12)])
DEVIATIONS = np.geomspace(0.3, 3.2, 18)
SLANTS = np.array([-20.0, -5.0, -3.0, -2.0, -1.2, 0.0, 1.2, 2.0, 3.0, 5.0, 20.0])  # the skew-normal's alpha
FINE = np.linspace(-12, 12, 4801)


@cache
def densities() -> NDArray[np.float32]:
    """(densities, cells): the share of right pairs in every cell, for every density of the family."""
    family = []
    for slant in SLANTS:
        delta = slant / np.sqrt(1 + slant**2)
        # Standardized to mean 0 and deviation 1.
        shift, scale = delta * np.sqrt(2 / np.pi), np.sqrt(1 - 2 * delta**2 / np.pi)
        x = shift + scale * FINE
        density = np.exp(-(x**2) / 2) * normal_cdf(slant * x)
        below = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
        below /= below[-1]
        at = (CUTS[None, None] - MEANS[:, None, None]) / DEVIATIONS[None, :, None]
        inside = np.interp(at.reshape(-1, len(CUTS)), FINE, below)
        family.append(np.diff(inside, axis=1, prepend=0, append=1))
    return np.concatenate(family).astype(np.float32)


MAX_FALL, HEAVY_TAIL = 1.0, 3.0
"""A lower tail is heavy if the ratio of right to mismatched pairs falls by more than this between the lowest scores and
the median of mismatched pairs: the lowest scores would speak for right pairs. That is exp(-3) times as likely."""


@cache
def tail_penalty() -> NDArray[np.float64]:
    """(densities, 1) log-likelihood taken off densities with a heavy lower tail; 0 for the others."""
    lower = np.flatnonzero(CUTS <= 0)
    ratio = densities()[:, lower] / even_null()[lower]
    falls = np.maximum.accumulate(ratio, axis=1) - ratio
    return np.where((falls > MAX_FALL).any(1, keepdims=True), HEAVY_TAIL, 0.0)


def normal_scores(p: NDArray[np.float32]) -> NDArray[np.float32]:
    """z of p-values: high for small ones."""
    return normal_quantile(1 - p.astype(np.float64)).astype(np.float32)


def cell_counts(p: NDArray[np.float32], count: NDArray[np.int64] | None = None) -> NDArray[np.int64]:
    """Number of pairs in every cell, from the lowest scores to the highest; ``count`` pairs have each p-value."""
    total = np.zeros(CELLS, dtype=np.int64)
    for start in range(0, len(p), STEP):
        part = slice(start, start + STEP)
        cell = np.searchsorted(CUTS, normal_scores(p[part]))
        total += np.bincount(cell, None if count is None else count[part], CELLS).astype(np.int64)
    return total


# --- the share of mismatched pairs ------------------------------------------------------------------------------------

LONE_HARD, HARD_SLACK = 0.01, 0.8
"""Right pairs that may score like mismatched ones: a share that all data may have, and a multiple of the squared odds
of the overlap (see ``hard_share``). The lower end of the interval must survive them."""
DROP = 3.84  # of twice the log-likelihood: 95 %
SHARES = np.concatenate([[0.0], np.geomspace(5e-4, 0.02, 8), np.arange(0.03, 1.0, 0.02), [0.995, 1.0]])
NEGLIGIBLE = 6.0  # log-likelihood below the best at which a mixture has no weight
DRAWN = 4000  # mixtures behind the mean probability
FLOOR = 1e-9  # minimum probability of a cell


class Rate(NamedTuple):
    """The share of mismatched pairs.

    Attributes:
        value: Posterior mean over all mixtures.
        low, high: The 95 % interval.
        hard: Mean share of right pairs that may score like mismatched ones, see ``hard_share``.
        room: The largest share that the lowest scores leave room for: an estimate of the upper bound.
        probability: For every cell the mean probability of a pair in it to be mismatched.
    """

    value: float
    low: float
    high: float
    hard: float
    room: float
    probability: NDArray[np.float64]


class Mixtures(NamedTuple):
    """Mixtures of mismatched and right pairs: share, index of the density, weight, and whether it is plausible."""

    share: NDArray[np.float64]
    density: NDArray[np.int64]
    weight: NDArray[np.float64]
    plausible: NDArray[np.bool_]


def p_values(scores: NDArray[np.float32], null: NDArray[np.float32]) -> NDArray[np.float32]:
    """For every score the share of mismatched pairs that score as high or higher; ties count half.

    Args:
        scores: One score per pair.
        null: Scores of mismatched pairs.

    Returns:
        One p-value per pair, in (0, 1).

    Example:
        >>> rince.audit.p_values(np.array([5.0, -5.0]), np.arange(-4.0, 5.0)).round(2).tolist()
        [0.05000000074505806, 0.949999988079071]
    """
    return p_of_ranks(ranks(scores, np.sort(null)), len(null))


def storey(p: NDArray[np.float32], threshold: float = 0.5) -> float:
    """Storey's estimate of the share of mismatched pairs: p-values above the threshold, over what chance would have.

    It is an upper bound: right pairs that score low count as mismatched.

    Args:
        p: One p-value per pair.
        threshold: In (0, 1).

    Returns:
        A share from 0 to 1.

    Raises:
        UsageError: If the threshold does not lie in (0, 1).

    Example:
        >>> rince.audit.storey(np.array([0.01, 0.02, 0.03, 0.6]))
        0.5
    """
    if not 0 < threshold < 1:
        raise UsageError(f"threshold must be in (0, 1), got {threshold}")
    return min(1.0, float((p > threshold).mean()) / (1 - threshold))


def noise_rate(
    p: NDArray[np.float32], null: NDArray[np.float64] | None = None, clusters: NDArray[np.int64] | None = None
) -> Rate:
    """The share of mismatched pairs from the p-values of all pairs.

    Args:
        p: One p-value per pair.
        null: The share of mismatched pairs in every cell. Default: that of scores without ties.
        clusters: (pairs,) unit of every pair, from 0: pairs of one unit count as one.

    Returns:
        The share, its interval, and the probability by cell.

    Example:
        >>> p = np.concatenate([np.full(400, 1e-6), np.linspace(0, 1, 100)])
        >>> round(rince.audit.noise_rate(p).value, 1)
        0.2
    """
    units = len(p) if clusters is None else int(clusters.max()) + 1
    return rate_of_cells(cell_counts(p), units, even_null() if null is None else null)


def rate_of_cells(pairs: NDArray[np.int64], units: int, null: NDArray[np.float64]) -> Rate:
    """The same from the number of pairs in every cell.

    Args:
        pairs: Number of pairs in every cell.
        units: Number of independent units: pairs that are right or wrong together count as one.
        null: The share of mismatched pairs in every cell.
    """
    counts = pairs * (units / pairs.sum())
    result = mixtures(counts, null)
    shares = result.share[result.plausible]
    value = float((result.weight * result.share).sum())
    hard = hard_share(overlap(result, null))
    lower = np.maximum((result.share - hard) / (1 - hard), 0)
    low = float(lower[result.plausible].min())
    room, upper = upper_bound(counts, null, units)
    high = float(min(1.0, max(float(shares.max()), upper, upper_share(value * units, units))))
    return Rate(value, min(low, value), high, float((result.weight * hard).sum()), room, mean_probability(result, null))


def upper_bound(counts: NDArray[np.float64], null: NDArray[np.float64], units: int) -> tuple[float, float]:
    """Largest share of mismatched pairs for any density of right pairs, and the upper end of its interval.

    Mismatched pairs have their part of the scores below any cut, so there are no more than pairs below the cut, over
    the share of the null there.
    """
    below, expected = np.cumsum(counts), np.cumsum(null)
    cuts = np.unique(np.searchsorted(expected, (0.3, 0.5, 0.7, 0.85, 0.95)))
    upper = [min(1.0, upper_share(float(below[k]), units) / expected[k]) for k in cuts]
    return min(1.0, float((below[cuts] / (units * expected[cuts])).min())), min(upper)


def overlap(candidates: Mixtures, null: NDArray[np.float64]) -> NDArray[np.float64]:
    """Overlap of right and mismatched pairs in every mixture: 0 if right pairs outscore all, 1 if none."""
    beaten = np.cumsum(null) - null / 2
    return np.clip(2 * (1 - densities()[candidates.density] @ beaten), 0, 1)


def hard_share(overlap: NDArray[np.float64]) -> NDArray[np.float64]:
    """The share of right pairs that may score like mismatched ones beyond what the density of the others shows.

    A few are in all data. Where the others overlap with mismatched pairs, there are more: how many was measured on
    real pairings (``python -m experiments audit-benchmark --leave-one-out``).
    """
    odds = overlap / np.maximum(1 - overlap, 1e-3)
    return np.minimum(LONE_HARD + HARD_SLACK * odds**2, 0.999)


def mean_probability(candidates: Mixtures, null: NDArray[np.float64]) -> NDArray[np.float64]:
    """For every cell the probability of a pair to be mismatched, over a sample of the mixtures by weight."""
    quantile = (np.arange(DRAWN) + 0.5) / DRAWN
    index = np.minimum(np.searchsorted(np.cumsum(candidates.weight), quantile), len(candidates.weight) - 1)
    share = candidates.share[index, None]
    right = (1 - share) * np.maximum(densities()[candidates.density[index]], FLOOR)
    return np.asarray((share * null / (share * null + right)).mean(0))


def even_null() -> NDArray[np.float64]:
    """The share of mismatched pairs in every cell if no two score alike."""
    below = normal_cdf(CUTS)
    return np.diff(below, prepend=0, append=1)


def null_cells(null: NDArray[np.float32], most: int = 100_000) -> NDArray[np.float64]:
    """The share of mismatched pairs in every cell: where many score alike, some cells are empty."""
    step = max(1, len(null) // most)
    counts = cell_counts(p_values(null[::step], null)).astype(np.float64)
    return np.maximum(counts / counts.sum(), FLOOR)


def mixtures(counts: NDArray[np.float64], null: NDArray[np.float64]) -> Mixtures:
    """The mixtures that matter: on a coarse grid of shares first, then on a fine one around the best."""
    family = np.maximum(densities(), FLOOR)
    first = likelihood(counts, null, family, SHARES)
    density, share = np.unravel_index(first.argmax(), first.shape)
    temper = misfit(counts, (1 - SHARES[share]) * family[density] + SHARES[share] * null)
    penalty = temper * tail_penalty()
    first -= penalty
    competitive = first >= first.max() - temper * NEGLIGIBLE
    kept = np.flatnonzero(competitive.any(1))
    columns = np.flatnonzero(competitive.any(0))
    low, high = SHARES[max(columns[0] - 1, 0)], SHARES[min(columns[-1] + 1, len(SHARES) - 1)]
    shares = np.unique(np.concatenate([[low], np.linspace(low, high, 41), SHARES[columns]]))
    fine = likelihood(counts, null, family[kept], shares) - penalty[kept]
    gap = (fine - fine.max()) / temper
    weighted = gap > -NEGLIGIBLE
    row, column = np.nonzero(weighted)
    # Each share weighs as much as the stretch of the grid around it.
    width = np.gradient(shares) if len(shares) > 1 else np.ones(1)
    weight = np.exp(gap[weighted]) * width[column]
    return Mixtures(shares[column], kept[row], weight / weight.sum(), gap[weighted] >= -DROP / 2)


def likelihood(
    counts: NDArray[np.float64], null: NDArray[np.float64], family: NDArray[np.float32], shares: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(densities, shares): the log-likelihood of the counts."""
    out = np.empty((len(family), len(shares)))
    mask, observed = counts > 0, counts[counts > 0]
    right, wrong = family[:, mask], null[mask].astype(np.float32)
    for k, share in enumerate(shares):
        out[:, k] = np.log((1 - share) * right + share * wrong) @ observed
    return out


def misfit(counts: NDArray[np.float64], mixture: NDArray[np.float64]) -> float:
    """How many times more than chance the counts deviate from the best mixture; at least 1."""
    expected = counts.sum() * mixture
    frequent = expected >= 1
    if frequent.sum() <= 5:
        return 1.0
    rest_counts, rest = counts[~frequent].sum(), expected[~frequent].sum()
    square = ((counts - expected)[frequent] ** 2 / expected[frequent]).sum() + (rest_counts - rest) ** 2 / max(rest, 1)
    return max(1.0, float(square) / (int(frequent.sum()) - 4))


# --- binomial intervals -----------------------------------------------------------------------------------------------


def upper_share(count: float, n: int, level: float = 0.975) -> float:
    """Upper end of the interval of Clopper and Pearson for a share observed ``count`` times out of ``n``.

    The count need not be whole: the beta distribution, whose quantile this is, fills the gaps.
    """
    if count >= n:
        return 1.0
    low, high = max(0.0, count / n), 1.0
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if beta_below(middle, count + 1, n - count) < level else (low, middle)
    return high


def beta_below(x: float, a: float, b: float) -> float:
    """The regularized incomplete beta function, by a continued fraction.

    It takes about sqrt(a + b) terms at worst on this side of the mean.
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_below(1 - x, b, a)
    front = a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    value, c, d = 1.0, 1.0, 0.0
    for step in range(1_000_000):
        m = step // 2
        if step == 0:
            term = 1.0
        elif step % 2:
            term = -(a + m) * (a + b + m) * x / ((a + step - 1) * (a + step))
        else:
            term = m * (b - m) * x / ((a + step - 1) * (a + step))
        d = 1 / (_not_zero(1 + term * d))
        c = _not_zero(1 + term / c)
        value *= c * d
        if step and abs(c * d - 1) < 1e-13:
            break
    return math.exp(front) / a * (value - 1)


def _not_zero(x: float) -> float:
    return x if abs(x) > 1e-300 else 1e-300
