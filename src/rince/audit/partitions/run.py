"""The audit of partitions: here, or on a cluster; the pairs stay where they are."""

import dataclasses
import json
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rince.audit.estimate.decide import p_at
from rince.audit.estimate.probability import at_p_values
from rince.audit.findings import decided
from rince.audit.output.groups import added_up, rates_of
from rince.audit.partitions.finish import Finished, Rule, common_type, finish, id_type_of, joined_path, opened_whole
from rince.audit.partitions.flags import cut_of, list_end
from rince.audit.partitions.out_folder import TABLE, check_out, written_table
from rince.audit.partitions.page import partitioned_page, score_histogram
from rince.audit.partitions.partition import Partition
from rince.audit.partitions.pipeline import Judged, judged_parts
from rince.audit.partitions.result import PartitionedAudit, partitioned_record
from rince.audit.partitions.runner import Here, Runner
from rince.audit.run import scorer_of
from rince.audit.save import group_record
from rince.errors import UsageError
from rince.report.audit_page import MOST_ROWS

if TYPE_CHECKING:
    from rince.audit.fit.towers import Recipe


def audit_partitions(
    partitions: Sequence[Partition],
    *,
    client: Any = None,
    out: str | os.PathLike[str] | None = None,
    fit: bool = False,
    fdr: float = 0.1,
    seed: int = 0,
    recipe: "Recipe | None" = None,
    drop_bad: bool = False,
    title: str = "Audit of pairs",
    force: bool = False,
    progress: bool | None = None,
) -> PartitionedAudit:
    """Find the wrong pairs of data that is too large for one place.

    It is the audit that ``audit`` does, partition by partition: the same verdict and the same flags. A worker that is
    lost costs the partitions it had; nothing that is as long as the data comes to this process.

    Args:
        partitions: The pairs: ``table_partitions("data/*.parquet:image", "data/*.parquet:text")``, or a list of
            :class:`Partition` of your own.
        client: A ``dask.distributed.Client``; without one, partitions are read one after the other in this process.
        out: A folder for ``audit.parquet`` (a folder with one file per partition: id, score, p_wrong, flagged),
            ``audit.json`` and ``audit.html``; every worker must reach it. An address of fsspec, such as
            ``s3://bucket/audit``, is fine. None writes nothing.
        fit: Take any two feature matrices, and train small towers on a sample of them.
        fdr: The share of false alarms to expect among the flagged pairs.
        seed: The same seed gives the same audit, however the pairs are divided.
        recipe: How towers are fitted.
        drop_bad: Leave out pairs with NaN, infinite or missing values; they stay in the table without a score.
        title: Heading of the page.
        force: Overwrite earlier results.
        progress: Show a bar; by default on a terminal.

    Returns:
        What was found.

    Raises:
        UsageError: Partitions do not fit together, or hold rows that cannot be used.
        FileExistsError: There are results already, and ``force`` is not set.

    Example:
        >>> random = np.random.default_rng(0)
        >>> a = random.normal(size=(500, 16))
        >>> np.save("a.npy", a)
        >>> np.save("b.npy", a + 0.3 * random.normal(size=a.shape))
        >>> parts = rince.audit.array_partitions("a.npy", "b.npy", rows=200)
        >>> found = rince.audit.audit_partitions(parts)  # or client=dask.distributed.Client("tcp://scheduler:8786")
        >>> found.verdict, found.partitions
        ('none found', 3)
    """
    if not 0 < fdr < 1:
        raise UsageError(f"fdr must lie in (0, 1), got {fdr}")
    if not len(partitions):
        raise UsageError("an audit needs at least one partition, got none")
    if out is not None:
        check_out(out, force)
    runner = _runner(client, progress)
    score, scorer = scorer_of(fit, recipe, progress)
    judged = judged_parts(runner, partitions, score, fit=fit, seed=seed, drop_bad=drop_bad)
    return _finished(runner, partitions, judged, out, fit, scorer, fdr, title)


def _runner(client: Any, progress: bool | None) -> Runner:
    if client is None:
        return Here()
    from rince.audit.cluster.dask_runner import DaskRunner

    return DaskRunner(client, progress)


def _finished(
    runner: Runner,
    parts: Sequence[Partition],
    judged: Judged,
    out: str | os.PathLike[str] | None,
    fit: bool,
    scorer: str,
    fdr: float,
    title: str,
) -> PartitionedAudit:
    decision, null, scores = judged.decision, judged.scored.null, judged.scored.scores
    p = p_at(judged.counts.place, null.scores, decision.kept)
    place_chance = at_p_values(p, decision.cautious)
    end = list_end(judged.counts, place_chance, fdr) if decision.found else None
    cut, ties = (None, [0] * len(parts)) if end is None else cut_of(runner, end, scores, judged.places)
    thinned = None if decision.kept.all() else _all_p(judged)
    kind = None if out is None else common_type(runner.values(runner.each(id_type_of, parts)))
    with written_table(out, len(parts)) as place:
        rule = Rule(len(null.scores), thinned, decision.chance, decision.cautious, cut, _listed(judged), kind, place)
        handles = runner.each(
            finish,
            parts,
            range(len(parts)),
            judged.of.offset,
            scores,
            judged.places,
            judged.dropped or [None] * len(parts),
            [runner.one(as_it_is, rule)] * len(parts),
            ties,
        )
        done: list[Finished] = runner.values(handles, "writing")
    result = PartitionedAudit(
        **decided(decision, null.scores, judged.of.pairs, fit, scorer),
        pairs=judged.of.pairs,
        partitions=len(parts),
        fdr=fdr,
        flagged=sum(one.flagged for one in done),
        dropped=sum(judged.dropped_count),
        table=None if out is None else joined_path(out, TABLE),
        counts=judged.counts,
        place_chance=place_chance,
        fingerprint=judged.scored.fingerprint,
    )
    tallies = [one.tally for one in done if one.tally is not None]
    if tallies:
        result = dataclasses.replace(result, groups=rates_of(added_up(tallies), result))
    if out is not None:
        chart = score_histogram(runner, scores, result.pairs, result.null)
        _write(
            result, os.fspath(out), partitioned_page(result, title, [one.listed for one in done], chart, null.scores)
        )
    return result


def _all_p(judged: Judged) -> Any:
    null = judged.scored.null.scores
    return p_at(np.arange(2 * len(null) + 1), null, judged.decision.kept)


def _listed(judged: Judged) -> int:
    """The last place whose pairs, and all before, have room in the page."""
    room = np.flatnonzero(np.cumsum(judged.counts.many) <= MOST_ROWS)
    return int(judged.counts.place[room[-1]]) if len(room) else -1


def as_it_is(value: Any) -> Any:
    return value


def _write(result: PartitionedAudit, out: str, page: str) -> None:
    record = {**partitioned_record(result), **group_record(result.groups)}
    for name, text in (("audit.json", json.dumps(record, indent=2) + "\n"), ("audit.html", page)):
        with opened_whole(out, name) as file:
            file.write(text.encode("utf-8"))
