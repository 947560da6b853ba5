"""The table of metrics that a run writes while it trains."""

import csv
import io
import os
import warnings
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only

from rince._support.atomic_files import written_whole
from rince._support.regular_files import Unreadable, read_regular
from rince.errors import FileError

LARGEST = 1 << 30  # bytes of a table
LONGEST_CELL = 10_000  # characters: a number has fewer
Row = dict[str, str]


class MetricsTable(Logger):
    """metrics.csv: one line per logged step, one column per metric.

    A resumed run takes back what came after its checkpoint. Only its last line is held in memory, and only that one is
    written again where a step has more to tell: an epoch that ends with it, for one.
    """

    def __init__(self, path: Path):
        super().__init__()
        self.path = path
        self.columns = ["step"]
        self.last: Row | None = None
        self.place = 0  # where the last line begins, in bytes

    @property
    def name(self) -> str:
        return self.path.parent.name

    @property
    def version(self) -> str:
        return ""

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """They are in config.yaml."""

    @rank_zero_only
    def go_back(self, step: int) -> None:
        """Forget lines after ``step``, which a run killed after its last checkpoint will write again."""
        if not os.path.lexists(self.path):
            return
        self.columns, rows, damaged = read_table(self.path)
        if damaged:
            warnings.warn(f"{self.path} is damaged: {damaged} of its lines could not be read and are left out")
        self._write([row for row in rows if int(row["step"]) < step])

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        row = {"step": str(step or 0), **{name: repr(float(value)) for name, value in metrics.items()}}
        new = [name for name in row if name not in self.columns]
        again = self.last is not None and self.last["step"] == row["step"]
        row = {**(self.last or {}), **row} if again else row
        if new or not self.path.exists() or not self._put(row, again):
            before = read_table(self.path)[1] if self.last is not None and self.path.exists() else []
            self.columns += new
            self._write([*(line for line in before if line["step"] != row["step"]), row])

    def _put(self, row: Row, again: bool) -> bool:
        """Write a line after the last one or, ``again``, in its place; not where somebody else has written, too."""
        line = self._line(row)
        if not again:
            with open(self.path, "ab") as file:
                self.place = file.tell()
                file.write(line)
        else:
            with open(self.path, "r+b") as file:
                assert self.last is not None
                if file.seek(0, os.SEEK_END) != self.place + len(self._line(self.last)):
                    return False
                file.seek(self.place)
                file.write(line)
                file.truncate()
        self.last = row
        return True

    def _line(self, row: Row) -> bytes:
        text = io.StringIO(newline="")
        csv.DictWriter(text, self.columns, restval="").writerow(row)
        return text.getvalue().encode()

    def _write(self, rows: list[Row]) -> None:
        with written_whole(self.path) as path, open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, self.columns, restval="")
            writer.writeheader()
            writer.writerows(rows)
        self.last = rows[-1] if rows else None
        self.place = self.path.stat().st_size - (len(self._line(rows[-1])) if rows else 0)


def read_table(path: Path) -> tuple[list[str], list[Row], int]:
    """Columns and rows of a table of metrics as far as they can be read, and how many lines cannot.

    The last line of a killed run may be half a line: that one is left out without being counted.

    Raises:
        FileError: For something that is no file of that folder: a pipe, a device, or a link that leads away.
    """
    try:
        text = read_regular(path, LARGEST, path.parent).decode("utf-8", "replace").replace("\0", "\ufffd")
    except Unreadable as error:
        raise FileError(f"{path} is no table of metrics ({error}): remove it to go on without it") from error
    try:
        lines = list(csv.reader(io.StringIO(text, newline="")))
    except csv.Error:
        return ["step"], [], text.count("\n")
    if lines and not text.endswith("\n"):
        lines.pop()
    columns = lines[0] if lines else []
    if "step" not in columns or len(set(columns)) != len(columns):
        return ["step"], [], len(lines)
    rows = [dict(zip(columns, line, strict=True)) for line in lines[1:] if _is_row(line, columns)]
    return columns, rows, len(lines) - 1 - len(rows)


def _is_row(line: list[str], columns: list[str]) -> bool:
    if len(line) != len(columns) or max(map(len, line)) > LONGEST_CELL:
        return False
    step = line[columns.index("step")]
    return step.isascii() and step.isdigit() and len(step) < 19
