"""Tables of experiments: mean and deviation of every cell."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rince.compare.tables import aligned, mean_and_deviation

Cell = tuple[str, str, float]
"""Row, column and one of the values that belong there."""


def plus_minus(values: Sequence[float]) -> str:
    """``74.5 ± 0.1``; a single value has no deviation, and no value is a dash."""
    if not values:
        return "-"
    mean, deviation = mean_and_deviation(values)
    return f"{mean:.1f} ± {deviation:.1f}" if len(values) > 1 else f"{mean:.1f}"


def grouped(cells: Sequence[Cell]) -> dict[tuple[str, str], list[float]]:
    """All values of every cell, in the order of their first appearance."""
    groups: dict[tuple[str, str], list[float]] = {}
    for row, column, value in cells:
        groups.setdefault((row, column), []).append(value)
    return groups


def pivot(corner: str, cells: Sequence[Cell]) -> str:
    """A table with mean and deviation of every cell; rows and columns in the order of their first appearance."""
    groups = grouped(cells)
    rows, columns = (list(dict.fromkeys(key[index] for key in groups)) for index in (0, 1))
    return aligned(
        [corner, *columns], [[row, *(plus_minus(groups.get((row, c), [])) for c in columns)] for row in rows]
    )


def seeds_note(cells: Sequence[Cell]) -> str:
    """How many seeds stand behind the cells of a table; an empty cell that could be filled counts as none."""
    counts = [len(values) for values in grouped(cells).values()]
    low, high = min(counts), max(counts)
    if low == high:
        return f"{high} seeds" if high > 1 else "1 seed"
    return f"{low} to {high} seeds (the experiment is unfinished)"


def unique_runs(runs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The same runs, each once: a rate of 0 given by hand is the run without noise that is compared with."""
    return list({json.dumps(dict(run)): run for run in runs}.values())
