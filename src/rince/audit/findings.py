"""What every audit found, however its pairs are kept: how many are wrong, how sure, and what cannot be told."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rince.audit.estimate.decide import Decision
from rince.audit.fingerprint import Fingerprint
from rince.audit.recommend import Recommendation, recommend


@dataclass(frozen=True, eq=False, kw_only=True)
class Findings(ABC):
    """What an audit found about all pairs together.

    Attributes:
        verdict: ``"found"``, ``"none found"``, or ``"cannot tell: between 0 and X %"``. In the last two no pair is
            suspected.
        noise_rate: The share of wrong pairs that was found; 0 if it could not be shown that there are any.
        interval: The 95 % interval of the share of wrong pairs. It begins at 0 where the scores cannot tell hard right
            pairs from wrong ones.
        noise_found: Whether the verdict is ``"found"``: the interval begins above 0.
        best_guess: The most that can be said about the share where it was not found; no ground for accusing a pair.
        distinguishable: How well right pairs can be told at all: the share of mismatched pairs that a right pair
            outscores on average, 0.5 for scores that know nothing.
        distinguishable_interval: Its 95 % interval.
        with_rival: Where one side is a class: the share of pairs that fit another class better than their own, if that
            is what sets the upper end of the interval; else 0.
        of_classes: Whether one side is a class: wrong pairs are then wrong labels.
        useless: The pairs score like mismatched ones. Either nearly all are wrong, or the scores know nothing.
        null: The scores of a sample of mismatched pairs, shuffled from the same data.
        remarks: What a reader should know besides.
        scorer: What gave the scores.
        fitted: Whether they are those of towers fitted to these pairs.
        cautious: For every cell of scores the lower end of the 80 % interval of ``p_wrong``, from which flags are made.
        separation: 1 less the mean p-value: how many mismatched pairs a pair outscores on average.
        fingerprint: What the data are known by, so that ``rince clean`` refuses others; None for scores without data.

    Example:
        >>> random = np.random.default_rng(0)
        >>> found = rince.audit.judge(random.normal(5, 1, 500), random.normal(0, 1, 100_000))
        >>> isinstance(found, rince.audit.Findings), found.verdict
        (True, 'none found')
    """

    null: NDArray[np.float32] = field(repr=False)
    noise_rate: float
    interval: tuple[float, float]
    noise_found: bool
    useless: bool
    cautious: NDArray[np.float64] = field(repr=False)
    fitted: bool
    separation: float
    remarks: tuple[str, ...] = ()
    scorer: str = "your scores"
    best_guess: float = 0.0
    distinguishable: float = 1.0
    distinguishable_interval: tuple[float, float] = (0.0, 1.0)
    verdict: str = "none found"
    with_rival: float = 0.0
    of_classes: bool = False
    fingerprint: Fingerprint | None = field(default=None, repr=False)

    @property
    @abstractmethod
    def judged_pairs(self) -> int:
        """How many pairs were judged."""

    @abstractmethod
    def flagged_pairs(self, fdr: float) -> int:
        """How many pairs are flagged at this share of false alarms."""

    @property
    def cannot_tell(self) -> bool:
        """Whether the scores leave open if there are wrong pairs at all."""
        return self.verdict.startswith("cannot tell")

    def recommend(self) -> Recommendation:
        """A loss for training on these pairs: a rule of thumb, from a table measured on a few small data sets."""
        rate = self.noise_rate if self.noise_found else 0.0
        return recommend(rate, self.useless or self.cannot_tell, self.of_classes)

    def summary(self, fdr: float = 0.1) -> str:
        """A few lines for a terminal."""
        low, high = self.interval
        lines = [f"{self.judged_pairs:,} pairs, {len(self.null):,} mismatched pairs, scored by {self.scorer}"]
        if self.useless:
            lines.append("the scores are useless: pairs score like mismatched ones, so nothing is flagged")
        elif self.noise_found:
            lines.append(f"about {self.noise_rate:.1%} of the pairs are wrong, 95 % interval {low:.1%} to {high:.1%}")
            flagged = self.flagged_pairs(fdr)
            lines.append(f"{flagged:,} pairs flagged, about {fdr:.0%} of them expected to be false alarms")
        elif self.cannot_tell:
            lines += self._what_is_missing()
        else:
            most = max(high, 0.001)  # never "at most 0.0 %"
            guess = f"the best guess is {self.best_guess:.1%}"
            lines.append(f"no noise found: at most {most:.1%} of the pairs are wrong (95 % interval), {guess}")
        lines += self.remarks
        lines.append(self.recommend().reason)
        return "\n".join(lines)

    def _what_is_missing(self) -> list[str]:
        if self.with_rival:
            return [
                f"{self.verdict.replace('%', '').strip()} % of the pairs may be wrong: {self.with_rival:.1%} fit "
                "another class better than their own, as hard right pairs and confused labels do; nothing is flagged"
            ]
        worst, best = self.distinguishable_interval
        how_well = f"right pairs outscore {worst:.0%} to {best:.0%} of mismatched ones"
        if best < 0.97:
            helps = "better embeddings" + ("" if self.fitted else ", towers fitted to the pairs (fit=True, --fit)")
            helps = f"{helps} or more pairs would help" if self.judged_pairs < 10_000 else f"{helps} would help"
        else:
            helps = "more pairs would help"
        return [
            f"{self.verdict.replace('%', '').strip()} % of the pairs may be wrong: {how_well}, so hard right pairs and "
            "wrong ones look alike; nothing is flagged",
            helps,
        ]


def decided(decision: Decision, null: NDArray[np.float32], pairs: int, fitted: bool, scorer: str) -> dict[str, Any]:
    """The attributes of ``Findings`` that follow from a verdict on so many pairs."""
    low, guess, high = decision.distinguishable
    return {
        "null": null[decision.kept] if not decision.kept.all() else null,
        "noise_rate": decision.rate.value if decision.found else 0.0,
        "interval": decision.interval,
        "noise_found": decision.found,
        "useless": decision.useless,
        "cautious": decision.cautious,
        "fitted": fitted,
        "separation": 1 - decision.mean,
        "remarks": _remarks(pairs, scorer, fitted, decision),
        "scorer": scorer,
        "best_guess": decision.rate.value,
        "distinguishable": guess,
        "distinguishable_interval": (low, high),
        "verdict": decision.verdict,
        "with_rival": decision.with_rival,
        "of_classes": decision.of_classes,
    }


def _remarks(n: int, scorer: str, fitted: bool, decision: Decision) -> tuple[str, ...]:
    said = []
    if decision.collapsed:
        said.append("the embedding has collapsed: all mismatched pairs have the same score")
    elif decision.useless:
        ways = {"the cosine": "they may live in different spaces: try fit=True"}
        way_out = "these features may share nothing" if fitted else ways.get(scorer, "higher must mean a better pair")
        said.append(
            f"either nearly all pairs are wrong or the scores cannot tell a pair from a mismatched one; {way_out}"
        )
    if decision.with_rival and not (decision.useless or decision.found):
        said.append(
            f"{decision.with_rival:.1%} of the pairs fit another class better than their own: labels that are confused "
            "with similar ones cannot be found by a comparison with mismatched pairs; a tool for wrong labels, such as "
            "cleanlab, lists them"
        )
    if n < 500 and not decision.useless:
        said.append(f"{n} pairs are few: the interval is wide and single pairs are hard to judge")
    return tuple(said)


def findings_record(result: Findings, fdr: float) -> Mapping[str, Any]:
    """What ``audit.json`` holds of every audit."""
    advice = result.recommend()
    return {
        "pairs": result.judged_pairs,
        "mismatched_pairs": len(result.null),
        "scored_by": result.scorer,
        "verdict": result.verdict,
        "noise_rate": result.noise_rate,
        "interval": list(result.interval),
        "noise_found": result.noise_found,
        "best_guess": result.best_guess,
        "distinguishable": result.distinguishable,
        "distinguishable_interval": list(result.distinguishable_interval),
        "with_rival": result.with_rival,
        "of_classes": result.of_classes,
        "useless": result.useless,
        "fdr": fdr,
        "flagged": result.flagged_pairs(fdr),
        "remarks": list(result.remarks),
        "recommend": {
            "loss": advice.loss,
            "arguments": dict(advice.arguments),
            "temperature": advice.temperature,
            "trust": advice.trust,
            "reason": advice.reason,
        },
        **({} if result.fingerprint is None else {"fingerprint": result.fingerprint.record()}),
    }
