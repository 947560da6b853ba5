"""The command ``rince demo``: InfoNCE against RINCE on digits with wrong pairs, then the audit of the same pairs.

View A are the even rows of scikit-learn's digits, view B the odd ones. Two small towers learn to match them while 40 %
of the training pairs have a stranger's B. InfoNCE gets the better of two temperatures, chosen on held-out clean pairs;
RINCE gets none. All of it takes about a minute on two cores.
"""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rince.audit.towers import Recipe, tower
from rince.losses import ContrastiveLoss
from rince.noise.pairs import wrong_pairs

RATE = 0.4
TEMPERATURES = (0.1, 0.2)
TOWERS = Recipe(dropout=0.0)


class Split(NamedTuple):
    """Training pairs with their wrong ones marked, and clean pairs to choose a temperature by and to test on."""

    a: Tensor
    b: Tensor
    wrong: NDArray[np.bool_]
    choose: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Run:
    """One training: what it was and what came of it. Recalls are shares of the held-out pairs."""

    loss: str
    temperature: float
    rate: float
    seed: int
    chosen_by: float
    recall_1: float
    recall_10: float
    auc: float
    scores: NDArray[np.float32]
    wrong: NDArray[np.bool_]


def split(a: NDArray[np.float32], b: NDArray[np.float32], rate: float, seed: int, choose: int, test: int) -> Split:
    """``test`` pairs for testing, ``choose`` for choosing a temperature, the rest for training with wrong pairs."""
    order = np.random.default_rng(seed).permutation(len(a))
    held, chosen, train = order[:test], order[test : test + choose], order[test + choose :]
    index, wrong = wrong_pairs(len(train), rate, seed)
    left, right = torch.from_numpy(a), torch.from_numpy(b)
    return Split(
        left[train],
        right[train[index]],
        wrong,
        (left[chosen], right[chosen]),
        (left[held], right[held]),
    )


def train_towers(
    a: Tensor, b: Tensor, loss: ContrastiveLoss, seed: int, epochs: int = 60, batch: int = 256
) -> tuple[nn.Module, nn.Module]:
    """Two towers, trained on the pairs with Adam and a cosine schedule."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        f, g = tower(a.shape[1], TOWERS), tower(b.shape[1], TOWERS)
        optimiser = torch.optim.Adam([*f.parameters(), *g.parameters()], lr=1e-3)
        steps = epochs * (len(a) // batch)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        for _ in range(epochs):
            for rows in torch.randperm(len(a)).split(batch):
                if len(rows) < batch:
                    continue
                value = loss(f(a[rows]), g(b[rows]))
                optimiser.zero_grad()
                value.backward()
                optimiser.step()
                schedule.step()
    return f.eval(), g.eval()


@torch.no_grad()
def recalls(f: nn.Module, g: nn.Module, pairs: tuple[Tensor, Tensor]) -> tuple[float, float]:
    """How often the right B is the first, and among the first ten, of all B for an A."""
    scores = nn.functional.normalize(f(pairs[0])) @ nn.functional.normalize(g(pairs[1])).T
    rank = (scores > scores.diagonal()[:, None]).sum(1)
    return float((rank == 0).float().mean()), float((rank < 10).float().mean())


def auc(scores: NDArray[np.float32], wrong: NDArray[np.bool_]) -> float:
    """The chance that a right pair scores higher than a wrong one; NaN if there are none."""
    if not wrong.any() or wrong.all():
        return float("nan")
    right = np.sort(scores[~wrong])
    below = np.searchsorted(right, scores[wrong], "left") + np.searchsorted(right, scores[wrong], "right")
    return 1 - float(below.mean()) / (2 * len(right))


def run(data: Split, loss: ContrastiveLoss, name: str, temperature: float, rate: float, seed: int, epochs: int) -> Run:
    f, g = train_towers(data.a, data.b, loss, seed, epochs)
    with torch.no_grad():
        scores = nn.functional.cosine_similarity(f(data.a), g(data.b)).numpy()
    first, ten = recalls(f, g, data.test)
    chosen_by = recalls(f, g, data.choose)[0]
    return Run(name, temperature, rate, seed, chosen_by, first, ten, auc(scores, data.wrong), scores, data.wrong)
