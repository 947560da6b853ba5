"""What an audit found: how many pairs are wrong, which, how sure, and what cannot be told."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rince.audit.estimate.probability import at_p_values, suspects
from rince.audit.recommend import Recommendation, recommend
from rince.audit.unusable import kept_rows


@dataclass(frozen=True, eq=False)
class Audit:
    """What an audit found. ``scores``, ``p_values`` and ``p_wrong`` have one value per pair, in the order of the input.

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
        useless: The pairs score like mismatched ones. Either nearly all are wrong, or the scores know nothing.
        scores: How well a pair fits, higher is better: its cosine, or with ``fit=True`` the logarithm of how many times
            likelier than chance it is.
        null: The scores of a sample of mismatched pairs, shuffled from the same data.
        p_values: The share of mismatched pairs that score at least as high as the pair.
        p_wrong: The probability of every pair to be wrong; 0 unless noise was found.
        cautious: The lower end of its 80 % interval, from which flags are made.
        fitted: Whether the scores are those of towers fitted to these pairs.
        separation: 1 less the mean p-value: how many mismatched pairs a pair outscores on average.
        remarks: What a reader should know besides.
        scorer: What gave the scores.
        dropped: The rows that ``drop_bad`` left out; their scores, p_values and p_wrong are NaN.

    Example:
        >>> random = np.random.default_rng(0)
        >>> a = random.normal(size=(500, 16))
        >>> b = a + 0.3 * random.normal(size=a.shape)
        >>> b[:100] = np.roll(b[:100], 1, axis=0)  # a fifth of the pairs is wrong
        >>> found = rince.audit.audit(a, b)
        >>> bool(found.trust[:100].mean() < 0.2 < 0.9 < found.trust[100:].mean())
        True
    """

    scores: NDArray[np.float32]
    null: NDArray[np.float32] = field(repr=False)
    p_values: NDArray[np.float32] = field(repr=False)
    noise_rate: float
    interval: tuple[float, float]
    noise_found: bool
    useless: bool
    p_wrong: NDArray[np.float32] = field(repr=False)
    cautious: NDArray[np.float64] = field(repr=False)
    fitted: bool
    separation: float
    remarks: tuple[str, ...] = ()
    scorer: str = "your scores"
    dropped: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64), repr=False)
    best_guess: float = 0.0
    distinguishable: float = 1.0
    distinguishable_interval: tuple[float, float] = (0.0, 1.0)
    verdict: str = "none found"

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def trust(self) -> NDArray[np.float32]:
        """A weight for every pair in training: 1 - p_wrong, and 0 for dropped rows. All 1 unless noise was found."""
        return np.nan_to_num(1 - self.p_wrong, nan=0.0)

    @property
    def cannot_tell(self) -> bool:
        """Whether the scores leave open if there are wrong pairs at all."""
        return self.verdict.startswith("cannot tell")

    def flag(self, fdr: float = 0.1) -> NDArray[np.int64]:
        """Indices of suspected pairs, most suspicious first: as many as keep the expected share of false alarms <= fdr.

        Empty where no noise was found, and where the scores are useless.
        """
        return self.suspects(fdr)[0]

    def suspects(self, fdr: float = 0.5) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The pairs ``flag(fdr)`` gives, and the expected share of false alarms if the list ended at each of them.

        The share is a cautious one: behind it are the lower ends of the 80 % intervals of ``p_wrong``.
        """
        p, scores = self.judged(self.p_values), self.judged(self.scores)
        found, alarms = suspects(at_p_values(p, self.cautious), scores, fdr)
        if len(self.dropped):
            found = kept_rows(len(self), self.dropped)[found]
        return (found, alarms) if self.noise_found else (found[:0], alarms[:0])

    def judged(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Values, one per pair, without those of dropped pairs."""
        return np.delete(values, self.dropped) if len(self.dropped) else values

    def recommend(self) -> Recommendation:
        """A loss for training on these pairs: a rule of thumb, from a table measured on a few small data sets."""
        return recommend(self.noise_rate if self.noise_found else 0.0, self.useless or self.cannot_tell)

    def summary(self, fdr: float = 0.1) -> str:
        """A few lines for a terminal."""
        low, high = self.interval
        pairs = len(self) - len(self.dropped)
        lines = [f"{pairs:,} pairs, {len(self.null):,} mismatched pairs, scored by {self.scorer}"]
        if self.useless:
            lines.append("the scores are useless: pairs score like mismatched ones, so nothing is flagged")
        elif self.noise_found:
            lines.append(f"about {self.noise_rate:.1%} of the pairs are wrong, 95 % interval {low:.1%} to {high:.1%}")
            flagged = len(self.flag(fdr))
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
        worst, best = self.distinguishable_interval
        how_well = f"right pairs outscore {worst:.0%} to {best:.0%} of mismatched ones"
        if best < 0.97:
            helps = "better embeddings" + ("" if self.fitted else ", towers fitted to the pairs (fit=True, --fit)")
            helps = f"{helps} or more pairs would help" if len(self) < 10_000 else f"{helps} would help"
        else:
            helps = "more pairs would help"
        return [
            f"{self.verdict.replace('%', '').strip()} % of the pairs may be wrong: {how_well}, so hard right pairs and "
            "wrong ones look alike; nothing is flagged",
            helps,
        ]

    def save(
        self,
        folder: str | os.PathLike[str],
        *,
        fdr: float = 0.1,
        ids: ArrayLike | None = None,
        show_a: Any = None,
        show_b: Any = None,
        truth: ArrayLike | None = None,
        table: str = "csv",
        title: str = "Audit of pairs",
        force: bool = False,
    ) -> None:
        """Write ``audit.csv`` (or ``.parquet``), ``audit.json`` and ``audit.html`` into a folder.

        ``ids`` name the pairs. ``show_a`` and ``show_b`` appear in the page's gallery: an array or a tensor of images,
        or a list of texts, images (arrays, tensors or of Pillow) or paths of pictures, sounds and videos. ``truth``
        (booleans, wrong or not) is marked there. Nothing is overwritten unless ``force``.
        """
        from rince.audit.save import save

        save(self, folder, fdr=fdr, ids=ids, show_a=show_a, show_b=show_b, truth=truth, table=table, title=title,
             force=force)  # fmt: skip


def as_record(result: Audit, fdr: float) -> Mapping[str, Any]:
    """What ``audit.json`` holds."""
    advice = result.recommend()
    return {
        "pairs": len(result) - len(result.dropped),
        "dropped": len(result.dropped),
        "dropped_rows": result.dropped[:1000].tolist(),
        "mismatched_pairs": len(result.null),
        "scored_by": result.scorer,
        "verdict": result.verdict,
        "noise_rate": result.noise_rate,
        "interval": list(result.interval),
        "noise_found": result.noise_found,
        "best_guess": result.best_guess,
        "distinguishable": result.distinguishable,
        "distinguishable_interval": list(result.distinguishable_interval),
        "useless": result.useless,
        "fdr": fdr,
        "flagged": len(result.flag(fdr)),
        "remarks": list(result.remarks),
        "recommend": {
            "loss": advice.loss,
            "arguments": dict(advice.arguments),
            "temperature": advice.temperature,
            "trust": advice.trust,
            "reason": advice.reason,
        },
    }
