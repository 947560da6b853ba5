"""Mismatched pairs: shuffled from the same data, without those that are the same thing twice, and what they score."""

from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rince._support.progress import track
from rince.audit.classes import accidents
from rince.audit.clusters import equal_pairs, together
from rince.audit.columns import (
    FEWEST,
    Keys,
    Matrix,
    RowCheck,
    chunk_rows,
    chunks,
    cosines_,
    named_rows,
    read,
    release,
    row_codes,
)

MISMATCHED = 1_000_000
POOL = 200_000


class Scored(NamedTuple):
    """A score for every pair, and the scores of a sample of mismatched pairs: the null distribution.

    Attributes:
        scores: One score per pair.
        null: Scores of mismatched pairs.
        clusters: The same whole number, counted from 0, for pairs that are right or wrong together, such as the same
            pair twice; None if every pair counts by itself.
        hit_by_accident: The share of right ones among the mismatched pairs that are made from a wrong pair: 0 unless
            one side is a class (see ``classes``).

    Example:
        >>> random = np.random.default_rng(0)
        >>> scored = rince.audit.Scored(random.normal(3, 1, 500), random.normal(0, 1, 100_000))
        >>> rince.audit.judge(scored).verdict
        'none found'
    """

    scores: NDArray[np.float32]
    null: NDArray[np.float32]
    clusters: NDArray[np.int64] | None = None
    hit_by_accident: float = 0.0


def as_scored(scores: Any, null: Any = None) -> Scored:
    """Scores of pairs and of mismatched pairs from anywhere, checked; ``scores`` may be both of them."""
    if isinstance(scores, Scored):
        if null is not None:
            raise TypeError("give either Scored(scores, null) or scores and null, not both (seed goes by its name)")
        both = scores
    else:
        if null is None:
            raise TypeError("the scores of mismatched pairs are missing: give judge(scores, null)")
        both = Scored(scores, null)
    both = both._replace(scores=_as_scores(both.scores, "scores"), null=_as_scores(both.null, "null"))
    if len(both.scores) < FEWEST:
        raise ValueError(
            f"an audit needs the scores of at least {FEWEST} pairs to say anything, got {len(both.scores)}"
        )
    if not len(both.null):
        raise ValueError("null must hold the scores of mismatched pairs, got none")
    return both


def _as_scores(values: Any, name: str) -> NDArray[np.float32]:
    values = values.detach().cpu().float().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if values.ndim != 1:
        raise ValueError(f"{name} must have one score a pair in one dimension, got the shape {values.shape}")
    if values.dtype.kind not in "fiub" and len(values):
        raise TypeError(f"{name} must hold real numbers, got {values.dtype}")
    with np.errstate(over="ignore"):
        values = values.astype(np.float32, copy=False)
    broken = np.flatnonzero(~np.isfinite(values))
    if len(broken):
        raise ValueError(f"{name} must be finite, got {values[broken[0]]} in {named_rows(broken.tolist())}")
    return values


def mismatched_index(
    first: Keys, second: Keys, count: int, random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """``count`` random (row of the first, row of the second) that share no key; fewer where there are too few."""
    left, right, found = [], [], 0
    for attempt in range(20):
        draw = count - found if attempt == 0 else 2 * (count - found)
        i = random.integers(len(first[0]), size=draw)
        j = random.integers(len(second[0]), size=draw)
        apart = np.ones(draw, dtype=bool)
        for one, other in zip(first, second, strict=True):
            apart &= one[i] != other[j]
        left.append(i[apart][: count - found])
        right.append(j[apart][: count - found])
        found += len(left[-1])
        if found >= count:
            break
    if not found:
        raise ValueError("there are no mismatched pairs to draw: all of them share an id, a group or a row")
    return np.concatenate(left), np.concatenate(right)


def cosine_scores(
    a: Matrix, b: Matrix, keys: Keys, seed: int = 0, mismatched: int = MISMATCHED, progress: bool | None = None
) -> Scored:
    """Cosines of all pairs and of ``mismatched`` shuffled ones, in one pass over the data.

    The mismatched pairs come from a random sample of up to 200,000 rows of each column, so the memory needed does not
    grow with the width of the data times its length.
    """
    n, width = a.shape
    random = np.random.default_rng(seed)
    pool_a, pool_b = (np.sort(random.permutation(n)[:POOL]) for _ in range(2))
    checks = RowCheck("a", zero_is_bad=True), RowCheck("b", zero_is_bad=True)
    scores = np.empty(n, dtype=np.float32)
    pairs = np.empty(n, dtype=np.int64)
    room = torch.empty(2, min(n, chunk_rows(width)), width)
    first, second = Pool(pool_a, width), Pool(pool_b, width)
    for rows in track(list(chunks(n, width)), "scoring pairs", show=progress):
        x, y = read(a, rows, room[0]), read(b, rows, room[1])
        for check, part in zip(checks, (x, y), strict=True):
            check.see(part, rows.start)
        left, right = row_codes(x), row_codes(y)
        first.see(x, left, right, rows)
        second.see(y, right, left, rows)
        pairs[rows] = equal_pairs(left, right)
        scores[rows] = cosines_(x, y).numpy()
        release(a)
        release(b)
    for check in checks:
        check.verdict()
    i, j = mismatched_index(
        [pool_a, first.own, first.partner, *(k[pool_a] for k in keys)],
        [pool_b, second.partner, second.own, *(k[pool_b] for k in keys)],
        mismatched,
        random,
    )
    null = np.empty(len(i), dtype=np.float32)
    for rows in chunks(len(i), width):
        null[rows] = cosines_(first.sample[i[rows]], second.sample[j[rows]]).numpy()
    by_accident = accidents(first.own, second.own)
    del first, second, room  # the clusters of many pairs need memory too
    return Scored(scores, null, together(pairs, keys), by_accident)


class Pool:
    """A sample of the rows of one column, and codes of those rows and of their partners in the other column.

    Both matter: row i of a and row j of b belong together if rows i and j of b are equal, or rows i and j of a.
    """

    def __init__(self, index: NDArray[np.int64], width: int):
        self.index = index
        # Allocated once: many small arrays kept between large ones that are not would break up the heap.
        self.sample = torch.empty(len(index), width)
        self.own = np.empty(len(index), dtype=np.int64)
        self.partner = np.empty(len(index), dtype=np.int64)

    def see(self, x: Tensor, own: NDArray[np.int64], partner: NDArray[np.int64], rows: slice) -> None:
        start, stop = np.searchsorted(self.index, [rows.start, rows.stop])
        inside = self.index[start:stop] - rows.start
        torch.index_select(x, 0, torch.from_numpy(inside), out=self.sample[start:stop])
        self.own[start:stop], self.partner[start:stop] = own[inside], partner[inside]
