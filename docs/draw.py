"""Draw the figures of docs/concepts.md: python -m docs.draw"""

import math
from pathlib import Path

import torch

from experiments.figures import canvas
from rince.losses import objectives

FIGURES = Path(__file__).parent / "figures"
NEGATIVES = 255


def pull(objective, cosine: torch.Tensor, temperature: float, typical: float = 0.0) -> torch.Tensor:
    """How hard a pair is pulled together, -dL/dcosine, among 255 negatives of cosine ``typical``."""
    positive = (cosine / temperature).double().requires_grad_()
    negatives = torch.full_like(positive, typical / temperature) + torch.log(torch.tensor(float(NEGATIVES)))
    (gradient,) = torch.autograd.grad(objective(positive, negatives.detach()).sum(), positive)
    return -gradient


def q_picture() -> None:
    figure, axes = canvas(6.4, 3.6)
    cosine = torch.linspace(-1, 1, 401)
    for q in (0.0, 0.1, 0.3, 0.5, 1.0):
        curve = pull(lambda p, n, q=q: objectives.rince(p - 10, n - 10, q, 1 / (NEGATIVES + 1)), cosine, 0.1)
        axes.plot(cosine, curve / curve.abs().max(), label="InfoNCE (q 0)" if q == 0 else f"RINCE q {q:g}")
    axes.set_xlabel("cosine of the pair")
    axes.set_ylabel("pull, largest = 1")
    axes.axhline(0, color="gray", linewidth=0.5)
    axes.legend(frameon=False, fontsize=8)
    figure.savefig(FIGURES / "pull_q.svg", metadata={"Date": None})


def lam_picture() -> None:
    """The push on all negatives over the pull on the pair: above 1 an anchor is driven away more than drawn in."""
    figure, axes = canvas(6.4, 3.6)
    cosine = torch.linspace(-1, 1, 401).double()
    for r in (0.5, 1.0, 2.5, 5.0):
        lam = r / (r + NEGATIVES)
        positive = (cosine / 0.1 - 10).requires_grad_()
        negatives = torch.full_like(positive, -10.0 + math.log(NEGATIVES)).requires_grad_()
        loss = objectives.rince(positive, negatives, 0.5, lam)
        attract, repel = torch.autograd.grad(loss.sum(), (positive, negatives))
        axes.semilogy(cosine, repel / -attract, label=f"r {r:g} (lam {lam:.4f})")
    axes.set_xlabel("cosine of the pair")
    axes.set_ylabel("push on the negatives / pull on the pair")
    axes.axhline(1, color="gray", linewidth=0.5)
    axes.legend(frameon=False, fontsize=8, title="RINCE q 0.5", title_fontsize=8)
    figure.savefig(FIGURES / "push_lam.svg", metadata={"Date": None})


def temperature_picture() -> None:
    figure, axes = canvas(6.4, 3.6)
    cosine = torch.linspace(-1, 1, 401)
    for temperature in (0.05, 0.1, 0.2, 0.5):
        curve = pull(objectives.info_nce, cosine, temperature)
        axes.plot(cosine, curve / curve.abs().max(), label=f"t {temperature:g}")
    axes.set_xlabel("cosine of the pair")
    axes.set_ylabel("pull, largest = 1")
    axes.legend(frameon=False, fontsize=8, title="InfoNCE", title_fontsize=8)
    figure.savefig(FIGURES / "pull_temperature.svg", metadata={"Date": None})


if __name__ == "__main__":
    q_picture()
    lam_picture()
    temperature_picture()
