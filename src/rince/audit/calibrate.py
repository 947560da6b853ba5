"""From scores to the probability of every pair to be mismatched: against the null, or from reviewed pairs."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

BINS = 40
"""Bins of equal null probability in which pairs are counted."""
MIN_EXPECTED, MIN_BINS = 10.0, 4  # expected mismatched pairs per bin, and the minimum number of bins

Floats = NDArray[np.float64]


def local_probability(
    scores: NDArray[np.floating], null: NDArray[np.floating], rate: float, bins: int = BINS
) -> NDArray[np.float32]:
    """The probability of every pair to be mismatched: ``rate * g / f`` in bins of null quantiles.

    Mismatched pairs follow the null density g, all pairs the density f. The ratio is made non-increasing in the score
    by isotonic regression (weighted by the counts), then interpolated between the bins.

    Args:
        scores: One score per pair; higher means a better fit.
        null: Scores of mismatched pairs.
        rate: Share of mismatched pairs in [0, 1], such as the mean of its posterior.
        bins: Number of bins of equal null probability.

    Returns:
        (pairs,) probabilities in [0, 1].

    Example:
        >>> random = np.random.default_rng(0)
        >>> null = random.normal(size=10_000)
        >>> scores = np.concatenate([random.normal(4, 1, 800), random.normal(size=200)])
        >>> p = local_probability(scores, null, rate=0.2)
        >>> bool(p[:800].mean() < 0.1), bool(p[800:].mean() > 0.7)
        (True, True)
    """
    quantile = null_quantiles(scores, null)
    middle, probability = probability_curve(quantile, np.ones(len(quantile), dtype=np.int64), rate, bins)
    return np.interp(quantile, middle, probability).astype(np.float32)


def probability_curve(
    quantile: Floats, count: NDArray[np.int64], rate: float, bins: int = BINS
) -> tuple[Floats, Floats]:
    """Curve of ``local_probability``: middles of the bins of null quantiles, and the probability in each.

    Args:
        quantile: Share of the null below a score.
        count: Number of pairs with each of these quantiles, so that counts of shards can be added up.
        rate: Share of mismatched pairs.
        bins: Number of bins of equal null probability.
    """
    pairs = int(count.sum())
    edges = np.linspace(0, 1, int(np.clip(pairs * rate / MIN_EXPECTED, MIN_BINS, bins)) + 1)
    # The highest bin holds most right pairs: split it, so that a right pair is not judged with its lower neighbors.
    edges = np.concatenate([edges[:-1], 1 - (1 - edges[-2]) / 2.0 ** np.arange(1, 5), [1.0]])
    counts = np.histogram(quantile, edges, weights=count)[0].astype(np.float64)
    ratio = decreasing(np.diff(edges) * pairs * rate / np.maximum(counts, 0.5), np.maximum(counts, 0.5))
    return (edges[1:] + edges[:-1]) / 2, np.clip(ratio, 0, 1)


def null_quantiles(scores: NDArray[np.floating], null: NDArray[np.floating]) -> Floats:
    """The share of the null below every score; ties count half."""
    ordered = np.sort(null)
    below, not_above = np.searchsorted(ordered, scores, "left"), np.searchsorted(ordered, scores, "right")
    return (below + not_above) / (2 * len(null))


def decreasing(values: Floats, weights: Floats) -> Floats:
    """The closest non-increasing sequence by weighted squares: pool adjacent violators."""
    blocks: list[list[float]] = []  # mean, weight, length
    for value, weight in zip(values.tolist(), weights.tolist(), strict=True):
        blocks.append([value, weight, 1])
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            mean, total, length = blocks.pop()
            last = blocks[-1]
            last[0] = (last[0] * last[1] + mean * total) / (last[1] + total)
            last[1] += total
            last[2] += length
    return np.repeat([block[0] for block in blocks], [int(block[2]) for block in blocks])


def room_for_mismatched(scores: NDArray[np.floating], null: NDArray[np.floating]) -> float:
    """Upper estimate of the share of mismatched pairs: pairs below a null quantile, over the null's share below it."""
    quantile = null_quantiles(scores, null)
    return float(min([1.0, *((quantile <= cut).mean() / cut for cut in (0.3, 0.5, 0.7))]))


def recalibrate(
    features: NDArray[np.floating],
    rows: NDArray[np.int64],
    wrong: NDArray[np.bool_],
    strength: float | Sequence[float] = 1.0,
    steps: int = 30,
) -> NDArray[np.float32]:
    """The probability of every pair to be wrong, from a few reviewed pairs: ridge logistic regression.

    The reviewed pairs must be a random sample. Marks of the top suspects alone do not generalize to the others.

    Args:
        features: (pairs,) scores, or (pairs, k) scores and other features, of all pairs.
        rows: Rows of the reviewed pairs.
        wrong: Whether each reviewed pair is wrong.
        strength: Ridge on standardized features, one value for all or one per feature; the intercept is not penalized.
        steps: Number of Newton steps.

    Returns:
        (pairs,) probabilities. Their mean estimates the share of wrong pairs.

    Example:
        >>> random = np.random.default_rng(0)
        >>> wrong = random.random(2000) < 0.3
        >>> scores = np.where(wrong, random.normal(-1, 1, 2000), random.normal(1, 1, 2000))
        >>> rows = random.permutation(2000)[:100]
        >>> bool(abs(recalibrate(scores, rows, wrong[rows]).mean() - wrong.mean()) < 0.1)
        True
    """
    x = np.asarray(features, dtype=np.float64).reshape(len(features), -1)
    x = (x - x.mean(0)) / np.maximum(x.std(0), 1e-12)
    x = np.column_stack([np.clip(x, -4, 4), np.ones(len(x))])
    marked, y = x[rows], np.asarray(wrong, dtype=np.float64)
    ridge = np.diag([*np.broadcast_to(strength, x.shape[1] - 1), 1e-3])
    w = np.zeros(x.shape[1])
    for _ in range(steps):
        p = 1 / (1 + np.exp(-np.clip(marked @ w, -30, 30)))
        gradient = marked.T @ (p - y) + ridge @ w
        w -= np.linalg.solve((marked * (p * (1 - p))[:, None]).T @ marked + ridge, gradient)
    return (1 / (1 + np.exp(-np.clip(x @ w, -30, 30)))).astype(np.float32)
