"""The verdict on all pairs, from nothing but where they lie among mismatched ones."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince.audit.estimate.accidents import not_by_accident
from rince.audit.estimate.binomial import at_most
from rince.audit.estimate.places import Counts, Places, in_cells, p_of_places, p_without
from rince.audit.estimate.rate import Rate, null_cells, rate_of_cells

USELESS = 0.9
"""With room for more wrong pairs than this, the scores say nothing about pairs, or nearly all are wrong."""
FEW_ENOUGH = 0.1
"""With room for at most this share of wrong pairs, and none found, there may be said to be none."""
SMALLEST = 0.001  # a share of wrong pairs below this is not worth the name


class Null(NamedTuple):
    """The scores of mismatched pairs.

    ``hit_by_accident`` is the share of right ones among those that are made from a wrong pair, and ``with_rival`` that
    of the pairs that fit another class better than their own: 0 but where one side is a class (see ``classes``).
    """

    scores: NDArray[np.float32]
    hit_by_accident: float = 0.0
    with_rival: float = 0.0


class Decision(NamedTuple):
    """The verdict, and what the probability of every pair follows from.

    Attributes:
        rate: The share of wrong pairs, whether it may be said or not.
        interval: Its 95 % interval, from 0 where nothing was found.
        found: Whether it could be shown that there are wrong pairs.
        useless: Whether the scores say nothing.
        collapsed: Whether all mismatched pairs have the same score.
        verdict: The same in words.
        kept: Which mismatched pairs count, in the order in which they were drawn.
        mean: The mean p-value of the pairs.
        with_rival: The share of pairs that fit another class better than their own, where that sets the upper end.
        of_classes: Whether one side is a class.
        chance, cautious: For every cell the probability of a pair in it to be wrong, and the lower end of its 80 %
            interval; 0 where nothing was found.
    """

    rate: Rate
    interval: tuple[float, float]
    found: bool
    useless: bool
    collapsed: bool
    verdict: str
    kept: NDArray[np.bool_]
    mean: float
    with_rival: float
    of_classes: bool
    chance: NDArray[np.float64]
    cautious: NDArray[np.float64]

    def outscored(self, share: float) -> float:
        """How many mismatched pairs a right pair outscores on average, if this share of the pairs is wrong.

        The mean p-value is a mixture of the wrong pairs' 0.5 and of what the right ones have.
        """
        return float(np.clip(1 - (self.mean - share / 2) / max(1 - share, 1e-6), 0, 1))

    @property
    def distinguishable(self) -> tuple[float, float, float]:
        """How well right pairs can be told: at the lower end of the interval, by the best guess, at the upper end."""
        low, high = self.interval
        return self.outscored(low), self.outscored(min(self.rate.value, 0.99)), self.outscored(high)


def decide(null: Null, counts: Counts, things: int, seed: int = 0) -> Decision:
    """The verdict.

    Args:
        null: The scores of mismatched pairs, in the order in which they were drawn.
        counts: How many pairs have each place among them.
        things: How many different things the pairs are.
        seed: See ``not_by_accident``.
    """
    kept = not_by_accident(null.scores, counts, things, null.hit_by_accident, seed)
    p = p_at(counts.place, null.scores, kept)
    scores = null.scores[kept]
    rate = rate_of_cells(in_cells(p, counts.many), things, null_cells(scores))
    collapsed = not np.ptp(scores) > 1e-6
    useless = bool(collapsed or rate.floor > USELESS)
    found = rate.low > SMALLEST and not useless
    confused = at_most(null.with_rival * things, things) if null.with_rival else 0.0
    interval = (rate.low if found else 0.0, 1.0 if useless else max(rate.high, confused))
    nothing = np.zeros_like(rate.chance)
    mean = float((p.astype(np.float64) * counts.many).sum() / counts.many.sum())
    chance, cautious = (rate.chance, rate.cautious) if found else (nothing, nothing)
    words = in_words(found, interval)
    with_rival = null.with_rival if confused > rate.high else 0.0
    of_classes = null.hit_by_accident > 0
    return Decision(
        rate, interval, found, useless, collapsed, words, kept, mean, with_rival, of_classes, chance, cautious
    )


def p_at(place: Places, null: NDArray[np.float32], kept: NDArray[np.bool_]) -> NDArray[np.float32]:
    """The p-value at places among mismatched pairs, against those that are kept."""
    if kept.all():
        return p_of_places(place, len(null))
    order = np.argsort(null, kind="stable")
    return p_without(place, null[order], kept[order])


def in_words(found: bool, interval: tuple[float, float]) -> str:
    if found:
        return "found"
    if interval[1] <= FEW_ENOUGH:
        return "none found"
    return f"cannot tell: between 0 and {interval[1]:.0%}".replace("%", " %")
