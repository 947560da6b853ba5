"""metrics.csv: the metrics of a run."""

import csv
import io
import os
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only

from rince._support.atomic_files import written_whole

Row = dict[str, str]


class MetricsTable(Logger):
    """Logger that writes one line per logged step and one column per metric.

    The last line is rewritten if its step logs more metrics, as the last step of an epoch does. The whole table is
    rewritten for a new column.
    """

    def __init__(self, path: Path):
        super().__init__()
        self.path = path
        self.columns = ["step"]
        self.last: Row | None = None
        self.last_start = 0  # of the last line, in bytes

    @property
    def name(self) -> str:
        return self.path.parent.name

    @property
    def version(self) -> str:
        return ""

    def log_hyperparams(self, *args: Any, **kwargs: Any) -> None:
        """No-op: hyperparameters are in config.yaml."""

    @rank_zero_only
    def drop_from(self, step: int) -> None:
        """Delete the lines from ``step`` on, which a resumed run writes again."""
        if self.path.exists():
            self.columns, rows = read_table(self.path)
            self._write([row for row in rows if int(row["step"]) < step])

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        row = {"step": str(step or 0), **{name: repr(float(value)) for name, value in metrics.items()}}
        same_step = self.last is not None and self.last["step"] == row["step"]
        if same_step:
            row = {**(self.last or {}), **row}
        if (new := [name for name in row if name not in self.columns]) or not self.path.exists():
            rows = read_table(self.path)[1] if self.path.exists() else []
            self.columns += new
            self._write([*(rows[:-1] if same_step else rows), row])
            return
        with open(self.path, "r+b") as file:
            end = file.seek(0, os.SEEK_END)
            self.last_start = self.last_start if same_step else end
            file.seek(self.last_start)
            file.write(self._line(row))
            file.truncate()
        self.last = row

    def _line(self, row: Row) -> bytes:
        text = io.StringIO(newline="")
        csv.DictWriter(text, self.columns, restval="").writerow(row)
        return text.getvalue().encode()

    def _write(self, rows: list[Row]) -> None:
        with written_whole(self.path) as path, open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.DictWriter(file, self.columns, restval="")
            writer.writeheader()
            writer.writerows(rows)
        self.last = rows[-1] if rows else None
        self.last_start = self.path.stat().st_size - (len(self._line(rows[-1])) if rows else 0)


def read_table(path: Path) -> tuple[list[str], list[Row]]:
    """Columns and rows of a table, without incomplete lines such as the last one of a killed run."""
    lines = path.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)
    reader = csv.DictReader(line for line in lines if line.endswith("\n"))
    columns = list(reader.fieldnames or [])
    if "step" not in columns:
        return ["step"], []
    complete = (row for row in reader if None not in row and None not in row.values())
    return columns, [row for row in complete if row["step"].isdecimal()]
