"""More than the paper: a share of the graphs is paired with a view of a stranger.

Shows what each loss still learns, whether the scores of the trained network tell wrong pairs from right ones, and what
the audit makes of them. The pairs are those that were trained on, with fresh views.
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from rince._support.atomic_files import write_text
from rince._support.step_seeds import generator
from rince.data.graphs.graphs import Graphs
from rince.errors import UsageError
from rince.reproduce.graph_training import LOSSES, graphs_of, make_loss, train, views_of
from rince.reproduce.grid import Run, results_of
from rince.reproduce.options import graph_options, parsed
from rince.reproduce.tables import aligned, as_csv, plus_minus, seeds_note

if TYPE_CHECKING:
    from rince.methods.graphcl import GraphCL

RATES = [0.0, 0.2, 0.4, 0.6]
COLUMNS = {"accuracy": "accuracy", "auc": "AUC of wrong pairs", "estimate": "rate estimated by the audit"}
NOISE_STREAM = 3  # of the seed; 0 to 2 are the weights, the order and the views
VIEW_STREAM = 4
DESCRIPTION = (
    "GraphCL where a share of the graphs gets a view of a stranger, the same one throughout. Writes results.json, "
    "results.csv, table.md and figure.png."
)


def wrong_partners(graphs: int, rate: float, draws: torch.Generator) -> tuple[Tensor, Tensor]:
    """For every graph the one whose view it gets, and which graphs get a stranger's: ``round(rate * graphs)`` of them.

    The chosen graphs pass their views round a circle in random order, so none keeps its own and each view is used once.
    """
    if not 0 <= rate <= 1:
        raise UsageError(f"the rate of wrong pairs must lie in [0, 1], got {rate}")
    number = round(rate * graphs)
    number = 2 if number == 1 else number  # one graph alone has nobody to swap with
    if number > graphs:
        raise UsageError(f"{graphs} graphs are too few for wrong pairs at a rate of {rate}")
    chosen = torch.randperm(graphs, generator=draws)[:number]
    partners = torch.arange(graphs)
    partners[chosen] = chosen.roll(1)
    wrong = torch.zeros(graphs, dtype=torch.bool)
    wrong[chosen] = True
    return partners, wrong


@torch.no_grad()
def pair_embeddings(
    method: "GraphCL", graphs: Graphs, partners: Tensor, draws: torch.Generator, batch_size: int = 512
) -> tuple[Tensor, Tensor]:
    """Every graph and a view of the one it was paired with, from the network in evaluation mode."""
    method.eval()
    first, second = [], []
    for chosen in torch.arange(len(graphs)).split(batch_size):
        _, z1, z2 = method.embeddings(*views_of(method, graphs.batch(chosen), chosen, graphs, draws, partners))
        first.append(z1)
        second.append(z2)
    return torch.cat(first), torch.cat(second)


def work(run: Run, root: str) -> dict[str, Any]:
    from sklearn.metrics import roc_auc_score

    from rince.audit import audit
    from rince.evaluate.graphs import features_of
    from rince.evaluate.svm import svm_accuracy
    from rince.views.graph import graphcl_view

    graphs, seed = graphs_of(run["dataset"], root), run["seed"]
    partners, wrong = wrong_partners(len(graphs), run["wrong"], generator(seed, NOISE_STREAM))
    trained = train(graphs, make_loss(run["loss"]), graphcl_view(), run["epochs"], seed, partners=partners)
    judged = audit(*pair_embeddings(trained.method, graphs, partners, generator(seed, VIEW_STREAM)), seed=seed)
    accuracy = 100 * svm_accuracy(features_of(trained.method.encoder, graphs), graphs.y, seed=seed).accuracy
    found = 100 * float(roc_auc_score(wrong, -judged.scores)) if wrong.any() and not wrong.all() else None
    headline = f"accuracy {accuracy:.1f} %" + ("" if found is None else f", AUC {found:.1f} %")
    estimate = 100 * judged.noise_rate
    return {"accuracy": accuracy, "auc": found, "estimate": estimate, "loss": trained.losses, "headline": headline}


def run_name(run: Run) -> str:
    return f"{run['dataset']} {run['loss']} wrong {run['wrong']:g} seed {run['seed']}"


def main(arguments: list[str]) -> int:
    losses = ["infonce", "rince", "rince-0.5", "rince-1"]
    parser = graph_options("graph-wrong-pairs", DESCRIPTION, ["PROTEINS", "MUTAG"], losses, 5)
    parser.add_argument(
        "--rates", nargs="+", type=float, default=RATES, metavar="R", help="of wrong pairs (0 0.2 0.4 0.6)"
    )
    options = parsed(parser, arguments)
    if wrong := [rate for rate in options.rates if not 0 <= rate <= 1]:
        raise UsageError(f"--rates must lie in [0, 1], got {wrong[0]}")
    runs = [
        {"dataset": dataset, "loss": loss, "wrong": rate, "seed": seed, "epochs": options.epochs}
        for seed in range(options.seeds)
        for dataset in options.datasets
        for rate in options.rates
        for loss in options.losses
    ]
    results = results_of(runs, work, run_name, options)
    print(report(results, Path(options.out), options.datasets, options.losses, options.rates), end="")
    return 0


def values(results: list[dict[str, Any]], key: str, dataset: str, loss: str, rate: float) -> list[float]:
    wanted = {"dataset": dataset, "loss": loss, "wrong": rate}
    return [r[key] for r in results if wanted.items() <= r["settings"].items() and r[key] is not None]


def report(results: list[dict[str, Any]], out: Path, datasets: list[str], losses: list[str], rates: list[float]) -> str:
    """Write all files of the experiment and return the table."""
    rows = []
    for dataset in datasets:
        for loss in losses:
            for key, name in COLUMNS.items():
                found = [values(results, key, dataset, loss, rate) for rate in rates]
                rows.append([f"{dataset}, {LOSSES[loss][0]}, {name}", *(plus_minus(f) if f else "-" for f in found)])
    cells = [(dataset, loss, rate) for dataset in datasets for loss in losses for rate in rates]
    note, epoch = (
        seeds_note([len(values(results, "accuracy", *cell)) for cell in cells]),
        results[0]["settings"]["epochs"],
    )
    table = aligned(["% with wrong pairs of", *(f"{100 * rate:g} %" for rate in rates)], rows)
    table += f"\nMean and standard deviation over {note}, after {epoch} epochs.\n"
    flat = [
        (*(r["settings"][k] for k in ("dataset", "loss", "wrong", "seed")), *(r[key] for key in COLUMNS))
        for r in results
    ]
    write_text(out / "results.csv", as_csv(["dataset", "loss", "wrong", "seed", *COLUMNS], flat))
    write_text(out / "results.json", json.dumps({"runs": results}, indent=1) + "\n")
    write_text(out / "table.md", table)
    draw(results, out / "figure.png", datasets, losses, rates)
    return table


def draw(results: list[dict[str, Any]], path: Path, datasets: list[str], losses: list[str], rates: list[float]) -> None:
    """Accuracy as lines and the AUC as dashes, a panel a data set."""
    from rince.reproduce.figures import panels, save

    figure, axes = panels(datasets, "wrong pairs, %", "accuracy (lines), AUC (dashes), %")
    for dataset, panel in axes.items():
        for i, loss in enumerate(losses):
            for key, style in (("accuracy", "-"), ("auc", "--")):
                points = [(100 * rate, found) for rate in rates if (found := values(results, key, dataset, loss, rate))]
                means = [sum(found) / len(found) for _, found in points]
                label = LOSSES[loss][0] if key == "accuracy" else None
                panel.plot([x for x, _ in points], means, style, color=f"C{i}", marker="o", markersize=3, label=label)
    axes[datasets[0]].legend(frameon=False, fontsize=8)
    save(figure, path)
