"""Baselines of the paper's image tables on digits or a small CIFAR-10."""

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from experiments.experiment import Experiment, grid, several
from experiments.paper.images.cifar10 import default_root
from experiments.tables import Cell
from experiments.training import loss_changes, settings_of, trained
from rince.compare.grid import Result, Run

METHODS = ("simclr-infonce", "simclr-rince", "moco-infonce", "byol", "simsiam", "barlow_twins", "swav")
FOLDER = Path(__file__).parent  # configurations of the methods that are not in the library
SMALL_CIFAR10 = "cifar10/small-augmentation-noise"


class ImageBaselines(Experiment):
    name = "image-baselines"
    summary = (
        "Trains every method with the settings of its configuration, on digits or on 4,000 images of "
        "CIFAR-10, and evaluates frozen features with right labels. Writes results.csv and table.md."
    )
    corner = "accuracy, %"
    epochs = 25

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        several(parser, "--methods", METHODS, "names of configurations; SimCLR and MoCo with the loss behind a dash")
        several(parser, "--data", ["digits"], "digits, cifar10", choices=("digits", "cifar10"))
        parser.add_argument("--root", default=default_root(), help="folder with CIFAR-10 (%(default)s)")

    def runs(self, options: argparse.Namespace) -> list[Run]:
        return grid(seed=range(options.seeds), data=options.data, method=options.methods, epochs=[options.epochs])

    def settings(self, run: Run, options: argparse.Namespace) -> dict[str, Any]:
        """The configuration of the method; on CIFAR-10 its method and loss in the small setting without noise."""
        name, _, loss = run["method"].partition("-")
        config = f"digits/{name}" if loss else str(FOLDER / f"{name}.yaml")
        changes = loss_changes(config, loss) if loss else {}
        common = {"seed": run["seed"], "trainer.max_epochs": run["epochs"], "probe": False}
        own = settings_of(config, changes | common)
        if run["data"] == "digits":
            return own
        small = {"method": own["method"], "loss": own["loss"], "views.noise": None, "data.root": options.root}
        return settings_of(SMALL_CIFAR10, small | common)

    def work(self, run: Run, options: argparse.Namespace) -> Result:
        from experiments.features import features_of
        from rince.evaluate.probes import fit_linear, knn_accuracy

        method, data = trained(self.settings(run, options), self.folder_of(run, options))
        (train, labels), (test, truth) = data.split("train"), data.split("test")
        train_features, test_features = features_of(method, train), features_of(method, test)
        linear = 100 * fit_linear(train_features, labels).accuracy(test_features, truth)
        knn = 100 * knn_accuracy(train_features, labels, test_features, truth, k=20)
        return {"linear": linear, "knn": knn, "headline": f"linear {linear:.1f}, kNN {knn:.1f}"}

    def cells(self, results: Sequence[Result], options: argparse.Namespace) -> Iterable[Cell]:
        for r in results:
            for key, column in (("linear", "linear probe"), ("knn", "20 nearest neighbors")):
                yield r["settings"]["method"], f"{r['settings']['data']}, {column}", r[key]
