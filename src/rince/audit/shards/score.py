"""From shards to scores: scan, check a sample, fit a scorer to it, score every shard."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince.audit import checks as issue_checks
from rince.audit.checks import EXAMPLES, Issue, NearRows
from rince.audit.estimate import Null
from rince.audit.scan import Sample, Scan, check_scans, join_samples, rows_of_shard, scan, summarize
from rince.audit.scores import fit_scorer, sample_rows, score_shard, widths_of
from rince.audit.shards.runner import Runner
from rince.errors import UsageError
from rince.pairs.fingerprint import Fingerprint
from rince.pairs.matrix import FEWEST
from rince.pairs.shards import Pieces, Shard, Usable, WithoutColumns

if TYPE_CHECKING:
    from rince.audit.fit.towers import FitConfig

SAMPLE_CHECKS = ("placeholder", "leak", "order")
"""Checks that need no more than a sample of the pairs, or a stretch of them."""
STRETCH = 20_000  # rows that are looked at for their order


class Parts(NamedTuple):
    """Usable shards, or their handles.

    Attributes:
        shards: The shards without dropped rows.
        offset: Number of the first row of each among all rows.
        start: Number of the first row of each among usable rows.
        rows: Number of usable rows of each.
    """

    shards: list[Any]
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
        dropped: Handles of the rows that each shard is without, None for no rows.
        scores, codes: Handles of the scores and of the codes of pairs (see ``scan.Scan``) of every shard.
        null: Scores of mismatched pairs.
        keys: Number of keys in the codes.
        fingerprint: Of the data.
        scorer, settings: Name of what gave the scores, and what its fit chose.
        issues: What the checks of a sample found.
        length: Rows apart enough to be independent; 1 unless the rows are a series.
    """

    parts: Parts
    dropped: list[Any]
    scores: list[Any]
    codes: list[Any]
    null: Null
    keys: int
    fingerprint: Fingerprint
    scorer: str
    settings: str
    issues: dict[str, Issue]
    length: int


def score_shards(
    runner: Runner,
    shards: Sequence[Shard],
    *,
    fit: bool,
    method: str,
    dropped: list[Any],
    checks: Collection[str] = SAMPLE_CHECKS,
    seed: int = 0,
    config: "FitConfig | None" = None,
    progress: bool | None = None,
) -> ScoredShards:
    """Scan all shards, check and fit on a sample of their pairs, and score all shards.

    Placeholders are dropped like unusable rows, and columns that give the pairing away are left out of the fit.

    Args:
        runner: Where the shards are.
        shards: All pairs.
        fit: As in ``audit_pairs``, as are ``seed``, ``config`` and ``progress``.
        method: ``score`` or, with ``fit``, ``scorer`` of ``audit_pairs``.
        dropped: Handles of the unusable rows of every shard, None for no rows.
        checks: Those of ``SAMPLE_CHECKS`` to run; others are ignored.
    """
    parts = _usable(runner, shards, dropped)
    scanned = _scan(runner, parts, fit, method, seed)
    issues: dict[str, Issue] = {}
    if "placeholder" in checks:
        rules = runner.result(runner.submit(partial(_placeholder_rules, seed=seed), *scanned.samples))
        if rules != (None, None):
            found = runner.map(_rows_like, shards, parts.shards, dropped, [rules] * len(shards))
            some = runner.gather(runner.map(_first_rows, found, parts.offset), "looking for placeholders")
            count = sum(one[0] for one in some)
            if FEWEST <= parts.pairs - count < parts.pairs:
                issues["placeholder"] = _placeholder_issue(count, np.concatenate([one[1] for one in some]))
                dropped = runner.map(_union, dropped, found)
                parts = _usable(runner, shards, dropped)
                scanned = _scan(runner, parts, fit, method, seed)
    fingerprint = scanned.fingerprint
    if fit and "leak" in checks:
        leak = issues["leak"] = runner.result(runner.submit(_leak, *scanned.samples))
        if leak.claimed:
            pairs = np.array(leak.details["columns"])
            columns = np.unique(pairs[:, 0]), np.unique(pairs[:, 1])
            parts = parts._replace(shards=runner.map(partial(WithoutColumns, columns=columns), parts.shards))
            scanned = _scan(runner, parts, fit, method, seed)
    length = 1
    if "order" in checks and max(parts.rows) >= FEWEST:
        longest = parts.shards[int(np.argmax(parts.rows))]
        order = runner.result(runner.submit(partial(_order, seed=seed), longest))
        issues["order"], length = order.issue(), order.length
    codes = runner.map(attrgetter("codes"), scanned.scans)
    fitter = partial(fit_scorer, rows=scanned.rows, method=method, seed=seed, config=config, progress=progress)
    fitted = runner.submit(fitter, *scanned.samples)
    name, null, scorer = (runner.submit(attrgetter(field), fitted) for field in ("name", "null", "scorer"))
    settings = runner.submit(attrgetter("settings"), fitted)
    chosen, known, picked = runner.gather([name, null, settings], "fitting")
    if chosen == "cosine":
        scores = runner.map(attrgetter("scores"), scanned.scans)
    else:
        label = "scoring pairs"
        scores = runner.map(score_shard, parts.shards, parts.start, codes, [scorer] * len(codes), label=label)
        runner.gather(runner.map(len, scores), label)
    return ScoredShards(parts, dropped, scores, codes, known, scanned.keys, fingerprint, chosen, picked, issues, length)


def _usable(runner: Runner, shards: Sequence[Shard], dropped: list[Any]) -> Parts:
    """The shards without these rows."""
    whole = [shard.rows for shard in shards]
    used, rows = list(shards), whole
    if any(one is not None for one in dropped):
        gone = runner.gather(runner.map(len, dropped), "looking for unusable rows")
        used = runner.map(Usable, used, dropped)
        rows = [count - less for count, less in zip(whole, gone, strict=True)]
    if sum(rows) < FEWEST:
        raise UsageError(f"An audit needs at least {FEWEST} pairs, got {sum(rows)}.")
    return Parts(used, np.cumsum([0, *whole[:-1]]).tolist(), np.cumsum([0, *rows[:-1]]).tolist(), rows)


class _Scanned(NamedTuple):
    """Handles of the scans of all shards and of the sample of both sides, and the rows of that sample."""

    scans: list[Any]
    samples: list[Any]
    rows: NDArray[np.int64]
    fingerprint: Fingerprint
    keys: int


def _scan(runner: Runner, parts: Parts, fit: bool, method: str, seed: int) -> _Scanned:
    some = next(part for part, rows in zip(parts.shards, parts.rows, strict=True) if rows)
    rows = sample_rows(parts.pairs, runner.result(runner.submit(widths_of, some)), seed, method)
    wanted = parts.split(rows)
    label = "reading pairs"
    scans = runner.map(partial(scan, one_space=not fit), parts.shards, parts.start, parts.offset, wanted, label=label)
    summaries = runner.gather(runner.map(summarize, scans), label)
    fingerprint = check_scans(parts.pairs, summaries)
    samples = [runner.submit(join_samples, runner.map(partial(_sample, side=k), scans)) for k in range(2)]
    return _Scanned(scans, samples, rows, fingerprint, summaries[0].keys)


def _sample(scanned: Scan, side: int) -> Sample:
    return scanned.samples[side]


def _placeholder_rules(a: Sample, b: Sample, seed: int) -> tuple[NearRows | None, NearRows | None]:
    """What tells the placeholders of either side; None for a side without any."""
    groups = issue_checks.placeholder(a.x, b.x, seed).details["groups"]
    first = [np.array([one["first"] for one in groups if one["side"] == side], dtype=np.int64) for side in "ab"]
    left, right = (
        NearRows.of(one.x, rows, seed) if len(rows) else None for one, rows in zip((a, b), first, strict=True)
    )
    return left, right


def _rows_like(
    shard: Shard,
    usable: Shard,
    dropped: NDArray[np.int64] | None,
    rules: tuple[NearRows | None, NearRows | None],
) -> NDArray[np.int64]:
    """Rows of a shard in which either side is a placeholder."""
    found = np.zeros(usable.rows, dtype=bool)
    for start, *sides in Pieces(usable):
        for x, rule in zip(sides, rules, strict=True):
            if rule is not None:
                found[start : start + len(x)] |= rule.find(x)
    kept = np.arange(shard.rows) if dropped is None else np.delete(np.arange(shard.rows), dropped)
    return kept[found]


def _first_rows(rows: NDArray[np.int64], offset: int) -> tuple[int, NDArray[np.int64]]:
    return len(rows), rows[:EXAMPLES] + offset


def _union(dropped: NDArray[np.int64] | None, more: NDArray[np.int64]) -> NDArray[np.int64]:
    return more if dropped is None else np.union1d(dropped, more)


def _placeholder_issue(count: int, rows: NDArray[np.int64]) -> Issue:
    text = issue_checks.placeholder_text(count)
    return Issue(
        name="placeholder", claimed=True, scores=np.zeros(0, np.float32), count=count, examples=rows[:EXAMPLES],
        explanation=text,
    )  # fmt: skip


def _leak(a: Sample, b: Sample) -> Issue:
    return issue_checks.leak(a.x, b.x)


def _order(shard: Shard, seed: int) -> issue_checks.Order:
    """How the first rows of a shard depend on their neighbors."""
    sides: tuple[list[NDArray[Any]], list[NDArray[Any]]] = [], []
    count = 0
    for start, *pieces in islice(Pieces(shard), -(-STRETCH // 256)):
        for side, x in zip(sides, pieces, strict=True):
            side.append(x[: STRETCH - start].copy())
        count = start + len(pieces[0])
        if count >= STRETCH:
            break
    found = issue_checks.order(np.concatenate(sides[0]), np.concatenate(sides[1]), seed)
    return replace(found, explanation=f"{found.explanation} (Seen in a stretch of {min(count, STRETCH):,} rows.)")
