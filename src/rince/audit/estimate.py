"""From ranks among mismatched pairs to a verdict, a probability for every pair, and flags."""

from enum import Enum
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince.audit.calibrate import decreasing, probability_curve
from rince.audit.rate import (
    LONE_HARD,
    MIDDLES,
    RankCounts,
    Ranks,
    Rate,
    cell_counts,
    even_null,
    normal_scores,
    null_cells,
    p_of_kept,
    p_of_ranks,
    p_values,
    rate_of_cells,
    upper_share,
)
from rince.errors import UsageError

UNINFORMATIVE = 0.9
"""Upper estimate of the share above which scores are uninformative, or nearly all pairs are mismatched."""
MAX_NONE_FOUND = 0.1
"""Upper end of the interval up to which the verdict may be "none found"."""
COLLAPSED = 1e-5  # spread of the null up to which all mismatched pairs have the same score
MAX_UNCERTAIN = 0.7
"""Upper end of the interval up to which training weights follow a best guess; beyond, weak scores do harm."""
MIN_SHARE = 0.001  # lower end of the interval above which the verdict is "found"
EXCESS, SIGMAS = 1.5, 1.0
"""One deviation more false alarms than expected may be at most 1.5 times the promised share."""


class Verdict(str, Enum):
    """What an audit can say about unrelated pairs.

    Example:
        >>> rince.audit.Verdict("found") is rince.audit.Verdict.FOUND
        True
    """

    FOUND = "found"
    NONE_FOUND = "none found"
    CANNOT_TELL = "cannot tell"

    def __str__(self) -> str:
        return self.value


class Null(NamedTuple):
    """Scores of mismatched pairs.

    Attributes:
        scores: One score per mismatched pair, in the order in which they were drawn.
        right_by_chance: Share of right pairs among mismatched pairs made from a wrong pair: 0 unless one side is a
            class.
        other_class_better: Share of pairs that fit another class better than their own: 0 unless one side is a class.
    """

    scores: NDArray[np.float32]
    right_by_chance: float = 0.0
    other_class_better: float = 0.0


class Curve(NamedTuple):
    """The probability of a pair to be mismatched, as a function of the share of the null below its score."""

    quantile: NDArray[np.float64]
    probability: NDArray[np.float64]

    def at(self, p: NDArray[np.float32]) -> NDArray[np.float32]:
        """The probability at p-values."""
        return np.interp(1 - p, self.quantile, self.probability).astype(np.float32)


NO_CURVE = Curve(np.array([0.0, 1.0]), np.zeros(2))


class Decision(NamedTuple):
    """The verdict, and the numbers behind it.

    Attributes:
        verdict: The verdict.
        rate: The estimated share of mismatched pairs, whatever the verdict.
        interval: Its 95 % interval, from 0 unless the verdict is "found".
        uninformative: Whether the scores do not separate pairs from mismatched ones.
        collapsed: Whether all mismatched pairs have the same score.
        kept: Mask of the mismatched pairs that count, in the order in which they were drawn.
        mean_p: Mean p-value of the pairs.
        other_class_better: Share of pairs that fit another class better than their own, where it sets the upper end.
        of_classes: Whether one side is a class.
        curve: Probability of a pair to be mismatched; 0 unless the verdict is "found".
        weight_curve: The probability that training weights follow. Where the verdict is "cannot tell", no pair can be
            accused, but weights help already: this is then the curve at the best guess of the share. It is 0 where the
            interval ends above ``MAX_UNCERTAIN``, and where one side is a class.
    """

    verdict: Verdict
    rate: Rate
    interval: tuple[float, float]
    uninformative: bool
    collapsed: bool
    kept: NDArray[np.bool_]
    mean_p: float
    other_class_better: float
    of_classes: bool
    curve: Curve
    weight_curve: Curve

    def auroc(self, share: float) -> float:
        """Share of mismatched pairs that a right pair outscores on average, if this share of the pairs is mismatched.

        The mean p-value is a mixture of 0.5 for mismatched pairs and that of right ones.
        """
        return float(np.clip(1 - (self.mean_p - share / 2) / max(1 - share, 1e-6), 0, 1))


def decide(null: Null, counts: RankCounts, units: int, seed: int = 0) -> Decision:
    """The verdict.

    Args:
        null: Scores of mismatched pairs.
        counts: Number of pairs at every rank among them.
        units: Number of independent pairs.
        seed: See ``null_correction``.
    """
    kept = null_correction(null.scores, counts, units, null.right_by_chance, seed)
    p = p_at(counts.rank, null.scores, kept)
    scores = null.scores[kept]
    rate = rate_of_cells(cell_counts(p, counts.counts), units, null_cells(scores))
    collapsed = not np.ptp(scores) > COLLAPSED
    uninformative = bool(collapsed or rate.room > UNINFORMATIVE)
    found = rate.low > MIN_SHARE and not uninformative
    confused = upper_share(null.other_class_better * units, units) if null.other_class_better else 0.0
    interval = (rate.low if found else 0.0, 1.0 if uninformative else max(rate.high, confused))
    fallback = Verdict.NONE_FOUND if interval[1] <= MAX_NONE_FOUND else Verdict.CANNOT_TELL
    verdict = Verdict.FOUND if found else fallback
    of_classes = null.right_by_chance > 0
    guessed = verdict is Verdict.CANNOT_TELL and interval[1] <= MAX_UNCERTAIN and not of_classes and rate.value > 0
    weight_curve = NO_CURVE
    if found or guessed:
        weight_curve = Curve(*probability_curve(1 - p.astype(np.float64), counts.counts, rate.value))
    if found:
        weight_curve = cautious_curve(weight_curve, rate)
    return Decision(
        verdict=verdict,
        rate=rate,
        interval=interval,
        uninformative=uninformative,
        collapsed=collapsed,
        kept=kept,
        mean_p=float((p.astype(np.float64) * counts.counts).sum() / counts.pairs),
        other_class_better=null.other_class_better if confused > rate.high else 0.0,
        of_classes=of_classes,
        curve=weight_curve if found else NO_CURVE,
        weight_curve=weight_curve,
    )


def cautious_curve(counted: Curve, rate: Rate) -> Curve:
    """The probability behind flags: the smaller one of that counted in bins and that of the mixtures.

    A sixth of the right pairs that may score like mismatched ones, beyond ``LONE_HARD``, are taken off the share.
    """
    z = normal_scores(1 - counted.quantile.astype(np.float32))
    mixed = np.interp(z, MIDDLES, decreasing(rate.probability, even_null()))
    hard = max(0.0, rate.hard - LONE_HARD) / 6
    share = max(0.0, (rate.value - hard) / (1 - hard)) / rate.value
    return Curve(counted.quantile, share * np.minimum(counted.probability, mixed))


def p_at(rank: Ranks, null: NDArray[np.float32], kept: NDArray[np.bool_]) -> NDArray[np.float32]:
    """The p-value at ranks among mismatched pairs, against those that are kept."""
    if kept.all():
        return p_of_ranks(rank, len(null))
    order = np.argsort(null, kind="stable")
    return p_of_kept(rank, null[order], kept[order])


def null_correction(
    null: NDArray[np.float32], counts: RankCounts, units: int, right_by_chance: float, seed: int = 0, rounds: int = 4
) -> NDArray[np.bool_]:
    """Which mismatched pairs to keep, where one side is a class: some are right by chance and must go.

    With f the density of pairs, g that of mismatched pairs as drawn, R and M those of right and mismatched ones, a
    share w mismatched and a = w * right_by_chance: f = (1 - w) R + w M and g = a R + (1 - a) M, and so
    M = ((1 - w) g - a f) / (1 - w - a).

    Args:
        null: Scores of mismatched pairs.
        counts: Number of pairs at every rank among them.
        units: Number of independent pairs.
        right_by_chance: Share of right ones among the mismatched pairs that are made from a wrong pair.
        seed: Seed of the random removal.
        rounds: Number of re-estimates of the share.
    """
    keep = np.ones(len(null), dtype=bool)
    if not right_by_chance:
        return keep
    order = np.argsort(null, kind="stable")
    own = p_values(null, null)
    p = p_of_ranks(counts.rank, len(null))
    first = rate_of_cells(cell_counts(p, counts.counts), units, null_cells(null))
    density = first.value / np.maximum(first.probability, 1e-9)  # of pairs, over that of mismatched ones
    uniform, share = np.random.default_rng(seed).random(len(own)), first.value
    for _ in range(rounds):
        chance = share * right_by_chance
        if 1 - share - chance < 0.1:  # half of two classes: right and wrong are interchangeable
            break
        acceptance = np.clip((1 - share - chance * density) / (1 - share - chance), 0, None)
        keep = uniform < np.interp(normal_scores(own), MIDDLES, acceptance / acceptance.max())
        p = p_of_kept(counts.rank, null[order], keep[order])
        share = rate_of_cells(cell_counts(p, counts.counts), units, null_cells(null[keep])).value
    return keep


# --- flags ------------------------------------------------------------------------------------------------------------


def keeps_fdr(
    pairs: NDArray[Any], alarms: NDArray[np.float64], variance: NDArray[np.float64], fdr: float
) -> NDArray[np.bool_]:
    """Whether lists with this many pairs and expected false alarms keep the promise of ``fdr``.

    In short lists, a few more false alarms than expected are a large share: the real share is
    above ``EXCESS`` times the promise only if it is more than ``SIGMAS`` deviations above the expected one.
    """
    return (alarms <= fdr * pairs) & (alarms + SIGMAS * np.sqrt(variance) <= EXCESS * fdr * pairs)


def last_flagged(counts: NDArray[np.int64], probability: NDArray[np.float32], fdr: float) -> int:
    """Number of ranks, lowest first, whose pairs are flagged: the longest list that keeps ``fdr``.

    Pairs of one rank have one probability, and are flagged together or not at all.

    Args:
        counts: Number of pairs at each rank.
        probability: Probability of the pairs of each rank to be mismatched.
        fdr: Expected share of false alarms, in (0, 1).
    """
    if not 0 < fdr < 1:
        raise UsageError(f"fdr must be in (0, 1), got {fdr}")
    right = 1 - probability.astype(np.float64)
    pairs, alarms = np.cumsum(counts), np.cumsum(counts * right)
    valid = keeps_fdr(pairs, alarms, np.cumsum(counts * right * (1 - right)), fdr) & (probability > 0)
    index = np.flatnonzero(valid)
    return int(index[-1]) + 1 if len(index) else 0


def suspects(
    probability: NDArray[np.float32],
    scores: NDArray[np.float32],
    fdr: float,
    p_values: NDArray[np.float32] | None = None,
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The longest list of pairs, lowest score first, with an expected share of false alarms of at most ``fdr``.

    Args:
        probability: (pairs,) probability to be mismatched.
        scores: (pairs,) scores.
        fdr: Expected share of false alarms, in (0, 1).
        p_values: (pairs,) p-values; pairs of one p-value are flagged together. Default: pairs of one score.

    Returns:
        The rows, and for each the expected share of false alarms among it and those before it.
    """
    candidates = np.flatnonzero(probability > 0)
    order = candidates[np.argsort(scores[candidates], kind="stable")]
    ties = scores[order] if p_values is None else -p_values[order]
    first = np.flatnonzero(np.diff(ties, prepend=-np.inf))
    counts = np.diff(first, append=len(order))
    end = int(counts[: last_flagged(counts, probability[order][first], fdr)].sum())
    alarms = np.cumsum(1 - probability[order[:end]].astype(np.float64)) / np.arange(1, end + 1)
    return order[:end], alarms
