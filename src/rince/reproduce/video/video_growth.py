"""More videos and more epochs, as in the paper's table on ACAV100M: accuracy over both, on generated videos."""

import argparse
import os
from collections.abc import Iterable, Sequence
from typing import Any

from rince.reproduce.experiment import several
from rince.reproduce.figures import lines
from rince.reproduce.grid import Result, Run
from rince.reproduce.tables import Cell
from rince.reproduce.training import loss_title
from rince.reproduce.video.generated_runs import GeneratedVideoExperiment, with_cost


class VideoGrowth(GeneratedVideoExperiment):
    name = "video-growth"
    summary = (
        "Trains on growing numbers of generated videos for growing numbers of epochs, a share of the sounds being "
        "another video's, and tests fine-tuned clips. Writes results.csv, table.md, figure.png and figure.svg."
    )
    corner = "accuracy, % after epochs"
    epochs = None
    shared = ("lr", "per_class", "tuning_epochs", "test_videos", "videos_seed")

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        several(parser, "--sizes", [120, 240, 480], "how many videos, without labels")
        several(parser, "--lengths", [12, 18, 24], "epochs of training without labels")
        parser.add_argument("--wrong", type=float, default=0.2, metavar="R", help="share of wrong sounds (%(default)s)")
        parser.add_argument("--lr", type=float, default=0.003, help="of fine-tuning (%(default)s)")

    def runs(self, options: argparse.Namespace) -> list[Run]:
        return [
            {"loss": loss, "videos": size, "length": length, "wrong": options.wrong, "seed": seed, "epochs": length}
            for seed in range(options.seeds)
            for size in options.sizes
            for length in options.lengths
            for loss in options.losses
        ]

    def work(self, run: Run, options: argparse.Namespace) -> Result:
        before = os.times()
        self.pretrain(run, options)
        accuracy = self.tuned(run, options, options.lr)
        return with_cost(before, {"accuracy": accuracy}, f"accuracy {accuracy:.1f} %")

    def cells(self, results: Sequence[Result], options: argparse.Namespace) -> Iterable[Cell]:
        for r in sorted(results, key=lambda r: r["settings"]["videos"]):
            run = r["settings"]
            yield f"{run['videos']} videos, {loss_title(run['loss'])}", f"{run['length']}", r["accuracy"]

    def figure(self, results: Sequence[Result], options: argparse.Namespace) -> Any:
        points = [
            (f"{run['videos']} videos", loss_title(run["loss"]), run["length"], r["accuracy"])
            for r in results
            for run in [r["settings"]]
        ]
        return lines(points, "epochs without labels", "accuracy, %", shared=True)


main = VideoGrowth().main
