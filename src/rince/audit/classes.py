"""A side with few different rows is a class: one-hot labels, embeddings of prompts, and the like.

Wrong pairs are then wrong labels. Two things differ from pairs of single things. What a shuffle gives back its own
class is right, and is no mismatched pair. And of the mismatched pairs that are made from a wrong pair, one in a few
hits the true class by accident: with two classes all of them.

Labels are often confused with similar ones rather than with any. A wrong label then fits much better than a mismatched
one, and no comparison with mismatched pairs can find it. What can be counted is how many pairs fit another class better
than their own: hard right ones, and labels that were confused (``share_with_rival``).
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_CLASSES = 100
FEWEST_PER_CLASS = 10  # pairs of a class on average


def class_side(left: NDArray[np.int64], right: NDArray[np.int64]) -> str | None:
    """Which side is a class, by the codes of the rows: ``"left"``, ``"right"`` or None. The one with fewer classes."""
    counts = {side: distinct(codes) for side, codes in (("left", left), ("right", right))}
    side = min(counts, key=lambda name: (counts[name], name == "left"))
    return side if counts[side] <= min(MOST_CLASSES, len(left) // FEWEST_PER_CLASS) else None


def distinct(codes: NDArray[np.int64], most: int = 1000) -> int:
    """How many different codes there are; of many rows, a look at the first ones may already say too many."""
    for look in (10 * most, len(codes)):
        found = len(np.unique(codes[:look]))
        if found > most:
            break
    return found


def label_numbers(batches: Iterable[Iterable[Any]], most: int = MOST_CLASSES) -> NDArray[np.float32] | None:
    """(pairs, 1): one number per pair for labels that are texts, NaN where there is none; None if they are no labels.

    That is, if they are more than ``most``, or have fewer than 10 pairs each on average.

    Numbers go by the order of the labels, so that the same labels have the same numbers whichever comes first.
    """
    first: dict[str, int] = {}
    found = []
    for batch in batches:
        texts = ["" if value is None else str(value).strip() for value in batch]
        numbers = [first.setdefault(text, len(first)) for text in texts]
        if len(first) > most + 1:  # one of them may be the empty one
            return None
        found.append(np.array(numbers, dtype=np.int64))
    labels = sorted(text for text in first if text)
    if not labels or len(labels) > min(most, sum(map(len, found)) // FEWEST_PER_CLASS):
        return None
    place = {text: number for number, text in enumerate(labels)}
    table = np.array([place.get(text, np.nan) for text in first], dtype=np.float32)
    return table[np.concatenate(found)][:, None]


def share_hit_by_accident(codes: NDArray[np.int64]) -> float:
    """Of the mismatched pairs made from a wrong pair: the share that is right.

    The wrong pair says class c and is of class t, another one, drawn like classes are. A mismatched partner of another
    class than c is of class t with a probability of n_t / (n - n_c).
    """
    sizes = np.unique(codes, return_counts=True)[1] / len(codes)
    said, true = np.meshgrid(sizes, sizes, indexing="ij")
    both = said * true * (1 - np.eye(len(sizes)))
    return float((both * true / (1 - said)).sum() / both.sum())


def share_with_rival(table: NDArray[np.float32], own: NDArray[np.int64]) -> float:
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


def accidents(left: NDArray[np.int64], right: NDArray[np.int64]) -> float:
    """The same by the codes of the rows of both sides; 0 if neither is a class."""
    side = class_side(left, right)
    return 0.0 if side is None else share_hit_by_accident(left if side == "left" else right)
