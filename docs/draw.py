"""Draw the figures of docs/concepts.md and README.md: python -m docs.draw"""

import math
import re
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from torch import Tensor

from experiments.figures import canvas
from rince.losses import objectives

FIGURES = Path(__file__).parent / "figures"
NEGATIVES = 255
COSINE = torch.linspace(-1, 1, 401, dtype=torch.float64)


def gradients(objective: Callable[[Tensor, Tensor], Tensor], temperature: float, shift: float = 0.0) -> list[Tensor]:
    """Gradients by the score of the pair and by the log-sum-exp of 255 negatives of cosine 0.

    ``shift`` is subtracted from all scores.
    """
    positive = (COSINE / temperature - shift).requires_grad_()
    negatives = torch.full_like(positive, math.log(NEGATIVES) - shift).requires_grad_()
    return list(torch.autograd.grad(objective(positive, negatives).sum(), (positive, negatives)))


def normalized_pull(objective: Callable[[Tensor, Tensor], Tensor], temperature: float, shift: float = 0.0) -> Tensor:
    """Pull on the pair (minus its gradient) by cosine, divided by its maximum."""
    pull = -gradients(objective, temperature, shift)[0]
    return pull / pull.abs().max()


def draw(name: str, ylabel: str, curves: Mapping[str, Tensor], log: bool = False, title: str | None = None) -> None:
    """Plot curves by label over the cosine of the pair, with a gray line at 0, or at 1 on a log scale."""
    figure, axes = canvas(6.4, 3.6)
    for label, curve in curves.items():
        axes.plot(COSINE, curve, label=label)
    if log:
        axes.set_yscale("log")
    axes.axhline(int(log), color="gray", linewidth=0.5)
    axes.set_xlabel("cosine of the pair")
    axes.set_ylabel(ylabel)
    axes.legend(frameon=False, fontsize=8, title=title, title_fontsize=8)
    figure.savefig(FIGURES / f"{name}.svg", metadata={"Date": None})


def draw_digits(losses: Mapping[str, str]) -> None:
    """Plot R@1 of some losses over the share of mismatched pairs, from the table of docs/results/losses_compared.md."""
    page = (FIGURES.parent / "results" / "losses_compared.md").read_text("utf-8")
    table = page[page.index("| R@1, mismatched pairs |") :].partition("\n\n")[0].splitlines()
    rows = {cells[0]: cells[1:] for cells in ([cell.strip(" *") for cell in line.split("|")[1:-1]] for line in table)}
    rates = [float(cell.rstrip("%")) for cell in rows["R@1, mismatched pairs"]]
    figure, axes = canvas(6.4, 3.2)
    for name, label in losses.items():
        values = [[float(number) for number in re.findall(r"[\d.]+", cell)[:2]] for cell in rows[name]]
        axes.errorbar(rates, [mean for mean, _ in values], [std for _, std in values], marker="o", label=label)
    axes.set_xlabel("mismatched pairs, %")
    axes.set_ylabel("R@1 of held-out pairs, %")
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(FIGURES / "digits.svg", metadata={"Date": None})


def rince(q: float, lam: float) -> Callable[[Tensor, Tensor], Tensor]:
    return lambda positive, negatives: objectives.rince(positive, negatives, q, lam)


if __name__ == "__main__":
    names = {q: f"RINCE q {q:g}" if q else "InfoNCE (q 0)" for q in (0.0, 0.1, 0.3, 0.5, 1.0)}
    pulls = {name: normalized_pull(rince(q, 1 / (NEGATIVES + 1)), 0.1, shift=10) for q, name in names.items()}
    draw("pull_q", "pull, largest = 1", pulls)

    ratios = {}
    for r in (0.5, 1.0, 2.5, 5.0):
        lam = r / (r + NEGATIVES)
        attract, repel = gradients(rince(0.5, lam), 0.1, shift=10)
        ratios[f"r {r:g} (lam {lam:.4f})"] = repel / -attract
    draw("push_lam", "push on the negatives / pull on the pair", ratios, log=True, title="RINCE q 0.5")

    pulls = {f"t {t:g}": normalized_pull(objectives.info_nce, t) for t in (0.05, 0.1, 0.2, 0.5)}
    draw("pull_temperature", "pull, largest = 1", pulls, title="InfoNCE")

    draw_digits(
        {
            "GCE q 1, trust": "GCE with weights",
            "GCE q 1": "GCE",
            "RINCE q 0.5, r 2.5": "RINCE",
            "InfoNCE": "InfoNCE",
        }
    )
