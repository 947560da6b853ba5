"""The audit of shards: the functions of the audit in memory, mapped over shards; the pairs stay where they are."""

import dataclasses
import os
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rince.audit.estimate import decide, last_flagged, p_at
from rince.audit.output.groups import added_up, rates_of
from rince.audit.rate import RankCounts, break_ties, ranks, tie_step
from rince.audit.result import ShardedAudit, conditions_of, findings_of, unchecked
from rince.audit.scores import check_scoring
from rince.audit.shards.runner import Runner, runner_of
from rince.audit.shards.score import SAMPLE_CHECKS, Parts, score_shards
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
    write_suspects,
)
from rince.audit.units import count_units
from rince.errors import UsageError
from rince.pairs.fingerprint import Fingerprint, SidePrint, added_sums
from rince.pairs.shards import Shard, unusable
from rince.report.page import MAX_ROWS

if TYPE_CHECKING:
    from rince.audit.fit.towers import FitConfig


def audit_shards(
    shards: Sequence[Shard],
    *,
    client: Any = None,
    out: str | os.PathLike[str] | None = None,
    fit: bool = False,
    score: str = "relative",
    scorer: str = "cca",
    checks: Sequence[str] | None = SAMPLE_CHECKS,
    embeddings: str | None = None,
    fdr: float = 0.1,
    seed: int = 0,
    config: "FitConfig | None" = None,
    skip_invalid: bool = False,
    title: str = "Audit of pairs",
    force: bool = False,
    facts: Mapping[str, Any] | None = None,
    remarks: Sequence[str] = (),
    progress: bool | None = None,
) -> ShardedAudit:
    """Find the unrelated pairs of data that is too large for one place.

    It is the audit that ``audit_pairs`` makes of more than 300,000 pairs, shard by shard: the same verdict and the same
    flags. For fewer pairs ``audit_pairs`` runs further checks, which can change both. A worker that is lost costs the
    shards it had; nothing that is as long as the data comes to this process.

    Args:
        shards: The pairs: ``file_shards("data/*.parquet:image", "data/*.parquet:text")``, or a list of
            :class:`Shard` of your own.
        client: A ``dask.distributed.Client``. Default: shards are read one after the other in this process.
        out: Folder for ``audit.parquet`` (a folder with one file per shard: id, score, p_wrong, flagged),
            ``suspects.csv`` (up to 100,000 pairs, the least fitting first), ``audit.json`` and ``audit.html``; every
            worker must reach it. fsspec URLs such as ``s3://bucket/audit`` are
            allowed. Default: nothing is written.
        fit: Take any two feature matrices, and fit a scorer to a sample of them.
        score, scorer, embeddings: As in ``audit_pairs``.
        checks: Issue types to look for: ``"placeholder"`` and ``"leak"`` in a sample of the pairs, ``"order"`` in a
            stretch of rows. None for unrelated pairs only.
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
    if unknown := set(checks or ()) - set(SAMPLE_CHECKS):
        raise UsageError(f"checks of shards are {', '.join(SAMPLE_CHECKS)}, got {', '.join(sorted(unknown))}")
    conditions = conditions_of(fit, embeddings)
    if out is not None:
        check_out(out, force)
    runner = runner_of(client, progress)
    invalid: list[Any] = [None] * len(shards)
    if skip_invalid:
        invalid = runner.map(partial(unusable, zero_is_bad=not fit), shards)
    scored = score_shards(
        runner,
        shards,
        fit=fit,
        method=scorer if fit else score,
        dropped=invalid,
        checks=checks or (),
        seed=seed,
        config=config,
        progress=progress,
    )
    parts, dropped = scored.parts, scored.dropped
    step = tie_step(scored.null.scores)
    null = break_ties(scored.null.scores, step, first=parts.pairs)
    scores = runner.map(break_ties, scored.scores, [step] * len(shards), parts.start)
    ordered = runner.submit(_identity, np.sort(null))
    rank = runner.map(ranks, scores, [ordered] * len(shards))
    counts = runner.result(runner.reduce(RankCounts.total, runner.map(RankCounts.of, rank)))
    units = min(count_units(runner, scored.codes, parts.pairs, scored.keys), max(1, parts.pairs // scored.length))
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
        done = runner.gather(runner.map(write_shard, *columns, [handle] * len(shards), label="writing"), "writing")
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
            conditions=(*conditions, unchecked(checks or ())),
            settings=scored.settings,
            issues=scored.issues,
        )
        result = dataclasses.replace(result, remarks=(*result.remarks, *remarks))
        tallies = [one.tally for one in done if one.tally is not None]
        if tallies:
            result = dataclasses.replace(result, groups=rates_of(added_up(tallies), result))
        if folder is not None:
            chart = score_histogram(runner, scores, result.pairs, result.null)
            listed = in_order([one.listed for one in done])
            write_suspects(folder, runner, shards, parts.offset, listed)
            shows = shown_pairs(runner, shards, parts.offset, listed)
            write_summary(result, folder, sharded_page(result, title, listed, shows, chart, null), facts or {})
    return result


def _with_items(
    runner: Runner, known: Fingerprint, shards: Sequence[Shard], parts: Parts, dropped: list[Any]
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
    partitions: Sequence[Shard], *, drop_bad: bool = False, recipe: "FitConfig | None" = None, **options: Any
) -> ShardedAudit:
    """Deprecated: use ``audit_shards``."""
    message = "rince.audit.audit_partitions is called rince.audit.audit_shards; the old name goes in version 0.4"
    warnings.warn(message, DeprecationWarning, stacklevel=2)
    return audit_shards(partitions, skip_invalid=drop_bad, config=recipe, **options)


def _identity(value: Any) -> Any:
    return value
