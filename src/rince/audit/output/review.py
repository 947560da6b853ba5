"""A review by hand: which pairs somebody looked at and marked, what that says about the flags and about the rate."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince.audit.estimate.binomial import at_most
from rince.audit.output.table import Pairs, unescaped
from rince.errors import UsageError

MARKS = ("keep", "wrong", "unsure")
ENOUGH = 5
"""Pairs of a stratum that must be marked keep or wrong for the marks to count instead of the audit."""
SUSPECTED = 0.05
DRAWS = 20_000


class Review(NamedTuple):
    """What marks made by hand say.

    Attributes:
        marked: How many pairs are marked keep, wrong and unsure.
        flagged: How many pairs are flagged.
        checked: How many of them are marked keep or wrong.
        confirmed: How many of these are marked wrong.
        precision: The share of confirmed among checked flags; None if none was checked.
        precision_interval: Its 95 % interval (Clopper and Pearson).
        noise_rate: The share of wrong pairs, corrected by the marks.
        interval: Its 95 % interval.
        before: The rate that the audit had estimated.
    """

    marked: dict[str, int]
    flagged: int
    checked: int
    confirmed: int
    precision: float | None
    precision_interval: tuple[float, float]
    noise_rate: float
    interval: tuple[float, float]
    before: float

    def summary(self) -> str:
        """A few lines for a terminal."""
        counts = ", ".join(f"{count:,} {mark}" for mark, count in self.marked.items())
        lines = [f"{sum(self.marked.values()):,} pairs reviewed: {counts}"]
        if self.precision is None:
            lines.append(f"none of the {self.flagged:,} flagged pairs is marked keep or wrong yet")
        else:
            low, high = self.precision_interval
            lines.append(
                f"{self.confirmed:,} of {self.checked:,} reviewed flags are wrong pairs: precision "
                f"{self.precision:.1%}, 95 % interval {low:.1%} to {high:.1%}"
            )
            if self.checked < self.flagged:
                lines.append(
                    f"{self.flagged - self.checked:,} flags are not reviewed: the interval holds for them too if you "
                    "reviewed a random sample (sort the page by random order)"
                )
        low, high = self.interval
        corrected = f"noise rate {self.noise_rate:.1%}, 95 % interval {low:.1%} to {high:.1%}"
        lines.append(f"{corrected} (before the review {self.before:.1%})")
        return "\n".join(lines)


def read_marks(path: Path, ids: Sequence[str]) -> dict[int, str]:
    """Row -> mark of a review that the page exported.

    Args:
        path: The CSV file, with the columns ``row``, ``id`` and ``mark``.
        ids: The names of the pairs of the audit: those of the review must be the same.

    Raises:
        UsageError: It is no review, or one of another audit.
    """
    marks: dict[int, str] = {}
    with open(path, newline="", encoding="utf-8-sig") as file:
        try:
            rows = csv.DictReader(file)
            if not {"row", "id", "mark"} <= set(rows.fieldnames or ()):
                raise UsageError(f"{path} is no review: it must have the columns row, id and mark, as the page exports")
            for line in rows:
                row = _row(line, len(ids), path, rows.line_num)
                if unescaped(line["id"] or "") != ids[row]:
                    there = f"row {row} is called {line['id']!r} there and {ids[row]!r} here"
                    raise UsageError(f"{path} belongs to another audit: {there}")
                marks[row] = line["mark"].strip()
        except (csv.Error, UnicodeDecodeError) as error:
            raise UsageError(f"{path} cannot be read: {error}") from error
    return marks


def _row(line: dict[str, Any], n: int, path: Path, number: int) -> int:
    text, mark = line["row"] or "", (line["mark"] or "").strip()
    if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) >= n:
        raise UsageError(f"{path} names row {text[:40]!r} in line {number}: rows go from 0 to {n - 1:,}")
    if mark not in MARKS:
        raise UsageError(f"{path} has the mark {mark!r} in line {number}: marks are {', '.join(MARKS)}")
    return int(text)


def reviewed(
    pairs: Pairs, marks: dict[int, str], noise_rate: float, interval: tuple[float, float], seed: int = 0
) -> Review:
    """What marks say about an audit's flags and rate.

    The pairs are divided into strata: flagged, suspected but not flagged, and the rest. In a stratum with at least five
    marks (keep or wrong) the marks decide, as a random sample of it; in the others the audit's own numbers stay.

    Args:
        pairs: The table of the audit.
        marks: Row -> mark.
        noise_rate: The rate that the audit estimated.
        interval: Its interval.
        seed: For the draws behind the interval.
    """
    wrong, kept = (np.zeros(len(pairs.ids), dtype=bool) for _ in range(2))
    for row, mark in marks.items():
        wrong[row], kept[row] = mark == "wrong", mark == "keep"
    confirmed, checked = int((wrong & pairs.flagged).sum()), int(((wrong | kept) & pairs.flagged).sum())
    rate, ends = _corrected(pairs, wrong, kept, noise_rate, interval, np.random.default_rng(seed))
    return Review(
        {mark: sum(one == mark for one in marks.values()) for mark in MARKS},
        int(pairs.flagged.sum()),
        checked,
        confirmed,
        confirmed / checked if checked else None,
        share_interval(confirmed, checked),
        rate,
        ends,
        noise_rate,
    )


def share_interval(count: int, n: int) -> tuple[float, float]:
    """The 95 % interval of Clopper and Pearson for a share that was seen ``count`` times out of ``n``."""
    if not n:
        return 0.0, 1.0
    return 1 - at_most(n - count, n), at_most(count, n)


def _corrected(
    pairs: Pairs,
    wrong: NDArray[np.bool_],
    kept: NDArray[np.bool_],
    noise_rate: float,
    interval: tuple[float, float],
    random: np.random.Generator,
) -> tuple[float, tuple[float, float]]:
    """The rate as a sum over strata, and its interval from draws of all of them."""
    judged = ~np.isnan(pairs.p_wrong)
    suspected = (pairs.p_wrong > SUSPECTED) & ~pairs.flagged
    strata = [pairs.flagged & judged, suspected & judged, judged & ~suspected & ~pairs.flagged]
    # The audit's own uncertainty, as a factor on all of its probabilities alike.
    spread = (interval[1] - interval[0]) / 3.92
    factor = np.clip(random.normal(1, spread / max(noise_rate, 1e-3), DRAWS), 0, None)
    point, draws = 0.0, np.zeros(DRAWS)
    for inside in strata:
        weight = inside.sum() / max(1, judged.sum())
        if not weight:
            continue
        hits, misses = int((wrong & inside).sum()), int((kept & inside).sum())
        mean = float(pairs.p_wrong[inside].mean())
        if hits + misses >= ENOUGH:
            # Between the marks alone and, where they are few, the audit: its mean counts as one marked pair.
            point += weight * (hits + mean) / (hits + misses + 1)
            draws += weight * random.beta(hits + 0.5, misses + 0.5, DRAWS)
        else:
            point += weight * mean
            draws += weight * np.clip(mean * factor, 0, 1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(point), (float(min(low, point)), float(max(high, point)))
