"""The table of metrics that a run writes while it trains."""

import csv
from pathlib import Path
from typing import Any

from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only

from rince._support.atomic_files import written_whole


class MetricsTable(Logger):
    """metrics.csv: one line per logged step, one column per metric.

    A resumed run takes back what came after its checkpoint.
    """

    def __init__(self, path: Path):
        super().__init__()
        self.path = path
        self.columns = ["step"]
        self.rows: list[dict[str, str]] = []

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
        if not self.path.exists():
            return
        with open(self.path, newline="") as file:
            reader = csv.DictReader(file)
            rows = [row for row in reader if (row["step"] or "").isdigit() and None not in row.values()]
            self.columns = list(reader.fieldnames or self.columns)
        self.rows = [row for row in rows if int(row["step"]) < step]
        self._write_all()

    @rank_zero_only
    def log_metrics(self, metrics: dict[str, float], step: int | None = None) -> None:
        row = {"step": str(step or 0), **{name: repr(float(value)) for name, value in metrics.items()}}
        new = [name for name in row if name not in self.columns]
        if self.rows and self.rows[-1]["step"] == row["step"]:
            self.rows[-1] |= row
            self.columns += new
            self._write_all()
            return
        self.rows.append(row)
        if new or not self.path.exists():
            self.columns += new
            self._write_all()
        else:
            with open(self.path, "a", newline="") as file:
                csv.DictWriter(file, self.columns, restval="").writerow(row)

    def _write_all(self) -> None:
        with written_whole(self.path) as path, open(path, "w", newline="") as file:
            writer = csv.DictWriter(file, self.columns, restval="")
            writer.writeheader()
            writer.writerows(self.rows)
