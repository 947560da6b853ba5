"""Results of an audit of shards: one file of the table per shard, the summary and the page."""

import hashlib
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince._support.atomic_files import atomic_results, written_whole
from rince._support.csv_cells import number_texts
from rince._support.optional_imports import require
from rince.audit.estimate import Curve, last_flagged
from rince.audit.output.groups import Tally, group_texts, tallied
from rince.audit.output.suspects import other_columns, write_list
from rince.audit.output.table import NAMES, RECORD, RESULTS, pair_name, table_record
from rince.audit.rate import p_of_ranks
from rince.audit.result import ShardedAudit, sharded_record
from rince.audit.save import check_folder, group_record
from rince.audit.shards.runner import Runner
from rince.errors import FileError, UsageError
from rince.pairs.files import exists, file_system, is_url
from rince.pairs.matrix import one_dimensional
from rince.pairs.shards import FileShard, Shard
from rince.report.gallery import Contents, Files
from rince.report.page import MAX_MEDIA, audit_page, extent, findings_data, group_data, histogram, shown_items

TABLE = "audit.parquet"
BINS = 60
LOOKED_AT = 100_000  # scores that set the ends of the histogram
STOPS = 200


class Rule(NamedTuple):
    """What was decided, as far as single pairs are concerned.

    Attributes:
        size: Number of mismatched pairs.
        p: The p-value of every rank; None if it follows from the rank alone.
        curve: Probability to be unrelated.
        weight_curve: The probability that training weights follow.
        last_flagged: Last rank whose pairs are flagged; -1 for none.
        last_listed: Last rank whose pairs the page lists.
        id_type: Arrow type of the ids; None if row numbers are the ids.
        folder: Where the table goes, also an fsspec URL; None for nowhere.
    """

    size: int
    p: NDArray[np.float32] | None
    curve: Curve
    weight_curve: Curve
    last_flagged: int
    last_listed: int
    id_type: Any
    folder: str | None


class Listed(NamedTuple):
    """Pairs that the page lists: rows, names, scores, probabilities, flags and groups."""

    row: NDArray[np.int64]
    id: list[str]
    score: NDArray[np.float32]
    p_wrong: NDArray[np.float32]
    flagged: NDArray[np.bool_]
    group: list[str]


class Written(NamedTuple):
    """What is left to know of a shard, all of it small."""

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
) -> Written:
    """Apply the decision to the pairs of a shard, and write its part of the table.

    Args:
        shard: The whole shard.
        number: Its number.
        offset: Number of its first row.
        scores, rank: Those of the usable pairs.
        dropped: Rows that were left out.
        rule: What was decided.
    """
    p = p_of_ranks(rank, rule.size) if rule.p is None else rule.p[rank]
    p_wrong, weights = rule.curve.at(p), 1 - rule.weight_curve.at(p)
    flags, on_page = rank <= rule.last_flagged, rank <= rule.last_listed
    if dropped is not None and len(dropped):
        used = np.delete(np.arange(shard.rows), dropped)
        p, p_wrong, scores = (_spread(values, used, shard.rows, np.nan) for values in (p, p_wrong, scores))
        weights = _spread(weights, used, shard.rows, 0)
        flags, on_page = (_spread(values, used, shard.rows, False) for values in (flags, on_page))
    ids, groups = shard.ids(), shard.groups()
    names = None if ids is None else _one_per_pair(ids, shard, "ids")
    grouped = None if groups is None else group_texts(_one_per_pair(groups, shard, "groups"))
    if rule.folder is not None:
        _write_table(rule.folder, number, offset, names, rule.id_type, scores, p_wrong, flags, weights)
    rows = np.flatnonzero(on_page)
    listed = Listed(
        rows + offset,
        [str(offset + row) if names is None else pair_name(names[row], offset + row) for row in rows.tolist()],
        scores[rows],
        p_wrong[rows],
        flags[rows],
        [] if grouped is None else [grouped[row] for row in rows.tolist()],
    )
    return Written(int(flags.sum()), listed, None if grouped is None else tallied(grouped, p, p_wrong, flags))


def _spread(values: NDArray[Any], rows: NDArray[np.int64], count: int, rest: Any) -> NDArray[Any]:
    out = np.full(count, rest, dtype=values.dtype)
    out[rows] = values
    return out


def _one_per_pair(values: Any, shard: Shard, what: str) -> NDArray[Any]:
    found = one_dimensional(values)
    if found.shape != (shard.rows,):
        raise UsageError(f"{what} must have one value per pair: expected ({shard.rows},), got {found.shape}")
    return found


def part_name(number: int) -> str:
    """The file of a shard; names sort like the shards."""
    return f"part-{number:06d}.parquet"


def _write_table(
    folder: str,
    number: int,
    offset: int,
    names: NDArray[Any] | None,
    id_type: Any,
    scores: NDArray[np.float32],
    p_wrong: NDArray[np.float32],
    flags: NDArray[np.bool_],
    weights: NDArray[np.float32],
) -> None:
    """One file of the table: the same again if a shard is repeated, and whole or not there."""
    arrow, parquet = require("pyarrow", "cluster"), require("pyarrow.parquet", "cluster")
    ids = arrow.array(np.arange(offset, offset + len(scores))) if names is None else _typed_ids(arrow, names, id_type)
    numbers = [arrow.array(values, from_pandas=True) for values in (scores, p_wrong)]
    table = arrow.table(dict(zip(NAMES, (ids, *numbers, flags, weights), strict=True)))
    with opened_whole(folder, part_name(number)) as file:
        parquet.write_table(table, file)


def _typed_ids(arrow: Any, names: NDArray[Any], id_type: Any) -> Any:
    if arrow.types.is_string(id_type):
        return arrow.array([None if name is None else str(name) for name in names.tolist()], type=id_type)
    return arrow.array(names, type=id_type)


def common_type(types: list[Any]) -> Any:
    """One type for the ids of all shards: theirs, or text where they differ."""
    known = [one for one in types if one is not None]
    if not known:
        return None
    arrow = require("pyarrow", "cluster")
    there = {one for one in known if not arrow.types.is_null(one)}
    return there.pop() if len(there) == 1 else arrow.string()


@contextmanager
def opened_whole(folder: str, name: str) -> Iterator[Any]:
    """A file to write to that is there when the block ends without an error."""
    if "://" not in folder:
        with written_whole(Path(folder) / name) as path, open(path, "wb") as file:
            yield file
        return
    # An object store shows what was written when it is closed, and a failed upload not at all.
    with require("fsspec", "cluster").open(f"{folder.rstrip('/')}/{name}", "wb") as file:
        yield file


def joined_path(folder: str | os.PathLike[str], name: str) -> str:
    """A path below a folder, which may be an address."""
    text = os.fspath(folder)
    return f"{text.rstrip('/')}/{name}" if "://" in text else str(Path(text) / name)


# --- the folder of results --------------------------------------------------------------------------------------------


def check_out(out: str | os.PathLike[str], force: bool) -> None:
    """Refuse before the work, not after it. What an address holds is the store's business."""
    if is_url(out):
        return
    check_folder(out, "parquet", force)


@contextmanager
def results_folder(out: str | os.PathLike[str] | None) -> Iterator[str | None]:
    """Where the results are written to, which appear in ``out`` together when the block ends without an error.

    Nothing can be renamed in an object store: there, earlier results are removed first, and ``audit.json``, without
    which readers accept no audit, must be written last.
    """
    if out is None:
        yield None
    elif is_url(out):
        for name in (RECORD, *RESULTS):
            if exists(path := Path(joined_path(out, name))):
                files, place = file_system(path)
                files.rm(place, recursive=True)
        yield os.fspath(out)
    else:
        with atomic_results(out, RESULTS) as folder:
            yield str(folder)


def check_parts(place: str | None, count: int) -> None:
    """Refuse a table that workers wrote to another machine's disk."""
    if place is None or is_url(place):
        return
    names = (part_name(number) for number in range(count))
    if missing := next((name for name in names if not (Path(place) / TABLE / name).is_file()), None):
        raise FileError(f"the workers wrote no {missing} to {place}: name a folder that all of them reach (--out)")


# --- the page ---------------------------------------------------------------------------------------------------------


def in_order(listed: list[Listed]) -> Listed:
    """The listed pairs of all shards, the most suspicious first."""
    score, row, chance, flagged = (np.concatenate([part[k] for part in listed]) for k in (2, 0, 3, 4))
    ids = [name for part in listed for name in part.id]
    groups = [name for part in listed for name in part.group]
    order = np.lexsort([row, score])
    return Listed(
        row[order],
        [ids[k] for k in order],
        score[order],
        chance[order],
        flagged[order],
        [groups[k] for k in order] if groups else [],
    )


def shown_pairs(
    runner: Runner, shards: Sequence[Shard], offset: Sequence[int], listed: Listed
) -> tuple[list[Any] | None, list[Any] | None]:
    """What the page shows of A and B of the most suspicious pairs; None for nothing."""
    found = _of_rows(runner, _shown, shards, offset, listed.row, MAX_MEDIA)
    return found.get(("side", "a")), found.get(("side", "b"))


Details = dict[tuple[str, str], list[Any]]
"""Items of some rows, by ``("side", "a")``, ``("side", "b")`` or ``("column", NAME)``."""


def _of_rows(
    runner: Runner,
    function: Callable[[Shard, list[int]], Details],
    shards: Sequence[Shard],
    offset: Sequence[int],
    wanted: NDArray[np.int64],
    most: int,
) -> Details:
    """Details of the first of these rows, read from their shards; None for the other rows."""
    rows = wanted[:most]
    shard_of = np.searchsorted(offset, rows, side="right") - 1
    used = np.unique(shard_of).tolist()
    own = [(rows[shard_of == k] - offset[k]).tolist() for k in used]
    found: Details = {}
    for k, part in zip(used, runner.gather(runner.map(function, [shards[k] for k in used], own)), strict=True):
        places = np.flatnonzero(shard_of == k).tolist()
        for name, items in part.items():
            column = found.setdefault(name, [None] * len(wanted))
            for place, item in zip(places, items, strict=False):
                column[place] = item
    return found


def _shown(shard: Shard, rows: list[int]) -> Details:
    found: Details = {}
    for side in "ab":
        gallery = shard.gallery(side)
        if isinstance(gallery, Files | Contents):
            gallery.budget = gallery.budget * len(rows) // MAX_MEDIA  # of all shards together
        if gallery is not None:
            found["side", side] = shown_items(gallery, rows)
    return found


def write_suspects(folder: str, runner: Runner, shards: Sequence[Shard], offset: Sequence[int], listed: Listed) -> None:
    """Write ``suspects.csv``: the pairs that the page lists, with what their table says."""
    found = _of_rows(runner, _said, shards, offset, listed.row, len(listed.row))
    texts = [found.get(("side", side)) for side in "ab"]
    others = {name: column for (kind, name), column in found.items() if kind == "column"}
    issues = ["unrelated" if flagged else "" for flagged in listed.flagged]
    numbers = number_texts(listed.score), number_texts(listed.p_wrong), listed.flagged.astype(int).tolist()
    text = io.StringIO(newline="")
    cells = zip(listed.row.tolist(), listed.id, *numbers, issues, strict=True)
    write_list(text, cells, (shards[0].column("a"), shards[0].column("b")), texts, others)
    with opened_whole(folder, "suspects.csv") as file:
        file.write(text.getvalue().encode("utf-8", "replace"))


def _said(shard: Shard, rows: list[int]) -> Details:
    """The text or file name of either side, and what further columns say."""
    found: Details = {}
    if isinstance(shard, FileShard):
        others = other_columns(shard.raw.get("a", shard.a), shard.raw.get("b", shard.b), np.array(rows))
        found = {("column", name): column for name, column in others.items()}
    for side in "ab":
        if (gallery := shard.gallery(side)) is not None:
            found["side", side] = [gallery.brief(row) or "" for row in rows]
    return found


def sharded_page(
    result: ShardedAudit,
    title: str,
    listed: Listed,
    shows: tuple[list[Any] | None, list[Any] | None],
    chart: dict[str, Any],
    null: NDArray[np.float32],
) -> str:
    """The whole page as HTML.

    Args:
        result: The audit.
        title: The heading.
        listed: The most suspicious pairs, in order.
        shows: What is shown of A and B of these pairs; None for nothing.
        chart: The histogram of scores, see ``score_histogram``.
        null: The scores of mismatched pairs, for the slider.
    """
    stops, start = _stops(result, np.sort(null))
    about = f"{result.pairs} {title} {listed.score.sum()} {listed.id[:100]}".encode("utf-8", "replace")
    data = {
        **findings_data(result, title, result.fdr),
        "key": hashlib.blake2b(about, digest_size=12).hexdigest(),
        "histogram": chart,
        "stops": stops,
        "start": start,
        "rows": {
            "row": listed.row.tolist(),
            "id": listed.id,
            "score": np.round(listed.score.astype(np.float64), 4).tolist(),
            "p": np.round(listed.p_wrong.astype(np.float64), 3).tolist(),
            "a": shows[0] or [None] * len(listed.row),
            "b": shows[1] or [None] * len(listed.row),
            "wrong": [],
        },
        "shows": {"a": shows[0] is not None, "b": shows[1] is not None},
        "cut": result.pairs - len(listed.row),
        "truth": False,
        "marks": {},
        **group_data(result.groups, listed.group),
    }
    return audit_page(data)


def _stops(result: ShardedAudit, ordered: NDArray[np.float32]) -> tuple[list[dict[str, Any]], int]:
    """Where the slider can stop: after whole ranks, one of which is where the table stops; and which of them."""
    nothing: dict[str, Any] = {"count": 0, "alarms": 0.0, "score": None}
    end = last_flagged(result.counts.counts, result.rank_probability, 0.5)
    if not end:
        return [nothing], 0
    rank, counts = result.counts.rank[:end], np.cumsum(result.counts.counts[:end])
    right = result.counts.counts[:end] * (1 - result.rank_probability[:end].astype(np.float64))
    alarms = np.cumsum(right) / counts
    chosen = np.searchsorted(counts, np.linspace(1, counts[-1], STOPS)).clip(max=len(counts) - 1)
    start = np.searchsorted(counts, result.flagged) if result.flagged else None
    chosen = np.unique(chosen if start is None else [*chosen, start])
    value = ordered[np.minimum(rank[chosen] // 2, len(ordered) - 1)]
    stops = [nothing] + [
        {"count": int(count), "alarms": float(share), "score": float(score)}
        for count, share, score in zip(counts[chosen], alarms[chosen], value, strict=True)
    ]
    return stops, 0 if start is None else 1 + int(np.searchsorted(chosen, start))


def score_histogram(runner: Runner, scores: list[Any], pairs: int, null: NDArray[np.float32]) -> dict[str, Any]:
    """The histogram of the scores of all pairs, beside that of mismatched ones."""
    step = max(1, pairs // LOOKED_AT)
    some = np.concatenate(runner.gather(runner.map(partial(every, step=step), scores)))
    span = extent([some, null])
    parts = runner.gather(runner.map(partial(bin_counts, span=span), scores))
    chart = histogram({"pairs": some, "mismatched pairs": null}, BINS, span)
    chart["shares"][0] = [round(float(share), 6) for share in sum(parts) / max(1, pairs)]
    return chart


def every(scores: NDArray[np.float32], step: int) -> NDArray[np.float32]:
    return scores[::step].copy()


def bin_counts(scores: NDArray[np.float32], span: tuple[float, float]) -> NDArray[np.int64]:
    low, high = span if span[1] > span[0] else (span[0] - 0.5, span[1] + 0.5)
    edges = np.linspace(low, high, BINS + 1)
    counts = np.zeros(BINS, dtype=np.int64)
    for start in range(0, len(scores), 1 << 20):
        counts += np.histogram(np.clip(scores[start : start + (1 << 20)], low, high), edges)[0]
    return counts


def write_summary(result: ShardedAudit, folder: str, html: str, facts: Mapping[str, Any]) -> None:
    """Write ``audit.html`` and ``audit.json`` with these further entries, the record last."""
    record = {**sharded_record(result), **facts, **group_record(result.groups)}
    record |= table_record(Path(joined_path(folder, TABLE)))
    for name, text in (("audit.html", html), (RECORD, json.dumps(record, indent=2) + "\n")):
        with opened_whole(folder, name) as file:
            file.write(text.encode("utf-8"))
