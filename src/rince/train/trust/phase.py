"""Training with a trust in each pair: from a table (`--trust TABLE`), or found on the way (`--trust auto`).

Found on the way means: the pairs are split into folds; for each fold a copy of the model trains on the other pairs and
scores those of the fold, which it has never seen; the audit's estimator turns the scores into the probability of every
pair to be right. Each copy is a run of its own below ``runs/NAME/trust/``, with its own checkpoints, so that a killed
command goes on in whatever phase it was.
"""

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
from torch import Tensor

from rince._support.atomic_files import written_whole
from rince.errors import UsageError
from rince.train.folder import RunFolder
from rince.trust.table import read_trust

AUTO = "auto"
TABLE = "trust.csv"


class Phase:
    """What a run does about trust: nothing. ``prepare`` is called once the data are set up, before the first step."""

    def prepare(self, data: Any, method: Any) -> None:
        """Tell the data which pairs to learn from, and how much."""

    def callbacks(self, fresh: bool) -> list[Callback]:
        """Callbacks of a run that starts (``fresh``) or goes on."""
        return []

    def record(self, steps: int) -> dict[str, Any]:
        """What belongs to the result of a run of so many steps."""
        return {}


class Trusted(Phase):
    """A run whose pairs have a weight each, which is kept in its folder and must not change when it is resumed."""

    def __init__(self, folder: RunFolder, source: str):
        self.folder, self.source = folder, source
        self.weights = np.empty(0, dtype=np.float32)
        self.facts: dict[str, float] = {}

    def find(self, data: Any) -> NDArray[np.float32]:
        """One weight per training pair."""
        return read_trust(self.source, data.training_pairs, data.pair_names())

    def prepare(self, data: Any, method: Any) -> None:
        check_use(method)
        weights = self.find(data)
        check_kept(self.folder, weights, self.source)
        data.trust, self.weights = torch.from_numpy(weights), weights
        self.write(data)

    @rank_zero_only
    def write(self, data: Any) -> None:
        if not self.folder.begun:
            write_weights(self.folder.path / TABLE, self.weights, data.pair_names())

    def summary(self) -> dict[str, float]:
        below = int((self.weights < 0.5).sum())
        return {**self.facts, "mean": float(self.weights.mean(dtype=np.float64)), "below_half": below}

    def callbacks(self, fresh: bool) -> list[Callback]:
        return [TrustLog({f"trust/{name}": value for name, value in self.summary().items()}, fresh)]

    def record(self, steps: int) -> dict[str, Any]:
        return {"trust": {"source": self.source, "pairs": len(self.weights), **self.summary()}}


class TrustLog(Callback):
    """Logs what is known of the pairs at the first step, and refuses batches whose weights were lost on the way."""

    def __init__(self, figures: dict[str, float], fresh: bool):
        self.figures, self.fresh = figures, fresh

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if self.fresh and trainer.is_global_zero:
            for logger in trainer.loggers:
                logger.log_metrics(self.figures, step=0)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        if pl_module.pair_weights(batch) is None:
            data = type(trainer.datamodule).__name__
            raise UsageError(
                f"{data} gives batches without weights, so no pair would be trusted less than another: its loader has "
                "to pass weights_of(ids) with every batch"
            )


def trust_phase(parser: Any, config: Any, folder: RunFolder, text: str, data: Any) -> Phase:
    """What the configuration says about trust; with "auto" all of the work until the weights are known."""
    settings = config.get("trust")
    source = None if settings is None else settings.source
    if source is None:
        if settings is not None and any(settings[name] is not None for name in ("folds", "epochs", "loss")):
            raise UsageError(
                "trust.folds, trust.epochs and trust.loss are for --trust auto: say that too, or leave them out"
            )
        return Phase()
    if source != AUTO:
        return Trusted(folder, source)
    from rince.train.trust.folds import FoundTrust

    return FoundTrust(parser, config, folder, text, data)


def check_use(method: Any) -> None:
    if method.trusts is None:
        raise UsageError(
            f"{type(method).__name__} learns labels rather than pairs and has no use for trust: leave it out"
        )


def check_kept(folder: RunFolder, weights: NDArray[np.float32], source: str) -> None:
    """Refuse to go on with other weights than those that the run was started with."""
    kept = folder.path / TABLE
    if not folder.begun or not kept.exists():
        return
    before = read_weights(kept)
    if len(before) != len(weights) or digest(before) != digest(weights):
        differing = "all" if len(before) != len(weights) else f"{int((before != weights).sum()):,} of {len(weights):,}"
        raise UsageError(
            f"{folder.path} was started with another trust, {differing} weights of {source} have changed: give the old "
            "table to resume, or choose another --name"
        )


def digest(weights: NDArray[np.float32]) -> str:
    return hashlib.sha256(np.ascontiguousarray(weights).tobytes()).hexdigest()


def write_weights(path: Path, weights: NDArray[np.float32], names: Sequence[Any] | None) -> None:
    """A table of ids and trust from which the very same weights can be read."""
    with written_whole(path) as beside, open(beside, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "trust"])
        ids = range(len(weights)) if names is None else names
        writer.writerows((name, f"{weight:.9g}") for name, weight in zip(ids, weights.tolist(), strict=True))


def read_weights(path: Path) -> NDArray[np.float32]:
    with open(path, newline="", encoding="utf-8") as file:
        return np.array([float(row["trust"]) for row in csv.DictReader(file)], dtype=np.float32)


def fold_of(pairs: int, folds: int, seed: int, equal: NDArray[np.int64] | None = None) -> Tensor:
    """The fold of every pair, at random and of about equal size; equal pairs share one (see ``equal_pairs``)."""
    from rince._support.step_seeds import generator

    thing = np.arange(pairs) if equal is None else np.unique(equal, return_inverse=True)[1].reshape(-1)
    fold = torch.randperm(int(thing.max(initial=-1)) + 1, generator=generator(seed, 31)) % folds
    return fold[torch.from_numpy(thing)]


def say(text: str) -> None:
    """One line from the first process."""
    if rank_zero_only.rank == 0:
        print(text, flush=True)
