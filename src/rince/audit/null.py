"""Mismatched pairs: shuffled from the same data, without those that belong together, and the classes among them.

A side with few different rows is a class: one-hot labels, embeddings of prompts, and the like. Wrong pairs are then
wrong labels. Two things differ from pairs of single items. A shuffled pair of the same class is right, and is left out
of the mismatched pairs. And of the mismatched pairs that are made from a wrong pair, some hit the true class by chance:
with two classes all of them.

Labels are often confused with similar ones rather than with any. A wrong label then fits much better than a mismatched
one, and no comparison with mismatched pairs can find it. What can be counted is how many pairs fit another class better
than their own: hard right ones, and labels that were confused (``share_other_class_better``).
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince.audit.estimate import Null
from rince.audit.scan import Sample
from rince.errors import UsageError, WrongType
from rince.pairs.matrix import (
    MAX_CLASSES,
    MIN_PAIRS,
    MIN_PER_CLASS,
    Keys,
    as_array,
    chunks,
    cosines_,
    is_tensor,
    named_rows,
    unit_rows,
)

NULL_SIZE = 1_000_000
NONE_APART = "There are no mismatched pairs to draw: all pairs share an id, a duplicate value or a row."


class Scored(NamedTuple):
    """Scores of pairs, and of a sample of mismatched pairs: the null distribution.

    Attributes:
        scores: (pairs,) scores; higher means a better fit.
        null: Scores of mismatched pairs.
        clusters: (pairs,) unit of every pair, counted from 0: pairs of one unit are right or wrong together, such as
            the same pair twice. None if every pair counts by itself.
        right_by_chance: Share of right pairs among mismatched pairs made from a wrong pair: 0 unless one side is a
            class.
        other_class_better: Share of pairs that fit another class better than their own: 0 unless one side is a class.

    Example:
        >>> random = np.random.default_rng(0)
        >>> scored = rince.audit.Scored(random.normal(3, 1, 500), random.normal(0, 1, 100_000))
        >>> rince.audit.judge(scored).verdict.value
        'none found'
    """

    scores: NDArray[np.float32]
    null: NDArray[np.float32]
    clusters: NDArray[np.int64] | None = None
    right_by_chance: float = 0.0
    other_class_better: float = 0.0


def as_scored(scores: Any, null: Any = None) -> Scored:
    """Scores of pairs and of mismatched pairs from anywhere, checked; ``scores`` may be both of them."""
    if isinstance(scores, Scored):
        if null is not None:
            raise WrongType("Pass either Scored(scores, null), or scores and null, not both.")
        scored = scores
    else:
        if null is None:
            raise WrongType("The scores of mismatched pairs are missing: call judge(scores, null).")
        scored = Scored(scores, null)
    scored = scored._replace(scores=_as_scores(scored.scores, "scores"), null=_as_scores(scored.null, "null"))
    if len(scored.scores) < MIN_PAIRS:
        raise UsageError(f"An audit needs at least {MIN_PAIRS} pairs, got {len(scored.scores)}.")
    if not len(scored.null):
        raise UsageError("null must hold the scores of mismatched pairs, got none")
    units = scored.clusters
    if units is not None and (units.shape != scored.scores.shape or not np.bincount(units).all()):
        raise UsageError("clusters must have one number per pair and count from 0 without gaps")
    return scored


def _as_scores(values: Any, name: str) -> NDArray[np.float32]:
    values = as_array(values) if is_tensor(values) else np.asarray(values)
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
        mask = _apart(first, second, i, j)
        if not mask.any():
            raise UsageError(NONE_APART)
        return i[mask], j[mask]
    left, right, drawn = [], [], 0
    for attempt in range(20):
        size = count - drawn if attempt == 0 else 2 * (count - drawn)
        i = random.integers(len(first[0]), size=size)
        j = random.integers(len(second[0]), size=size)
        mask = _apart(first, second, i, j)
        left.append(i[mask][: count - drawn])
        right.append(j[mask][: count - drawn])
        drawn += len(left[-1])
        if drawn >= count:
            break
    if not drawn:
        raise UsageError(NONE_APART)
    return np.concatenate(left), np.concatenate(right)


def _apart(first: Keys, second: Keys, i: NDArray[np.int64], j: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Which pairs of rows share no key."""
    mask = np.ones(len(i), dtype=bool)
    for key, other_key in zip(first, second, strict=True):
        mask &= key[i] != other_key[j]
    return mask


def cosine_null(first: Sample, second: Sample, rows: NDArray[np.int64], seed: int, size: int | None = None) -> Null:
    """Cosines of mismatched pairs, from samples of both sides.

    Args:
        first, second: Samples of either side.
        rows: Row numbers of the samples.
        seed: Seed of the random draw.
        size: Number of mismatched pairs. Default: ``NULL_SIZE``.
    """
    i, j = mismatched_index(
        [rows, first.own, first.partner, *first.keys],
        [rows, second.partner, second.own, *second.keys],
        NULL_SIZE if size is None else size,
        np.random.default_rng([seed, 1]),
    )
    null = np.empty(len(i), dtype=np.float32)
    for part in chunks(len(i), first.x.shape[1]):
        null[part] = cosines_(first.x[i[part]], second.x[j[part]])
    return Null(null, right_by_chance(first.own, second.own), _other_class_better(first, second))


# --- classes ----------------------------------------------------------------------------------------------------------


def class_side(left: NDArray[np.int64], right: NDArray[np.int64]) -> str | None:
    """Which side is a class, by the codes of the rows: ``"left"``, ``"right"`` or None. The one with fewer classes."""
    counts = {side: distinct(codes) for side, codes in (("left", left), ("right", right))}
    side = min(counts, key=lambda name: (counts[name], name == "left"))
    return side if counts[side] <= min(MAX_CLASSES, len(left) // MIN_PER_CLASS) else None


def distinct(codes: NDArray[np.int64], most: int = 1000) -> int:
    """Number of different codes; of many rows, the first ones may already be too many."""
    for limit in (10 * most, len(codes)):
        result = len(np.unique(codes[:limit]))
        if result > most:
            break
    return result


def right_by_chance(left: NDArray[np.int64], right: NDArray[np.int64]) -> float:
    """Of the mismatched pairs made from a wrong pair: the share that is right; 0 if neither side is a class."""
    side = class_side(left, right)
    return 0.0 if side is None else share_right_by_chance(left if side == "left" else right)


def share_right_by_chance(classes: NDArray[np.int64]) -> float:
    """The same from the class of every pair.

    The wrong pair is labeled c, its true class is another one, t, drawn by class frequency. A mismatched partner of
    another class than c is of class t with a probability of n_t / (n - n_c).
    """
    sizes = np.unique(classes, return_counts=True)[1] / len(classes)
    given, true = np.meshgrid(sizes, sizes, indexing="ij")
    weight = given * true * (1 - np.eye(len(sizes)))
    return float((weight * true / (1 - given)).sum() / weight.sum())


def share_other_class_better(table: NDArray[np.float32], own: NDArray[np.int64]) -> float:
    """The share of pairs that fit another class better than their own.

    Args:
        table: (pairs, classes) scores.
        own: The class of every pair, as a column of the table.
    """
    if not len(table) or table.shape[1] < 2:
        return 0.0
    rows = np.arange(len(table))
    score, others = table[rows, own], table.copy()
    others[rows, own] = -np.inf
    return float((others.max(1) > score).mean())


def _other_class_better(first: Sample, second: Sample, most: int = 20_000) -> float:
    """``share_other_class_better`` by cosines, from a sample of the pairs."""
    side = class_side(first.own, second.own)
    if side is None:
        return 0.0
    items, of_classes = (first, second) if side == "right" else (second, first)
    codes, first_rows = np.unique(of_classes.own, return_index=True)
    rows = np.flatnonzero(np.isin(items.partner, codes))
    rows = rows[:: max(1, len(rows) // most)]
    table = unit_rows(items.x[rows]) @ unit_rows(of_classes.x[first_rows]).T
    return share_other_class_better(table, np.searchsorted(codes, items.partner[rows]))
