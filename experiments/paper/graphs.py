"""GraphCL on TUDatasets: the paper's table and figure, and graphs paired with a view of another graph."""

import argparse
import functools
import os
import time
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from experiments.experiment import Experiment, grid, several
from experiments.figures import COLORS, legend, lines, panels
from experiments.tables import Cell
from experiments.training import LOSS_HELP, loss_changes, loss_title, part, settings_of, split_loss, trained
from rince._support.optional_imports import require
from rince._support.step_seeds import generator
from rince.compare.grid import Result, Run
from rince.compare.tables import mean_and_deviation, paired
from rince.data.graphs import Graphs, tudataset
from rince.errors import UsageError

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
        for dataset in [] if options.report_only else options.datasets:
            graphs_of(dataset, options.root, options.download)

    def changes(self, run: Run) -> dict[str, Any]:
        """What the run changes in the configuration, beside data set, loss, seed and epochs."""
        return {}

    def train(self, run: Run, options: argparse.Namespace) -> tuple[Any, Any]:
        """Method and data of a run."""
        changes = {
            "seed": run["seed"],
            "data.dataset": run["dataset"],
            "data.root": options.root,
            "encoder.in_features": graphs_of(run["dataset"], options.root).num_features,
            "views.published": False,
            "trainer.max_epochs": run["epochs"],
            "probe": False,
        }
        settings = settings_of(CONFIG, loss_changes(CONFIG, run["loss"]) | changes | self.changes(run))
        return trained(settings, self.folder_of(run, options))

    def work(self, run: Run, options: argparse.Namespace) -> Result:
        method, data = self.train(run, options)
        result = svm_result(method.encoder, data.graphs, run["seed"])
        return {**result, "headline": f"accuracy {result['accuracy']:.1f} %"}


def svm_result(encoder: Any, graphs: Graphs, seed: int) -> dict[str, Any]:
    """The nested cross-validation of the protocol, in percent, and what it cost."""
    from rince.evaluate.svm import features_of, svm_accuracy

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


PAPER = {  # accuracy and deviation over five trials, as the paper prints them
    "graphcl": {"REDDIT-BINARY": (89.9, 0.4), "NCI1": (78.2, 0.8), "PROTEINS": (74.4, 0.5), "DD": (78.6, 0.8)},
    "rince": {"REDDIT-BINARY": (90.9, 0.6), "NCI1": (78.6, 0.4), "PROTEINS": (74.7, 0.8), "DD": (78.7, 0.4)},
}


class TUDatasetTable(GraphExperiment):
    name = "tudataset"
    summary = (
        "GraphCL with each loss on each data set; accuracy of an SVM on the frozen features, by 10-fold nested "
        "cross-validation, after the last epoch. Writes results.csv, table.md, figure.png and figure.svg."
    )
    corner = "accuracy, %"
    datasets = ("MUTAG", "BZR", "PROTEINS", "IMDB-BINARY", "NCI1", "DD", "REDDIT-BINARY")
    losses = ("graphcl", "rince")
    seeds = 10

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        several(parser, "--views", VIEWS, "as in GraphCL's published code, or as its paper defines them")

    def check(self, options: argparse.Namespace) -> None:
        if unknown := set(options.views) - set(VIEWS):
            raise UsageError(f"--views must be among {', '.join(VIEWS)}, got {unknown.pop()}")
        super().check(options)

    def runs(self, options: argparse.Namespace) -> list[Run]:
        """Every data set once before any seed again: a table of everything soon, and an honest estimate of the time."""
        return grid(
            views=options.views, seed=range(options.seeds), dataset=options.datasets, loss=options.losses,
            epochs=[options.epochs],
        )  # fmt: skip

    def changes(self, run: Run) -> dict[str, Any]:
        return {"views.published": run["views"] == "published"}

    def cells(self, results: Sequence[Result], options: argparse.Namespace) -> Iterable[Cell]:
        for views in options.views:
            for loss in options.losses:
                for r in results:
                    if (r["settings"]["loss"], r["settings"]["views"]) == (loss, views):
                        yield f"{views} views, {loss_title(loss)}", r["settings"]["dataset"], r["accuracy"]

    def remarks(self, results: Sequence[Result], options: argparse.Namespace) -> list[str]:
        paper_lines = [
            f"The paper's {loss_title(loss)}: " + ", ".join(f"{name} {m:.1f} ± {d:.1f}" for name, (m, d) in row.items())
            for loss, row in PAPER.items()
        ]
        tested = [
            line
            for views in options.views
            for base in options.losses
            if base != "rince"
            for dataset in options.datasets
            if (line := paired_test(results, dataset, views, base))
        ]
        return [*paper_lines, *tested]

    def figure(self, results: Sequence[Result], options: argparse.Namespace) -> Any:
        """One panel per kind of views: every seed as a dot, the mean as a bar, the paper's value as a diamond."""
        figure, axes = panels(len(options.views), width=1.6 * max(2, len(options.datasets)))
        for axis, views in zip(axes.flat, options.views, strict=False):
            for i, loss in enumerate(options.losses):
                for j, dataset in enumerate(options.datasets):
                    position = j + (i - (len(options.losses) - 1) / 2) * 0.25
                    values = list(accuracies(results, dataset, views, loss).values())
                    style = {"color": COLORS[i % len(COLORS)]}
                    axis.scatter([position] * len(values), values, s=14, alpha=0.6, **style)
                    if values:
                        label = loss_title(loss) if j == 0 else None
                        axis.hlines(mean_and_deviation(values)[0], position - 0.1, position + 0.1, label=label, **style)
                    if (paper := PAPER.get(loss, {}).get(dataset)) is not None:
                        label = "the paper's mean" if i == 0 and dataset == "DD" else None
                        marker = {"marker": "D", "s": 22, "facecolors": "none", "edgecolors": "k"}
                        axis.scatter([position], [paper[0]], label=label, **marker)
            axis.set_xticks(range(len(options.datasets)), options.datasets, fontsize=7)
            axis.set_ylabel("accuracy, %", fontsize=9)
            axis.set_title(f"{views} views", fontsize=9)
        legend(figure, axes.flat[0])
        return figure


def accuracies(results: Sequence[Result], dataset: str, views: str, loss: str) -> dict[int, float]:
    """Accuracy at the last epoch by seed."""
    return {
        r["settings"]["seed"]: r["accuracy"]
        for r in results
        if all(r["settings"][key] == value for key, value in (("dataset", dataset), ("views", views), ("loss", loss)))
    }


def paired_test(results: Sequence[Result], dataset: str, views: str, base: str) -> str | None:
    """RINCE against another loss on the same seeds; None without common seeds."""
    test = paired(*(accuracies(results, dataset, views, loss) for loss in ("rince", base)))
    return None if test is None else f"{dataset}, {views} views: RINCE - {loss_title(base)} = {test}."


VIEWS = ("published", "defined")


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
        return grid(
            seed=range(options.seeds), dataset=options.datasets, rate=options.rates, loss=options.losses,
            epochs=[options.epochs],
        )  # fmt: skip

    def changes(self, run: Run) -> dict[str, Any]:
        kinds = [part(f"rince.views.graph.{kind}", rate=run["rate"]) for kind in PERTURBATIONS]
        return {"views.view": part("rince.views.graph.Choice", views=kinds)}

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


PERTURBATIONS = ("DropNodes", "PerturbEdges", "MaskAttributes")


COLUMNS = {"accuracy": "accuracy", "auc": "AUC of wrong pairs", "estimate": "rate estimated by the audit"}
VIEW_STREAM = 4  # of the seed: fresh views


class GraphWrongPairs(GraphExperiment):
    name = "graph-wrong-pairs"
    summary = (
        "GraphCL where a share of the graphs gets a view of another graph, the same one throughout. Writes "
        "results.csv, table.md, figure.png and figure.svg."
    )
    corner = "% with wrong pairs of"
    losses = ("infonce", "rince", "rince-0.5", "rince-1")

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        super().add_options(parser)
        several(parser, "--rates", [0.0, 0.2, 0.4, 0.6], "of wrong pairs")

    def runs(self, options: argparse.Namespace) -> list[Run]:
        return grid(
            seed=range(options.seeds), dataset=options.datasets, wrong=options.rates, loss=options.losses,
            epochs=[options.epochs],
        )  # fmt: skip

    def changes(self, run: Run) -> dict[str, Any]:
        return {"data.wrong_pairs": run["wrong"], "data.wrong_pairs_seed": run["seed"]}

    def work(self, run: Run, options: argparse.Namespace) -> Result:
        from sklearn.metrics import roc_auc_score

        from rince.audit import audit_pairs

        method, data = self.train(run, options)
        wrong = data.mispaired.hit
        judged = audit_pairs(*pair_embeddings(method, data, run["seed"]), seed=run["seed"])
        accuracy = svm_result(method.encoder, data.graphs, run["seed"])["accuracy"]
        auc = 100 * float(roc_auc_score(wrong, -judged.scores)) if wrong.any() and not wrong.all() else None
        headline = f"accuracy {accuracy:.1f} %" + ("" if auc is None else f", AUC {auc:.1f} %")
        return {"accuracy": accuracy, "auc": auc, "estimate": 100 * judged.noise_rate, "headline": headline}

    def cells(self, results: Sequence[Result], options: argparse.Namespace) -> Iterable[Cell]:
        for dataset in options.datasets:
            for loss in options.losses:
                for key, name in COLUMNS.items():
                    for r in results:
                        run = r["settings"]
                        if (run["dataset"], run["loss"]) == (dataset, loss) and r[key] is not None:
                            yield f"{dataset}, {loss_title(loss)}, {name}", f"{100 * run['wrong']:g} %", r[key]

    def figure(self, results: Sequence[Result], options: argparse.Namespace) -> Any:
        points = [
            (f"{r['settings']['dataset']}: {COLUMNS[key]}", loss_title(r["settings"]["loss"]),
             100 * r["settings"]["wrong"], r[key])
            for key in ("accuracy", "auc")
            for r in results
            if r[key] is not None
        ]  # fmt: skip
        return lines(points, "wrong pairs, %", "%")


@torch.no_grad()
def pair_embeddings(method: Any, data: Any, seed: int, batch_size: int = 512) -> tuple[Tensor, Tensor]:
    """Every graph and a view of the one it was paired with, from the network in evaluation mode."""
    method.eval()
    partner, draws = torch.from_numpy(data.mispaired.partner), generator(seed, VIEW_STREAM)
    first, second = [], []
    for chosen in torch.arange(len(data.graphs)).split(batch_size):
        view = method.views(data.graphs.batch(partner[chosen]), draws)[1]
        _, z1, z2 = method.embeddings(data.graphs.batch(chosen), view)
        first.append(z1)
        second.append(z2)
    return torch.cat(first), torch.cat(second)
