"""``suspects.csv``: the pairs that fit worst, with what they say, whatever the verdict."""

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rince._support.csv_cells import CsvWriter, number_texts
from rince.pairs.columns import chosen
from rince.pairs.formats import format_of
from rince.pairs.source import ARROW_TABLES, JSON_LINES, TEXT_TABLES, Source
from rince.report.gallery import Gallery
from rince.report.page import affected_pairs, by_suspicion

if TYPE_CHECKING:
    from rince.audit.result import Audit

HEADER = ("row", "id", "score", "p_wrong", "flagged", "issues")
MIN_SUSPECTS = 10_000
"""Rows of the list, if there are as many; all suspected pairs are listed, however many."""
MAX_COLUMNS = 50  # further columns of the audited table

Columns = dict[str, list[str]]


def write_suspects(
    path: Path,
    result: "Audit",
    fdr: float,
    name_of: Callable[[int], str],
    shows: tuple[Gallery | None, Gallery | None] = (None, None),
    columns: tuple[str, str] = ("a", "b"),
    others: Callable[[NDArray[np.int64]], Columns] | None = None,
) -> None:
    """Write the least fitting pairs, most suspicious first.

    The columns are ``row`` (from 0), ``id``, ``score``, ``p_wrong``, ``flagged`` (0 or 1), ``issues`` (names, separated
    by "; "), the text or file name of either side if it is known, and those of ``others``, see ``other_columns``.
    """
    flagged = result.flag(fdr)
    flags = np.zeros(len(result), dtype=bool)
    flags[flagged] = True
    affected = affected_pairs(result, flagged)
    order = by_suspicion(result)[: max(MIN_SUSPECTS, len(result.suspects()[0]))]
    more = {} if others is None else others(order)
    with open(path, "w", newline="", encoding="utf-8", errors="replace") as file:
        names: list[list[str]] = [[] for _ in order]
        for name, mask in affected.items():
            for place in np.flatnonzero(mask[order]).tolist():
                names[place].append(name)
        rows, marked = order.tolist(), flags[order].astype(int).tolist()
        scores, chances = number_texts(result.scores[order]), number_texts(result.p_wrong[order])
        first = zip(rows, map(name_of, rows), scores, chances, marked, map("; ".join, names), strict=True)
        texts = [None if show is None else [show.brief(row) or "" for row in rows] for show in shows]
        write_list(file, first, columns, texts, more)


def write_list(
    file: IO[str],
    cells: Iterable[Sequence[Any]],
    columns: tuple[str, str],
    texts: Sequence[list[str] | None],
    others: Columns,
) -> None:
    """Write rows of ``suspects.csv``.

    Args:
        file: Opened with ``newline=""``.
        cells: Those of ``HEADER``, row by row.
        columns: Names of both sides.
        texts: The text or file name of either side, one per row, or None.
        others: Further columns.
    """
    if columns[0] == columns[1] or {*columns} & {*HEADER}:
        columns = ("a", "b")
    shown = {name: text for name, text in zip(columns, texts, strict=True) if text is not None}
    taken = {*HEADER, *shown}
    writer = CsvWriter(file)
    writer.writerow([*HEADER, *shown, *(f"original {name}" if name in taken else name for name in others)])
    for place, first in enumerate(cells):
        writer.writerow([*first, *(column[place] for column in (*shown.values(), *others.values()))])


def other_columns(a: Source, b: Source, rows: NDArray[np.int64]) -> Columns:
    """What the table that holds both sides says beside them about some rows; lists and bytes are left out."""
    if a.path != b.path or a.kind not in (*ARROW_TABLES, *TEXT_TABLES, *JSON_LINES):
        return {}
    table = format_of(a)
    fields = table.fields
    sides = {*chosen(a, fields), *chosen(b, fields)}
    names = [name for name in fields if name not in sides and fields.count(name) == 1][:MAX_COLUMNS]
    first = next(table.batches(names)) if names else []
    names = [name for name, column in zip(names, first, strict=True) if all(map(_is_plain, column))]
    found: Columns = {name: [""] * len(rows) for name in names}
    order, start = np.argsort(rows), 0
    for batch in table.batches(names) if names else ():
        stop = start + len(batch[0])
        places = order[slice(*np.searchsorted(rows[order], [start, stop]))].tolist()
        for name, column in zip(names, batch, strict=True):
            for place in places:
                found[name][place] = _as_text(column[rows[place] - start])
        start = stop
    return found


def _is_plain(value: Any) -> bool:
    return value is None or isinstance(value, (str, int, float, np.generic))


def _as_text(value: Any) -> str:
    return "" if value is None or value != value else str(value)
