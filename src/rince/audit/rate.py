"""How many pairs are wrong: the share of p-values against the null of strangers that lies flat.

The p-value of a wrong pair is uniform on [0, 1]; that of a right pair tends to be small. So the density of the
p-values is a flat floor, whose height is the noise rate, under a curve that falls to zero at 1. Storey's estimate takes
the share of p-values above a threshold for the floor, and no other p-value counts. The estimate used here is Storey's
idea with all p-values: the most likely mixture of a floor and of curves k (1 - p)^(k - 1) that fall to zero. How slowly
they may fall is the one choice to make: if slow ones are allowed, they eat into the floor, if not, right pairs of low
score count as wrong. The data make it: fits with slower and faster curves are averaged, weighted by their likelihood.
So the better right pairs stand out, the sharper is the estimate. There is no threshold to choose, and the error is
smaller than Storey's (``benchmarks/audit.py`` prints both).

Whether there is noise at all is asked more strictly: it is found only if even curves as slow as a straight line (k = 2)
cannot do without a floor.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince.audit.binomial import at_most

EDGES = np.concatenate([[0.0], np.geomspace(1e-4, 0.05, 41), np.linspace(0.05, 1, 96)[1:]])
SLOWEST = (3.0, 8.0, 16.0, 32.0)
LAX, FASTEST, CURVES = 2.0, 2e4, 24
ROUNDS, AGAIN = 1500, 500  # of expectation maximisation: from anywhere, and from near the answer
SMALLEST = 0.001  # a share of wrong pairs below this is not worth the name
LOTS = 2000  # of clusters, to draw from


class Rate(NamedTuple):
    """The share of wrong pairs with its 95 % interval, and whether it is more than none.

    ``strict`` is the lower end of the interval if curves as slow as a straight line are allowed. For every bin of
    ``EDGES``: ``chance``, the probability of a pair with a p-value in it to be wrong (the local false discovery rate:
    the floor over the density), and ``cautious``, the lower end of its 95 % interval.
    """

    value: float
    low: float
    high: float
    found: bool
    strict: float
    chance: NDArray[np.float64]
    cautious: NDArray[np.float64]


def p_values(scores: NDArray[np.float32], null: NDArray[np.float32]) -> NDArray[np.float32]:
    """For every score the share of strangers that score as high or higher; ties count half."""
    null = np.sort(null)
    out = np.empty(len(scores), dtype=np.float32)
    for start in range(0, len(scores), 1 << 18):  # the search needs several times the memory of its result
        part = scores[start : start + (1 << 18)]
        above = len(null) - 0.5 * (np.searchsorted(null, part, "left") + np.searchsorted(null, part, "right"))
        out[start : start + len(part)] = (above + 0.5) / (len(null) + 1)
    return out


def storey(p: NDArray[np.float32], threshold: float = 0.5) -> float:
    """Storey's estimate of the share of wrong pairs: p-values above the threshold, over what strangers would have."""
    if not 0 < threshold < 1:
        raise ValueError(f"threshold must lie in (0, 1), got {threshold}")
    return min(1.0, float((p > threshold).mean()) / (1 - threshold))


def noise_rate(
    p: NDArray[np.float32], seed: int = 0, resamples: int = 200, clusters: NDArray[np.int64] | None = None
) -> Rate:
    """The share of wrong pairs from the p-values of all pairs, with a bootstrap interval.

    ``clusters`` numbers (from 0) the things that pairs are: pairs of one cluster are drawn together. Where no noise is
    found the interval begins at 0, and the value is that of the stricter fit.
    """
    counts, random = histogram(p), np.random.default_rng(seed)
    things = len(p) if clusters is None else int(clusters.max()) + 1
    if clusters is None:
        # Resampled pairs are resampled counts of bins: the cost does not depend on the number of pairs.
        again = random.multinomial(counts.sum(), counts / counts.sum(), size=resamples)
    else:
        again = resampled(p, clusters, resamples, random)
    # Copies are no evidence for one curve or another; without them the factor is 1.
    samples = np.vstack([counts, again]) * (things / len(p))
    floors, densities = mixtures(samples)
    strict, _, _ = mixture(samples, LAX)
    low, high = np.quantile(floors[1:], [0.025, 0.975])
    # A resample never has more kinds of wrong pairs than were seen, so of few or none it knows too little.
    high = max(float(high), at_most(float(floors[0]) * things, things))
    strictly = float(np.quantile(strict[1:], 0.025))
    if not strictly > SMALLEST:
        value, nothing = float(strict[0]), np.zeros(len(counts))
        return Rate(value, 0.0, max(high, value), False, 0.0, nothing, nothing)
    value = float(floors[0])
    chance = np.minimum(floors[:, None] / densities, 1)
    cautious = np.minimum(np.quantile(chance[1:], 0.025, axis=0), chance[0])
    return Rate(value, min(float(low), value), max(high, value), True, strictly, chance[0], cautious)


def resampled(
    p: NDArray[np.float32], clusters: NDArray[np.int64], resamples: int, random: np.random.Generator
) -> NDArray[np.int64]:
    """Counts of bins of resampled clusters. Many are drawn in lots of several, which vary as much and cost less."""
    number = int(clusters.max()) + 1
    lots = min(number, LOTS)
    lot = random.permutation(number) % lots
    tables = np.zeros(lots * (len(EDGES) - 1), dtype=np.int64)
    for start in range(0, len(p), 1 << 20):
        part = slice(start, start + (1 << 20))
        bins = np.clip(np.searchsorted(EDGES, p[part], "right") - 1, 0, len(EDGES) - 2)
        tables += np.bincount(lot[clusters[part]] * (len(EDGES) - 1) + bins, minlength=len(tables))
    draws = random.multinomial(lots, np.full(lots, 1 / lots), size=resamples)
    return np.rint(draws.astype(np.float64) @ tables.reshape(lots, -1)).astype(np.int64)


def histogram(p: NDArray[np.float32]) -> NDArray[np.int64]:
    counts = np.zeros(len(EDGES) - 1, dtype=np.int64)
    for start in range(0, len(p), 1 << 20):
        counts += np.histogram(p[start : start + (1 << 20)], EDGES)[0]
    return counts


def chances(p: NDArray[np.float32]) -> NDArray[np.float64]:
    """For every bin of ``EDGES`` the probability of a pair with such a p-value to be wrong."""
    floors, densities = mixtures(histogram(p)[None])
    return np.minimum(floors[0] / densities[0], 1)


def mixtures(counts: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For every row of counts (height of the floor, density in the bins), averaged over ``SLOWEST`` by likelihood."""
    floors, densities, likelihoods = (np.stack(x) for x in zip(*(mixture(counts, k) for k in SLOWEST), strict=True))
    weights = np.exp(likelihoods - likelihoods.max(0))
    weights /= weights.sum(0)
    return (weights * floors).sum(0), (weights[..., None] * densities).sum(0)


def mixture(
    counts: NDArray[Any], slowest: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """The most likely mixture for every row of counts: (height of the floor, density in the bins, log-likelihood).

    The weights of the mixture are found by expectation maximisation, for all rows at once. The rows are resamples of
    the first one, so its weights are where the others start.
    """
    shares = (counts / counts.sum(1, keepdims=True)).T
    parts = _parts(slowest)
    even = np.full((parts.shape[1], 1), 1 / parts.shape[1])
    first = _maximise(parts, shares[:, :1], even, ROUNDS)
    others = _maximise(parts, shares[:, 1:], np.tile(0.9 * first + 0.1 * even, len(counts) - 1), AGAIN)
    weights = np.hstack([first, others])
    mass = parts @ weights
    likelihood = (counts.T * np.log(np.maximum(mass, 1e-300))).sum(0)
    return weights[0], (mass / np.diff(EDGES)[:, None]).T, likelihood


def _maximise(
    parts: NDArray[np.float64], shares: NDArray[np.float64], weights: NDArray[np.float64], rounds: int
) -> NDArray[np.float64]:
    for _ in range(rounds):
        weights = weights * (parts.T @ (shares / np.maximum(parts @ weights, 1e-300)))
    return weights


def _parts(slowest: float) -> NDArray[np.float64]:
    """The mass of the floor (first) and of every curve in every bin."""
    beyond = (1 - EDGES[:, None]) ** np.geomspace(slowest, FASTEST, CURVES)
    return np.hstack([np.diff(EDGES)[:, None], -np.diff(beyond, axis=0)])
