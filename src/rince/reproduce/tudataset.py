"""The paper's table of graph classification: TUDataset, InfoNCE against RINCE."""

import json
from pathlib import Path
from typing import Any

from rince._support.atomic_files import write_text
from rince.reproduce.graph_training import LOSSES, evaluate_epochs, graphs_of, make_loss
from rince.reproduce.grid import Run, results_of
from rince.reproduce.options import graph_options, parsed
from rince.reproduce.tables import aligned, as_csv, mean_and_deviation, plus_minus, seeds_note

PAPER = {  # accuracy and deviation over five trials, as the paper prints them
    "infonce": {"REDDIT-BINARY": (89.9, 0.4), "NCI1": (78.2, 0.8), "PROTEINS": (74.4, 0.5), "DD": (78.6, 0.8)},
    "rince": {"REDDIT-BINARY": (90.9, 0.6), "NCI1": (78.6, 0.4), "PROTEINS": (74.7, 0.8), "DD": (78.7, 0.4)},
}
DATASETS = ["REDDIT-BINARY", "NCI1", "PROTEINS", "DD"]
DESCRIPTION = (
    "GraphCL with each loss on each data set; accuracy of an SVM on the frozen features, by 10-fold nested "
    "cross-validation. Writes results.json, results.csv, table.md and figure.png."
)


def work(run: Run, root: str) -> dict[str, Any]:
    from rince.views.graph import graphcl_view

    graphs = graphs_of(run["dataset"], root)
    result = evaluate_epochs(
        graphs, make_loss(run["loss"]), graphcl_view(), run["epochs"], run["evaluated"], run["seed"]
    )
    last = result["epochs"][str(run["epochs"])]["accuracy"]
    return {**result, "headline": f"accuracy {last:.1f} %"}


def run_name(run: Run) -> str:
    return f"{run['dataset']} {run['loss']} seed {run['seed']}"


def main(arguments: list[str]) -> int:
    options = parsed(graph_options("tudataset", DESCRIPTION, DATASETS, ["infonce", "rince"], 5), arguments)
    evaluated = sorted({max(1, options.epochs // 2), options.epochs})
    # Every data set once before any seed again: a table of everything soon, and an honest estimate of the time.
    runs = [
        {"dataset": dataset, "loss": loss, "seed": seed, "epochs": options.epochs, "evaluated": evaluated}
        for seed in range(options.seeds)
        for dataset in options.datasets
        for loss in options.losses
    ]
    results = results_of(runs, work, run_name, options)
    print(report(results, Path(options.out), options.datasets, options.losses, evaluated), end="")
    return 0


def accuracies(results: list[dict[str, Any]], dataset: str, loss: str, epoch: int) -> list[float]:
    mine = [r for r in results if (r["settings"]["dataset"], r["settings"]["loss"]) == (dataset, loss)]
    return [r["epochs"][str(epoch)]["accuracy"] for r in mine]


def report(results: list[dict[str, Any]], out: Path, datasets: list[str], losses: list[str], epochs: list[int]) -> str:
    """Write all files of the experiment and return the table."""
    last = epochs[-1]
    rows = []
    for loss in losses:
        for epoch in reversed(epochs):
            cells = [plus_minus(accuracies(results, dataset, loss, epoch)) for dataset in datasets]
            rows.append([f"{LOSSES[loss][0]}, epoch {epoch}", *cells])
        if loss in PAPER:
            paper = [PAPER[loss].get(dataset) for dataset in datasets]
            rows.append([f"{LOSSES[loss][0]}, paper", *(f"{p[0]:.1f} ± {p[1]:.1f}" if p else "-" for p in paper)])
    note = seeds_note([len(accuracies(results, dataset, loss, last)) for dataset in datasets for loss in losses])
    table = aligned(["accuracy, %", *datasets], rows)
    table += f"\nMean and standard deviation over {note}. Epoch {last} is the one reported.\n"
    table += "".join(f"{line}\n" for line in verdicts(results, datasets, losses, last))
    flat = [
        (
            r["settings"]["dataset"],
            r["settings"]["loss"],
            r["settings"]["seed"],
            epoch,
            round(e["accuracy"], 4),
            e["validation"],
        )
        for r in results
        for epoch, e in r["epochs"].items()
    ]
    write_text(out / "results.csv", as_csv(["dataset", "loss", "seed", "epoch", "accuracy", "validation"], flat))
    write_text(out / "results.json", json.dumps({"reported_epoch": last, "runs": results}, indent=1) + "\n")
    write_text(out / "table.md", table)
    draw(results, out / "figure.png", datasets, losses, last)
    return table


def verdicts(results: list[dict[str, Any]], datasets: list[str], losses: list[str], epoch: int) -> list[str]:
    """Whether RINCE is ahead of InfoNCE by more than the spread of the seeds, on every data set."""
    if not {"infonce", "rince"} <= set(losses):
        return []
    lines = []
    for dataset in datasets:
        pair = [accuracies(results, dataset, loss, epoch) for loss in ("infonce", "rince")]
        if min(map(len, pair)) < 2:
            continue  # no spread to compare with
        base, ours = map(mean_and_deviation, pair)
        gap, spread = ours[0] - base[0], (base[1] ** 2 + ours[1] ** 2) ** 0.5
        if abs(gap) <= spread:
            word = "no difference beyond the spread"
        else:
            word = "RINCE is ahead" if gap > 0 else "RINCE is behind"
        lines.append(f"{dataset}: RINCE - InfoNCE = {gap:+.1f} (spread {spread:.1f}): {word}.")
    return lines


def draw(results: list[dict[str, Any]], path: Path, datasets: list[str], losses: list[str], epoch: int) -> None:
    """Every seed as a dot, the mean as a bar, the paper's value as a diamond."""
    from rince.reproduce.figures import canvas, save

    figure, axes = canvas(max(4.0, 1.6 * len(datasets)), 3.6)
    for i, loss in enumerate(losses):
        shift = (i - (len(losses) - 1) / 2) * 0.25
        for j, dataset in enumerate(datasets):
            values = accuracies(results, dataset, loss, epoch)
            if not values:
                continue
            axes.scatter([j + shift] * len(values), values, s=14, color=f"C{i}", alpha=0.6)
            mean = mean_and_deviation(values)[0]
            axes.hlines(
                mean, j + shift - 0.1, j + shift + 0.1, color=f"C{i}", label=LOSSES[loss][0] if j == 0 else None
            )
            if (paper := PAPER.get(loss, {}).get(dataset)) is not None:
                label = "the paper's mean" if (i, j) == (0, 0) else None
                axes.scatter(
                    [j + shift], [paper[0]], marker="D", s=22, facecolors="none", edgecolors="black", label=label
                )
    axes.set_xticks(range(len(datasets)), datasets)
    axes.set_ylabel("accuracy, %")
    axes.legend(frameon=False, fontsize=8)
    save(figure, path)
