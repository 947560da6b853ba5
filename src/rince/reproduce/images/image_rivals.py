"""Rivals in the paper's tables: SimCLR, MoCo, BYOL, SimSiam, Barlow Twins, SwAV on digits or small CIFAR-10."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from rince.reproduce.experiment import Experiment, several
from rince.reproduce.grid import Result, Run
from rince.reproduce.images.cifar10 import default_root
from rince.reproduce.tables import Cell
from rince.reproduce.training import loss_changes, settings_of, trained

METHODS = ("simclr-infonce", "simclr-rince", "moco-infonce", "byol", "simsiam", "barlow_twins", "swav")
SMALL_CIFAR10 = "cifar10/small-augmentation-noise"


class ImageRivals(Experiment):
    name = "image-rivals"
    summary = (
        "Trains every method with the settings of its configuration digits/NAME, on digits or on 4,000 images of "
        "CIFAR-10, and evaluates frozen features with right labels. Writes results.csv and table.md."
    )
    corner = "accuracy, %"
    epochs = 25

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        several(parser, "--methods", METHODS, "names of configurations; SimCLR and MoCo with the loss behind a dash")
        several(parser, "--data", ["digits"], "digits, cifar10", choices=("digits", "cifar10"))
        parser.add_argument("--root", default=default_root(), help="folder with CIFAR-10 (%(default)s)")

    def runs(self, options: argparse.Namespace) -> list[Run]:
        return [
            {"data": data, "method": method, "seed": seed, "epochs": options.epochs}
            for seed in range(options.seeds)
            for data in options.data
            for method in options.methods
        ]

    def settings(self, run: Run, options: argparse.Namespace) -> dict[str, Any]:
        """The configuration of the method; on CIFAR-10 its method and loss in the small setting without noise."""
        name, _, loss = run["method"].partition("-")
        config = f"digits/{name}"
        changes = loss_changes(config, loss) if loss else {}
        common = {"seed": run["seed"], "trainer.max_epochs": run["epochs"], "probe": False}
        own = settings_of(config, changes | common)
        if run["data"] == "digits":
            return own
        small = {"method": own["method"], "loss": own["loss"], "views.noise": None, "data.root": options.root}
        return settings_of(SMALL_CIFAR10, small | common)

    def work(self, run: Run, options: argparse.Namespace) -> Result:
        from rince.evaluate.features import features_of
        from rince.evaluate.knn import knn_accuracy
        from rince.evaluate.linear import fit_linear

        method, data = trained(self.settings(run, options), self.folder_of(run, options))
        (train, labels), (test, truth) = data.split("train"), data.split("test")
        known, found = features_of(method, train), features_of(method, test)
        linear = 100 * fit_linear(known, labels).accuracy(found, truth)
        near = 100 * knn_accuracy(known, labels, found, truth, k=20)
        return {"linear": linear, "knn": near, "headline": f"linear {linear:.1f}, kNN {near:.1f}"}

    def cells(self, results: Sequence[Result], options: argparse.Namespace) -> Iterable[Cell]:
        for r in results:
            for key, column in (("linear", "linear probe"), ("knn", "20 nearest neighbours")):
                yield r["settings"]["method"], f"{r['settings']['data']}, {column}", r[key]


main = ImageRivals().main
