"""What noisy pairs do to RINCE at q = 1 and its bound: exact, simulated, and as printed in the paper."""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from experiments.experiment import checked, write_report
from rince._support.command_options import local_path
from rince.compare.tables import aligned
from rince.errors import UsageError

RATES = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]
JOINT = [[0.4, 0.1], [0.1, 0.4]]  # two views that agree in 80 % of the pairs
ANCHORS, OTHERS = [[1.0, 0.0], [0.0, 1.0]], [[0.8, 0.6], [-0.6, 0.8]]  # and where they lie on the circle
TEMPERATURE = 0.5
DESCRIPTION = (
    "Two small views, mismatched at growing rates: the expected loss of RINCE at q = 1 by formula, as the paper prints "
    "it, and simulated; the smallest lam for its bound; and what is left of the dependency of the views. "
    "docs/theory.md explains it. Writes results.csv, table.md, figure.png and figure.svg."
)
LOSSES = ("right", "printed", "simulated", "error")
COLUMNS = ("rate", *LOSSES, "least_lam", "printed_least_lam", "wasserstein", "information")


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments noise-theory", description=DESCRIPTION, exit_on_error=False
    )
    parser.add_argument("--rates", nargs="+", type=float, default=RATES, metavar="R", help="noise rates (0 to 0.9)")
    parser.add_argument("--negatives", type=int, default=8, help="K, how many an anchor has (8)")
    parser.add_argument("--lam", type=float, default=0.2, help="(0.2)")
    parser.add_argument("--samples", type=int, default=100_000, help="anchors in the simulation (100000)")
    parser.add_argument("--seed", type=int, default=0, help="of the simulation (0)")
    parser.add_argument(
        "--out", type=local_path, default="runs/experiments/noise-theory", help="folder for the results (%(default)s)"
    )
    options = checked(parser, arguments, "negatives", "samples")
    if not 0 < options.lam < 1:
        raise UsageError(f"--lam must lie in (0, 1), got {options.lam:g}")
    rows = [
        measured(rate, options.negatives, options.lam, options.samples, options.seed) for rate in sorted(options.rates)
    ]
    print(report(rows, options.negatives, options.lam, Path(options.out)), end="")
    return 0


def measured(rate: float, number: int, lam: float, samples: int, seed: int) -> dict[str, float]:
    """Everything at one noise rate; dependency and information as shares of those of clean pairs."""
    import torch

    from experiments.paper import theory
    from rince.losses.objectives import rince

    joint, x, v = (torch.tensor(table, dtype=torch.float64) for table in (JOINT, ANCHORS, OTHERS))
    scores, mixed = x @ v.T / TEMPERATURE, theory.noisy(joint, rate)
    objective, generator = (
        partial(rince, q=1.0, lam=lam),
        torch.Generator().manual_seed(seed * 10_000 + round(rate * 1000)),
    )
    mean, error = theory.sampled_loss(objective, mixed, scores, number, samples, generator)
    left = theory.wasserstein_dependency(torch.stack([joint, mixed]), x.expand(2, 2, 2), v.expand(2, 2, 2))
    known = theory.mutual_information(torch.stack([joint, mixed]))
    values = (
        rate,
        theory.symmetric_rince(joint, scores, theory.noisy_weights(lam, number, rate)),
        theory.symmetric_rince(joint, scores, theory.printed_noisy_weights(lam, number, rate)),
        mean,
        error,
        theory.least_lam(number),
        theory.printed_least_lam(number, rate),
        left[1] / left[0],
        known[1] / known[0],
    )
    return {name: float(value) for name, value in zip(COLUMNS, values, strict=True)}


def report(rows: list[dict[str, float]], number: int, lam: float, out: Path) -> str:
    """Write all files of the experiment and return the table."""
    header = ["noise rate", "loss", "as printed", "simulated", "least lam", "as printed", "W left", "I left"]
    cells = [
        [
            f"{100 * row['rate']:g} %",
            f"{row['right']:.3f}",
            f"{row['printed']:.3f}",
            f"{row['simulated']:.3f} ± {row['error']:.3f}",
            f"{row['least_lam']:.4f}",
            f"{row['printed_least_lam']:.4f}",
            *(f"{100 * row[name]:.1f} %" for name in ("wasserstein", "information")),
        ]
        for row in rows
    ]
    table = aligned(header, cells) + f"\nq = 1, K = {number}, lam = {lam:g}; the simulation with its standard error.\n"
    write_report(out, table, COLUMNS, [[round(row[name], 6) for name in COLUMNS] for row in rows])
    draw(rows, number, lam, out / "figure.png")
    return table


def draw(rows: list[dict[str, float]], number: int, lam: float, path: Path) -> None:
    from experiments.figures import COLORS, canvas, save

    figure, axes = canvas(10.8, 3.4, columns=3)
    percent = [100 * row["rate"] for row in rows]

    def line(panel: Any, name: str, label: str, **style: Any) -> None:
        panel.plot(percent, [row[name] for row in rows], label=label, **style)

    line(axes[0], "printed", "as printed", color=COLORS[1], linestyle="--")
    line(axes[0], "right", "right", color=COLORS[0])
    simulated, error = ([row[name] for row in rows] for name in ("simulated", "error"))
    axes[0].errorbar(percent, simulated, [2 * e for e in error], fmt="o", markersize=3, color="0.2", label="simulated")
    axes[0].set_title(f"expected loss, q = 1, K = {number}, lam = {lam:g}", fontsize=10)
    line(axes[1], "printed_least_lam", "as printed", color=COLORS[1], linestyle="--")
    line(axes[1], "least_lam", "right: 1 / (K + 1)", color=COLORS[0])
    axes[1].set_ylim(0, None)
    axes[1].set_title("smallest lam for the bound", fontsize=10)
    line(axes[2], "wasserstein", "Wasserstein dependency", color=COLORS[0])
    line(axes[2], "information", "mutual information", color=COLORS[2])
    axes[2].set_title("dependency, over that of clean pairs", fontsize=10)
    for panel in axes:
        panel.set_xlabel("mismatched pairs, %")
        panel.legend(frameon=False, fontsize=8)
    save(figure, path)
