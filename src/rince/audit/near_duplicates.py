"""Near-duplicates: rows with a cosine near 1 are copies, and never form a mismatched pair.

Rows are hashed by the side of random planes they lie on, in several bands of bits; only rows that share a band are
compared. So the cost grows with the rows and not with their square.
"""

import numpy as np
from numpy.typing import NDArray

from rince.audit.units import joined
from rince.errors import UsageError
from rince.pairs.matrix import Matrix, chunks, cosines_, read, release

BITS, BANDS = 16, 24
NEIGHBORS = 8
"""How many rows after it, in its bucket, a row is compared with; copies lie side by side."""
ALIKE = 0.98


def near_duplicates(a: Matrix, b: Matrix, alike: float = ALIKE, seed: int = 0) -> NDArray[np.int64] | None:
    """One number per pair, equal for pairs whose rows in ``a``, or in ``b``, are near-duplicates; None without any.

    Args:
        a, b: The two columns.
        alike: Minimum cosine of near-duplicates, after subtracting the mean of each column.
        seed: Seed of the random planes.

    Raises:
        UsageError: ``alike`` is not in (0, 1].
    """
    if not 0 < alike <= 1:
        raise UsageError(f"near-duplicates must have a cosine in (0, 1], got {alike}")
    keys = [key for key in (alike_rows(x, alike, seed) for x in (a, b)) if key is not None]
    return joined(keys) if keys else None


def alike_rows(x: Matrix, alike: float = ALIKE, seed: int = 0) -> NDArray[np.int64] | None:
    """One number per row, equal for rows linked by cosines of at least ``alike``; None without any."""
    mean = _mean(x)
    first, second = _candidates(_bands(x, mean, seed))
    close = _cosines(x, mean, first, second) >= alike
    if not close.any():
        return None
    return _components(len(x), first[close], second[close])


def _mean(x: Matrix) -> NDArray[np.float32]:
    total = np.zeros(x.shape[1])
    count = 0
    for rows in chunks(*x.shape):
        part = read(x, rows)
        finite = np.isfinite(part).all(1)
        total, count = total + part[finite].sum(0, dtype=np.float64), count + int(finite.sum())
        release(x)
    return (total / max(1, count)).astype(np.float32)


def _bands(x: Matrix, mean: NDArray[np.float32], seed: int) -> NDArray[np.uint16]:
    """The side of 16 random planes, for each of the bands: (rows, bands)."""
    planes = np.random.default_rng(seed).standard_normal((x.shape[1], BANDS * BITS), dtype=np.float32)
    powers = (2 ** np.arange(BITS)).astype(np.uint16)
    codes = np.empty((len(x), BANDS), dtype=np.uint16)
    for rows in chunks(len(x), max(x.shape[1], BANDS * BITS)):
        sides = ((read(x, rows) - mean) @ planes > 0).reshape(-1, BANDS, BITS)
        codes[rows] = (sides * powers).sum(2, dtype=np.uint16)
        release(x)
    return codes


def _candidates(bands: NDArray[np.uint16]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Pairs of rows that stand next to each other in a bucket of a band, each once."""
    n, codes = len(bands), []
    for k in range(bands.shape[1]):
        # Within a bucket, rows are sorted by the other bands, so that the most alike stand side by side.
        order = np.lexsort([bands[:, (k + 1) % bands.shape[1]], bands[:, k]])
        for step in range(1, min(NEIGHBORS, n - 1) + 1):
            i, j = order[:-step], order[step:]
            same = bands[i, k] == bands[j, k]
            i, j = i[same], j[same]
            codes.append(np.minimum(i, j) * n + np.maximum(i, j))
    code = np.unique(np.concatenate(codes))
    return code // n, code % n


def _cosines(x: Matrix, mean: NDArray[np.float32], i: NDArray[np.int64], j: NDArray[np.int64]) -> NDArray[np.float32]:
    out = np.empty(len(i), dtype=np.float32)
    for rows in chunks(len(i), x.shape[1]):
        left, right = read(x, i[rows]) - mean, read(x, j[rows]) - mean
        out[rows] = np.nan_to_num(cosines_(left, right), nan=-1)
    return out


def _components(n: int, first: NDArray[np.int64], second: NDArray[np.int64]) -> NDArray[np.int64]:
    """The connected components of rows linked pairwise."""
    root = np.arange(n)
    while True:
        low = np.minimum(root[first], root[second])
        new = root.copy()
        np.minimum.at(new, root[first], low)
        np.minimum.at(new, root[second], low)
        new = new[new]
        while (new != new[new]).any():
            new = new[new]
        if (new == root).all():
            return root
        root = new
