"""The paper's figure on graphs: accuracy as node dropping, edge perturbation and attribute masking get rougher."""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

from rince.errors import UsageError
from rince.reproduce.experiment import several
from rince.reproduce.figures import lines
from rince.reproduce.graphs.graph_runs import GraphExperiment
from rince.reproduce.grid import Result, Run
from rince.reproduce.tables import Cell
from rince.reproduce.training import loss_title, part


class Perturbation(GraphExperiment):
    name = "graph-perturbation"
    summary = (
        "GraphCL with one of node dropping, edge perturbation and attribute masking for each graph, at growing rates; "
        "accuracy of an SVM on the frozen features. Writes results.csv, table.md, figure.png and figure.svg."
    )
    corner = "accuracy, % at a rate of"
    datasets = ("PROTEINS", "NCI1")

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        several(parser, "--rates", [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], "of the views, from 0 to below 1")

    def check(self, options: argparse.Namespace) -> None:
        if 1 in options.rates:
            raise UsageError("--rates must lie in [0, 1), got 1.0: nothing would be left of a graph")
        super().check(options)

    def runs(self, options: argparse.Namespace) -> list[Run]:
        return [
            {"dataset": dataset, "loss": loss, "rate": rate, "seed": seed, "epochs": options.epochs}
            for seed in range(options.seeds)
            for dataset in options.datasets
            for rate in options.rates
            for loss in options.losses
        ]

    def changes(self, run: Run) -> dict[str, Any]:
        kinds = [part(f"rince.views.graph.{kind}", rate=run["rate"]) for kind in VIEWS]
        return {"views.view": part("rince.views.graph.Choice", views=kinds)}

    def work(self, run: Run, options: argparse.Namespace) -> Result:
        found = self.accuracies(run, options, [run["epochs"]])[str(run["epochs"])]
        return {**found, "headline": f"accuracy {found['accuracy']:.1f} %"}

    def cells(self, results: Sequence[Result], options: argparse.Namespace) -> Iterable[Cell]:
        for r in sorted(results, key=lambda r: options.datasets.index(r["settings"]["dataset"])):
            run = r["settings"]
            yield f"{run['dataset']}, {loss_title(run['loss'])}", f"{100 * run['rate']:g} %", r["accuracy"]

    def figure(self, results: Sequence[Result], options: argparse.Namespace) -> Any:
        points = [
            (r["settings"]["dataset"], loss_title(r["settings"]["loss"]), 100 * r["settings"]["rate"], r["accuracy"])
            for r in results
        ]
        return lines(points, "perturbation rate, %", "accuracy, %")


VIEWS = ("DropNodes", "PerturbEdges", "MaskAttributes")

main = Perturbation().main
