"""How likely each pair is to be wrong, and which to flag: the local false discovery rate against the null."""

import numpy as np
from numpy.typing import NDArray

from rince.audit.estimate.shapes import MIDDLES, normal_scores
from rince.errors import UsageError


def at_p_values(p: NDArray[np.float32], chance: NDArray[np.float64]) -> NDArray[np.float32]:
    """Probabilities given for cells (see ``rate.Rate``), at single p-values: straight lines between their middles."""
    out = np.empty(len(p), dtype=np.float32)
    for start in range(0, len(p), 1 << 20):
        out[start : start + (1 << 20)] = np.interp(normal_scores(p[start : start + (1 << 20)]), MIDDLES, chance)
    return out


def suspects(
    chance: NDArray[np.float32], scores: NDArray[np.float32], fdr: float
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The most pairs of which at most ``fdr`` are expected to be right, lowest score first.

    Also returned: for every one of them the expected share of false alarms among it and those before it.
    """
    if not 0 < fdr < 1:
        raise UsageError(f"fdr must lie in (0, 1), got {fdr}")
    most = min(len(chance), int(chance.sum(dtype=np.float64) / (1 - fdr)) + 1)  # more would be right too often
    candidates = np.flatnonzero((scores <= np.partition(scores, most - 1)[most - 1]) & (chance > 0))
    order = candidates[np.argsort(scores[candidates], kind="stable")]
    alarms = np.cumsum(1 - chance[order], dtype=np.float64) / np.arange(1, len(order) + 1)
    within = np.flatnonzero(alarms <= fdr)
    end = int(within[-1]) + 1 if len(within) else 0
    return order[:end], alarms[:end]
