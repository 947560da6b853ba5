"""How likely each pair is to be wrong, and which to flag: the local false discovery rate against the null."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rince.audit.estimate.shapes import MIDDLES, normal_scores
from rince.errors import UsageError

EXCESS, SIGMAS = 1.5, 2.0
"""A list may have more than 1.5 times the promised share of false alarms in some 2 % of all cases: two deviations."""


def at_p_values(p: NDArray[np.float32], chance: NDArray[np.float64]) -> NDArray[np.float32]:
    """Probabilities given for cells (see ``rate.Rate``), at single p-values: straight lines between their middles."""
    out = np.empty(len(p), dtype=np.float32)
    for start in range(0, len(p), 1 << 20):
        out[start : start + (1 << 20)] = np.interp(normal_scores(p[start : start + (1 << 20)]), MIDDLES, chance)
    return out


def few_enough(
    pairs: NDArray[Any], alarms: NDArray[np.float64], variance: NDArray[np.float64], fdr: float
) -> NDArray[np.bool_]:
    """Whether lists of so many pairs, with so many false alarms expected, keep the promise of ``fdr``.

    Also a short list must keep it, of which a few false alarms more than expected are a large share: the real share is
    above ``EXCESS`` times the promise only if it is more than ``SIGMAS`` deviations above what is expected.

    Args:
        pairs: The lengths of the lists.
        alarms: How many of them are expected to be right.
        variance: That of their number.
        fdr: The share of false alarms.
    """
    return (alarms <= fdr * pairs) & (alarms + SIGMAS * np.sqrt(variance) <= EXCESS * fdr * pairs)


def suspects(
    chance: NDArray[np.float32], scores: NDArray[np.float32], fdr: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The most pairs of which at most ``fdr`` are expected to be right (see ``few_enough``), lowest score first.

    Also returned: for every one of them the expected share of false alarms among it and those before it.
    """
    if not 0 < fdr < 1:
        raise UsageError(f"fdr must lie in (0, 1), got {fdr}")
    most = min(len(chance), int(chance.sum(dtype=np.float64) / (1 - fdr)) + 1)  # more would be right too often
    candidates = np.flatnonzero((scores <= np.partition(scores, most - 1)[most - 1]) & (chance > 0))
    order = candidates[np.argsort(scores[candidates], kind="stable")]
    right = 1 - chance[order].astype(np.float64)
    pairs, alarms = np.arange(1, len(order) + 1), np.cumsum(right)
    within = np.flatnonzero(few_enough(pairs, alarms, np.cumsum(right * (1 - right)), fdr))
    end = int(within[-1]) + 1 if len(within) else 0
    return order[:end], (alarms / pairs)[:end]
