"""The audit of shards: the functions of the audit in memory, mapped over shards; the pairs stay where they are."""

import dataclasses
import os
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince.audit.estimate import Null, decide, last_flagged, p_at
from rince.audit.fit.towers import FitConfig
from rince.audit.output.groups import added_up, rates_of
from rince.audit.rate import RankCounts, break_ties, ranks, tie_step
from rince.audit.result import UNCHECKED, ShardedAudit, conditions_of, findings_of
from rince.audit.scan import Sample, Scan, check_scans, join_samples, rows_of_shard, scan, summarize
from rince.audit.scores import check_scoring, fit_scorer, sample_rows, score_shard, widths_of
from rince.audit.shards.runner import Runner, runner_of
from rince.audit.shards.write import (
    TABLE,
    Rule,
    check_out,
    check_parts,
    common_type,
    in_order,
    joined_path,
    results_folder,
    score_histogram,
    sharded_page,
    shown_pairs,
    write_shard,
    write_summary,
)
from rince.audit.units import count_units
from rince.errors import UsageError
from rince.pairs.fingerprint import Fingerprint, SidePrint, added_sums
from rince.pairs.matrix import FEWEST
from rince.pairs.shards import Shard, Usable, unusable
from rince.report.page import MAX_ROWS


def audit_shards(
    shards: Sequence[Shard],
    *,
    client: Any = None,
    out: str | os.PathLike[str] | None = None,
    fit: bool = False,
    score: str = "relative",
    scorer: str = "cca",
    embeddings: str | None = None,
    fdr: float = 0.1,
    seed: int = 0,
    config: FitConfig | None = None,
    skip_invalid: bool = False,
    title: str = "Audit of pairs",
    force: bool = False,
    facts: Mapping[str, Any] | None = None,
    remarks: Sequence[str] = (),
    progress: bool | None = None,
) -> ShardedAudit:
    """Find the unrelated pairs of data that is too large for one place.

    It is the audit of ``audit_pairs``, shard by shard: the same verdict and the same flags. A worker that is lost costs
    the shards it had; nothing that is as long as the data comes to this process.

    Args:
        shards: The pairs: ``file_shards("data/*.parquet:image", "data/*.parquet:text")``, or a list of
            :class:`Shard` of your own.
        client: A ``dask.distributed.Client``. Default: shards are read one after the other in this process.
        out: Folder for ``audit.parquet`` (a folder with one file per shard: id, score, p_wrong, flagged),
            ``audit.json`` and ``audit.html``; every worker must reach it. fsspec URLs such as ``s3://bucket/audit`` are
            allowed. Default: nothing is written.
        fit: Take any two feature matrices, and fit a scorer to a sample of them.
        score, scorer, embeddings: As in ``audit_pairs``.
        fdr: Expected share of false alarms among the flagged pairs.
        seed: The same seed gives the same audit, however the pairs are divided.
        config: How towers are fitted.
        skip_invalid: Leave out pairs with NaN, infinite or missing values; they stay in the table without a score.
        title: Heading of the page.
        force: Overwrite earlier results.
        facts: Further entries of ``audit.json``.
        remarks: Further notes, one sentence each.
        progress: Show a progress bar. Default: on a terminal.

    Returns:
        What was found.

    Raises:
        UsageError: Shards do not fit together, or hold unusable rows.
        FileExistsError: There are results already, and ``force`` is not set.

    Example:
        >>> random = np.random.default_rng(0)
        >>> a = random.normal(size=(500, 16))
        >>> np.save("a.npy", a)
        >>> np.save("b.npy", a + 0.3 * random.normal(size=a.shape))
        >>> shards = rince.audit.file_shards("a.npy", "b.npy", rows=200)
        >>> result = rince.audit.audit_shards(shards)  # or client=dask.distributed.Client("tcp://scheduler:8786")
        >>> result.verdict.value, result.shards
        ('none found', 3)
    """
    if not 0 < fdr < 1:
        raise UsageError(f"fdr must be in (0, 1), got {fdr}")
    if not len(shards):
        raise UsageError("An audit needs at least one shard, got none.")
    check_scoring(score, scorer)
    conditions = conditions_of(fit, embeddings)
    if out is not None:
        check_out(out, force)
    runner = runner_of(client, progress)
    parts, dropped = usable_shards(runner, shards, skip_invalid, zero_is_bad=not fit)
    scored = _scored(runner, parts, fit, scorer if fit else score, seed, config, progress)
    step = tie_step(scored.null.scores)
    null = break_ties(scored.null.scores, step, first=parts.pairs)
    scores = runner.map(break_ties, scored.scores, [step] * len(shards), parts.start)
    ordered = runner.submit(_identity, np.sort(null))
    rank = runner.map(ranks, scores, [ordered] * len(shards))
    counts = runner.result(runner.reduce(RankCounts.total, runner.map(RankCounts.of, rank)))
    units = count_units(runner, scored.codes, parts.pairs, scored.keys)
    decision = decide(scored.null._replace(scores=null), counts, units, seed)
    probability = decision.curve.at(p_at(counts.rank, null, decision.kept))
    flagged = last_flagged(counts.counts, probability, fdr)
    room = np.flatnonzero(np.cumsum(counts.counts) <= MAX_ROWS)
    rule = Rule(
        size=len(null),
        p=None if decision.kept.all() else p_at(np.arange(2 * len(null) + 1), null, decision.kept),
        curve=decision.curve,
        weight_curve=decision.weight_curve,
        last_flagged=int(counts.rank[flagged - 1]) if flagged else -1,
        last_listed=int(counts.rank[room[-1]]) if len(room) else -1,
        id_type=None if out is None else common_type(runner.gather(runner.map(Shard.id_type, shards))),
        folder=None,
    )
    with results_folder(out) as folder:
        table = None if folder is None else joined_path(folder, TABLE)
        columns = (shards, range(len(shards)), parts.offset, scores, rank, dropped)
        handle = runner.submit(partial(_identity, rule._replace(folder=table)))
        done = runner.gather(runner.map(write_shard, *columns, [handle] * len(shards)), "writing")
        check_parts(folder, len(shards))
        result = ShardedAudit(
            **findings_of(decision, null, parts.pairs, units, fit, scored.scorer),
            pairs=parts.pairs,
            shards=len(shards),
            fdr=fdr,
            flagged=sum(one.flagged for one in done),
            dropped=sum(shard.rows for shard in shards) - parts.pairs,
            table=None if out is None else joined_path(out, TABLE),
            counts=counts,
            rank_probability=probability,
            fingerprint=_with_items(runner, scored.fingerprint, shards, parts, dropped),
            conditions=(*conditions, UNCHECKED),
            settings=scored.settings,
        )
        result = dataclasses.replace(result, remarks=(*result.remarks, *remarks))
        tallies = [one.tally for one in done if one.tally is not None]
        if tallies:
            result = dataclasses.replace(result, groups=rates_of(added_up(tallies), result))
        if folder is not None:
            chart = score_histogram(runner, scores, result.pairs, result.null)
            listed = in_order([one.listed for one in done])
            shows = shown_pairs(runner, shards, parts.offset, listed)
            write_summary(result, folder, sharded_page(result, title, listed, shows, chart, null), facts or {})
    return result


def _with_items(
    runner: Runner, known: Fingerprint, shards: Sequence[Shard], parts: "Parts", dropped: list[Any]
) -> Fingerprint:
    """The fingerprint, of the items instead of the numbers where a side was encoded."""
    prints = runner.gather(runner.map(_item_prints, shards, parts.start, dropped))
    sides = []
    for side, numbers in enumerate((known.a, known.b)):
        found = [one[side] for one in prints if one[side] is not None]
        sides.append(found[0]._replace(sums=added_sums(one.sums for one in found)) if found else numbers)
    return known._replace(a=sides[0], b=sides[1])


def _item_prints(
    shard: Shard, start: int, dropped: NDArray[np.int64] | None
) -> tuple[SidePrint | None, SidePrint | None]:
    return shard.item_prints(start, dropped)


def audit_partitions(
    partitions: Sequence[Shard], *, drop_bad: bool = False, recipe: FitConfig | None = None, **options: Any
) -> ShardedAudit:
    """Deprecated: use ``audit_shards``."""
    message = "rince.audit.audit_partitions is called rince.audit.audit_shards; the old name goes in version 0.4"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return audit_shards(partitions, skip_invalid=drop_bad, config=recipe, **options)


class Parts(NamedTuple):
    """Usable shards, or their handles.

    Attributes:
        shards: The shards without unusable rows.
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
    """Handles of the scores of every shard and of the codes of its pairs; and the null."""

    scores: list[Any]
    codes: list[Any]
    null: Null
    keys: int
    fingerprint: Fingerprint
    scorer: str
    settings: str


def usable_shards(
    runner: Runner, shards: Sequence[Shard], skip_invalid: bool, zero_is_bad: bool
) -> tuple[Parts, list[Any]]:
    """The shards, without unusable rows if these are to be skipped; and handles of those rows (None if not)."""
    whole = [shard.rows for shard in shards]
    offset = np.cumsum([0, *whole[:-1]]).tolist()
    used, rows, dropped = list(shards), whole, [None] * len(shards)
    if skip_invalid:
        dropped = runner.map(partial(unusable, zero_is_bad=zero_is_bad), used)
        gone = runner.gather(runner.map(len, dropped), "looking for unusable rows")
        used = runner.map(Usable, used, dropped)
        rows = [count - less for count, less in zip(whole, gone, strict=True)]
    if sum(rows) < FEWEST:
        raise UsageError(f"An audit needs at least {FEWEST} pairs, got {sum(rows)}.")
    return Parts(used, offset, np.cumsum([0, *rows[:-1]]).tolist(), rows), dropped


def _scored(
    runner: Runner,
    parts: Parts,
    fit: bool,
    method: str,
    seed: int,
    config: FitConfig | None,
    progress: bool | None,
) -> ScoredShards:
    """Scan all shards, fit a scorer to a sample, and score all shards."""
    some = next(part for part, rows in zip(parts.shards, parts.rows, strict=True) if rows)
    rows = sample_rows(parts.pairs, runner.result(runner.submit(widths_of, some)), seed, method)
    wanted = parts.split(rows)
    scans = runner.map(partial(scan, one_space=not fit), parts.shards, parts.start, parts.offset, wanted)
    summaries = runner.gather(runner.map(summarize, scans), "reading pairs")
    fingerprint = check_scans(parts.pairs, summaries)
    codes = runner.map(attrgetter("codes"), scans)
    samples = [runner.submit(join_samples, runner.map(partial(_sample, side=k), scans)) for k in range(2)]
    fitter = partial(fit_scorer, rows=rows, method=method, seed=seed, config=config, progress=progress)
    fitted = runner.submit(fitter, *samples)
    name, null, scorer = (runner.submit(attrgetter(field), fitted) for field in ("name", "null", "scorer"))
    settings = runner.submit(attrgetter("settings"), fitted)
    chosen, known, picked = runner.gather([name, null, settings], "fitting")
    if chosen == "cosine":
        scores = runner.map(attrgetter("scores"), scans)
    else:
        scores = runner.map(score_shard, parts.shards, parts.start, codes, [scorer] * len(codes))
        runner.gather(runner.map(len, scores), "scoring pairs")
    return ScoredShards(scores, codes, known, summaries[0].keys, fingerprint, chosen, picked)


def _sample(scanned: Scan, side: int) -> Sample:
    return scanned.samples[side]


def _identity(value: Any) -> Any:
    return value
