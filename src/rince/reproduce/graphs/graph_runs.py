"""What the experiments on graphs share: any TUDataset, trained by ``rince train``, evaluated at given epochs."""

import argparse
import functools
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from rince._support.atomic_files import write_text
from rince._support.optional_imports import require
from rince.data.graphs.graphs import Graphs
from rince.data.graphs.tudataset import tudataset
from rince.reproduce.experiment import Experiment, several
from rince.reproduce.grid import Run
from rince.reproduce.training import LOSS_HELP, loss_changes, part, settings_of, split_loss, trained

CONFIG = "tudataset/proteins"  # all data sets are trained alike; their names and features are changed below


class GraphExperiment(Experiment):
    """GraphCL on TUDatasets. A subclass says what differs between its runs."""

    seeds = 5
    epochs = 20
    datasets: Sequence[str] = ("PROTEINS", "MUTAG")
    losses: Sequence[str] = ("infonce", "rince")

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        several(parser, "--datasets", self.datasets, "names of TUDatasets")
        several(parser, "--losses", self.losses, f"{LOSS_HELP}, graphcl")
        parser.add_argument("--root", default=default_root(), help="folder with NAME.zip or NAME/ (%(default)s)")
        parser.add_argument("--download", action="store_true", help="fetch data sets that are not there")

    def check(self, options: argparse.Namespace) -> None:
        require("torch_geometric", "graph")
        for loss in options.losses:
            split_loss(loss)
        for dataset in [] if options.so_far else options.datasets:
            graphs_of(dataset, options.root, options.download)

    def changes(self, run: Run) -> dict[str, Any]:
        """What the run changes in the configuration, beside data set, loss, seed and epochs."""
        return {}

    def train(self, run: Run, options: argparse.Namespace, evaluated: Sequence[int] = ()) -> tuple[Any, Any]:
        """Method and data of a run, and in its folder the accuracies at the ``evaluated`` epochs."""
        changes = {
            "seed": run["seed"],
            "data.dataset": run["dataset"],
            "data.root": options.root,
            "encoder.in_features": graphs_of(run["dataset"], options.root).num_features,
            "trainer.max_epochs": run["epochs"],
            "trainer.callbacks": [part("rince.reproduce.graphs.graph_runs.EvaluateAt", epochs=list(evaluated))],
            "probe": False,
        }
        settings = settings_of(CONFIG, loss_changes(CONFIG, run["loss"]) | changes | self.changes(run))
        return trained(settings, self.folder_of(run, options))

    def accuracies(self, run: Run, options: argparse.Namespace, evaluated: Sequence[int]) -> dict[str, Any]:
        """Train, and tell the SVM's accuracy in percent at every one of the ``evaluated`` epochs."""
        self.train(run, options, evaluated)
        return json.loads((self.folder_of(run, options) / EvaluateAt.FILE).read_text(encoding="utf-8"))


class EvaluateAt(Callback):
    """Accuracy of the protocol's SVM on the encoder as it is at some epochs, kept in the folder of the run."""

    FILE = "evaluation.json"

    def __init__(self, epochs: list[int]):
        """
        Args:
            epochs: How many epochs of training lie behind the encoder at each evaluation.
        """
        self.epochs = epochs

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        epoch, path = trainer.current_epoch + 1, Path(trainer.default_root_dir) / self.FILE
        if epoch not in self.epochs or not trainer.is_global_zero:
            return
        found = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
        data: Any = trainer.datamodule
        found[str(epoch)] = svm_result(pl_module.encoder, data.graphs, data.seed)
        write_text(path, json.dumps(found, indent=1) + "\n")


def svm_result(encoder: Any, graphs: Graphs, seed: int) -> dict[str, Any]:
    """The nested cross-validation of the protocol, in percent, and what it cost."""
    from rince.evaluate.graphs import features_of
    from rince.evaluate.svm import svm_accuracy

    started = time.process_time()
    result = svm_accuracy(features_of(encoder, graphs), graphs.y, seed=seed)
    return {
        "accuracy": 100 * result.accuracy,
        "folds": [100 * value for value in result.accuracies],
        "C": list(result.chosen),
        "validation": 100 * sum(result.validation) / len(result.validation),
        "cpu_seconds": time.process_time() - started,
    }


@functools.lru_cache(maxsize=5)
def graphs_of(dataset: str, root: str, download: bool = False) -> Graphs:
    """A process that works on several runs reads each data set once."""
    return tudataset(dataset, root, download=download)


def default_root() -> str:
    """$RINCE_DATA/tudataset if that variable is set."""
    return str(Path(os.environ["RINCE_DATA"]) / "tudataset") if "RINCE_DATA" in os.environ else "data/tudataset"
