"""The paper's figure on graphs: accuracy as node dropping, edge perturbation and attribute masking get rougher."""

import json
from pathlib import Path
from typing import Any

from rince._support.atomic_files import write_text
from rince.errors import UsageError
from rince.reproduce.graph_training import LOSSES, evaluate_epochs, graphs_of, make_loss
from rince.reproduce.grid import Run, results_of
from rince.reproduce.options import graph_options, parsed
from rince.reproduce.tables import aligned, as_csv, mean_and_deviation, plus_minus, seeds_note

RATES = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
DESCRIPTION = (
    "GraphCL with one of node dropping, edge perturbation and attribute masking a graph, at growing rates; accuracy of "
    "an SVM on the frozen features. Writes results.json, results.csv, table.md and figure.png."
)


def work(run: Run, root: str) -> dict[str, Any]:
    from rince.views.graph import Choice, DropNodes, MaskAttributes, PerturbEdges

    rate = run["rate"]
    view = Choice([DropNodes(rate), PerturbEdges(rate), MaskAttributes(rate)])
    graphs, epochs = graphs_of(run["dataset"], root), run["epochs"]
    result = evaluate_epochs(graphs, make_loss(run["loss"]), view, epochs, [epochs], run["seed"])
    return {**result, "headline": f"accuracy {result['epochs'][str(epochs)]['accuracy']:.1f} %"}


def run_name(run: Run) -> str:
    return f"{run['dataset']} {run['loss']} rate {run['rate']:g} seed {run['seed']}"


def main(arguments: list[str]) -> int:
    parser = graph_options("graph-perturbation", DESCRIPTION, ["PROTEINS", "NCI1"], ["infonce", "rince"], 5)
    parser.add_argument(
        "--rates", nargs="+", type=float, default=RATES, metavar="R", help="from 0 to below 1 (0.1 to 0.6)"
    )
    options = parsed(parser, arguments)
    if wrong := [rate for rate in options.rates if not 0 <= rate < 1]:
        raise UsageError(f"--rates must lie in [0, 1), got {wrong[0]}")
    runs = [
        {"dataset": dataset, "loss": loss, "rate": rate, "seed": seed, "epochs": options.epochs}
        for seed in range(options.seeds)
        for dataset in options.datasets
        for rate in options.rates
        for loss in options.losses
    ]
    results = results_of(runs, work, run_name, options)
    print(report(results, Path(options.out), options.datasets, options.losses, options.rates), end="")
    return 0


def accuracies(results: list[dict[str, Any]], dataset: str, loss: str, rate: float) -> list[float]:
    wanted = {"dataset": dataset, "loss": loss, "rate": rate}
    mine = [r for r in results if wanted.items() <= r["settings"].items()]
    return [r["epochs"][str(r["settings"]["epochs"])]["accuracy"] for r in mine]


def report(results: list[dict[str, Any]], out: Path, datasets: list[str], losses: list[str], rates: list[float]) -> str:
    """Write all files of the experiment and return the table."""
    rows = [
        [f"{dataset}, {LOSSES[loss][0]}", *(plus_minus(accuracies(results, dataset, loss, rate)) for rate in rates)]
        for dataset in datasets
        for loss in losses
    ]
    cells = [(dataset, loss, rate) for dataset in datasets for loss in losses for rate in rates]
    note = seeds_note([len(accuracies(results, *cell)) for cell in cells])
    epoch = results[0]["settings"]["epochs"]
    table = aligned(["accuracy, % at a rate of", *(f"{100 * rate:g} %" for rate in rates)], rows)
    table += f"\nMean and standard deviation over {note}, after {epoch} epochs.\n"
    flat = [
        (s["dataset"], s["loss"], s["rate"], s["seed"], round(r["epochs"][str(s["epochs"])]["accuracy"], 4))
        for r in results
        for s in [r["settings"]]
    ]
    write_text(out / "results.csv", as_csv(["dataset", "loss", "rate", "seed", "accuracy"], flat))
    write_text(out / "results.json", json.dumps({"runs": results}, indent=1) + "\n")
    write_text(out / "table.md", table)
    draw(results, out / "figure.png", datasets, losses, rates)
    return table


def draw(results: list[dict[str, Any]], path: Path, datasets: list[str], losses: list[str], rates: list[float]) -> None:
    """A line a loss, its band one standard deviation to either side; a panel a data set."""
    from rince.reproduce.figures import panels, save

    figure, axes = panels(datasets, "perturbation rate, %", "accuracy, %")
    for dataset, panel in axes.items():
        for loss in losses:
            values = [(100 * rate, accuracies(results, dataset, loss, rate)) for rate in rates]
            found = [(rate, *mean_and_deviation(several)) for rate, several in values if several]
            percent = [rate for rate, _, _ in found]
            (line,) = panel.plot(percent, [m for _, m, _ in found], marker="o", markersize=3, label=LOSSES[loss][0])
            low, high = [m - d for _, m, d in found], [m + d for _, m, d in found]
            panel.fill_between(percent, low, high, color=line.get_color(), alpha=0.2, linewidth=0)
    axes[datasets[0]].legend(frameon=False, fontsize=8)
    save(figure, path)
