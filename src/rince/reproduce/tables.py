"""Results as rows: means and deviations, an aligned table, CSV."""

import csv
import io
import statistics
from collections.abc import Sequence


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """The mean and the sample standard deviation (0 for a single value)."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


def plus_minus(values: Sequence[float]) -> str:
    if not values:
        return "-"
    mean, deviation = mean_and_deviation(values)
    return f"{mean:.1f} ± {deviation:.1f}" if len(values) > 1 else f"{mean:.1f}"


def seeds_note(counts: Sequence[int]) -> str:
    """How many seeds stand behind the cells of a table."""
    low, high = min(counts), max(counts)
    if low == high:
        return f"{high} seeds" if high > 1 else "1 seed"
    return f"{low} to {high} seeds (the experiment is unfinished)"


def aligned(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table whose columns also line up as plain text."""
    table = [list(header), *map(list, rows)]
    widths = [max(len(row[i]) for row in table) for i in range(len(header))]

    def line(row: Sequence[str]) -> str:
        cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
        return "| " + " | ".join(cells) + " |"

    rule = "| " + " | ".join(["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]) + " |"
    return "\n".join([line(table[0]), rule, *map(line, table[1:])]) + "\n"


def as_csv(header: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()
