"""Two figures: loss and gradient over the score of the positive, and RINCE at q = 1 on noisy pairs."""

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import torch

from experiments.experiment import write_report
from experiments.figures import COLORS, canvas, save
from experiments.paper.theory import dependency, distributions
from rince._support.command_options import local_path, parsed
from rince.compare.tables import aligned
from rince.losses.objectives import rince

QS = (0.0, 0.1, 0.3, 0.5, 0.7, 1.0)
POINTS = 121


def out_folder(name: str, description: str, arguments: list[str]) -> Path:
    """The folder of the results, the only option."""
    description += " Writes results.csv, table.md, figure.png and figure.svg."
    parser = argparse.ArgumentParser(f"python -m experiments {name}", description=description, exit_on_error=False)
    folder = f"runs/experiments/{name}"
    parser.add_argument("--out", type=local_path, default=folder, help="folder for the results (%(default)s)")
    return Path(parsed(parser, arguments).out)


def loss_curves(arguments: list[str]) -> int:
    """The paper's figure of the loss: its value and the size of its gradient, for several q."""
    from matplotlib import colormaps

    description = (
        "RINCE (lam 0.5) and the size of its gradient as functions of the positive's score, with the negatives' score "
        "kept at 0. q = 0 is InfoNCE + log lam."
    )
    out = out_folder("loss-curves", description, arguments)
    rows, table = [], []
    figure, axes = canvas(8.4, 3.4, columns=2)
    for q in QS:
        score, loss, gradient = (values.tolist() for values in curve(q))
        rows += [(q, *(round(value, 6) for value in point)) for point in zip(score, loss, gradient, strict=True)]
        largest = max(gradient)
        where = f"{largest:.3f} at {score[gradient.index(largest)]:.2f}"
        table.append([f"{q:g}", f"{gradient[0]:.3f}", f"{gradient[-1]:.3f}", where])
        label = "0 (InfoNCE)" if q == 0 else f"{q:g}"
        for axis, values in zip(axes, (loss, gradient), strict=True):
            axis.plot(score, values, color=colormaps["viridis"](0.9 * q), label=label)
    for axis, title in zip(axes, ("loss", "size of its gradient by the positive score"), strict=True):
        axis.set_title(title, fontsize=10)
        axis.set_xlabel("score of the positive")
        axis.axvline(0, color="0.8", linewidth=0.8, zorder=0)
    axes[1].set_yscale("log")
    axes[0].legend(title="q (lam 0.5)", frameon=False, fontsize=8, title_fontsize=8)
    header = ["q", "gradient at s+ = -4", "at s+ = 2", "largest"]
    text = aligned(header, table) + "\nlam 0.5, negatives at 0.\n"
    write_report(out, text, ["q", "score", "loss", "gradient"], rows)
    save(figure, out / "figure")
    print(text, end="")
    return 0


def curve(q: float, lam: float = 0.5) -> torch.Tensor:
    """(3, points): score of the positive, loss and size of the gradient; the negatives' score is 0."""
    score = torch.linspace(-4, 2, POINTS, dtype=torch.float64, requires_grad=True)
    loss = rince(score, torch.zeros_like(score), q, lam)
    (gradient,) = torch.autograd.grad(loss.sum(), score)
    return torch.stack([score.detach(), loss.detach(), gradient.abs()])


RATES = tuple(i / 10 for i in range(10))
JOINT = torch.tensor([[0.4, 0.1], [0.1, 0.4]], dtype=torch.float64)  # two views that agree in 80 % of the pairs
X, V = torch.eye(2).double(), torch.tensor([[0.8, 0.6], [-0.6, 0.8]], dtype=torch.float64)  # their points on the circle
TEMPERATURE, LAM, NUMBER, SAMPLES = 0.5, 0.2, 8, 100_000


def noise_theory(arguments: list[str]) -> int:
    """What noisy pairs do to RINCE at q = 1 and its bound: exact, simulated, and as printed in the paper."""
    description = (
        "Two small views, mismatched at growing rates: the expected loss of RINCE at q = 1 (K = 8, lam 0.2) by "
        "formula, as the paper prints it, and simulated; the smallest lam for its bound; and what is left of the "
        "dependency of the views. docs/theory.md explains it."
    )
    out = out_folder("noise-theory", description, arguments)
    rows = [measure(rate) for rate in RATES]
    header = ["noise rate", "loss", "as printed", "simulated", "min lam", "as printed", "W left", "I left"]
    cells = [
        [
            f"{100 * row['rate']:g} %",
            f"{row['right']:.3f}",
            f"{row['printed']:.3f}",
            f"{row['simulated']:.3f} ± {row['error']:.3f}",
            f"{row['min_lam']:.4f}",
            f"{row['printed_min_lam']:.4f}",
            *(f"{100 * row[name]:.1f} %" for name in ("wasserstein", "information")),
        ]
        for row in rows
    ]
    text = f"{aligned(header, cells)}\nq = 1, K = {NUMBER}, lam = {LAM:g}; the simulation with its standard error.\n"
    write_report(out, text, list(rows[0]), [[round(value, 6) for value in row.values()] for row in rows])
    save(noise_figure(rows), out / "figure")
    print(text, end="")
    return 0


def measure(rate: float, samples: int = SAMPLES) -> dict[str, float]:
    """Everything at one noise rate; dependency and information as shares of those of clean pairs."""
    scores, mixed = X @ V.T / TEMPERATURE, distributions.noisy(JOINT, rate)
    objective, generator = partial(rince, q=1.0, lam=LAM), torch.Generator().manual_seed(round(rate * 1000))
    mean, error = distributions.sampled_loss(objective, mixed, scores, NUMBER, samples, generator)
    both = torch.stack([JOINT, mixed])
    distance = dependency.wasserstein_dependency(both, X.expand(2, 2, 2), V.expand(2, 2, 2))
    information = distributions.mutual_information(both)
    weights = dependency.noisy_weights(LAM, NUMBER, rate), dependency.printed_noisy_weights(LAM, NUMBER, rate)
    correct, printed = (dependency.symmetric_rince(JOINT, scores, pair) for pair in weights)
    return {
        "rate": rate,
        "right": float(correct),
        "printed": float(printed),
        "simulated": float(mean),
        "error": float(error),
        "min_lam": float(dependency.min_lam(NUMBER)),
        "printed_min_lam": float(dependency.printed_min_lam(NUMBER, rate)),
        "wasserstein": float(distance[1] / distance[0]),
        "information": float(information[1] / information[0]),
    }


def noise_figure(rows: list[dict[str, float]]) -> Any:
    figure, axes = canvas(10.8, 3.4, columns=3)
    percent = [100 * row["rate"] for row in rows]

    def line(axis: Any, name: str, label: str, **style: Any) -> None:
        axis.plot(percent, [row[name] for row in rows], label=label, **style)

    line(axes[0], "printed", "as printed", color=COLORS[1], linestyle="--")
    line(axes[0], "right", "right", color=COLORS[0])
    simulated, errors = ([row[name] for row in rows] for name in ("simulated", "error"))
    errors = [2 * error for error in errors]
    axes[0].errorbar(percent, simulated, errors, fmt="o", markersize=3, color="0.2", label="simulated")
    axes[0].set_title(f"expected loss, q = 1, K = {NUMBER}, lam = {LAM:g}", fontsize=10)
    line(axes[1], "printed_min_lam", "as printed", color=COLORS[1], linestyle="--")
    line(axes[1], "min_lam", "right: 1 / (K + 1)", color=COLORS[0])
    axes[1].set_ylim(0, None)
    axes[1].set_title("smallest lam for the bound", fontsize=10)
    line(axes[2], "wasserstein", "Wasserstein dependency", color=COLORS[0])
    line(axes[2], "information", "mutual information", color=COLORS[2])
    axes[2].set_title("dependency, over that of clean pairs", fontsize=10)
    for axis in axes:
        axis.set_xlabel("mismatched pairs, %")
        axis.legend(frameon=False, fontsize=8)
    return figure
