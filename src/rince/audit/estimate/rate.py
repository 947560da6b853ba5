"""How many pairs are wrong, and between which bounds that is known.

A wrong pair scores like a mismatched one, a right pair has a shape of its own (see ``shapes``). Every share of wrong
pairs, combined with every shape, is a mixture that explains the scores more or less well. The answer is the set of
those that explain them about as well as the best: the interval reaches from the smallest share among them to the
largest. If right pairs stand clear of mismatched ones, all plausible mixtures agree. If scores are weak, a mixture with
no wrong pairs at all and hard right ones is as plausible as one with many, and the interval says so.

Three allowances keep the interval honest where the assumption is not quite true. What no mixture explains widens it:
the likelihood is tempered by the misfit of the best one. Right pairs that no score understands exist in all data, and
more of them where scores are weak: the lower end allows for them (``hard_share``). And the upper end is never below
what there is room for, whatever right pairs score like (``upper_bound``).
"""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from rince.audit.estimate.binomial import at_most
from rince.audit.estimate.places import p_of_places, places
from rince.audit.estimate.shapes import CUTS, cells, shapes
from rince.errors import UsageError


class Allowance(NamedTuple):
    """How many right pairs may score like mismatched ones without the others showing it.

    ``lone`` is a share of them that all data may have, ``slack`` times the squared overlap the rest: see
    ``hard_share``.
    """

    lone: float
    slack: float


FOR_INTERVAL = Allowance(0.01, 4.0)
"""The worst case, which the lower end of the interval must survive."""
FOR_FLAGS = Allowance(0.00125, 1.0)
"""What is to be expected among the flagged."""
DROP = 3.84  # of twice the log-likelihood: 95 %
SHARES = np.concatenate([[0.0], np.geomspace(5e-4, 0.02, 8), np.arange(0.03, 1.0, 0.02), [0.995, 1.0]])
NEGLIGIBLE = 6.0  # of the log-likelihood: what is so much worse than the best has no weight
DRAWN = 4000  # mixtures, for means and quantiles
FLOOR = 1e-9  # of a cell: nothing is impossible


class Rate(NamedTuple):
    """The share of wrong pairs.

    Attributes:
        value: The best guess: the mean over all mixtures, weighted by how well they explain the scores.
        low, high: The 95 % interval.
        floor: What the lowest scores leave room for at most: an estimate of the upper bound.
        chance: For every cell of ``shapes.CUTS`` the probability of a pair in it to be wrong.
        cautious: The lower end of the 80 % interval of that.
    """

    value: float
    low: float
    high: float
    floor: float
    chance: NDArray[np.float64]
    cautious: NDArray[np.float64]


class Mixtures(NamedTuple):
    """Mixtures of wrong and right pairs: a share and a shape each, its weight, and which are plausible."""

    share: NDArray[np.float64]
    shape: NDArray[np.int64]
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
    return p_of_places(places(scores, np.sort(null)), len(null))


def storey(p: NDArray[np.float32], threshold: float = 0.5) -> float:
    """Storey's estimate of the share of wrong pairs: p-values above the threshold, over what chance would have.

    It is an upper bound in truth: right pairs that score low count as wrong.

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
        raise UsageError(f"threshold must lie in (0, 1), got {threshold}")
    return min(1.0, float((p > threshold).mean()) / (1 - threshold))


def noise_rate(
    p: NDArray[np.float32], null: NDArray[np.float64] | None = None, clusters: NDArray[np.int64] | None = None
) -> Rate:
    """The share of wrong pairs from the p-values of all pairs.

    Args:
        p: One p-value per pair.
        null: The share of mismatched pairs in every cell; by default what they have without ties.
        clusters: Numbers (from 0) for the things that pairs are: pairs of one cluster count as one.

    Returns:
        The share, its interval, and the probability to be wrong by p-value.

    Example:
        >>> p = np.concatenate([np.full(400, 1e-6), np.linspace(0, 1, 100)])
        >>> round(rince.audit.noise_rate(p).value, 1)
        0.2
    """
    things = len(p) if clusters is None else int(clusters.max()) + 1
    return rate_of_cells(cells(p), things, even_null() if null is None else null)


def rate_of_cells(pairs: NDArray[np.int64], things: int, null: NDArray[np.float64]) -> Rate:
    """The same from the number of pairs in every cell.

    Args:
        pairs: How many pairs lie in every cell.
        things: How many different things they are: pairs that are right or wrong together count as one witness.
        null: The share of mismatched pairs in every cell.
    """
    counts = pairs * (things / pairs.sum())
    found = mixtures(counts, null)
    shares = found.share[found.plausible]
    value = float((found.weight * found.share).sum())
    hard = hard_share(overlap(found, null), FOR_INTERVAL)
    least = np.maximum((found.share - hard) / (1 - hard), 0)
    low = float(least[found.plausible].min())
    floor, room = upper_bound(counts, null, things)
    high = float(min(1.0, max(float(shares.max()), room, at_most(value * things, things))))
    chance = local(drawn(found), null)
    mean = chance.mean(0)
    return Rate(value, min(low, value), high, floor, mean, np.minimum(cautious(drawn(found), null), mean))


def upper_bound(counts: NDArray[np.float64], null: NDArray[np.float64], things: int) -> tuple[float, float]:
    """How many wrong pairs there is room for, whatever right pairs score like; and the upper end of its interval.

    Wrong pairs have their part of the scores below any cut, so there are no more than pairs below the cut, over the
    share of mismatched pairs there.
    """
    below, expected = np.cumsum(counts), np.cumsum(null)
    cuts = np.unique(np.searchsorted(expected, (0.3, 0.5, 0.7, 0.85, 0.95)))
    room = [min(1.0, at_most(float(below[k]), things) / expected[k]) for k in cuts]
    return min(1.0, float((below[cuts] / (things * expected[cuts])).min())), min(room)


def overlap(found: Mixtures, null: NDArray[np.float64]) -> NDArray[np.float64]:
    """For every mixture how much its right pairs overlap with mismatched ones: 0 if they outscore all, 1 if none."""
    beaten = np.cumsum(null) - null / 2
    return np.clip(2 * (1 - shapes()[found.shape] @ beaten), 0, 1)


def hard_share(overlap: NDArray[np.float64], allowed: Allowance) -> NDArray[np.float64]:
    """The share of right pairs that may score like mismatched ones beyond what the shape of the others shows.

    A few lone ones are in all data. Where the others overlap with mismatched pairs, there are more: how many was
    measured on real pairings (``benchmarks/zoo.py --leave-one-out``).
    """
    return np.minimum(allowed.lone + allowed.slack * overlap**2, 0.999)


def drawn(found: Mixtures) -> Mixtures:
    """As many mixtures as are needed to know their means and quantiles, each as often as its weight says."""
    at = (np.arange(DRAWN) + 0.5) / DRAWN
    chosen = np.minimum(np.searchsorted(np.cumsum(found.weight), at), len(found.weight) - 1)
    return Mixtures(found.share[chosen], found.shape[chosen], np.full(DRAWN, 1 / DRAWN), found.plausible[chosen])


def cautious(found: Mixtures, null: NDArray[np.float64]) -> NDArray[np.float64]:
    """For every cell the lower end of the 80 % interval of the probability to be wrong, with some hard right pairs."""
    wrong = np.maximum(found.share, FLOOR)
    hard = hard_share(overlap(found, null), FOR_FLAGS) * (1 - wrong) / wrong
    return np.quantile(local(found, null) * np.clip(1 - hard, 0, 1)[:, None], 0.1, axis=0)


def chances(p: NDArray[np.float32]) -> NDArray[np.float64]:
    """For every cell the probability of a pair with such a p-value to be wrong."""
    null = even_null()
    found = mixtures(cells(p).astype(np.float64), null)
    return local(drawn(found), null).mean(0)


def even_null() -> NDArray[np.float64]:
    """The share of mismatched pairs in every cell if no two score alike."""
    below = torch.special.ndtr(torch.from_numpy(CUTS)).numpy()
    return np.diff(below, prepend=0, append=1)


def null_cells(null: NDArray[np.float32], most: int = 100_000) -> NDArray[np.float64]:
    """The share of mismatched pairs in every cell: where many score alike, some cells are empty."""
    step = max(1, len(null) // most)
    counts = cells(p_values(null[::step], null)).astype(np.float64)
    return np.maximum(counts / counts.sum(), FLOOR)


def mixtures(counts: NDArray[np.float64], null: NDArray[np.float64]) -> Mixtures:
    """The mixtures that matter: on a coarse net of shares first, then on a fine one where it is worth while."""
    family = np.maximum(shapes(), FLOOR)
    first = likelihood(counts, null, family, SHARES)
    shape, share = np.unravel_index(first.argmax(), first.shape)
    temper = misfit(counts, (1 - SHARES[share]) * family[shape] + SHARES[share] * null)
    near = first >= first.max() - temper * NEGLIGIBLE
    kept = np.flatnonzero(near.any(1))
    columns = np.flatnonzero(near.any(0))
    low, high = SHARES[max(columns[0] - 1, 0)], SHARES[min(columns[-1] + 1, len(SHARES) - 1)]
    shares = np.unique(np.concatenate([[low], np.linspace(low, high, 41), SHARES[columns]]))
    fine = likelihood(counts, null, family[kept], shares)
    gap = (fine - fine.max()) / temper
    worth = gap > -NEGLIGIBLE
    which, place = np.nonzero(worth)
    # A net that is denser in some places must not count for more there.
    width = np.gradient(shares) if len(shares) > 1 else np.ones(1)
    weight = np.exp(gap[worth]) * width[place]
    return Mixtures(shares[place], kept[which], weight / weight.sum(), gap[worth] >= -DROP / 2)


def likelihood(
    counts: NDArray[np.float64], null: NDArray[np.float64], family: NDArray[np.float32], shares: NDArray[np.float64]
) -> NDArray[np.float64]:
    """(shapes, shares): the log-likelihood of the counts."""
    out = np.empty((len(family), len(shares)))
    wanted, some = counts > 0, counts[counts > 0]
    right, wrong = family[:, wanted], null[wanted].astype(np.float32)
    for k, share in enumerate(shares):
        out[:, k] = np.log((1 - share) * right + share * wrong) @ some
    return out


def misfit(counts: NDArray[np.float64], mixture: NDArray[np.float64]) -> float:
    """How many times more than chance the counts deviate from the best mixture; at least 1."""
    expected = counts.sum() * mixture
    often = expected >= 1
    if often.sum() <= 5:
        return 1.0
    rest_counts, rest = counts[~often].sum(), expected[~often].sum()
    square = ((counts - expected)[often] ** 2 / expected[often]).sum() + (rest_counts - rest) ** 2 / max(rest, 1)
    return max(1.0, float(square) / (int(often.sum()) - 4))


def local(found: Mixtures, null: NDArray[np.float64]) -> NDArray[np.float64]:
    """(mixtures, cells): the probability of a pair to be wrong."""
    wrong = found.share[:, None] * null
    right = (1 - found.share)[:, None] * np.maximum(shapes()[found.shape], FLOOR)
    return wrong / (wrong + right)
