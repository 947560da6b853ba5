"""More than the paper: a share of the graphs is paired with a view of another graph.

Shows what each loss still learns, whether the scores of the trained network tell wrong pairs from right ones, and what
the audit makes of them. The pairs are those that were trained on, with fresh views.
"""

import argparse
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor

from rince._support.step_seeds import generator
from rince.reproduce.experiment import several
from rince.reproduce.figures import lines
from rince.reproduce.graphs.graph_runs import GraphExperiment, svm_result
from rince.reproduce.grid import Result, Run
from rince.reproduce.tables import Cell
from rince.reproduce.training import loss_title

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
        return [
            {"dataset": dataset, "loss": loss, "wrong": rate, "seed": seed, "epochs": options.epochs}
            for seed in range(options.seeds)
            for dataset in options.datasets
            for rate in options.rates
            for loss in options.losses
        ]

    def changes(self, run: Run) -> dict[str, Any]:
        return {"data.wrong_pairs": run["wrong"], "data.wrong_pairs_seed": run["seed"]}

    def work(self, run: Run, options: argparse.Namespace) -> Result:
        from sklearn.metrics import roc_auc_score

        from rince.audit import audit

        method, data = self.train(run, options)
        wrong = data.mispaired.hit
        judged = audit(*pair_embeddings(method, data, run["seed"]), seed=run["seed"])
        accuracy = svm_result(method.encoder, data.graphs, run["seed"])["accuracy"]
        found = 100 * float(roc_auc_score(wrong, -judged.scores)) if wrong.any() and not wrong.all() else None
        headline = f"accuracy {accuracy:.1f} %" + ("" if found is None else f", AUC {found:.1f} %")
        return {"accuracy": accuracy, "auc": found, "estimate": 100 * judged.noise_rate, "headline": headline}

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


main = GraphWrongPairs().main
