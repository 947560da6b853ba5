"""Clips and sounds of generated videos, some with wrong sounds, then few labels: fine-tuned, frozen, from scratch."""

import argparse
import os
from collections.abc import Iterable, Sequence
from typing import Any

from rince.reproduce.experiment import several
from rince.reproduce.figures import COLOURS, legend, panels
from rince.reproduce.grid import Result, Run
from rince.reproduce.tables import Cell, grouped, mean_and_deviation
from rince.reproduce.training import loss_title
from rince.reproduce.video.generated_runs import GeneratedVideoExperiment, with_cost


class GeneratedVideoTable(GeneratedVideoExperiment):
    name = "generated-video"
    summary = (
        "Trains on clips and sounds of generated videos without labels, a share of the sounds being another video's, "
        "then fine-tunes on a few labelled videos of each class and tests on others; and the same from initial weights "
        "with the same number of epochs. Writes results.csv, table.md, figure.png and figure.svg."
    )
    corner = "first, without labels"
    note = "Accuracy on test videos in %."
    shared = ("lrs", "per_class", "tuning_epochs", "videos", "test_videos", "videos_seed")

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        several(parser, "--rates", [0.0, 0.4], "of wrong sounds")
        several(parser, "--lrs", [0.001, 0.003, 0.01], "learning rates of fine-tuning and of training from scratch")

    def runs(self, options: argparse.Namespace) -> list[Run]:
        runs: list[Run] = []
        for seed in range(options.seeds):
            runs.append({"loss": "scratch", "seed": seed, "epochs": options.epochs})
            runs += [
                {"loss": loss, "wrong": rate, "seed": seed, "epochs": options.epochs}
                for rate in options.rates
                for loss in options.losses
            ]
        return runs

    def work(self, run: Run, options: argparse.Namespace) -> Result:
        """Accuracies in percent after fine-tuning and of frozen features; from scratch there is only the former."""
        before, scratch = os.times(), run["loss"] == "scratch"
        if not scratch:
            self.pretrain(run, options)
        found = {f"tuned {lr:g}": self.tuned(run, options, lr, from_scratch=scratch) for lr in options.lrs}
        if not scratch:
            found["frozen"] = self.tuned(run, options, options.lrs[-1], linear=True)
        return with_cost(before, found, ", ".join(f"{key} {value:.1f}" for key, value in found.items()))

    def cells(self, results: Sequence[Result], options: argparse.Namespace) -> Iterable[Cell]:
        columns = {f"tuned {lr:g}": f"fine-tuned at {lr:g}" for lr in options.lrs} | {"frozen": "frozen features"}
        for r in results:
            for key, column in columns.items():
                if key in r:
                    yield label_of(r["settings"]), column, r[key]

    def figure(self, results: Sequence[Result], options: argparse.Namespace) -> Any:
        """A bar for every row and way of testing, with one standard deviation over seeds."""
        found = grouped(list(self.cells(results, options)))
        rows, columns = (list(dict.fromkeys(key[place] for key in found)) for place in (0, 1))
        figure, axes = panels(1, width=1.4 * len(rows) + 1.5)
        for i, column in enumerate(columns):
            width = 0.8 / len(columns)
            bars = [(j, mean_and_deviation(found[row, column])) for j, row in enumerate(rows) if (row, column) in found]
            axes[0, 0].bar(
                [j + (i - (len(columns) - 1) / 2) * width for j, _ in bars], [mean for _, (mean, _) in bars], width,
                yerr=[deviation for _, (_, deviation) in bars], color=COLOURS[i], label=column,
                error_kw={"linewidth": 0.8, "capsize": 2},
            )  # fmt: skip
        axes[0, 0].set_xticks(range(len(rows)), [row.replace(", ", ",\n").replace(" (", "\n(") for row in rows])
        axes[0, 0].set_ylabel("accuracy, %", fontsize=9)
        legend(figure, axes[0, 0])
        return figure


def label_of(run: Run) -> str:
    """The row of a run."""
    if run["loss"] == "scratch":
        return "nothing (from scratch)"
    return loss_title(run["loss"]) + (f", {100 * run['wrong']:g} % wrong sounds" if run["wrong"] else "")


main = GeneratedVideoTable().main
