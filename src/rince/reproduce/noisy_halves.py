"""Two small towers on two halves of images, some of them mismatched: what the demo and its benchmark share."""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rince.audit.fit.towers import Recipe, tower
from rince.losses import ContrastiveLoss
from rince.noise.pairs import wrong_pairs
from rince.trust.cross_fitted import judge_embeddings

if TYPE_CHECKING:
    from rince.audit import Audit

BATCH = 256
RECIPE = Recipe(dropout=0.0, layers=2)
Towers = tuple[nn.Module, nn.Module]


class Split(NamedTuple):
    """Training pairs with their wrong ones marked, and clean pairs to choose a temperature by and to test on."""

    a: Tensor
    b: Tensor
    wrong: NDArray[np.bool_]
    choose: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]


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


class Training:
    """Two towers on their way, by Adam and a cosine schedule of so many steps."""

    def __init__(self, a: Tensor, b: Tensor, loss: ContrastiveLoss, seed: int, steps: int):
        self.a, self.b, self.loss = a, b, loss
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            self.towers: Towers = tower(a.shape[1], RECIPE), tower(b.shape[1], RECIPE)
        parameters = [p for one in self.towers for p in one.parameters()]
        self.optimizer = torch.optim.Adam(parameters, lr=1e-3, fused=True)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, steps)

    def embed(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return self.towers[0](self.a[rows]), self.towers[1](self.b[rows])

    def step(self, rows: Tensor, weights: Tensor | None = None) -> None:
        """One step on these pairs; ``weights`` has a value for each of them."""
        value = self.loss(*self.embed(rows), weights=weights)
        self.optimizer.zero_grad()
        value.backward()
        self.optimizer.step()
        self.schedule.step()

    def done(self) -> Towers:
        f, g = self.towers
        return f.eval(), g.eval()


def batches(pairs: int, epochs: int, seed: int, batch: int = BATCH) -> list[list[Tensor]]:
    """The rows of every batch of every epoch; the last, smaller one of an epoch is left out."""
    draws = torch.Generator().manual_seed(seed)
    size = min(batch, pairs)
    return [
        [rows for rows in torch.randperm(pairs, generator=draws).split(size) if len(rows) == size]
        for _ in range(epochs)
    ]


def train_towers(
    a: Tensor, b: Tensor, loss: ContrastiveLoss, seed: int, epochs: int, weights: Tensor | None = None
) -> Towers:
    """Two towers, trained on the pairs as far as ``weights`` trusts each of them."""
    plan = batches(len(a), epochs, seed)
    run = Training(a, b, loss, seed, sum(map(len, plan)))
    for epoch in plan:
        for rows in epoch:
            run.step(rows, None if weights is None else weights[rows])
    return run.done()


def found_trust(
    a: Tensor, b: Tensor, loss: ContrastiveLoss, temperature: float, seed: int, epochs: int, folds: int = 3
) -> "Audit":
    """What models find that never saw the pairs they judge, as ``rince train --trust auto`` does it.

    All of them together take as many steps as one training on all pairs.
    """
    fold = torch.randperm(len(a), generator=torch.Generator().manual_seed(seed)) % folds
    sides = torch.empty(2, len(a), RECIPE.dim)
    for number in range(folds):
        seen, held = fold != number, fold == number
        towers = train_towers(a[seen], b[seen], loss, seed, max(1, epochs // (folds - 1)))
        with torch.no_grad():
            for side, one, x in zip(sides, towers, (a, b), strict=True):
                side[held] = one(x[held])
    return judge_embeddings(sides[0], sides[1], fold, temperature=temperature, seed=seed)


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
