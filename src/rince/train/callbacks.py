"""What a run writes while it trains: checkpoints that are whole at any moment, and a table of metrics."""

import csv
import os
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.loggers import Logger
from lightning.pytorch.utilities import rank_zero_only

from rince._support.atomic_files import written_whole
from rince.errors import UsageError


class WholeCheckpoint(Callback):
    """Writes ``path`` every so many steps and at the end. Killed at any moment, the last whole one stays."""

    def __init__(self, path: Path, every: int):
        if every < 1:
            raise UsageError(f"checkpoint_every must be at least 1 step, got {every}")
        self.path, self.every = path, every
        self.saved = -1

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        # Between two accumulated batches the gradient so far would be lost, so only whole steps are saved.
        step = trainer.global_step
        if step != self.saved and step % self.every == 0 and not trainer.fit_loop._should_accumulate():
            # Lightning logs a step only after this: killed in between, a resumed run would lack that line for good.
            trainer._logger_connector.update_train_step_metrics()
            self.save(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self.save(trainer)

    def save(self, trainer: Trainer) -> None:
        self.saved = trainer.global_step
        beside = self.path.with_name(f".{self.path.name}.part")
        trainer.save_checkpoint(beside)
        if trainer.is_global_zero:
            with open(beside, "rb") as file:
                os.fsync(file.fileno())
            os.replace(beside, self.path)
        trainer.strategy.barrier("checkpoint")


class MetricsTable(Logger):
    """metrics.csv: a line a logged step, a column a metric. A resumed run takes back what came after its checkpoint."""

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
