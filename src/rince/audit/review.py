"""Manual reviews: estimates of flag precision and noise rate, and new probabilities, from marked pairs."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince._support.csv_cells import CsvWriter, unescaped
from rince.audit.calibrate import recalibrate
from rince.audit.estimate import suspects
from rince.audit.rate import upper_share
from rince.audit.save import Pairs
from rince.errors import UsageError

MARKS = ("keep", "wrong", "unsure")
MIN_STRATUM_MARKS = 5
"""Pairs of a stratum that must be marked keep or wrong for the marks to count instead of the audit."""
SUSPECTED = 0.05
DRAWS = 20_000
MIN_MARKS, MIN_OF_EACH = 30, 3
"""Marks (keep or wrong) from which probabilities are recalibrated, and how many of each."""
MAX_MARK_Z = 4.0  # deviations of the mean score rank of marked pairs from that of a random sample
COMPONENTS = 10  # principal components of each side
RIDGE, COMPONENT_RIDGE = 1.0, 10.0
PCA_ROWS = 20_000


class Review(NamedTuple):
    """Results of a manual review.

    Attributes:
        marked: Number of pairs marked keep, wrong and unsure.
        flagged: Number of flagged pairs.
        checked: Number of flagged pairs marked keep or wrong.
        confirmed: Number of flagged pairs marked wrong.
        precision: Share of confirmed among checked flags; None if no flag was checked.
        precision_interval: Its 95 % interval (Clopper and Pearson).
        noise_rate: The share of wrong pairs, corrected by the marks.
        interval: Its 95 % interval.
        before: Noise rate estimated by the audit.
        recalibrated: Whether the marks gave new probabilities for all pairs.
        flagged_after: Number of pairs flagged by the new probabilities; None if not recalibrated.
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
    recalibrated: bool = False
    flagged_after: int | None = None

    @property
    def files(self) -> list[str]:
        """Names of the files written next to the audit."""
        return ["review.json", "reviewed.csv"] if self.recalibrated else ["review.json"]

    def summary(self) -> str:
        """A few lines for a terminal."""
        counts = ", ".join(f"{count:,} {mark}" for mark, count in self.marked.items())
        total = sum(self.marked.values())
        lines = [f"{total:,} pair{'' if total == 1 else 's'} reviewed: {counts}."]
        if self.precision is None:
            lines.append(f"None of the {self.flagged:,} flagged pairs is marked keep or wrong yet.")
        else:
            low, high = self.precision_interval
            lines.append(
                f"{self.confirmed:,} of {self.checked:,} reviewed flags are wrong pairs: a precision of "
                f"{self.precision:.1%} (95% interval {low:.1%} to {high:.1%})."
            )
            if self.checked < self.flagged:
                lines.append(
                    f"{self.flagged - self.checked:,} flags are not reviewed. The interval holds for them too if you "
                    "reviewed a random sample (sort the page by random order)."
                )
        low, high = self.interval
        before = f" The audit estimated {self.before:.1%} unrelated pairs." if self.before else ""
        lines.append(
            f"By your marks about {self.noise_rate:.1%} of the pairs are wrong (95% interval {low:.1%} to {high:.1%})."
            + before
        )
        if self.recalibrated:
            lines.append(f"Recalibrated to your marks: {self.flagged_after:,} pairs are flagged, see reviewed.csv.")
        else:
            lines.append(
                f"To recalibrate all pairs, mark at least {MIN_MARKS} in random order, {MIN_OF_EACH} of them keep and "
                f"{MIN_OF_EACH} wrong."
            )
        return "\n".join(lines)


def read_marks(path: Path, ids: Sequence[str]) -> dict[int, str]:
    """Marks of a review exported from the page: row -> mark.

    Args:
        path: The CSV file, with the columns ``row``, ``id`` and ``mark``.
        ids: Names of the pairs of the audit; the names in the review must match.

    Raises:
        UsageError: The file is not a review, or belongs to another audit.
    """
    marks: dict[int, str] = {}
    with open(path, newline="", encoding="utf-8-sig") as file:
        try:
            rows = csv.DictReader(file)
            if not {"row", "id", "mark"} <= set(rows.fieldnames or ()):
                raise UsageError(f"{path} is not a review: it must have the columns row, id and mark")
            for line in rows:
                row = _row(line, len(ids), path, rows.line_num)
                if unescaped(line["id"] or "") != ids[row]:
                    detail = f"row {row} is {line['id']!r} in the review and {ids[row]!r} in the audit"
                    raise UsageError(f"{path} belongs to another audit: {detail}")
                marks[row] = line["mark"].strip()
        except (csv.Error, UnicodeDecodeError) as error:
            raise UsageError(f"{path} cannot be read: {error}") from error
    if not marks:
        raise UsageError(f"{path} has no marks: mark pairs on the page, and export the review")
    return marks


def _row(line: dict[str, Any], n: int, path: Path, number: int) -> int:
    text, mark = line["row"] or "", (line["mark"] or "").strip()
    if not text.isascii() or not text.isdigit() or len(text) > 18 or int(text) >= n:
        raise UsageError(f"{path} names row {text[:40]!r} in line {number}: rows go from 0 to {n - 1:,}")
    if mark not in MARKS:
        raise UsageError(f"{path} has the mark {mark!r} in line {number}: marks are {', '.join(MARKS)}")
    return int(text)


def reviewed(
    pairs: Pairs,
    marks: dict[int, str],
    noise_rate: float,
    interval: tuple[float, float],
    seed: int = 0,
    features: NDArray[np.float32] | None = None,
    fdr: float = 0.1,
) -> tuple[Review, NDArray[np.float32] | None]:
    """Flag precision, noise rate and new probabilities of all pairs from the marks of a review.

    From ``MIN_MARKS`` marks of a random sample on, a ridge logistic regression on the scores (and ``features``) gives
    new probabilities, and the interval of the rate is that of the marks (Clopper and Pearson). Otherwise the rate is
    corrected in strata (flagged, suspected, the rest): in a stratum with at least five marks (keep or wrong) the marks
    decide, in the others the audit's own numbers stay.

    Args:
        pairs: Table of the audit.
        marks: Row -> mark.
        noise_rate: Rate estimated by the audit.
        interval: Its 95 % interval.
        seed: Seed of the draws behind the interval.
        features: (pairs, k) from ``review_features``. Default: the scores alone.
        fdr: Expected share of false alarms among the pairs flagged by the new probabilities.

    Returns:
        The review, and the new probability of every pair to be wrong (NaN for pairs that were not judged); None if the
        marks are too few or not a random sample.
    """
    wrong, kept = (np.zeros(len(pairs.ids), dtype=bool) for _ in range(2))
    for row, mark in marks.items():
        wrong[row], kept[row] = mark == "wrong", mark == "keep"
    confirmed, checked = int((wrong & pairs.flagged).sum()), int(((wrong | kept) & pairs.flagged).sum())
    probability = None
    if is_random_sample(pairs.scores, wrong, kept):
        judged = np.flatnonzero(~np.isnan(pairs.scores))
        x = (pairs.scores[:, None] if features is None else features)[judged]
        rows = np.flatnonzero((wrong | kept)[judged])
        truth = wrong[judged][rows]
        chance = recalibrate(x, rows, truth, [RIDGE, *[COMPONENT_RIDGE] * (x.shape[1] - 1)])
        chance[rows] = truth
        probability = np.full(len(pairs.ids), np.nan, dtype=np.float32)
        probability[judged] = chance
        ends = share_interval(int(truth.sum()), len(truth))  # of a random sample
        rate = float(np.clip(chance.mean(), *ends))
    else:
        rate, ends = _corrected(pairs, wrong, kept, noise_rate, interval, np.random.default_rng(seed))
    review = Review(
        marked={mark: sum(value == mark for value in marks.values()) for mark in MARKS},
        flagged=int(pairs.flagged.sum()),
        checked=checked,
        confirmed=confirmed,
        precision=confirmed / checked if checked else None,
        precision_interval=share_interval(confirmed, checked),
        noise_rate=rate,
        interval=ends,
        before=noise_rate,
        recalibrated=probability is not None,
        flagged_after=None if probability is None else len(flag_by_probability(probability, fdr)),
    )
    return review, probability


def is_random_sample(scores: NDArray[np.float64], wrong: NDArray[np.bool_], kept: NDArray[np.bool_]) -> bool:
    """Whether enough pairs are marked, and marked pairs rank by score like a random sample of all pairs."""
    judged = ~np.isnan(scores)
    marked = (wrong | kept) & judged
    count = int(marked.sum())
    if count < MIN_MARKS or min(int((wrong & judged).sum()), int((kept & judged).sum())) < MIN_OF_EACH:
        return False
    rank = np.searchsorted(np.sort(scores[judged]), scores[marked]) / judged.sum()
    return bool(abs(rank.mean() - 0.5) < MAX_MARK_Z * np.sqrt(1 / 12 / count))


def review_features(scores: NDArray[np.floating], sides: Sequence[Any] = ()) -> NDArray[np.float32]:
    """(pairs, k) features for recalibration: the score, and the first principal components of the rows of each side.

    The components tell apart kinds of items (languages, boilerplate, sources) in which reviewers find more wrong pairs.
    """
    columns = [np.asarray(scores, dtype=np.float32)[:, None]]
    for rows in sides:
        sample = np.sort(np.random.default_rng(0).permutation(len(rows))[:PCA_ROWS])
        x = np.nan_to_num(np.asarray(rows[sample], dtype=np.float32), posinf=0, neginf=0)
        mean = x.mean(0)
        axes = np.linalg.eigh((x - mean).T @ (x - mean))[1][:, ::-1][:, :COMPONENTS]
        parts = [np.asarray(rows[k : k + PCA_ROWS], dtype=np.float32) for k in range(0, len(rows), PCA_ROWS)]
        columns.append(np.concatenate([(np.nan_to_num(part, posinf=0, neginf=0) - mean) @ axes for part in parts]))
    return np.concatenate(columns, axis=1)


def flag_by_probability(probability: NDArray[np.float32], fdr: float) -> NDArray[np.int64]:
    """Rows by decreasing probability: the flag rule of the audit (``estimate.suspects``)."""
    return suspects(probability, -probability, fdr)[0]


def write_reviewed(
    path: Path, pairs: Pairs, marks: dict[int, str], probability: NDArray[np.float32], fdr: float
) -> None:
    """Write ``reviewed.csv``: all judged pairs with their new probability and flag, most suspicious first."""
    flagged = set(flag_by_probability(probability, fdr).tolist())
    order = np.argsort(-probability, kind="stable")[: int((~np.isnan(probability)).sum())].tolist()
    with open(path, "w", newline="", encoding="utf-8", errors="replace") as file:
        writer = CsvWriter(file)
        writer.writerow(["row", "id", "score", "p_wrong", "flagged", "mark"])
        for row in order:
            numbers = f"{pairs.scores[row]:.6g}", f"{probability[row]:.6g}", int(row in flagged)
            writer.writerow([row, pairs.ids[row], *numbers, marks.get(row, "")])


def share_interval(count: int, n: int) -> tuple[float, float]:
    """The 95 % interval of Clopper and Pearson for a share observed ``count`` times out of ``n``."""
    if not n:
        return 0.0, 1.0
    return 1 - upper_share(n - count, n), upper_share(count, n)


def _corrected(
    pairs: Pairs,
    wrong: NDArray[np.bool_],
    kept: NDArray[np.bool_],
    noise_rate: float,
    interval: tuple[float, float],
    random: np.random.Generator,
) -> tuple[float, tuple[float, float]]:
    """Noise rate as a sum over strata, and its interval from posterior draws."""
    judged = ~np.isnan(pairs.p_wrong)
    suspected = (pairs.p_wrong > SUSPECTED) & ~pairs.flagged
    strata = [pairs.flagged & judged, suspected & judged, judged & ~suspected & ~pairs.flagged]
    # The audit's own uncertainty, as a factor on all of its probabilities alike.
    spread = (interval[1] - interval[0]) / 3.92
    factor = np.clip(random.normal(1, spread / max(noise_rate, 1e-3), DRAWS), 0, None)
    point, draws = 0.0, np.zeros(DRAWS)
    for stratum in strata:
        weight = stratum.sum() / max(1, judged.sum())
        if not weight:
            continue
        hits, misses = int((wrong & stratum).sum()), int((kept & stratum).sum())
        mean = float(pairs.p_wrong[stratum].mean())
        if hits + misses >= MIN_STRATUM_MARKS:
            # Between the marks alone and, where they are few, the audit: its mean counts as one marked pair.
            point += weight * (hits + mean) / (hits + misses + 1)
            draws += weight * random.beta(hits + 0.5, misses + 0.5, DRAWS)
        else:
            point += weight * mean
            draws += weight * np.clip(mean * factor, 0, 1)
    low, high = np.quantile(draws, [0.025, 0.975])
    return float(point), (float(min(low, point)), float(max(high, point)))
