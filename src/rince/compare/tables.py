"""Means, paired tests, Markdown tables and CSV."""

import io
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from rince._support.csv_cells import CsvWriter


def mean_and_deviation(values: Sequence[float]) -> tuple[float, float]:
    """The mean and the sample standard deviation (0 for a single value)."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else 0.0


MIN_SEEDS = 3
"""Minimum number of paired seeds for a verdict."""


@dataclass(frozen=True)
class Paired:
    """Mean difference of two methods on the same seeds, with a 95 % t-interval and the p-value of a paired t-test."""

    mean: float
    low: float
    high: float
    p: float
    seeds: int

    @property
    def verdict(self) -> str:
        """``"ahead"``, ``"behind"``, ``"no difference shown"``, or a note on too few seeds."""
        if self.seeds < MIN_SEEDS:
            return f"no verdict from fewer than {MIN_SEEDS} seeds"
        return "no difference shown" if self.low <= 0 <= self.high else "ahead" if self.mean > 0 else "behind"

    def __str__(self) -> str:
        if self.seeds < MIN_SEEDS:
            return f"{self.mean:+.2f} ({self.verdict})"
        test = f"p = {self.p:.3f}, {self.seeds} paired seeds"
        return f"{self.mean:+.2f} [{self.low:+.2f}, {self.high:+.2f}], {test}: {self.verdict}"


def paired(ours: Mapping[int, float], other: Mapping[int, float]) -> Paired | None:
    """Paired t-test of two methods.

    Args:
        ours: Result by seed.
        other: Result by seed of the other method; only common seeds count.

    Returns:
        The test, or ``None`` without common seeds.
    """
    from scipy import stats

    gaps = [ours[seed] - other[seed] for seed in sorted(ours.keys() & other.keys())]
    if not gaps:
        return None
    mean, deviation = mean_and_deviation(gaps)
    error = deviation / len(gaps) ** 0.5
    half = float(stats.t.ppf(0.975, len(gaps) - 1)) * error if len(gaps) > 1 else float("inf")
    p = float(2 * stats.t.sf(abs(mean) / error, len(gaps) - 1)) if error > 0 else float(mean == 0)
    return Paired(mean, mean - half, mean + half, p, len(gaps))


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
    """The rows as CSV, with a header."""
    text = io.StringIO()
    writer = CsvWriter(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(rows)
    return text.getvalue()
