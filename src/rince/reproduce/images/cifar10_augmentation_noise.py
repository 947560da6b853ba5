"""CIFAR-10 with views that go too far, in the small: accuracy over the paper's noise rate and q."""

import argparse
from typing import Any

from rince.reproduce.grid import Run
from rince.reproduce.images.cifar10 import CIFAR10Experiment


class AugmentationNoise(CIFAR10Experiment):
    name = "cifar10-augmentation-noise"
    summary = (
        "A share eta of the views is cropped once more, to a fifth of its area. Writes results.csv, table.md, "
        "figure.png and figure.svg."
    )
    config = "cifar10/small-augmentation-noise"
    epochs = 12

    def changes(self, run: Run, options: argparse.Namespace) -> dict[str, Any]:
        return {"views.noise.rate": run["eta"], "data.root": options.root}


main = AugmentationNoise().main
