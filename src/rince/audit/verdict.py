"""The audit: two columns that should belong together, and what is wrong with them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from rince.audit.columns import as_matrix, check_columns, codes
from rince.audit.drop import kept, kept_rows, unusable_rows, with_gaps
from rince.audit.null import Scored, as_scored, cosine_scores
from rince.audit.probability import at_p_values, suspects
from rince.audit.rate import noise_rate, p_values
from rince.audit.recommend import Recommendation, recommend

if TYPE_CHECKING:
    from rince.audit.towers import Recipe

USELESS = 0.9
"""Above this share of pairs that score like strangers, the scores say nothing about pairs, or nearly all are wrong."""
WEAK = 0.12
"""Above this mean p-value of the right pairs the noise rate is to be taken with a grain of salt."""


@dataclass(frozen=True)
class Audit:
    """What an audit found. ``scores``, ``p_values`` and ``p_wrong`` have one value a pair, in the order of the input.

    Attributes:
        scores: how well a pair fits, higher is better: its cosine, or with ``fit=True`` the logarithm of how many times
            likelier than chance it is.
        null: the scores of a sample of strangers, pairs shuffled from the same data.
        p_values: the share of strangers that score at least as high as the pair.
        noise_rate: the estimated share of wrong pairs.
        interval: its 95 % interval.
        noise_found: whether the interval begins above 0; if not, no pair is suspected.
        useless: the pairs score like strangers. Either nearly all are wrong, or the embeddings cannot tell; no pair is
            flagged.
        p_wrong: the probability of every pair to be wrong.
        remarks: what a reader should know besides.
        scorer: what gave the scores.
        dropped: the rows that ``drop_bad`` left out; their scores, p_values and p_wrong are NaN.
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

    def __len__(self) -> int:
        return len(self.scores)

    def flag(self, fdr: float = 0.1) -> NDArray[np.int64]:
        """Indices of suspected pairs, most suspicious first: as many as keep the expected share of false alarms <= fdr.

        Empty where no noise was found, and where the scores are useless.
        """
        return self.suspects(fdr)[0]

    def suspects(self, fdr: float = 0.5) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The pairs ``flag(fdr)`` gives, and the expected share of false alarms if the list ended at each of them.

        The share is a cautious one: behind it are the lower ends of the 95 % intervals of ``p_wrong``.
        """
        p, scores = self.judged(self.p_values), self.judged(self.scores)
        found, alarms = suspects(at_p_values(p, self.cautious), scores, fdr)
        if len(self.dropped):
            found = kept_rows(len(self), self.dropped)[found]
        return (found, alarms) if self.noise_found else (found[:0], alarms[:0])

    def judged(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Values, one a pair, without those of dropped pairs."""
        return np.delete(values, self.dropped) if len(self.dropped) else values

    def recommend(self) -> Recommendation:
        """A q and a lam for training on these pairs: a rule of thumb, from a table measured on two small data sets."""
        return recommend(1.0 if self.useless else self.noise_rate if self.noise_found else 0.0, self.useless)

    def summary(self, fdr: float = 0.1) -> str:
        """A few lines for a terminal."""
        low, high = self.interval
        pairs = len(self) - len(self.dropped)
        lines = [f"{pairs:,} pairs, {len(self.null):,} strangers, scored by {self.scorer}"]
        if self.useless:
            lines.append("the scores are useless: pairs score like strangers, so nothing is flagged")
        elif not self.noise_found:
            most = max(high, 0.001)  # never "at most 0.0 %"
            guess = f"the best guess is {self.noise_rate:.1%}"
            lines.append(f"no noise found: at most {most:.1%} of the pairs are wrong (95 % interval), {guess}")
        else:
            lines.append(f"about {self.noise_rate:.1%} of the pairs are wrong, 95 % interval {low:.1%} to {high:.1%}")
            flagged = len(self.flag(fdr))
            lines.append(f"{flagged:,} pairs flagged, about {fdr:.0%} of them expected to be false alarms")
        lines += self.remarks
        lines.append(self.recommend().reason)
        return "\n".join(lines)

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


def audit(
    a: NDArray[Any] | Tensor,
    b: NDArray[Any] | Tensor,
    *,
    fit: bool = False,
    ids: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    seed: int = 0,
    recipe: "Recipe | None" = None,
    progress: bool | None = None,
    drop_bad: bool = False,
) -> Audit:
    """Find the wrong pairs among the rows of ``a`` and ``b``.

    Args:
        a, b: (pairs, width) arrays or tensors; a memory map is read in chunks. Embeddings of one space, unless ``fit``.
        fit: take any two feature matrices, of any widths, and train small towers on them (seconds to minutes on a CPU).
            Every pair is scored by towers that never saw it.
        ids, groups: one value a pair. Pairs of equal id or group are the same thing, or nearly, and are never taken for
            strangers; a missing value (None, NaN, an empty text) equals no other. Equal rows are found by themselves.
        seed: the same seed gives the same audit.
        recipe: how towers are fitted.
        progress: show a bar; by default on a terminal.
        drop_bad: leave out pairs with NaN or infinite values and, unless ``fit``, with rows of nothing but zeros. They
            stay in the results as NaN, so that indices mean the rows of ``a`` and ``b``.
    """
    a, b = as_matrix(a, "a"), as_matrix(b, "b")
    check_columns(a, b)
    n, dropped = len(a), np.empty(0, dtype=np.int64)
    keys = [codes(value, name, len(a)) for name, value in (("ids", ids), ("groups", groups)) if value is not None]
    if drop_bad:
        dropped = unusable_rows(a, b, zero_is_bad=not fit)
    if len(dropped):
        index = kept_rows(n, dropped)
        a, b, keys = kept(a, index), kept(b, index), [key[index] for key in keys]
        check_columns(a, b)
    if fit:
        from rince.audit.cross_fit import fitted_scores

        scored = fitted_scores(a, b, keys, seed, recipe, progress)
    elif a.shape[1] != b.shape[1]:
        raise ValueError(
            f"a and b must live in one space, but are {a.shape[1]} and {b.shape[1]} wide: "
            "use fit=True (--fit) to learn one"
        )
    else:
        scored = cosine_scores(a, b, keys, seed, progress=progress)
    scorer = "towers fitted on the other pairs" if fit else "the cosine"
    result = judge(scored, seed=seed, fitted=fit, scorer=scorer)
    return with_gaps(result, n, dropped) if len(dropped) else result


def judge(
    scored: Scored | ArrayLike,
    strangers: ArrayLike | None = None,
    *,
    seed: int = 0,
    fitted: bool = False,
    scorer: str = "your scores",
) -> Audit:
    """An audit from scores of any origin, of pairs and of strangers; higher means a better pair.

    Called as ``judge(scores, null)`` or ``judge(Scored(scores, null))``.
    """
    scores, null, clusters = as_scored(scored, strangers)
    if clusters is not None and (clusters.shape != scores.shape or not np.bincount(clusters).all()):
        raise ValueError("clusters must have one number a pair and count from 0 without gaps")
    p = p_values(scores, null)
    rate = noise_rate(p, seed, clusters=clusters)
    collapsed = not np.ptp(null) > 1e-6
    separation = 1 - float(p.mean(dtype=np.float64))
    useless = bool(collapsed or rate.value > USELESS)
    # The mean p-value is a mixture of the wrong pairs' 0.5 and of what the right ones have.
    of_right = (1 - separation - rate.value / 2) / max(1 - rate.value, 1e-6)
    low, remarks = rate.low, []
    if collapsed:
        remarks.append("the embedding has collapsed: all strangers have the same score")
    elif useless:
        ways = {"the cosine": "they may live in different spaces: try fit=True"}
        way_out = "these features may share nothing" if fitted else ways.get(scorer, "higher must mean a better pair")
        remarks.append(f"either nearly all pairs are wrong or the scores cannot tell a pair from a stranger; {way_out}")
    elif rate.found and of_right > WEAK:
        low = min(low, rate.strict)
        remarks.append(
            f"the scores are weak: right pairs seem to outscore only {1 - of_right:.0%} of strangers, so some of them "
            "may count as wrong and the true rate may be lower"
        )
    if len(scores) < 500 and not useless:
        remarks.append(f"{len(scores)} pairs are few: the interval is wide and single pairs are hard to judge")
    return Audit(
        scores=scores,
        null=null,
        p_values=p,
        noise_rate=rate.value,
        interval=(low, rate.high),
        noise_found=rate.found and not useless,
        useless=useless,
        p_wrong=at_p_values(p, rate.chance),
        cautious=rate.cautious,
        fitted=fitted,
        separation=separation,
        remarks=tuple(remarks),
        scorer=scorer,
    )


def as_record(result: Audit, fdr: float) -> Mapping[str, Any]:
    """What ``audit.json`` holds."""
    advice = result.recommend()
    return {
        "pairs": len(result) - len(result.dropped),
        "dropped": len(result.dropped),
        "dropped_rows": result.dropped[:1000].tolist(),
        "strangers": len(result.null),
        "scored_by": result.scorer,
        "noise_rate": result.noise_rate,
        "interval": list(result.interval),
        "noise_found": result.noise_found,
        "useless": result.useless,
        "fdr": fdr,
        "flagged": len(result.flag(fdr)),
        "remarks": list(result.remarks),
        "recommend": {
            "q": advice.q,
            "density_ratio": advice.lam.r,
            "temperature": advice.temperature,
            "scale": advice.scale,
            "reason": advice.reason,
        },
    }
