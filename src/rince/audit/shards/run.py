"""The audit of shards: the functions of the audit in memory, mapped over shards; the pairs stay where they are."""

import dataclasses
import hashlib
import os
import warnings
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince._support.optional_imports import require
from rince.audit.estimate import Curve, Verdict, decide, last_flagged, p_at
from rince.audit.groups import Tally, added_up, group_texts, rates_of, tallied
from rince.audit.rate import RankCounts, break_ties, p_of_ranks, ranks, tie_step
from rince.audit.result import ShardedAudit, conditions_of, findings_of, sampled
from rince.audit.save import (
    check_folder,
    joined_path,
    one_per_pair,
    opened_whole,
    other_columns,
    pair_name,
    results_folder,
    suspects_csv,
    write_parquet,
    write_summary,
)
from rince.audit.scores import check_scoring
from rince.audit.shards.runner import Runner, runner_of
from rince.audit.shards.score import SAMPLE_CHECKS, Parts, late_issues, score_shards
from rince.audit.units import count_units
from rince.errors import FileError, UsageError
from rince.pairs.files import is_url
from rince.pairs.fingerprint import Fingerprint, SidePrint, added_sums
from rince.pairs.shards import FileShard, Shard, unusable
from rince.report.gallery import Contents, Files
from rince.report.page import (
    MAX_MEDIA,
    MAX_ROWS,
    Listed,
    audit_page,
    bin_counts,
    chart,
    extent,
    page_data,
    shown_items,
    slider,
)

if TYPE_CHECKING:
    from rince.audit.fit.towers import FitConfig

TABLE = "audit.parquet"
MAX_HISTOGRAM_SCORES = 100_000  # sampled scores that set the range of the histogram


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
    """Find the unrelated pairs of data that is too large for one machine.

    It is the audit that ``audit_pairs`` makes of more than 300,000 pairs, shard by shard: the same verdict and the same
    flags. For fewer pairs ``audit_pairs`` runs further checks, which can change both. A worker that is lost costs the
    shards it had; nothing that is as long as the data comes to this process.

    Args:
        shards: The pairs: ``file_shards("data/*.parquet:image", "data/*.parquet:text")``, or a list of
            :class:`Shard` objects.
        client: A ``dask.distributed.Client``. Default: shards are read one after the other in this process.
        out: Folder for ``audit.parquet`` (a folder with one file per shard: id, score, p_wrong, flagged),
            ``suspects.csv`` (up to 100,000 pairs, the least fitting first), ``audit.json`` and ``audit.html``; every
            worker must reach it. fsspec URLs such as ``s3://bucket/audit`` are
            allowed. Default: nothing is written.
        fit: Take any two feature matrices, and fit a scorer to a sample of them.
        score, scorer, embeddings: As in ``audit_pairs``.
        checks: Issue types to look for: ``"duplicate"`` among all pairs, ``"placeholder"``, ``"leak"`` and ``"group"``
            in a sample of them, ``"order"`` and ``"shifted"`` in a stretch of rows. None for unrelated pairs only.
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
        The result.

    Raises:
        UsageError: Shards do not fit together, or hold unusable rows.
        FileExistsError: Results exist, and ``force`` is not set.

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
        check_folder(out, force)
    runner = runner_of(client, progress)
    invalid = runner.map(partial(unusable, zero_is_bad=not fit), shards) if skip_invalid else None
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
    parts = scored.parts
    step = tie_step(scored.null.scores)
    null = break_ties(scored.null.scores, step, first=parts.pairs)
    scores = runner.map(break_ties, scored.scores, [step] * len(shards), parts.start)
    ordered = runner.submit(np.sort, null)
    rank = runner.map(ranks, scores, [ordered] * len(shards))
    counts = runner.result(runner.reduce(RankCounts.total, runner.map(RankCounts.of, rank)))
    units = min(count_units(runner, scored.codes, parts.pairs, scored.keys), max(1, parts.pairs // scored.length))
    decision = decide(scored.null._replace(scores=null), counts, units, seed)
    probability = decision.curve.at(p_at(counts.rank, null, decision.kept))
    flagged = last_flagged(counts.counts, probability, fdr)
    listed_ranks = np.flatnonzero(np.cumsum(counts.counts) <= MAX_ROWS)
    rule = Rule(
        size=len(null),
        p=None if decision.kept.all() else p_at(np.arange(2 * len(null) + 1), null, decision.kept),
        curve=decision.curve,
        weight_curve=decision.curve if decision.verdict is Verdict.FOUND else decision.weight_curve,
        last_flagged=int(counts.rank[flagged - 1]) if flagged else -1,
        last_listed=int(counts.rank[listed_ranks[-1]]) if len(listed_ranks) else -1,
    )
    flags = runner.map(partial(np.greater_equal, rule.last_flagged), rank)
    issues = {**scored.issues, **late_issues(runner, scored, flags, checks or (), fit, seed)}
    with nullcontext() if out is None else results_folder(out) as folder:
        table = None if folder is None else joined_path(folder, TABLE)
        id_type = None if out is None else common_type(runner.gather(runner.map(Shard.id_type, shards)))
        columns = (shards, range(len(shards)), parts.offset, scores, rank, parts.dropped)
        write = partial(write_shard, folder=table, id_type=id_type)
        handle = runner.submit(_identity, rule)
        done = runner.gather(runner.map(write, *columns, [handle] * len(shards), label="writing"), "writing")
        result = ShardedAudit(
            **findings_of(decision, null, parts.pairs, units, fit, scored.name),
            pairs=parts.pairs,
            shards=len(shards),
            fdr=fdr,
            flagged=sum(part.flagged for part in done),
            dropped=sum(shard.rows for shard in shards) - parts.pairs,
            table=None if out is None else joined_path(out, TABLE),
            counts=counts,
            rank_probability=probability,
            fingerprint=_with_items(runner, scored.fingerprint, shards, parts),
            conditions=(*conditions, *sampled(checks or (), fit)),
            settings=scored.settings,
            issues=issues,
        )
        result = dataclasses.replace(result, remarks=(*result.remarks, *remarks))
        tallies = [part.tally for part in done if part.tally is not None]
        if tallies:
            result = dataclasses.replace(result, groups=rates_of(added_up(tallies), result))
        if folder is not None:
            check_parts(folder, len(shards))
            listed = Listed.joined([part.listed for part in done])
            details = _details_of_pairs(runner, shards, parts.offset, listed)
            page = sharded_page(
                result, title, listed, details, score_histogram(runner, scores, result.pairs, null), null
            )
            names = shards[0].column("a"), shards[0].column("b")
            others = {name: column for (kind, name), column in details.items() if kind == "column"}
            suspects = suspects_csv(listed, names, [details.get(("text", side)) for side in "ab"], others)
            write_summary(folder, TABLE, {**result.record(), **(facts or {})}, page, suspects)
    return result


def _with_items(runner: Runner, fingerprint: Fingerprint, shards: Sequence[Shard], parts: Parts) -> Fingerprint:
    """The fingerprint, of the items instead of the numbers where a side was encoded."""
    prints = runner.gather(runner.map(_item_prints, shards, parts.start, parts.dropped))
    sides = []
    for side, numbers in enumerate((fingerprint.a, fingerprint.b)):
        side_prints = [item[side] for item in prints if item[side] is not None]
        sides.append(
            side_prints[0]._replace(sums=added_sums(item.sums for item in side_prints)) if side_prints else numbers
        )
    return fingerprint._replace(a=sides[0], b=sides[1])


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


# --- one shard --------------------------------------------------------------------------------------------------------


class Rule(NamedTuple):
    """The part of the decision that applies to single pairs.

    Attributes:
        size: Number of mismatched pairs.
        p: The p-value of every rank; None if it follows from the rank alone.
        curve: Probability to be unrelated.
        weight_curve: The probability that training weights follow.
        last_flagged: Last rank whose pairs are flagged; -1 for none.
        last_listed: Last rank whose pairs the page lists.
    """

    size: int
    p: NDArray[np.float32] | None
    curve: Curve
    weight_curve: Curve
    last_flagged: int
    last_listed: int


class Written(NamedTuple):
    """Small results of a written shard."""

    flagged: int
    listed: Listed
    tally: Tally | None


def write_shard(
    shard: Shard,
    number: int,
    offset: int,
    scores: NDArray[np.float32],
    rank: NDArray[np.int32],
    dropped: NDArray[np.int64] | None,
    rule: Rule,
    folder: str | None,
    id_type: Any,
) -> Written:
    """Apply the decision to the pairs of a shard, and write its part of the table.

    Args:
        shard: The whole shard.
        number: Its number.
        offset: Number of its first row.
        scores, rank: Those of the usable pairs.
        dropped: Rows that were left out.
        rule: The decision.
        folder: Folder or fsspec URL of the table; None to write nothing.
        id_type: Arrow type of the ids; None if row numbers are the ids.
    """
    p = p_of_ranks(rank, rule.size) if rule.p is None else rule.p[rank]
    p_wrong, weights = rule.curve.at(p), 1 - rule.weight_curve.at(p)
    flags, listed = rank <= rule.last_flagged, rank <= rule.last_listed
    if dropped is not None and len(dropped):
        usable = np.delete(np.arange(shard.rows), dropped)
        p, p_wrong, scores = (_spread(values, usable, shard.rows, np.nan) for values in (p, p_wrong, scores))
        weights = _spread(weights, usable, shard.rows, 0)
        flags, listed = (_spread(values, usable, shard.rows, False) for values in (flags, listed))
    ids, groups = shard.ids(), shard.groups()
    names = None if ids is None else one_per_pair(ids, shard.rows, "ids")
    grouped = None if groups is None else group_texts(one_per_pair(groups, shard.rows, "groups"))
    if folder is not None:  # the same file again if the shard is repeated
        column = np.arange(offset, offset + shard.rows) if names is None else names
        with opened_whole(folder, part_name(number)) as file:
            write_parquet(file, column, scores, p_wrong, flags, weights, id_type)
    rows = np.flatnonzero(listed)
    listed_pairs = Listed(
        rows + offset,
        [str(offset + row) if names is None else pair_name(names[row], offset + row) for row in rows.tolist()],
        scores[rows],
        p_wrong[rows],
        flags[rows],
        [] if grouped is None else [grouped[row] for row in rows.tolist()],
        [],
    )
    return Written(int(flags.sum()), listed_pairs, None if grouped is None else tallied(grouped, p, p_wrong, flags))


def _spread(values: NDArray[Any], rows: NDArray[np.int64], count: int, fill: Any) -> NDArray[Any]:
    out = np.full(count, fill, dtype=values.dtype)
    out[rows] = values
    return out


def part_name(number: int) -> str:
    """The file of a shard; names sort like the shards."""
    return f"part-{number:06d}.parquet"


def common_type(types: list[Any]) -> Any:
    """One type for the ids of all shards: theirs, or text where they differ."""
    arrow = require("pyarrow", "cluster")
    declared = [id_type for id_type in types if id_type is not None]
    distinct = {id_type for id_type in declared if not arrow.types.is_null(id_type)}
    return None if not declared else distinct.pop() if len(distinct) == 1 else arrow.string()


def check_parts(folder: str, count: int) -> None:
    """Refuse a table that workers wrote to another machine's disk."""
    names = () if is_url(folder) else (part_name(number) for number in range(count))
    if missing := next((name for name in names if not (Path(folder) / TABLE / name).is_file()), None):
        raise FileError(f"the workers did not write {missing} to {folder}: choose a folder that they all reach (--out)")


# --- page and suspects ------------------------------------------------------------------------------------------------

Details = dict[tuple[str, str], list[Any]]
"""Items of some rows, by ``("shown", "a")``, ``("text", "a")``, the same of B, and ``("column", NAME)``."""


def _details_of_pairs(runner: Runner, shards: Sequence[Shard], offset: Sequence[int], listed: Listed) -> Details:
    """Details of the listed pairs from their shards."""
    shard_of = np.searchsorted(offset, listed.row, side="right") - 1
    indices = [np.flatnonzero(shard_of == k) for k in range(len(shards))]
    used = [k for k in range(len(shards)) if len(indices[k])]
    rows = [(listed.row[indices[k]] - offset[k]).tolist() for k in used]
    media = [int((indices[k] < MAX_MEDIA).sum()) for k in used]
    function = partial(_details, total=len(listed.row))
    details: Details = {}
    for k, part in zip(used, runner.gather(runner.map(function, [shards[k] for k in used], rows, media)), strict=True):
        for name, items in part.items():
            column = details.setdefault(name, [None] * len(listed.row))
            for index, item in zip(indices[k].tolist(), items, strict=True):
                column[index] = item
    return details


def _details(shard: Shard, rows: list[int], media: int, total: int) -> Details:
    """Items of either side of some rows, their texts or file names, and further columns.

    Args:
        shard: The shard.
        rows: Its rows.
        media: How many of them, the first ones, are shown with pictures, sounds and videos.
        total: Number of rows of the page.
    """
    details: Details = {}
    if isinstance(shard, FileShard):
        others = other_columns(shard.raw.get("a", shard.a), shard.raw.get("b", shard.b), np.array(rows))
        details = {("column", name): column for name, column in others.items()}
    for side in "ab":
        gallery = shard.gallery(side)
        if isinstance(gallery, Files | Contents):
            gallery.budget = gallery.budget * media // MAX_MEDIA  # of all shards together
        if gallery is not None:
            details["shown", side] = shown_items(gallery, rows, total, media)
            details["text", side] = [gallery.brief(row) or "" for row in rows]
    return details


def sharded_page(
    result: ShardedAudit,
    title: str,
    listed: Listed,
    details: Details,
    histogram: dict[str, Any],
    null: NDArray[np.float32],
) -> str:
    """The whole page as HTML; the slider stops after whole ranks, one of which is where the table stops."""
    key = f"{result.pairs} {title} {listed.score.sum()} {listed.id[:100]}".encode("utf-8", "replace")
    end = last_flagged(result.counts.counts, result.rank_probability, 0.5)
    counts = np.cumsum(result.counts.counts[:end])
    right = result.counts.counts[:end] * (1 - result.rank_probability[:end].astype(np.float64))
    scores = np.sort(null)[np.minimum(result.counts.rank[:end] // 2, len(null) - 1)]
    shows = details.get(("shown", "a")), details.get(("shown", "b"))
    return audit_page(
        {
            **page_data(result, title, result.fdr, listed, shows, result.groups, str),
            **slider(counts, np.cumsum(right) / counts, scores, result.flagged),
            "key": hashlib.blake2b(key, digest_size=12).hexdigest(),
            "histogram": histogram,
        }
    )


def score_histogram(runner: Runner, scores: list[Any], pairs: int, null: NDArray[np.float32]) -> dict[str, Any]:
    """The histogram of the scores of all pairs, beside that of mismatched ones."""
    step = max(1, pairs // MAX_HISTOGRAM_SCORES)
    sample = np.concatenate(runner.gather(runner.map(partial(strided, step=step), scores)))
    span = extent([sample, null])
    counts = np.sum(runner.gather(runner.map(partial(bin_counts, span=span), scores)), axis=0)
    return chart(span, {"pairs": counts / max(1, pairs), "mismatched pairs": bin_counts(null, span) / len(null)})


def strided(scores: NDArray[np.float32], step: int) -> NDArray[np.float32]:
    return scores[::step].copy()
