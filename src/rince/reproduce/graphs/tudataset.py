"""The paper's table of graph classification: TUDataset, InfoNCE against RINCE."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from rince.reproduce.figures import COLOURS, legend, panels
from rince.reproduce.graphs.graph_runs import GraphExperiment
from rince.reproduce.grid import Result, Run
from rince.reproduce.tables import Cell, mean_and_deviation
from rince.reproduce.training import loss_title

PAPER = {  # accuracy and deviation over five trials, as the paper prints them
    "infonce": {"REDDIT-BINARY": (89.9, 0.4), "NCI1": (78.2, 0.8), "PROTEINS": (74.4, 0.5), "DD": (78.6, 0.8)},
    "rince": {"REDDIT-BINARY": (90.9, 0.6), "NCI1": (78.6, 0.4), "PROTEINS": (74.7, 0.8), "DD": (78.7, 0.4)},
}


class TUDatasetTable(GraphExperiment):
    name = "tudataset"
    summary = (
        "GraphCL with each loss on each data set; accuracy of an SVM on the frozen features, by 10-fold nested "
        "cross-validation, halfway and at the end. Writes results.csv, table.md, figure.png and figure.svg."
    )
    corner = "accuracy, %"
    datasets = ("REDDIT-BINARY", "NCI1", "PROTEINS", "DD")

    def runs(self, options: argparse.Namespace) -> list[Run]:
        """Every data set once before any seed again: a table of everything soon, and an honest estimate of the time."""
        return [
            {"dataset": dataset, "loss": loss, "seed": seed, "epochs": options.epochs}
            for seed in range(options.seeds)
            for dataset in options.datasets
            for loss in options.losses
        ]

    def work(self, run: Run, options: argparse.Namespace) -> Result:
        last, half = run["epochs"], max(1, run["epochs"] // 2)
        found = self.accuracies(run, options, sorted({half, last}))
        accuracy = found[str(last)]["accuracy"]
        return {
            "epochs": found,
            "accuracy": accuracy,
            "accuracy_halfway": found[str(half)]["accuracy"],
            "headline": f"accuracy {accuracy:.1f} %",
        }

    def cells(self, results: Sequence[Result], options: argparse.Namespace) -> Iterable[Cell]:
        for loss in options.losses:
            for key, epoch in (("accuracy", options.epochs), ("accuracy_halfway", max(1, options.epochs // 2))):
                for r in results:
                    if r["settings"]["loss"] == loss:
                        yield f"{loss_title(loss)}, epoch {epoch}", r["settings"]["dataset"], r[key]

    def remarks(self, results: Sequence[Result], options: argparse.Namespace) -> list[str]:
        printed = [
            f"The paper's {loss_title(loss)}: " + ", ".join(f"{name} {m:.1f} ± {d:.1f}" for name, (m, d) in row.items())
            for loss, row in PAPER.items()
        ]
        return [f"Epoch {options.epochs} is the one reported.", *printed, *verdicts(results, options.datasets)]

    def figure(self, results: Sequence[Result], options: argparse.Namespace) -> Any:
        """Every seed as a dot, the mean as a bar, the paper's value as a diamond."""
        figure, axes = panels(1, width=1.6 * max(2, len(options.datasets)))
        axis = axes[0, 0]
        for i, loss in enumerate(options.losses):
            for j, dataset in enumerate(options.datasets):
                place = j + (i - (len(options.losses) - 1) / 2) * 0.25
                values = accuracies(results, dataset, loss)
                style = {"color": COLOURS[i % len(COLOURS)]}
                axis.scatter([place] * len(values), values, s=14, alpha=0.6, **style)
                if values:
                    label = loss_title(loss) if j == 0 else None
                    axis.hlines(mean_and_deviation(values)[0], place - 0.1, place + 0.1, label=label, **style)
                if (paper := PAPER.get(loss, {}).get(dataset)) is not None:
                    label = "the paper's mean" if (i, j) == (0, 0) else None
                    axis.scatter([place], [paper[0]], marker="D", s=22, facecolors="none", edgecolors="k", label=label)
        axis.set_xticks(range(len(options.datasets)), options.datasets)
        axis.set_ylabel("accuracy, %", fontsize=9)
        legend(figure, axis)
        return figure


def accuracies(results: Sequence[Result], dataset: str, loss: str) -> list[float]:
    """Of all seeds, at the last epoch."""
    return [r["accuracy"] for r in results if (r["settings"]["dataset"], r["settings"]["loss"]) == (dataset, loss)]


def verdicts(results: Sequence[Result], datasets: Sequence[str]) -> list[str]:
    """Whether RINCE is ahead of InfoNCE by more than the spread of the seeds, on every data set."""
    told = []
    for dataset in datasets:
        pair = [accuracies(results, dataset, loss) for loss in ("infonce", "rince")]
        if min(map(len, pair)) < 2:
            continue  # no spread to compare with
        base, ours = map(mean_and_deviation, pair)
        gap, spread = ours[0] - base[0], (base[1] ** 2 + ours[1] ** 2) ** 0.5
        if abs(gap) <= spread:
            word = "no difference beyond the spread"
        else:
            word = "RINCE is ahead" if gap > 0 else "RINCE is behind"
        told.append(f"{dataset}: RINCE - InfoNCE = {gap:+.1f} (spread {spread:.1f}): {word}.")
    return told


main = TUDatasetTable().main
