"""CIFAR-10 with wrong labels, in the small: accuracy over the paper's noise rate and q, one and several positives."""

import argparse
from typing import Any

from rince.reproduce.experiment import several
from rince.reproduce.grid import Run
from rince.reproduce.images.cifar10 import CIFAR10Experiment, stem_cache
from rince.reproduce.training import loss_title


class LabelNoise(CIFAR10Experiment):
    name = "cifar10-label-noise"
    summary = (
        "Positives are images of the same, often wrong, label: labels of five classes are flipped with the paper's "
        "probability eta / 2. Writes results.csv, table.md, figure.png and figure.svg."
    )
    config = "cifar10/small-label-noise"
    epochs = 40

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        several(parser, "--positives", ["one"], "one positive per anchor, or several", choices=("one", "several"))

    def runs(self, options: argparse.Namespace) -> list[Run]:
        return [{"positives": form, **run} for run in super().runs(options) for form in options.positives]

    def changes(self, run: Run, options: argparse.Namespace) -> dict[str, Any]:
        return {
            "method.positives": run["positives"],
            "data.noise.eta": run["eta"],
            "data.source.root": options.root,
            "data.cache": stem_cache(options),
        }

    def title(self, run: Run) -> str:
        return loss_title(run["loss"]) + (", several positives" if run["positives"] == "several" else "")


main = LabelNoise().main
