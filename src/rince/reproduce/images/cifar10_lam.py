"""The paper's ablation of lam on CIFAR-10, in the small: accuracy over lam, with and without augmentation noise."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from rince.reproduce.experiment import several
from rince.reproduce.figures import lines
from rince.reproduce.grid import Result, Run
from rince.reproduce.images.cifar10 import SPACES
from rince.reproduce.images.cifar10_augmentation_noise import AugmentationNoise
from rince.reproduce.tables import Cell


class Lam(AugmentationNoise):
    name = "cifar10-lam"
    summary = (
        "RINCE with the configuration's q at several lam. Writes results.csv, table.md, figure.png and figure.svg."
    )
    corner = "accuracy, % at lam"
    losses = ("rince",)
    etas = (0.0, 0.4)
    neighbours = False  # the table has none

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        several(parser, "--lams", [0.01, 0.05, 0.1, 0.2, 0.4], "weights of the negatives")

    def runs(self, options: argparse.Namespace) -> list[Run]:
        return [
            {"loss": loss, "lam": lam, "eta": eta, "seed": seed, "epochs": options.epochs}
            for seed in range(options.seeds)
            for eta in options.etas
            for lam in options.lams
            for loss in options.losses
        ]

    def changes(self, run: Run, options: argparse.Namespace) -> dict[str, Any]:
        return super().changes(run, options) | {"loss.lam": run["lam"]}

    def cells(self, results: Sequence[Result], options: argparse.Namespace) -> Iterable[Cell]:
        for space in SPACES:
            for r in results:
                yield f"{space}, {self.title(r['settings'])}", f"{r['settings']['lam']:g}", r[f"{space}_linear_test"]

    def title(self, run: Run) -> str:
        return f"{super().title(run)}, noise {run['eta']:g}"

    def figure(self, results: Sequence[Result], options: argparse.Namespace) -> Any:
        points = [
            (f"{space}, linear probe", self.title(r["settings"]), r["settings"]["lam"], r[f"{space}_linear_test"])
            for space in SPACES
            for r in results
        ]
        return lines(points, "lam", "accuracy, %", log=True)

    def remarks(self, results: Sequence[Result], options: argparse.Namespace) -> list[str]:
        return []


main = Lam().main
