"""Mismatched pairs: shuffled from the same data, without those that are the same thing twice, and what they score."""

import copy
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from rince.audit.classes import accidents, class_side, share_with_rival
from rince.audit.columns import FEWEST, Keys, chunks, cosines_, named_rows
from rince.audit.estimate.decide import Null
from rince.audit.partitions.seen import Sample, joined_sample
from rince.errors import UsageError, WrongType

MISMATCHED = 1_000_000
POOL = 200_000
NONE_APART = "there are no mismatched pairs to draw: all of them share an id, a group or a row"


class Scored(NamedTuple):
    """A score for every pair, and the scores of a sample of mismatched pairs: the null distribution.

    Attributes:
        scores: One score per pair.
        null: Scores of mismatched pairs.
        clusters: The same whole number, counted from 0, for pairs that are right or wrong together, such as the same
            pair twice; None if every pair counts by itself.
        hit_by_accident: The share of right ones among the mismatched pairs that are made from a wrong pair: 0 unless
            one side is a class (see ``classes``).
        with_rival: The share of pairs that fit another class better than their own: 0 unless one side is a class.

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
    with_rival: float = 0.0


def as_scored(scores: Any, null: Any = None) -> Scored:
    """Scores of pairs and of mismatched pairs from anywhere, checked; ``scores`` may be both of them."""
    if isinstance(scores, Scored):
        if null is not None:
            raise WrongType("give either Scored(scores, null) or scores and null, not both (seed goes by its name)")
        both = scores
    else:
        if null is None:
            raise WrongType("the scores of mismatched pairs are missing: give judge(scores, null)")
        both = Scored(scores, null)
    both = both._replace(scores=_as_scores(both.scores, "scores"), null=_as_scores(both.null, "null"))
    if len(both.scores) < FEWEST:
        raise UsageError(
            f"an audit needs the scores of at least {FEWEST} pairs to say anything, got {len(both.scores)}"
        )
    if not len(both.null):
        raise UsageError("null must hold the scores of mismatched pairs, got none")
    return both


def _as_scores(values: Any, name: str) -> NDArray[np.float32]:
    values = values.detach().cpu().float().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if values.ndim != 1:
        raise UsageError(f"{name} must have one score per pair in one dimension, got the shape {values.shape}")
    if values.dtype.kind not in "fiub" and len(values):
        raise WrongType(f"{name} must hold real numbers, got {values.dtype}")
    with np.errstate(over="ignore"):
        values = values.astype(np.float32, copy=False)
    broken = np.flatnonzero(~np.isfinite(values))
    if len(broken):
        raise UsageError(f"{name} must be finite, got {values[broken[0]]} in {named_rows(broken.tolist())}")
    return values


def mismatched_index(
    first: Keys, second: Keys, count: int, random: np.random.Generator
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """``count`` random (row of the first, row of the second) that share no key; fewer where there are too few.

    If there are no more than ``count`` altogether, these are all of them, once, in random order.
    """
    size = len(first[0]) * len(second[0])
    if size <= count:
        order = random.permutation(size)
        i, j = order // len(second[0]), order % len(second[0])
        apart = _apart(first, second, i, j)
        if not apart.any():
            raise UsageError(NONE_APART)
        return i[apart], j[apart]
    left, right, found = [], [], 0
    for attempt in range(20):
        draw = count - found if attempt == 0 else 2 * (count - found)
        i = random.integers(len(first[0]), size=draw)
        j = random.integers(len(second[0]), size=draw)
        apart = _apart(first, second, i, j)
        left.append(i[apart][: count - found])
        right.append(j[apart][: count - found])
        found += len(left[-1])
        if found >= count:
            break
    if not found:
        raise UsageError(NONE_APART)
    return np.concatenate(left), np.concatenate(right)


def _apart(first: Keys, second: Keys, i: NDArray[np.int64], j: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which pairs of rows share no key."""
    apart = np.ones(len(i), dtype=bool)
    for one, other in zip(first, second, strict=True):
        apart &= one[i] != other[j]
    return apart


def cosine_null(
    firsts: list[Sample],
    seconds: list[Sample],
    rows: tuple[NDArray[np.int64], NDArray[np.int64]],
    count: int,
    random: np.random.Generator,
) -> Null:
    """The cosines of ``count`` mismatched pairs, from samples of both sides: those of all partitions, in their order.

    Args:
        firsts, seconds: The samples of either side.
        rows: The numbers of their rows.
        count: How many mismatched pairs to draw.
        random: Where from; it is left as it is.
    """
    first, second = joined_sample(firsts), joined_sample(seconds)
    i, j = mismatched_index(
        [rows[0], first.own, first.partner, *first.keys],
        [rows[1], second.partner, second.own, *second.keys],
        count,
        copy.deepcopy(random),
    )
    null = np.empty(len(i), dtype=np.float32)
    for part in chunks(len(i), first.x.shape[1]):
        null[part] = cosines_(first.x[i[part]], second.x[j[part]]).numpy()
    return Null(null, accidents(first.own, second.own), _with_rival(first, second))


def _with_rival(first: Sample, second: Sample, most: int = 20_000) -> float:
    """The share of pairs, among some of them, whose cosine with another class is higher than with their own."""
    side = class_side(first.own, second.own)
    if side is None:
        return 0.0
    items, of_classes = (first, second) if side == "right" else (second, first)
    codes, some = np.unique(of_classes.own, return_index=True)
    rows = np.flatnonzero(np.isin(items.partner, codes))
    rows = rows[:: max(1, len(rows) // most)]
    table = normalize(items.x[rows].float(), dim=1) @ normalize(of_classes.x[some].float(), dim=1).T
    return share_with_rival(table.numpy(), np.searchsorted(codes, items.partner[rows]))
