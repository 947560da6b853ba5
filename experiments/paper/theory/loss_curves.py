"""The paper's figure of the loss: its value and its gradient against the score of the positive, for several q."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from experiments.experiment import checked, write_report
from rince._support.command_options import local_path
from rince.compare.tables import aligned
from rince.errors import UsageError

POINTS = 121
DESCRIPTION = (
    "RINCE and the size of its gradient as functions of the positive's score, with the negatives' score kept at 0. "
    "q = 0 is InfoNCE + log lam. Writes results.csv, table.md, figure.png and figure.svg."
)


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m experiments loss-curves", description=DESCRIPTION, exit_on_error=False
    )
    parser.add_argument(
        "--q", nargs="+", type=float, default=[0, 0.1, 0.3, 0.5, 0.7, 1], metavar="Q", help="(0 0.1 0.3 0.5 0.7 1)"
    )
    parser.add_argument("--lam", type=float, default=0.5, help="(0.5, as in the paper)")
    parser.add_argument("--scores", nargs=2, type=float, default=[-4, 2], metavar=("LOW", "HIGH"), help="(-4 2)")
    parser.add_argument(
        "--out", type=local_path, default="runs/experiments/loss-curves", help="folder for the results (%(default)s)"
    )
    options = checked(parser, arguments)
    if wrong := [q for q in options.q if not 0 <= q <= 1]:
        raise UsageError(f"--q must lie in [0, 1], got {wrong[0]:g}")
    if not 0 < options.lam <= 1:
        raise UsageError(f"--lam must lie in (0, 1], got {options.lam:g}")
    low, high = options.scores
    if not low < high:
        raise UsageError(f"--scores must go from a lower to a higher score, got {low:g} {high:g}")
    print(report(curves(options.q, options.lam, low, high), options.lam, Path(options.out)), end="")
    return 0


def curves(qs: Sequence[float], lam: float, low: float, high: float) -> dict[float, dict[str, list[float]]]:
    """For each q: ``score``, ``loss`` and ``gradient`` (its absolute value)."""
    import torch

    from rince.losses.objectives import rince

    found = {}
    for q in qs:
        score = torch.linspace(low, high, POINTS, dtype=torch.float64, requires_grad=True)
        loss = rince(score, torch.zeros_like(score), q, lam)
        (gradient,) = torch.autograd.grad(loss.sum(), score)
        found[q] = {"score": score.tolist(), "loss": loss.tolist(), "gradient": gradient.abs().tolist()}
    return found


def report(found: dict[float, dict[str, list[float]]], lam: float, out: Path) -> str:
    """Write all files of the experiment and return the table."""
    columns = ("score", "loss", "gradient")
    flat = [
        (q, *(round(value, 6) for value in values))
        for q, curve in found.items()
        for values in zip(*(curve[name] for name in columns), strict=True)
    ]
    rows = []
    for q, curve in found.items():
        first, last, largest = curve["gradient"][0], curve["gradient"][-1], max(curve["gradient"])
        where = curve["score"][curve["gradient"].index(largest)]
        rows.append([f"{q:g}", f"{first:.3f}", f"{last:.3f}", f"{largest:.3f} at {where:.2f}"])
    one = next(iter(found.values()))["score"]
    header = ["q", f"gradient at s+ = {one[0]:g}", f"at s+ = {one[-1]:g}", "largest"]
    table = aligned(header, rows) + f"\nlam {lam:g}, negatives at 0.\n"
    write_report(out, table, ["q", *columns], flat)
    draw(found, lam, out / "figure.png")
    return table


def draw(found: dict[float, dict[str, list[float]]], lam: float, path: Path) -> None:
    """Value on the left, size of the gradient on the right; the color runs with q."""
    from matplotlib import colormaps

    from experiments.figures import canvas, save

    figure, axes = canvas(8.4, 3.4, columns=2)
    for q, curve in found.items():
        label = "0 (InfoNCE)" if q == 0 else f"{q:g}"
        for panel, what in zip(axes, ("loss", "gradient"), strict=True):
            panel.plot(curve["score"], curve[what], color=colormaps["viridis"](0.9 * q), label=label)
    for panel, title in zip(axes, ("loss", "size of its gradient by the positive score"), strict=True):
        panel.set_title(title, fontsize=10)
        panel.set_xlabel("score of the positive")
        panel.axvline(0, color="0.8", linewidth=0.8, zorder=0)
    axes[1].set_yscale("log")
    axes[0].legend(title=f"q (lam {lam:g})", frameon=False, fontsize=8, title_fontsize=8)
    save(figure, path)
