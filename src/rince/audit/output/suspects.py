"""``suspects.csv``: the pairs that fit worst, with what they say, whatever the verdict."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from rince._support.csv_cells import CsvWriter
from rince.report.gallery import Gallery
from rince.report.page import affected_pairs, by_suspicion

if TYPE_CHECKING:
    from rince.audit.result import Audit

HEADER = ("row", "id", "score", "p_wrong", "flagged", "issues")
MIN_SUSPECTS = 10_000
"""Rows of the list, if there are as many; all suspected pairs are listed, however many."""


def write_suspects(
    path: Path,
    result: "Audit",
    fdr: float,
    name_of: Callable[[int], str],
    shows: tuple[Gallery | None, Gallery | None] = (None, None),
    columns: tuple[str, str] = ("a", "b"),
) -> None:
    """Write the least fitting pairs, most suspicious first.

    The columns are ``row`` (from 0), ``id``, ``score``, ``p_wrong``, ``flagged`` (0 or 1), ``issues`` (names, separated
    by "; "), and the text or file name of either side if it is known.
    """
    flagged = result.flag(fdr)
    flags = np.zeros(len(result), dtype=bool)
    flags[flagged] = True
    affected = affected_pairs(result, flagged)
    order = by_suspicion(result)[: max(MIN_SUSPECTS, len(result.suspects()[0]))]
    if columns[0] == columns[1] or {*columns} & {*HEADER}:
        columns = ("a", "b")
    shown = [(name, show) for name, show in zip(columns, shows, strict=True) if show is not None]
    with open(path, "w", newline="", encoding="utf-8", errors="replace") as file:
        writer = CsvWriter(file)
        writer.writerow([*HEADER, *(name for name, _ in shown)])
        for row in order.tolist():
            names = "; ".join(name for name, mask in affected.items() if mask[row])
            numbers = ["" if np.isnan(x) else f"{x:.6g}" for x in (result.scores[row], result.p_wrong[row])]
            writer.writerow(
                [row, name_of(row), *numbers, int(flags[row]), names, *(show.brief(row) or "" for _, show in shown)]
            )
