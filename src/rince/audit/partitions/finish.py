"""The last look at a partition: what the verdict says about its pairs, written beside their ids."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince._support.atomic_files import written_whole
from rince._support.optional_imports import require
from rince.audit.columns import one_dimensional
from rince.audit.estimate.places import p_of_places
from rince.audit.estimate.probability import at_p_values
from rince.audit.output.groups import Tally, group_texts, tallied
from rince.audit.output.table import NAMES, pair_name
from rince.audit.partitions.flags import Cut, flagged
from rince.audit.partitions.partition import Partition
from rince.errors import UsageError


class Rule(NamedTuple):
    """What was decided, as far as single pairs are concerned.

    Attributes:
        size: How many mismatched pairs there are.
        p: The p-value of every place; None where it follows from the place alone.
        chance, cautious: See ``estimate.decide.Decision``.
        cut: Which pairs are flagged; None for none.
        listed: The last place whose pairs the page lists.
        id_type: The Arrow type of the ids; None if numbers of pairs are their names.
        folder: Where the table goes, also an address that fsspec knows; None for nowhere.
    """

    size: int
    p: NDArray[np.float32] | None
    chance: NDArray[np.float64]
    cautious: NDArray[np.float64]
    cut: Cut | None
    listed: int
    id_type: Any
    folder: str | None


class Listed(NamedTuple):
    """Pairs that the page lists: their numbers, names, scores, probabilities to be wrong, and groups."""

    row: NDArray[np.int64]
    id: list[str]
    score: NDArray[np.float32]
    p_wrong: NDArray[np.float32]
    group: list[str]


class Finished(NamedTuple):
    """What is left to know of a partition, all of it small."""

    flagged: int
    listed: Listed
    tally: Tally | None


def finish(
    part: Partition,
    number: int,
    offset: int,
    scores: NDArray[np.float32],
    place: NDArray[np.int32],
    dropped: NDArray[np.int64] | None,
    rule: Rule,
    ties: int,
) -> Finished:
    """Judge the pairs of a partition one by one, and write its part of the table.

    Args:
        part: The whole partition.
        number: Its number.
        offset: The number of its first pair.
        scores, place: Those of the pairs that were used.
        dropped: The pairs that were not.
        rule: What was decided.
        ties: How many pairs of the score to cut at are flagged.
    """
    p = p_of_places(place, rule.size) if rule.p is None else rule.p[place]
    chance = at_p_values(p, rule.chance)
    flags = flagged(scores, at_p_values(p, rule.cautious), rule.cut, ties)
    on_page = place <= rule.listed
    if dropped is not None and len(dropped):
        used = np.delete(np.arange(part.rows), dropped)
        p, chance, scores = (_spread(values, used, part.rows, np.nan) for values in (p, chance, scores))
        flags, on_page = (_spread(values, used, part.rows, False) for values in (flags, on_page))
    ids, groups = part.ids(), part.groups()
    names = None if ids is None else _one_per_pair(ids, part, "ids")
    grouped = None if groups is None else group_texts(_one_per_pair(groups, part, "groups"))
    if rule.folder is not None:
        write(rule.folder, number, offset, names, rule.id_type, scores, chance, flags)
    rows = np.flatnonzero(on_page)
    listed = Listed(
        rows + offset,
        [str(offset + row) if names is None else pair_name(names[row], offset + row) for row in rows.tolist()],
        scores[rows],
        chance[rows],
        [] if grouped is None else [grouped[row] for row in rows.tolist()],
    )
    return Finished(int(flags.sum()), listed, None if grouped is None else tallied(grouped, p, chance, flags))


def _spread(values: NDArray[Any], rows: NDArray[np.int64], count: int, rest: Any) -> NDArray[Any]:
    out = np.full(count, rest, dtype=values.dtype)
    out[rows] = values
    return out


def _one_per_pair(values: Any, part: Partition, what: str) -> NDArray[Any]:
    found = one_dimensional(values)
    if found.shape != (part.rows,):
        raise UsageError(f"{what} must have one value per pair: expected ({part.rows},), got {found.shape}")
    return found


def part_name(number: int) -> str:
    """The file of a partition; names sort like the partitions."""
    return f"part-{number:06d}.parquet"


def write(
    folder: str,
    number: int,
    offset: int,
    names: NDArray[Any] | None,
    id_type: Any,
    scores: NDArray[np.float32],
    chance: NDArray[np.float32],
    flags: NDArray[np.bool_],
) -> None:
    """One file of the table: the same again if a partition is repeated, and whole or not there."""
    arrow, parquet = require("pyarrow", "cluster"), require("pyarrow.parquet", "cluster")
    ids = arrow.array(np.arange(offset, offset + len(scores))) if names is None else _id_column(arrow, names, id_type)
    numbers = [arrow.array(values, from_pandas=True) for values in (scores, chance)]
    table = arrow.table(dict(zip(NAMES, (ids, *numbers, flags), strict=True)))
    with opened_whole(folder, part_name(number)) as file:
        parquet.write_table(table, file)


def _id_column(arrow: Any, names: NDArray[Any], id_type: Any) -> Any:
    if arrow.types.is_string(id_type):
        return arrow.array([None if name is None else str(name) for name in names.tolist()], type=id_type)
    return arrow.array(names, type=id_type)


def id_type_of(part: Partition) -> Any:
    return part.id_type()


def common_type(types: list[Any]) -> Any:
    """One type for the ids of all partitions: theirs, or text where they differ."""
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
