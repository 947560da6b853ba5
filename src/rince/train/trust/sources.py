"""Weights of the pairs of a run: read from a table, kept in the run folder, logged and recorded."""

import csv
import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from lightning.pytorch.utilities import rank_zero_only
from numpy.typing import NDArray

from rince._support.atomic_files import written_whole
from rince._support.csv_cells import CsvWriter
from rince._support.progress import note
from rince.errors import UsageError
from rince.train.run import WeightSource
from rince.train.run_folder import RunFolder
from rince.trust.table import read_trust

TABLE = "trust.csv"


class TableWeights(WeightSource):
    """Weights from a table. They are kept in the run folder and must not change when the run is resumed."""

    def __init__(self, folder: RunFolder, source: str):
        self.folder, self.source = folder, source
        self.weights = np.empty(0, dtype=np.float32)
        self.details: dict[str, Any] = {}

    def read(self, data: Any) -> NDArray[np.float32]:
        """One weight per training pair."""
        return read_trust(self.source, data.training_pairs, data.pair_names())

    def prepare(self, data: Any, method: Any) -> None:
        check_use(method)
        self.weights = self.read(data)
        kept = self.folder.path / TABLE
        if self.folder.begun and kept.exists():
            before = read_weights(kept)
            if len(before) != len(self.weights) or digest(before) != digest(self.weights):
                raise UsageError(
                    f"{self.folder.path} was started with other weights than those of {self.source}: restore the old "
                    "table to resume, or choose another --name"
                )
        elif rank_zero_only.rank == 0 and not kept.exists():
            write_weights(kept, self.weights, data.pair_names())
        data.weights = torch.from_numpy(self.weights)

    def summary(self) -> dict[str, float]:
        below = int((self.weights < 0.5).sum())
        return {"mean": float(self.weights.mean(dtype=np.float64)), "below_half": below}

    def callbacks(self, fresh: bool) -> list[Callback]:
        rate = {"noise_rate": self.details["noise_rate"]} if "noise_rate" in self.details else {}
        return [WeightLog({f"trust/{name}": value for name, value in (rate | self.summary()).items()}, fresh)]

    def record(self, steps: int) -> dict[str, Any]:
        return {"trust": {"source": self.source, "pairs": len(self.weights), **self.details, **self.summary()}}


class EstimatedWeights(TableWeights):
    """Weights that were estimated before the run and written into its folder.

    Args:
        folder: The run folder.
        source: "auto" or "copies".
        details: Entries for result.json: the step, the noise rate, the steps and seconds it took.
        weights: One weight per training pair.
    """

    def __init__(self, folder: RunFolder, source: str, details: dict[str, Any], weights: NDArray[np.float32]):
        super().__init__(folder, source)
        self.details, self.weights = details, weights

    def read(self, data: Any) -> NDArray[np.float32]:
        return self.weights

    def record(self, steps: int) -> dict[str, Any]:
        record = super().record(steps)["trust"]
        return {"trust": {**record, "cost": (self.details["steps"] + steps) / max(1, steps)}}


class WeightLog(Callback):
    """Logs a summary of the weights at the first step, and rejects batches that lost their weights."""

    def __init__(self, summary: dict[str, float], fresh: bool):
        self.summary, self.fresh = summary, fresh

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.fresh and trainer.is_global_zero:
            for logger in trainer.loggers:
                logger.log_metrics(self.summary, step=0)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if pl_module.pair_weights(batch) is None:
            data = type(trainer.datamodule).__name__
            raise UsageError(f"{data} gives batches without weights: its loader must pass weights_of(ids)")


def check_use(method: Any) -> None:
    if method.weights_for is None:
        raise UsageError(f"{type(method).__name__} learns labels, not pairs, and cannot use weights: leave out --trust")


def digest(weights: NDArray[np.float32]) -> str:
    return hashlib.sha256(np.ascontiguousarray(weights).tobytes()).hexdigest()


def write_weights(path: Path, weights: NDArray[np.float32], names: Sequence[Any] | None, **columns: Any) -> None:
    """A table of ids and weights from which the very same weights can be read, with further columns."""
    with written_whole(path) as beside, open(beside, "w", newline="", encoding="utf-8") as file:
        writer = CsvWriter(file)
        writer.writerow(["id", "weight", *columns])
        ids = range(len(weights)) if names is None else names
        values = [weights, *columns.values()]
        for name, *row in zip(ids, *values, strict=True):
            writer.writerow([name, *("" if np.isnan(x) else f"{x:.9g}" for x in row)])


def read_weights(path: Path) -> NDArray[np.float32]:
    with open(path, newline="", encoding="utf-8") as file:
        return np.array([float(row["weight"]) for row in csv.DictReader(file)], dtype=np.float32)


def say(text: str) -> None:
    """Print one line of progress on rank 0."""
    if rank_zero_only.rank == 0:
        note(text)
