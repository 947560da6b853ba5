"""From shards to scores: scan, check a sample, fit a scorer to it, score every shard. Pairs in memory are one shard."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince.audit import checks as issue_checks
from rince.audit.checks import EXAMPLES, Issue, NearRows
from rince.audit.estimate import Null
from rince.audit.relative import Scorer
from rince.audit.scan import Sample, Scan, check_scans, join_samples, rows_of_shard, scan
from rince.audit.scores import fit_scorer, sample_rows, score_shard, widths_of
from rince.audit.shards.runner import Runner
from rince.audit.units import GivenFolds, num_copies
from rince.errors import UsageError
from rince.pairs.fingerprint import Fingerprint
from rince.pairs.matrix import MIN_PAIRS, Matrix, unit_rows
from rince.pairs.shards import Pieces, Shard, Usable

if TYPE_CHECKING:
    from rince.audit.fit.towers import FitConfig

SAMPLE_CHECKS = ("placeholder", "duplicate", "order", "shifted", "group", "leak")
"""Checks of shards: duplicates among all pairs, the others in a sample of the pairs or a stretch of rows."""
STRETCH = 20_000  # rows checked for their order
GROUP_PAIRS = 20_000  # pairs of the sample checked for groups


class Parts(NamedTuple):
    """Usable shards, or their handles.

    Attributes:
        shards: The shards without dropped rows.
        dropped: Handles of the dropped rows of each shard, None for no rows.
        offset: Number of the first row of each among all rows.
        start: Number of the first row of each among usable rows.
        rows: Number of usable rows of each.
    """

    shards: list[Any]
    dropped: list[Any]
    offset: list[int]
    start: list[int]
    rows: list[int]

    @property
    def pairs(self) -> int:
        return sum(self.rows)

    def split(self, rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Rows by shard, each counted from its first one."""
        return [rows_of_shard(rows, start, count) for start, count in zip(self.start, self.rows, strict=True)]


class ScoredShards(NamedTuple):
    """Scores of all pairs.

    Attributes:
        parts: The shards without dropped rows.
        scores, codes: Handles of the scores and of the codes of pairs (see ``scan.Scan``) of every shard.
        null: Scores of mismatched pairs.
        keys: Number of keys in the codes.
        rows, samples: Row numbers of the sample, and handles of both of its sides.
        fingerprint: Fingerprint of the data.
        name, settings: Name of the scorer, and the settings chosen by its fit.
        scorer: Handle of the scorer; of None for the cosine.
        issues: Results of the checks on a sample.
        length: Distance in rows at which rows are independent; 1 unless the rows are a series.
    """

    parts: Parts
    scores: list[Any]
    codes: list[Any]
    null: Null
    keys: int
    rows: NDArray[np.int64]
    samples: list[Any]
    fingerprint: Fingerprint
    name: str
    settings: str
    scorer: Any
    issues: dict[str, Issue]
    length: int


def score_shards(
    runner: Runner,
    shards: Sequence[Shard],
    *,
    fit: bool,
    method: str,
    dropped: list[Any] | None = None,
    checks: Collection[str] = (),
    seed: int = 0,
    config: "FitConfig | None" = None,
    progress: bool | None = None,
    blocks: GivenFolds | None = None,
) -> ScoredShards:
    """Scan all shards, check and fit on a sample of their pairs, and score all shards.

    Placeholders are dropped like unusable rows, and columns that give the pairing away are left out of the fit.

    Args:
        runner: Runner of the shards.
        shards: All pairs.
        fit: As in ``audit_pairs``, as are ``seed``, ``config`` and ``progress``.
        method: ``score`` or, with ``fit``, ``scorer`` of ``audit_pairs``.
        dropped: Handles of the unusable rows of every shard, None for no rows. Default: all rows are usable.
        checks: Those of ``SAMPLE_CHECKS`` to run before the fit; others are ignored.
        blocks: Folds of ordered data.
    """
    dropped = [None] * len(shards) if dropped is None else dropped
    parts = _usable(runner, shards, dropped)
    scanned = _scan(runner, parts, fit, method, seed)
    issues: dict[str, Issue] = {}
    if "placeholder" in checks:
        rules = runner.result(runner.submit(partial(_placeholder_rules, seed=seed), *scanned.samples))
        if rules != (None, None):
            matches = runner.map(_rows_like, shards, parts.shards, dropped, [rules] * len(shards))
            summaries = runner.gather(runner.map(_first_rows, matches, parts.offset), "looking for placeholders")
            count = sum(summary[0] for summary in summaries)
            if MIN_PAIRS <= parts.pairs - count < parts.pairs:
                text, rows = issue_checks.placeholder_text(count), np.concatenate([summary[1] for summary in summaries])
                issues["placeholder"] = _summary_issue("placeholder", count, rows, text)
                dropped = runner.map(_union, dropped, matches)
                parts = _usable(runner, shards, dropped)
                scanned = _scan(runner, parts, fit, method, seed)
    fingerprint = scanned.fingerprint
    if fit and "leak" in checks:
        leak = issues["leak"] = runner.result(runner.submit(_leak, *scanned.samples))
        if leak.claimed:
            pairs = np.array(leak.details["columns"])
            columns = np.unique(pairs[:, 0]), np.unique(pairs[:, 1])
            parts = parts._replace(shards=runner.map(partial(Usable, columns=columns), parts.shards))
            scanned = _scan(runner, parts, fit, method, seed)
    length = 1
    if "order" in checks and max(parts.rows) >= MIN_PAIRS:
        order = runner.result(runner.submit(partial(_order, seed=seed), _longest(parts)[0]))
        issues["order"], length = order.issue(), order.length
    codes = runner.map(attrgetter("codes"), scanned.scans)
    fitter = partial(
        fit_scorer, rows=scanned.rows, method=method, seed=seed, config=config, progress=progress, blocks=blocks
    )
    fitted = runner.submit(fitter, *scanned.samples)
    name, null, scorer = (runner.submit(attrgetter(field), fitted) for field in ("name", "null", "scorer"))
    settings = runner.submit(attrgetter("settings"), fitted)
    chosen_name, null_scores, chosen_settings = runner.gather([name, null, settings], "fitting")
    if chosen_name == "cosine":
        scores = runner.map(attrgetter("scores"), scanned.scans)
    else:
        label = "scoring pairs"
        scores = runner.map(score_shard, parts.shards, parts.start, codes, [scorer] * len(codes), label=label)
        runner.gather(runner.map(len, scores), label)
    return ScoredShards(
        parts, scores, codes, null_scores, scanned.keys, scanned.rows, scanned.samples, fingerprint, chosen_name,
        chosen_settings, scorer, issues, length,
    )  # fmt: skip


def _usable(runner: Runner, shards: Sequence[Shard], dropped: list[Any]) -> Parts:
    """The shards without these rows."""
    totals = [shard.rows for shard in shards]
    usable, rows = list(shards), totals
    if any(rows_dropped is not None for rows_dropped in dropped):
        num_dropped = runner.gather(runner.map(len, dropped), "looking for unusable rows")
        usable = runner.map(Usable, usable, dropped)
        rows = [count - excluded for count, excluded in zip(totals, num_dropped, strict=True)]
    if sum(rows) < MIN_PAIRS:
        raise UsageError(f"An audit needs at least {MIN_PAIRS} pairs, got {sum(rows)}.")
    return Parts(
        usable, list(dropped), np.cumsum([0, *totals[:-1]]).tolist(), np.cumsum([0, *rows[:-1]]).tolist(), rows
    )


class _Scanned(NamedTuple):
    """Handles of the scans of all shards and of the sample of both sides, and the rows of that sample."""

    scans: list[Any]
    samples: list[Any]
    rows: NDArray[np.int64]
    fingerprint: Fingerprint
    keys: int


def _scan(runner: Runner, parts: Parts, fit: bool, method: str, seed: int) -> _Scanned:
    first_shard = next(part for part, rows in zip(parts.shards, parts.rows, strict=True) if rows)
    rows = sample_rows(parts.pairs, runner.result(runner.submit(widths_of, first_shard)), seed, method)
    shard_rows = parts.split(rows)
    label = "reading pairs"
    scans = runner.map(
        partial(scan, one_space=not fit), parts.shards, parts.start, parts.offset, shard_rows, label=label
    )
    summaries = runner.gather(runner.map(attrgetter("summary"), scans), label)
    fingerprint = check_scans(parts.pairs, summaries)
    samples = [runner.submit(join_samples, runner.map(partial(_sample, side=k), scans)) for k in range(2)]
    return _Scanned(scans, samples, rows, fingerprint, summaries[0].keys)


def _sample(scanned: Scan, side: int) -> Sample:
    return scanned.samples[side]


def _placeholder_rules(a: Sample, b: Sample, seed: int) -> tuple[NearRows | None, NearRows | None]:
    """Rules that recognize the placeholders of either side; None for a side without any."""
    groups = issue_checks.placeholder(a.x, b.x, seed).details["groups"]
    first = [np.array([item["first"] for item in groups if item["side"] == side], dtype=np.int64) for side in "ab"]
    left, right = (
        NearRows.of(item.x, rows, seed) if len(rows) else None for item, rows in zip((a, b), first, strict=True)
    )
    return left, right


def _rows_like(
    shard: Shard,
    usable: Shard,
    dropped: NDArray[np.int64] | None,
    rules: tuple[NearRows | None, NearRows | None],
) -> NDArray[np.int64]:
    """Rows of a shard in which either side is a placeholder."""
    mask = np.zeros(usable.rows, dtype=bool)
    for start, *sides in Pieces(usable):
        for x, rule in zip(sides, rules, strict=True):
            if rule is not None:
                mask[start : start + len(x)] |= rule.find(x)
    kept = np.arange(shard.rows) if dropped is None else np.delete(np.arange(shard.rows), dropped)
    return kept[mask]


def _first_rows(rows: NDArray[np.int64], offset: int) -> tuple[int, NDArray[np.int64]]:
    return len(rows), rows[:EXAMPLES] + offset


def _union(dropped: NDArray[np.int64] | None, more: NDArray[np.int64]) -> NDArray[np.int64]:
    return more if dropped is None else np.union1d(dropped, more)


def _leak(a: Sample, b: Sample) -> Issue:
    return issue_checks.leak(a.x, b.x)


# --- a stretch of rows, and checks after the verdict ------------------------------------------------------------------


def _longest(parts: Parts) -> tuple[Any, Any, int]:
    """The longest shard, its dropped rows, and the number of its first row."""
    k = int(np.argmax(parts.rows))
    return parts.shards[k], parts.dropped[k], parts.offset[k]


def _stretch(shard: Shard) -> tuple[NDArray[Any], NDArray[Any]]:
    """The first rows of both sides of a shard."""
    pieces = []
    for start, x, y in Pieces(shard):
        pieces.append((x.copy(), y.copy()))
        if start + len(x) >= STRETCH:
            break
    a, b = (np.concatenate(side)[:STRETCH] for side in zip(*pieces, strict=True))
    return a, b


def _order(shard: Shard, seed: int) -> issue_checks.Order:
    """How the first rows of a shard depend on their neighbors."""
    x, y = _stretch(shard)
    order = issue_checks.order(x, y, seed)
    return replace(order, explanation=f"{order.explanation} (Seen in a stretch of {len(x):,} rows.)")


def late_issues(
    runner: Runner, scored: ScoredShards, flagged: list[Any], checks: Collection[str], fit: bool, seed: int
) -> dict[str, Issue]:
    """Results of the checks that need codes, scorer or flags of all shards.

    Args:
        runner: Runner of the shards.
        scored: Scores of all pairs.
        flagged: Handles of the flags of the pairs of every shard.
        checks: Those of ``SAMPLE_CHECKS`` to run; others are ignored.
        fit, seed: As in ``audit_pairs``.
    """
    issues, parts = {}, scored.parts
    if "duplicate" in checks:
        copies = num_copies(runner, scored.codes, parts.pairs)
        text = f"{copies:,} pairs occur more than once."
        issues["duplicate"] = _summary_issue("duplicate", copies, np.empty(0, dtype=np.int64), text)
    if "shifted" in checks and max(parts.rows) >= MIN_PAIRS:
        issues["shifted"] = runner.result(runner.submit(partial(_shifted, fit=fit), *_longest(parts), scored.scorer))
    if "group" in checks:
        flags = np.concatenate(runner.gather(runner.map(_at, flagged, parts.split(scored.rows))))
        if flags.any():
            group = partial(_group, flagged=flags, seed=seed)
            issues["group"] = runner.result(runner.submit(group, *scored.samples))
    return issues


def _at(values: NDArray[Any], rows: NDArray[np.int64]) -> NDArray[Any]:
    return values[rows]


def _shifted(shard: Shard, dropped: NDArray[np.int64] | None, offset: int, scorer: Scorer | None, fit: bool) -> Issue:
    """Stretches of the first rows of a shard that fit the partner of a nearby row better."""
    x, y = _stretch(shard)
    spaces = scored_spaces(x, y, scorer, fit)
    if spaces is None:
        return _summary_issue("shifted", 0, np.empty(0, dtype=np.int64), "Not checked: these scores compare no rows.")
    total = len(x) + (0 if dropped is None else len(dropped))
    rows = offset + (np.arange(len(x)) if dropped is None else np.delete(np.arange(total), dropped[dropped < total]))
    issue = issue_checks.shifted(*spaces, rows=rows[: len(x)])
    text = f"{issue.explanation} (Seen in a stretch of {len(x):,} rows.)"
    return replace(issue, scores=np.zeros(0, np.float32), examples=rows[issue.examples], explanation=text)


def _group(a: Sample, b: Sample, flagged: NDArray[np.bool_], seed: int) -> Issue:
    """Groups in a sample of the pairs of which nearly all are flagged."""
    step = slice(None, None, -(-len(flagged) // GROUP_PAIRS))
    issue = issue_checks.group(flagged[step], (a.x[step], b.x[step]), None, seed)
    count = len(flagged[step])
    text = (
        f"About {issue.count / count:.1%} of the pairs (of a sample of {count:,}) are in groups of which nearly all "
        "score like mismatched pairs. Either such a group is mispaired as a whole, or the encoder cannot read its "
        f"language or format: {issue_checks.CHECK_FLAGS}"
    )
    return replace(issue, scores=np.zeros(0, np.float32), examples=np.empty(0, np.int64), explanation=text, details={})


def _summary_issue(name: str, count: int, rows: NDArray[np.int64], text: str) -> Issue:
    """An issue without a score per pair."""
    return Issue(
        name=name, claimed=count > 0, scores=np.zeros(0, np.float32), count=count, examples=rows[:EXAMPLES],
        explanation=text,
    )  # fmt: skip


def scored_spaces(
    x: Matrix, y: Matrix, scorer: Scorer | None, fit: bool
) -> tuple[NDArray[np.float32], NDArray[np.float32]] | None:
    """(pairs, width) unit rows of both sides whose inner products are scores, if the scorer has them."""
    if not fit:
        return unit_rows(x), unit_rows(y)
    return None if scorer is None else scorer.spaces(x, y)
