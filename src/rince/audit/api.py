"""The audit in memory: load, check, score, null, estimate."""

import dataclasses
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rince.audit import checks as issue_checks
from rince.audit.checks import Issue, Order
from rince.audit.estimate import NO_CURVE, Null, Verdict, decide, p_at
from rince.audit.null import Scored, as_scored
from rince.audit.rate import RankCounts, break_ties, ranks, tie_step
from rince.audit.result import TRAINED, Audit, conditions_of, findings_of, sampled, with_gaps
from rince.audit.scan import check_scans, scan
from rince.audit.scores import check_scoring
from rince.audit.shards.runner import LocalRunner
from rince.audit.shards.score import SAMPLE_CHECKS, ScoredShards, late_issues, score_shards, scored_spaces
from rince.audit.units import block_folds, num_units
from rince.errors import UsageError
from rince.pairs.matrix import MIN_PAIRS, Matrix, as_matrix, check_columns, codes
from rince.pairs.shards import Arrays, Shard, Usable, unusable

if TYPE_CHECKING:
    from torch import Tensor

    from rince.audit.fit.towers import FitConfig

CHECKS = ("placeholder", "duplicate", "order", "shifted", "better_partner", "group", "leak")
"""Checks that ``audit_pairs`` runs by default, beside the one for unrelated pairs."""
MAX_CHECKED = 300_000
"""Pairs up to which checks are run; they need the rows in memory."""
MAX_BETTER_PARTNER = 20_000  # pairs up to which all partners are compared
Rows = NDArray[np.int64]


def audit_pairs(
    a: "NDArray[Any] | Tensor",
    b: "NDArray[Any] | Tensor",
    *,
    fit: bool = False,
    score: str = "relative",
    scorer: str = "cca",
    ids: ArrayLike | None = None,
    duplicates: ArrayLike | None = None,
    groups: ArrayLike | None = None,
    checks: Sequence[str] | None = CHECKS,
    embeddings: str | None = None,
    held_out: tuple[Any, Any] | None = None,
    seed: int = 0,
    config: "FitConfig | None" = None,
    progress: bool | None = None,
    skip_invalid: bool = False,
) -> Audit:
    """Find the unrelated pairs among the rows of ``a`` and ``b``, and other issues.

    Args:
        a, b: (pairs, width) arrays or tensors; memory maps are read in chunks. Embeddings of one space, unless ``fit``.
        fit: Take any two feature matrices, of any widths, and fit a scorer to them. Every pair is scored by a fit that
            never saw it.
        score: For embeddings of one space: ``"relative"``, the cosine corrected by how high both items score with
            others, or ``"cosine"``.
        scorer: For ``fit``: ``"cca"`` (seconds), ``"towers"`` (two small networks), or ``"both"``, which keeps the one
            that outscores more mismatched pairs.
        ids, duplicates: (pairs,) values. Pairs of equal value belong together and are never mismatched with one
            another; a missing value (None, NaN, an empty text) equals no other. Equal rows are found without them.
        groups: (pairs,) a column such as language or source, for the group check; missing values belong to no group.
        checks: Issue types to check for, see ``CHECKS``; None for unrelated pairs only.
        embeddings: ``"unseen"`` if the model behind given embeddings was not trained on these pairs,
            ``"trained-on-these"`` if it was. Without an answer, the verdict carries the condition.
        held_out: (A, B) embeddings of a few hundred pairs from the same source that the model has not seen; a test
            compares them with the audited ones.
        seed: The same seed gives the same audit.
        config: How towers are fitted.
        progress: Show a progress bar. Default: on a terminal.
        skip_invalid: Leave out pairs with NaN or infinite values and, unless ``fit``, with rows of zeros. They stay in
            the results as NaN, so that indices mean the rows of ``a`` and ``b``.

    Returns:
        The share of unrelated pairs with its interval, the probability of every pair to be unrelated, and issues.

    Raises:
        UsageError: If the sides do not have the same number of rows, or fewer than 50, or hold values that are not
            finite.

    Example:
        >>> random = np.random.default_rng(0)
        >>> a = random.normal(size=(500, 16))
        >>> b = a + 0.3 * random.normal(size=a.shape)
        >>> b[:100] = np.roll(b[:100], 1, axis=0)  # 20 % mismatched pairs
        >>> result = rince.audit_pairs(a, b)
        >>> result.verdict.value, round(result.noise_rate, 1), len(result.flag(fdr=0.1)) > 80
        ('found', 0.2, True)
    """
    check_scoring(score, scorer)
    if fit and held_out is not None:
        raise UsageError("held_out tests the model behind given embeddings: leave it out with fit=True")
    selected = set(checks or ())
    if unknown := selected - set(CHECKS):
        raise UsageError(f"checks must be among {', '.join(CHECKS)}, got {', '.join(sorted(unknown))}")
    conditions = conditions_of(fit, embeddings)
    a, b = as_matrix(a, "a"), as_matrix(b, "b")
    check_columns(a, b)
    n = len(a)
    keys = [codes(x, name, n) for name, x in (("ids", ids), ("duplicates", duplicates)) if x is not None]
    labels = None if groups is None else codes(groups, "groups", n)
    invalid = unusable(Arrays(a, b), zero_is_bad=not fit) if skip_invalid else np.empty(0, dtype=np.int64)
    if n - len(invalid) < MIN_PAIRS:
        raise UsageError(f"An audit needs at least {MIN_PAIRS} pairs, got {n - len(invalid)}.")
    options = _Options(fit, scorer if fit else score, seed, config, progress)
    if n - len(invalid) > MAX_CHECKED:
        result, rows = _large(Arrays(a, b, keys, progress), selected & set(SAMPLE_CHECKS), invalid, options)
    else:
        rows = np.delete(np.arange(n), invalid)
        check_scans(len(rows), [scan(Usable(Arrays(a, b), invalid), 0, 0, rows[:0], one_space=not fit).summary])
        result, rows = _checked(a, b, rows, keys, selected, labels, options)
    if held_out is not None:
        issue = _held_out(a, b, held_out)
        result.issues[issue.name] = issue
        conditions = (TRAINED,) if issue.claimed else conditions
    result = dataclasses.replace(result, conditions=(*conditions, *result.conditions))
    return result if len(rows) == n else with_gaps(result, n, np.setdiff1d(np.arange(n), rows), invalid)


class _Options(NamedTuple):
    """How pairs are scored: arguments of ``score_shards``."""

    fit: bool
    method: str
    seed: int
    config: "FitConfig | None"
    progress: bool | None


def _large(pairs: Shard, checks: set[str], invalid: Rows, options: _Options) -> tuple[Audit, Rows]:
    """The audit of more than ``MAX_CHECKED`` pairs, without invalid ones, and the rows it judged."""
    runner, fit, seed = LocalRunner(), options.fit, options.seed
    scored = score_shards(
        runner, [pairs], dropped=[invalid if len(invalid) else None], checks=checks, **options._asdict()
    )
    units = min(num_units(scored.codes[0]), max(1, scored.parts.pairs // scored.length))
    result = judge_scores(scored.scores[0], scored.null, units, seed, fit, scored.name)
    flags = np.isin(np.arange(scored.parts.pairs), result.flag())
    issues = {**scored.issues, **late_issues(runner, scored, [flags], checks, fit, seed)}
    out = np.zeros(0, np.int64) if scored.parts.dropped[0] is None else scored.parts.dropped[0]
    if placeholders := issues.get("placeholder"):
        scores = np.zeros(pairs.rows, np.float32)
        scores[np.setdiff1d(out, invalid)] = 1
        issues["placeholder"] = dataclasses.replace(placeholders, scores=scores)
    result = dataclasses.replace(
        result,
        fingerprint=scored.fingerprint,
        settings=scored.settings,
        issues=issues,
        conditions=(*sampled(checks, fit), *result.conditions),
    )
    return result, np.delete(np.arange(pairs.rows), out)


class _Data(NamedTuple):
    """The data to judge.

    Attributes:
        rows: Row numbers among all pairs.
        a, b: (rows, width) values of either side.
        x, y: Input of the scorer: ``a`` and ``b`` without columns that give the pairing away, and as differences of
            successive rows if there are too few independent stretches.
        order: How rows depend on their neighbors; None without this check.
    """

    rows: Rows
    a: Matrix
    b: Matrix
    x: Matrix
    y: Matrix
    order: Order | None = None


def _checked(
    a: Matrix,
    b: Matrix,
    rows: Rows,
    keys: list[Rows],
    checks: set[str],
    groups: Rows | None,
    options: _Options,
) -> tuple[Audit, Rows]:
    """The audit of some rows with all checks, and the rows it judged: placeholders are reported, but not judged."""
    n, fit, seed = len(a), options.fit, options.seed
    data, issues = _prepared(a, b, rows, checks, fit, seed)
    result, scored = _judged(data, keys, options)
    extra: list[Issue] = []
    flagged = np.isin(np.arange(len(data.rows)), result.flag())
    if "group" in checks and flagged.any():
        labels = None if groups is None else groups[data.rows]
        doubtful = issue_checks.group(flagged, (data.x, data.y), labels, seed)
        extra.append(doubtful)
        if doubtful.details["unreadable"].any():
            result = without_group(result, doubtful.details["unreadable"], scored.null, seed)
    spaces = scored_spaces(data.x, data.y, scored.scorer, fit) if checks & {"shifted", "better_partner"} else None
    if spaces is not None and "shifted" in checks:
        extra.append(issue_checks.shifted(*spaces, rows=data.rows))
    if spaces is not None and "better_partner" in checks and len(data.rows) <= MAX_BETTER_PARTNER:
        extra.append(issue_checks.better_partner(*spaces))
    issues |= {issue.name: issue.spread(data.rows, n) for issue in [_unrelated(result), *extra]}
    conditions = tuple(
        issues[name].explanation for name in ("group", "placeholder") if name in issues and issues[name].claimed
    )
    issues = {"unrelated": issues.pop("unrelated"), **issues}
    return dataclasses.replace(result, issues=issues, conditions=conditions), data.rows


def _prepared(
    a: Matrix, b: Matrix, rows: Rows, checks: set[str], fit: bool, seed: int
) -> tuple[_Data, dict[str, Issue]]:
    """The rows to judge, and the issues that are looked for before: they change what is judged, and how."""
    n = len(a)
    a, b = (np.asarray(side if len(rows) == n else side[rows]) for side in (a, b))
    issues = []
    if "duplicate" in checks:
        issues.append(issue_checks.duplicate(a, b).spread(rows, n))
    if "placeholder" in checks:
        placeholders = issue_checks.placeholder(a, b, seed)
        issues.append(placeholders.spread(rows, n))
        real = placeholders.scores == 0
        if MIN_PAIRS <= real.sum() < len(rows):
            rows, a, b = rows[real], a[real], b[real]
    data = _Data(rows, a, b, a, b)
    if fit and "leak" in checks:
        leak = issue_checks.leak(a, b)
        issues.append(leak)
        if leak.claimed:
            columns = np.array(leak.details["columns"]).reshape(-1, 2)
            data = data._replace(x=np.delete(a, columns[:, 0], 1), y=np.delete(b, columns[:, 1], 1))
    if "order" in checks:
        order = issue_checks.order(data.x, data.y, seed)
        issues.append(order.issue())
        if order.differences and fit:  # too few independent stretches: what changes from row to row may still tell
            data = _Data(rows[1:], a[1:], b[1:], np.diff(data.x, axis=0), np.diff(data.y, axis=0))
            order = issue_checks.order(data.x, data.y, seed)
        data = data._replace(order=order)
    return data, {issue.name: issue for issue in issues}


def _judged(data: _Data, keys: list[Rows], options: _Options) -> tuple[Audit, ScoredShards]:
    """Verdict and scores. Rows that depend on their neighbors are cross-fitted in blocks, and count for less."""
    fit, seed, order = options.fit, options.seed, data.order
    keys, blocks = [key[data.rows] for key in keys], None
    if order is not None and order.dependent:
        block = max(1, min(order.block, len(data.rows) // 8))
        blocks = block_folds(len(data.rows), block, min(order.gap, block // 4), seed=seed)
        keys.append(blocks.units)
    pairs = Arrays(data.x, data.y, keys, options.progress)
    scored = score_shards(LocalRunner(), [pairs], blocks=blocks, **options._asdict())
    units = num_units(scored.codes[0] if blocks is None else scored.codes[0][:, :-1])
    if order is not None and order.dependent:
        units = min(units, max(order.independent, issue_checks.effective_size(scored.scores[0], order.length)))
    result = judge_scores(scored.scores[0], scored.null, units, seed, fit, scored.name)
    fingerprint = scored.fingerprint
    if data.x is not data.a:
        full_scan = scan(Arrays(data.a, data.b), 0, 0, np.empty(0, dtype=np.int64), one_space=not fit)
        fingerprint = check_scans(len(data.rows), [full_scan.summary])
    return dataclasses.replace(result, fingerprint=fingerprint, settings=scored.settings), scored


def without_group(result: Audit, doubtful: NDArray[np.bool_], null: Null, seed: int) -> Audit:
    """The audit if a group may be either mispaired or unreadable.

    The interval reaches from the unrelated pairs among the others, less half as many as the group has (its borders are
    not exact), to all with the group. The group is not flagged, and its weights stay 1.
    """
    rest = np.flatnonzero(~doubtful)
    if len(rest) < MIN_PAIRS:
        return result
    share = len(rest) / len(doubtful)
    units = max(1, round(result.units * share))
    others = judge_scores(result.scores[rest], null, units, seed, result.fitted, result.scorer)
    low = others.interval[0] * share - (1 - share) / 2
    found = low > 0
    p_wrong = np.zeros_like(result.p_wrong)
    if found:
        p_wrong[rest] = others.p_wrong
    return dataclasses.replace(
        result,
        verdict=Verdict.FOUND if found else Verdict.CANNOT_TELL,
        noise_rate=others.noise_rate * share if found else 0.0,
        best_guess=others.best_guess * share,
        interval=(max(0.0, low), result.interval[1]),
        p_wrong=p_wrong,
        curve=others.curve if found else NO_CURVE,
        weight_curve=others.curve if found else NO_CURVE,
    )


def _unrelated(result: Audit) -> Issue:
    flagged = result.flag()
    return Issue(
        name="unrelated",
        claimed=result.noise_found,
        scores=result.p_wrong,
        count=len(flagged),
        examples=flagged[: issue_checks.EXAMPLES],
        explanation=result.verdict_lines()[0],
        details={"rate": result.noise_rate, "interval": list(result.interval), "verdict": result.verdict.value},
    )


def _held_out(a: Matrix, b: Matrix, held_out: tuple[Any, Any]) -> Issue:
    cosines = []
    for sides in ((a, b), (as_matrix(held_out[0], "held_out A"), as_matrix(held_out[1], "held_out B"))):
        x, y = (np.asarray(side, dtype=np.float64) for side in sides)
        cosine = (x * y).sum(1) / np.maximum(np.linalg.norm(x, axis=1) * np.linalg.norm(y, axis=1), 1e-12)
        cosines.append(cosine[np.isfinite(cosine)])
    return issue_checks.trained_on_pairs(*cosines)


def judge(
    scored: Scored | ArrayLike,
    mismatched: ArrayLike | None = None,
    *,
    seed: int = 0,
    fitted: bool = False,
    scorer: str = "your scores",
) -> Audit:
    """An audit from scores of any origin, of pairs and of mismatched pairs; higher means a better fit.

    Args:
        scored: (pairs,) scores of the pairs, or both as ``Scored(scores, null)``.
        mismatched: Scores of many mismatched pairs: shuffled at random from the same data.
        seed: The same seed gives the same audit.
        fitted: Whether the scores come from a model fitted to these pairs (cross-fitted).
        scorer: Name of the scorer in the summary.

    Returns:
        What was found.

    Raises:
        UsageError: If there are fewer than 50 scores, no mismatched ones, or some are not finite.

    Example:
        >>> random = np.random.default_rng(0)
        >>> scores = np.concatenate([random.normal(5, 1, 400), random.normal(0, 1, 100)])
        >>> result = rince.audit.judge(scores, random.normal(0, 1, 100_000))
        >>> result.verdict.value, round(result.noise_rate, 1)
        ('found', 0.2)
    """
    scored = as_scored(scored, mismatched)
    units = len(scored.scores) if scored.clusters is None else int(scored.clusters.max()) + 1
    null = Null(scored.null, scored.right_by_chance, scored.other_class_better)
    result = judge_scores(scored.scores, null, units, seed, fitted, scorer)
    return dataclasses.replace(result, issues={"unrelated": _unrelated(result)})


def judge_scores(scores: NDArray[np.float32], null: Null, units: int, seed: int, fitted: bool, scorer: str) -> Audit:
    """Null, estimate and flags of scores."""
    step = tie_step(null.scores)
    used, drawn = break_ties(scores, step), break_ties(null.scores, step, first=len(scores))
    rank = ranks(used, np.sort(drawn))
    decision = decide(null._replace(scores=drawn), RankCounts.of(rank), units, seed)
    p = p_at(rank, drawn, decision.kept)
    return Audit(
        scores=used,
        p_values=p,
        p_wrong=decision.curve.at(p),
        **findings_of(decision, drawn, len(scores), units, fitted, scorer),
    )


def audit(
    a: "NDArray[Any] | Tensor",
    b: "NDArray[Any] | Tensor",
    *,
    drop_bad: bool = False,
    groups: ArrayLike | None = None,
    **options: Any,
) -> Audit:
    """Deprecated: use ``rince.audit_pairs``."""
    message = "rince.audit.audit is called rince.audit_pairs; the old name goes in version 0.4"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    if groups is not None:
        options["duplicates"] = groups
    if "recipe" in options:
        options["config"] = options.pop("recipe")
    return audit_pairs(a, b, skip_invalid=drop_bad or options.pop("skip_invalid", False), **options)
