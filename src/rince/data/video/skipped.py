"""Which files could not be used, and why: counted while training goes on, and listed in ``skipped.csv``."""

import csv
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path

from rince._support.atomic_files import written_whole
from rince.errors import UsageError

MANY = 1000  # files tried from which on their share of bad ones stands for all


class Skipped:
    """Reasons by path. More than half of the files of a part bad is an error.

    With several processes every one keeps a list of its own (``.skipped-1.csv``), and the first joins them.
    """

    def __init__(self, totals: Mapping[str, int], folder: Path | None = None, rank: int = 0):
        self.totals, self.folder, self.rank = dict(totals), folder, rank
        self.reasons: dict[str, str] = {}
        self._tried: dict[str, set[int]] = {part: set() for part in totals}
        self._bad: dict[str, set[int]] = {part: set() for part in totals}
        self._written = 0

    def note(self, part: str, tried: Iterable[int], bad: Mapping[int, tuple[str, str]]) -> None:
        """Items that were tried, and those of them that are bad with their path and reason."""
        self._tried[part].update(tried)
        self._bad[part].update(bad)
        self.reasons.update(bad.values())
        if len(self.reasons) > 1.1 * self._written:
            self.write()
        bad_ones, tried_ones, whole = len(self._bad[part]), len(self._tried[part]), self.totals[part]
        if 2 * bad_ones > whole or (tried_ones >= MANY and 2 * bad_ones > tried_ones):
            self.give_up(part)

    def give_up(self, part: str) -> None:
        self.write()
        path, reason = next(iter(self.reasons.items()))
        raise UsageError(
            f"more than half of the videos cannot be used, {len(self._bad[part])} of the {len(self._tried[part])} that "
            f"were tried: the first is {path}, which {reason}"
            + ("" if self.folder is None else f" ({self.folder / 'skipped.csv'} lists them)")
        )

    def write(self) -> None:
        """Bring the list in the folder up to date."""
        if self.folder is None:
            return
        own = self.folder / (f".skipped-{self.rank}.csv" if self.rank else "skipped.csv")
        rows = dict(self.reasons)
        for path in [own, *(self.folder.glob(".skipped-*.csv") if not self.rank else ())]:
            rows |= read_skipped(path)
        if rows:
            with written_whole(own) as path, open(path, "w", newline="", encoding="utf-8") as file:
                writer = csv.writer(file)
                writer.writerow(("path", "reason"))
                writer.writerows(sorted(rows.items()))
        self._written = len(self.reasons)

    def tell(self) -> None:
        """One line for all of them."""
        if self.reasons:
            where = "" if self.folder is None else f"; {self.folder / 'skipped.csv'} says why"
            warnings.warn(f"{len(self.reasons)} videos could not be used{where}")


def read_skipped(path: Path) -> dict[str, str]:
    """Reasons by path out of a ``skipped.csv``; none where there is no such file."""
    if not path.exists():
        return {}
    with open(path, newline="", encoding="utf-8") as file:
        return {row[0]: row[1] for row in csv.reader(file) if len(row) == 2 and row != ["path", "reason"]}
