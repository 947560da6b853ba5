"""Results of an audit: the share of unrelated pairs with its interval, flags, weights and issues."""

import dataclasses
import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rince.audit.checks import Issue
from rince.audit.estimate import NO_CURVE, Curve, Decision, Verdict, last_flagged, suspects
from rince.audit.groups import GroupRate, group_rates, group_texts
from rince.audit.rate import RankCounts
from rince.audit.recommend import Recommendation, recommend
from rince.errors import UsageError
from rince.pairs.fingerprint import Fingerprint
from rince.pairs.matrix import named_rows

SCORED_BY = {
    "cosine": "the cosine",
    "relative": "the relative cosine",
    "cca": "cross-fitted CCA",
    "towers": "cross-fitted towers",
}
WIDE = 0.25
"""Width of an interval from which it is called wide."""
FEW_PAIRS, MANY_PAIRS = 500, 10_000
EMBEDDINGS = ("unseen", "trained-on-these")
IF_UNSEEN = (
    "Valid only if the embedding model was not trained on these pairs: a model that was hides wrong ones. Confirm it "
    "by --embeddings unseen (embeddings='unseen')."
)
TRAINED = (
    "The embedding model was trained on these pairs and may have memorized wrong ones: the true share may lie above "
    "the interval. Use a model that has not seen the pairs, or encode the raw items (--encode)."
)
LARGE = {
    "placeholder": "placeholders",
    "order": "order of the rows",
    "leak": "columns that give the pairing away",
    "shifted": "shifted stretches of rows",
    "group": "groups that the encoder cannot read",
}
"""What a verdict assumes not to be there, by the check that looks for it."""
NOT_COUNTED = "Pairs that are wrong but related are not counted."
RECORDED = (
    "units", "scorer", "fitted", "scored_by", "settings", "noise_rate", "interval", "noise_found", "conditions",
    "best_guess", "auroc", "auroc_interval", "other_class_better", "of_classes", "uninformative", "remarks",
)  # fmt: skip
"""Attributes that ``audit.json`` holds as they are."""
RENAMED = {
    "useless": "uninformative",
    "distinguishable": "auroc",
    "distinguishable_interval": "auroc_interval",
    "with_rival": "other_class_better",
}


@dataclass(frozen=True, eq=False, kw_only=True)
class Findings(ABC):
    """Results of an audit for all pairs together.

    Attributes:
        verdict: ``Verdict.FOUND``, ``Verdict.NONE_FOUND`` or ``Verdict.CANNOT_TELL``, about pairs that fit no better
            than random ones. Unless it is "found", no pair is flagged.
        noise_rate: Estimated share of unrelated pairs; 0 unless the verdict is "found".
        interval: 95 % interval of the share of unrelated pairs. It starts at 0 unless the verdict is "found".
        best_guess: Point estimate of the share, whatever the verdict. Not sufficient for flagging pairs.
        auroc: Share of mismatched pairs that a right pair outscores on average; 0.5 for uninformative scores.
        auroc_interval: Its 95 % interval.
        uninformative: Whether pairs score like mismatched ones: nearly all are unrelated, or the scores are too weak.
        conditions: Assumptions of the verdict that the audit cannot check, one sentence each.
        issues: Results of the checks, by issue type.
        remarks: Further notes, one sentence each.
        scorer: ``"cosine"``, ``"relative"``, ``"cca"``, ``"towers"``, or the description given to ``judge``.
        settings: Settings chosen by the fit without labels, such as scaling and ridge; empty if there were none.
        fitted: Whether the scorer was fitted to these pairs (cross-fitted).
        units: Number of independent pairs behind the interval.
        curve: Probability of a pair to be unrelated, as a function of its rank among mismatched pairs.
        weight_curve: The probability that training weights follow, see ``Audit.weights``.
        other_class_better: Where one side is a class: the share of pairs that fit another class better than their own,
            if that sets the upper end of the interval; else 0.
        of_classes: Whether one side is a class: wrong pairs are then wrong labels.
        null: Scores of mismatched pairs, shuffled from the same data.
        separation: 1 minus the mean p-value: the share of mismatched pairs that a pair outscores on average.
        fingerprint: Fingerprint of the data, so that ``rince clean`` rejects other data; None for scores without data.

    Example:
        >>> random = np.random.default_rng(0)
        >>> result = rince.audit.judge(random.normal(5, 1, 500), random.normal(0, 1, 100_000))
        >>> isinstance(result, rince.audit.Findings), result.verdict.value
        (True, 'none found')
    """

    null: NDArray[np.float32] = field(repr=False)
    verdict: Verdict
    noise_rate: float
    interval: tuple[float, float]
    uninformative: bool
    fitted: bool
    separation: float
    curve: Curve = field(repr=False)
    units: int
    remarks: tuple[str, ...] = ()
    conditions: tuple[str, ...] = ()
    issues: dict[str, Issue] = field(default_factory=dict, repr=False)
    scorer: str = "your scores"
    settings: str = ""
    best_guess: float = 0.0
    auroc: float = 1.0
    auroc_interval: tuple[float, float] = (0.0, 1.0)
    other_class_better: float = 0.0
    of_classes: bool = False
    fingerprint: Fingerprint | None = field(default=None, repr=False)
    weight_curve: Curve = field(default=NO_CURVE, repr=False)

    def __getattr__(self, name: str) -> Any:
        if name in RENAMED:
            message = f"Audit.{name} is called Audit.{RENAMED[name]}; the old name goes in version 0.4"
            warnings.warn(message, DeprecationWarning, stacklevel=2)
            return getattr(self, RENAMED[name])
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    @property
    @abstractmethod
    def judged_pairs(self) -> int:
        """Number of pairs that were judged."""

    @abstractmethod
    def flagged_pairs(self, fdr: float) -> int:
        """Number of pairs that are flagged at this share of false alarms."""

    @property
    def noise_found(self) -> bool:
        """Whether the verdict is "found"."""
        return self.verdict is Verdict.FOUND

    @property
    def cannot_tell(self) -> bool:
        """Whether the scores leave open if there are unrelated pairs at all."""
        return self.verdict is Verdict.CANNOT_TELL

    @property
    def scored_by(self) -> str:
        """Description of the scores, such as ``"the relative cosine"``."""
        return SCORED_BY.get(self.scorer, self.scorer)

    def recommend(self) -> Recommendation:
        """A loss for training on these pairs: a rule of thumb, from a table measured on a few small data sets."""
        return recommend(self.noise_rate, self.uninformative or self.cannot_tell, self.of_classes)

    def summary(self, fdr: float = 0.1) -> str:
        """A few lines for a terminal."""
        lines = [f"{self.judged_pairs:,} pairs, {len(self.null):,} mismatched pairs, scored by {self.scored_by}"]
        lines[0] += f" ({self.settings})" if self.settings else ""
        lines += [*self.assumptions, *self.verdict_lines(fdr), *self.limits]
        lines += [issue.explanation for issue in self.issues.values() if issue.is_reported]
        lines += self.remarks
        lines.append(self.recommend().advice)
        return "\n".join(dict.fromkeys(lines))

    @property
    def assumptions(self) -> list[str]:
        """Conditions about the embedding model, which come before the verdict."""
        return [line for line in self.conditions if line in (IF_UNSEEN, TRAINED)]

    @property
    def limits(self) -> list[str]:
        """All other conditions."""
        return [line for line in self.conditions if line not in (IF_UNSEEN, TRAINED)]

    def issues_at(self, fdr: float) -> list[Issue]:
        """All issues; the pairs counted as unrelated are those flagged at this share of false alarms."""
        flagged, issues = self.flagged_pairs(fdr), dict(self.issues)
        if "unrelated" in issues:
            examples = issues["unrelated"].examples[:flagged]
            issues["unrelated"] = dataclasses.replace(issues["unrelated"], count=flagged, examples=examples)
        return list(issues.values())

    def record(self, fdr: float = 0.1) -> dict[str, Any]:
        """What ``audit.json`` holds."""
        advice = self.recommend()
        return {
            "pairs": self.judged_pairs,
            "mismatched_pairs": len(self.null),
            "verdict": self.verdict.value,
            **{name: getattr(self, name) for name in RECORDED},
            "fdr": fdr,
            "flagged": self.flagged_pairs(fdr),
            "issues": {issue.name: issue.record() for issue in self.issues_at(fdr)},
            "recommend": {
                "loss": advice.loss,
                "arguments": dict(advice.arguments),
                "temperature": advice.temperature,
                "trust": advice.trust,
                "reason": advice.reason,
            },
            **({} if self.fingerprint is None else {"fingerprint": self.fingerprint.record()}),
        }

    def verdict_lines(self, fdr: float = 0.1) -> list[str]:
        """The verdict in words, one sentence per line."""
        low, high = self.interval
        if self.uninformative:
            return [
                "Cannot tell: pairs score like mismatched ones. Either nearly all pairs are unrelated, or these scores "
                "cannot see what relates them. Nothing is flagged."
            ]
        if self.noise_found:
            lines = [
                f"Found: about {self.noise_rate:.1%} of the pairs are unrelated (95% interval {low:.1%} to "
                f"{high:.1%}). {NOT_COUNTED}"
            ]
            if high - low > WIDE:
                lines.append("The interval is wide: the share is known only roughly.")
            flagged, share = self.flagged_pairs(fdr), f"{100 * fdr:g}%"
            if not flagged:
                return [*lines, f"No pair is flagged: with any list, more than {share} may be false alarms."]
            return [*lines, f"{flagged:,} pairs flagged, of which at most {share} are expected to be false alarms."]
        if self.cannot_tell:
            return [
                f"Cannot tell: between 0% and {high:.0%} of the pairs may be unrelated, so nothing is flagged. "
                f"{NOT_COUNTED}",
                *self._why_not(),
            ]
        upper = max(high, 0.001)  # never "up to 0.0 %"
        return [f"No unrelated pairs found, but up to {upper:.1%} of the pairs may be (95% interval). {NOT_COUNTED}"]

    def _why_not(self) -> list[str]:
        if self.other_class_better:
            return [
                f"{self.other_class_better:.1%} of the pairs fit another class better than their own, as hard right "
                "pairs and confused labels do; a tool for wrong labels, such as cleanlab, lists them."
            ]
        worst, best = self.auroc_interval
        ways = []
        if worst < 0.97:
            ways += ["better embeddings"] if self.fitted else ["a fitted scorer (--fit, fit=True)", "better embeddings"]
        if best >= 0.97 or self.judged_pairs < MANY_PAIRS:
            ways.append("more pairs")
        beaten = f"{worst:.0%}" if f"{worst:.0%}" == f"{best:.0%}" else f"{worst:.0%} to {best:.0%}"
        return [
            f"A right pair outscores {beaten} of mismatched pairs on average, so poorly fitting right pairs look like "
            f"unrelated ones. What would help: {', '.join(ways[:-1])}{' or ' if len(ways) > 1 else ''}{ways[-1]}."
        ]


@dataclass(frozen=True, eq=False, kw_only=True)
class Audit(Findings):
    """What an audit found. ``scores``, ``p_values`` and ``p_wrong`` have one value per pair, in the order of the input.

    Attributes:
        scores: (pairs,) how well each pair fits; higher is better.
        p_values: (pairs,) share of mismatched pairs that score at least as high as the pair.
        p_wrong: (pairs,) probability of each pair to be unrelated; 0 unless the verdict is "found".
        dropped: Rows that were not judged: invalid ones (``skip_invalid``), placeholders, and the first row of a series
            that was audited by its differences. Their scores, p_values and p_wrong are NaN, their weights 0.

    All others, such as ``verdict``, ``noise_rate`` and ``interval``, are those of :class:`rince.audit.Findings`.

    Example:
        >>> random = np.random.default_rng(0)
        >>> a = random.normal(size=(500, 16))
        >>> b = a + 0.3 * random.normal(size=a.shape)
        >>> b[:100] = np.roll(b[:100], 1, axis=0)  # 20 % mismatched pairs
        >>> result = rince.audit_pairs(a, b)
        >>> bool(result.weights[:100].mean() < 0.2 < 0.9 < result.weights[100:].mean())
        True
    """

    scores: NDArray[np.float32]
    p_values: NDArray[np.float32] = field(repr=False)
    p_wrong: NDArray[np.float32] = field(repr=False)
    dropped: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64), repr=False)

    def __len__(self) -> int:
        return len(self.scores)

    @property
    def judged_pairs(self) -> int:
        """Number of pairs that were judged."""
        return len(self) - len(self.dropped)

    def flagged_pairs(self, fdr: float) -> int:
        """Number of pairs that are flagged at this share of false alarms."""
        return len(self.flag(fdr))

    @property
    def weights(self) -> NDArray[np.float32]:
        """(pairs,) weight of each pair in training, from 0 to 1; 0 for dropped rows.

        This is ``1 - p_wrong``, with one difference. Where the verdict is "cannot tell", no pair can be accused, so
        ``p_wrong`` is 0; weights then follow the best guess of the share, if the interval ends below 70 %. They are 1
        where no unrelated pairs were found, where the scores are uninformative, and where one side is a class and the
        verdict is "cannot tell".
        """
        doubt = self.p_wrong if self.noise_found else self.weight_curve.at(self.p_values)
        return np.nan_to_num(1 - doubt, nan=0.0)

    @property
    def trust(self) -> NDArray[np.float32]:
        """Former name of ``weights``."""
        return self.weights

    def flag(self, fdr: float = 0.1) -> NDArray[np.int64]:
        """Rows of suspected pairs, most suspicious first: as many as keep the expected share of false alarms <= fdr.

        Empty unless the verdict is "found".
        """
        return self.suspects(fdr)[0]

    def suspects(self, fdr: float = 0.5) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """The pairs of ``flag(fdr)``, and the expected share of false alarms if the list ended at each of them."""
        p, scores = self.judged(self.p_values), self.judged(self.scores)
        rows, alarms = suspects(self.judged(self.p_wrong), scores, fdr, p)
        if len(self.dropped):
            rows = kept_rows(len(self), self.dropped)[rows]
        return rows, alarms

    def record(self, fdr: float = 0.1) -> dict[str, Any]:
        """What ``audit.json`` holds."""
        return {**super().record(fdr), "dropped": len(self.dropped), "dropped_rows": self.dropped[:1000].tolist()}

    def _repr_html_(self) -> str:
        from rince.report.page import notebook_html

        return notebook_html(self)

    def judged(self, values: NDArray[np.float32]) -> NDArray[np.float32]:
        """Values, one per pair, without those of dropped pairs."""
        return np.delete(values, self.dropped) if len(self.dropped) else values

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
        groups: ArrayLike | None = None,
        marks: Mapping[int, str] | None = None,
        columns: tuple[str, str] = ("a", "b"),
        others: Callable[[NDArray[np.int64]], Mapping[str, list[str]]] | None = None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """Write ``audit.csv`` (or ``.parquet``), ``suspects.csv``, ``audit.json`` and ``audit.html`` into a folder.

        Args:
            folder: Created if it does not exist.
            fdr: Expected share of false alarms among the flagged pairs.
            ids: Names of the pairs.
            show_a, show_b: Items of either side for the page: an array or tensor of images, or a list of texts, images
                (arrays, tensors or Pillow) or paths of pictures, sounds and videos.
            truth: (pairs,) whether each pair is truly wrong, marked in the page.
            table: ``"csv"`` or ``"parquet"``.
            title: Heading of the page.
            force: Overwrite earlier results.
            groups: (pairs,) a value such as the source: the noise rate of every group is reported.
            marks: Row -> "keep", "wrong" or "unsure" of an earlier review.
            columns: Names of the two sides in ``suspects.csv``.
            others: Function of row numbers that returns further columns of ``suspects.csv``, texts by name.
            facts: Further entries of ``audit.json``.

        Raises:
            UsageError: A column does not have one value per pair.
            FileExistsError: Results exist, and ``force`` is not set.
        """
        from rince.audit import save
        from rince.report.gallery import gallery_of
        from rince.report.page import audit_data, audit_page, listed_pairs

        if table not in ("csv", "parquet"):
            raise UsageError(f"table must be csv or parquet, got {table!r}")
        save.check_folder(folder, force)
        n = len(self)
        names = None if ids is None else save.one_per_pair(ids, n, "ids")
        truly = None if truth is None else save.one_per_pair(truth, n, "truth").astype(bool)
        shows = gallery_of(show_a, n, "show_a"), gallery_of(show_b, n, "show_b")
        name_of: Callable[[int], str] = str if names is None else lambda row: save.pair_name(names[row], row)
        grouped = None if groups is None else (group_texts(groups), group_rates(self, groups, fdr))
        listed = listed_pairs(self, fdr, name_of, None if grouped is None else grouped[0])
        page = audit_page(audit_data(self, title, fdr, name_of, *shows, truly, grouped, marks, listed))
        record = {**self.record(fdr), **(facts or {})}
        if grouped is not None:
            record["groups"] = [rate.record() for rate in grouped[1]]
        suspects = listed.first(max(save.MIN_SUSPECTS, len(self.suspects()[0])))
        rows = suspects.row.tolist()
        texts = [None if show is None else [show.brief(row) or "" for row in rows] for show in shows]
        more = {} if others is None else others(suspects.row)
        flags = np.zeros(n, dtype=bool)
        flags[self.flag(fdr)] = True
        numbers = self.scores, self.p_wrong, flags, self.weights
        with save.results_folder(folder) as new:
            with save.opened_whole(new, f"audit.{table}") as file:
                if table == "csv":
                    save.write_csv(file, names, *numbers)
                else:
                    save.write_parquet(file, np.arange(n) if names is None else names, *numbers)
            save.write_summary(new, f"audit.{table}", record, page, save.suspects_csv(suspects, columns, texts, more))


@dataclass(frozen=True, eq=False, kw_only=True)
class ShardedAudit(Findings):
    """Results of an audit of shards. The verdict on every single pair is in the table.

    Attributes:
        pairs: Number of pairs that were judged.
        dropped: Number of pairs that were left out.
        shards: Number of shards.
        fdr: Expected share of false alarms among the flagged pairs of the table.
        flagged: Number of pairs flagged there.
        groups: Noise rate by group; None without groups.
        table: Folder of the table, with one Parquet file per shard; None if not written.
        counts: Number of pairs at every rank among mismatched pairs.
        rank_probability: Probability of the pairs of each of these ranks to be unrelated.

    All others, such as ``verdict``, ``noise_rate`` and ``interval``, are those of :class:`rince.audit.Findings`.

    Example:
        >>> random = np.random.default_rng(0)
        >>> a = random.normal(size=(500, 16))
        >>> np.save("a.npy", a)
        >>> np.save("b.npy", a + 0.3 * random.normal(size=a.shape))
        >>> result = rince.audit.audit_shards(rince.audit.file_shards("a.npy", "b.npy"), out="audit")
        >>> result.table, result.pairs, result.flagged
        ('audit/audit.parquet', 500, 0)
    """

    pairs: int
    shards: int
    fdr: float
    flagged: int
    dropped: int = 0
    groups: list[GroupRate] | None = None
    table: str | None = None
    counts: RankCounts = field(repr=False)
    rank_probability: NDArray[np.float32] = field(repr=False)

    @property
    def judged_pairs(self) -> int:
        """Number of pairs that were judged."""
        return self.pairs

    def flagged_pairs(self, fdr: float) -> int:
        """Number of pairs that would be flagged at this share of false alarms."""
        return int(self.counts.counts[: last_flagged(self.counts.counts, self.rank_probability, fdr)].sum())

    def record(self, fdr: float | None = None) -> dict[str, Any]:
        """What ``audit.json`` holds."""
        groups = {} if self.groups is None else {"groups": [rate.record() for rate in self.groups]}
        record = super().record(self.fdr if fdr is None else fdr)
        return {**record, "dropped": self.dropped, "shards": self.shards, **groups}


def findings_of(
    decision: Decision, null: NDArray[np.float32], pairs: int, units: int, fitted: bool, scorer: str
) -> dict[str, Any]:
    """The attributes of ``Findings`` that follow from a decision."""
    low, high = decision.interval
    remarks = []
    if decision.collapsed:
        remarks.append("The embeddings have collapsed: all mismatched pairs have the same score.")
    elif decision.uninformative and not fitted:
        hint = "The two sides may not be embeddings of one space: try fit=True (--fit)."
        remarks.append(hint if scorer in SCORED_BY else "Higher scores must mean a better fit.")
    if pairs < FEW_PAIRS and not decision.uninformative:
        remarks.append(f"{pairs} pairs are few: the interval is wide and single pairs are hard to judge.")
    return {
        "null": null[decision.kept] if not decision.kept.all() else null,
        "verdict": decision.verdict,
        "noise_rate": decision.rate.value if decision.verdict is Verdict.FOUND else 0.0,
        "interval": decision.interval,
        "uninformative": decision.uninformative,
        "fitted": fitted,
        "separation": 1 - decision.mean_p,
        "curve": decision.curve,
        "weight_curve": decision.weight_curve,
        "units": units,
        "remarks": tuple(remarks),
        "scorer": scorer,
        "best_guess": decision.rate.value,
        "auroc": decision.auroc(min(decision.rate.value, 0.99)),
        "auroc_interval": (decision.auroc(low), decision.auroc(high)),
        "other_class_better": decision.other_class_better,
        "of_classes": decision.of_classes,
    }


def sampled(done: Collection[str], fit: bool) -> tuple[str, ...]:
    """Conditions of a verdict on too many pairs for all checks, given the checks that were run."""
    texts = {name: text for name, text in LARGE.items() if fit or name != "leak"}  # a leak misleads fitted scorers only
    checked, unchecked = (
        [text for name, text in texts.items() if (name in done) is is_done] for is_done in (True, False)
    )
    lines = []
    if checked:
        lines.append(f"Checked on a sample of the pairs only: {', '.join(checked)}. Rare cases may have been missed.")
    if unchecked:
        lines.append(f"Not checked: {', '.join(unchecked)}. The verdict assumes that there are none.")
    return tuple(lines)


def conditions_of(fit: bool, embeddings: str | None) -> tuple[str, ...]:
    """Conditions of a verdict by the origin of the embeddings: None, or one of ``EMBEDDINGS``."""
    if embeddings is not None and embeddings not in EMBEDDINGS:
        raise UsageError(f"embeddings must be one of {', '.join(EMBEDDINGS)}, got {embeddings!r}")
    if fit or embeddings == "unseen":
        return ()
    return (IF_UNSEEN,) if embeddings is None else (TRAINED,)


# --- rows that were left out ------------------------------------------------------------------------------------------


def kept_rows(n: int, dropped: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.delete(np.arange(n), dropped)


def with_gaps(result: Audit, n: int, dropped: NDArray[np.int64], invalid: NDArray[np.int64] | None = None) -> Audit:
    """The audit of the judged pairs as one of all ``n``: NaN for pairs that were left out.

    Args:
        result: The audit of the other pairs. Issues may already be those of all pairs.
        n: Number of all pairs.
        dropped: Rows that were left out.
        invalid: Those that were left out for invalid values. Default: all of them.
    """
    index = kept_rows(n, dropped)
    invalid = dropped if invalid is None else invalid

    def spread(values: NDArray[np.float32]) -> NDArray[np.float32]:
        out = np.full(n, np.nan, dtype=np.float32)
        out[index] = values
        return out

    remarks = result.remarks
    if len(invalid):
        named = named_rows(invalid.tolist())
        remarks = (f"Left out for NaN, infinite, missing or all-zero values: {named}.", *remarks)
    issues = {
        name: issue.spread(index, n) if len(issue.scores) == len(index) else issue
        for name, issue in result.issues.items()
    }
    return dataclasses.replace(
        result,
        scores=spread(result.scores),
        p_values=spread(result.p_values),
        p_wrong=spread(result.p_wrong),
        dropped=dropped,
        issues=issues,
        remarks=remarks,
    )
