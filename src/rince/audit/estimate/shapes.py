"""What right pairs may score like: a family of shapes on the scale on which mismatched pairs are normal.

Scores are brought to a common scale: z is the normal score of the p-value against mismatched pairs, so mismatched pairs
have a standard normal z whatever the scores are. On this scale right pairs of real data are close to normal, too, with
a mean, a deviation and some skewness of their own. So right pairs are taken to be skew-normal.

This is the assumption behind everything the audit says: where right pairs overlap with mismatched ones, their tail is
the one that belongs to the part of them that can be seen.
"""

from functools import cache

import numpy as np
import torch
from numpy.typing import NDArray

CUTS = np.arange(-3.25, 2.51, 0.25)
"""Edges of cells of z. What lies above the last is one cell: how far above is of no account for wrong pairs."""
CELLS = len(CUTS) + 1
MIDDLES = np.concatenate([[CUTS[0] - 0.3], (CUTS[1:] + CUTS[:-1]) / 2, [CUTS[-1] + 0.4]])

MEANS = np.concatenate([np.arange(-0.4, 4, 0.1), np.geomspace(4, 12, 12)])
DEVIATIONS = np.geomspace(0.3, 3.2, 18)
SLANTS = np.array([-20.0, -5.0, -3.0, -2.0, -1.2, 0.0, 1.2, 2.0, 3.0, 5.0, 20.0])  # the skew-normal's alpha
FINE = np.linspace(-12, 12, 4801)


def normal_scores(p: NDArray[np.float32]) -> NDArray[np.float32]:
    """z of p-values: high for small ones."""
    return torch.special.ndtri(1 - torch.from_numpy(p).double()).float().numpy()


def cells(p: NDArray[np.float32]) -> NDArray[np.int64]:
    """How many p-values lie in every cell, from the lowest scores to the highest."""
    counts = np.zeros(CELLS, dtype=np.int64)
    for start in range(0, len(p), 1 << 20):
        place = np.searchsorted(CUTS, normal_scores(p[start : start + (1 << 20)]))
        counts += np.bincount(place, minlength=CELLS)
    return counts


@cache
def shapes() -> NDArray[np.float32]:
    """(shapes, cells): the share of right pairs in every cell, for every shape."""
    found = []
    for slant in SLANTS:
        delta = slant / np.sqrt(1 + slant**2)
        # Standardised to mean 0 and deviation 1.
        shift, scale = delta * np.sqrt(2 / np.pi), np.sqrt(1 - 2 * delta**2 / np.pi)
        x = shift + scale * FINE
        density = np.exp(-(x**2) / 2) * torch.special.ndtr(torch.from_numpy(slant * x)).numpy()
        below = np.concatenate([[0], np.cumsum((density[1:] + density[:-1]) / 2)])
        below /= below[-1]
        at = (CUTS[None, None] - MEANS[:, None, None]) / DEVIATIONS[None, :, None]
        inside = np.interp(at.reshape(-1, len(CUTS)), FINE, below)
        found.append(np.diff(inside, axis=1, prepend=0, append=1))
    return np.concatenate(found).astype(np.float32)
