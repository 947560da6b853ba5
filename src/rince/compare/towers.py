"""Two small towers on two columns: the training that a comparison repeats many times."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rince.losses import ContrastiveLoss
from rince.noise.pairs import wrong_pairs


class Columns(NamedTuple):
    """Two columns that belong together row by row.

    Floats are features; whole numbers are words, one text per row, with 0 where a text has ended. ``groups``, where
    given, say which rows are so alike that a swap within a group is no mismatch.
    """

    a: Tensor
    b: Tensor
    groups: NDArray[np.int64] | None = None


class Split(NamedTuple):
    """Training pairs with the mismatched ones marked; clean pairs to choose a temperature by, and to test on."""

    a: Tensor
    b: Tensor
    wrong: NDArray[np.bool_]
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]


class Training(NamedTuple):
    """How the towers are trained."""

    epochs: int = 40
    batch: int = 256
    lr: float = 1e-3
    width: int = 256
    dim: int = 64


def split(columns: Columns, rate: float, seed: int, validation: int, test: int) -> Split:
    """``test`` and ``validation`` pairs as they are, and the rest for training, a share of them mismatched."""
    order = np.random.default_rng(seed).permutation(len(columns.a))
    held, chosen, train = order[:test], order[test : test + validation], order[test + validation :]
    groups = None if columns.groups is None else columns.groups[train]
    partner, wrong = wrong_pairs(len(train), rate, seed, groups)
    return Split(
        columns.a[train],
        columns.b[train[partner]],
        wrong,
        (columns.a[chosen], columns.b[chosen]),
        (columns.a[held], columns.b[held]),
    )


def tower(column: Tensor, training: Training) -> nn.Module:
    """An MLP with batch norm for features, the mean of learned word vectors for texts."""
    if not column.is_floating_point():
        return _Words(int(column.max()) + 1, training.dim)
    return nn.Sequential(
        nn.Linear(column.shape[1], training.width),
        nn.BatchNorm1d(training.width),
        nn.ReLU(),
        nn.Linear(training.width, training.width),
        nn.BatchNorm1d(training.width),
        nn.ReLU(),
        nn.Linear(training.width, training.dim),
    )


class _Words(nn.Module):
    def __init__(self, words: int, dim: int):
        super().__init__()
        self.vectors = nn.EmbeddingBag(words, dim, mode="mean", padding_idx=0)

    def forward(self, texts: Tensor) -> Tensor:
        return self.vectors(texts)


def train(
    a: Tensor, b: Tensor, loss: ContrastiveLoss, seed: int, training: Training, weights: Tensor | None = None
) -> tuple[nn.Module, nn.Module]:
    """Two towers after Adam and a cosine schedule on the pairs; the last, smaller batch of an epoch is left out."""
    batch = min(training.batch, len(a))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        f, g = tower(a, training), tower(b, training)
        optimizer = torch.optim.Adam([*f.parameters(), *g.parameters()], lr=training.lr)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, training.epochs * (len(a) // batch))
        for _ in range(training.epochs):
            for rows in torch.randperm(len(a)).split(batch):
                if len(rows) < batch:
                    continue
                value = loss(f(a[rows]), g(b[rows]), weights=None if weights is None else weights[rows])
                optimizer.zero_grad()
                value.backward()
                optimizer.step()
                schedule.step()
    return f.eval(), g.eval()


@torch.no_grad()
def recall_at_1(f: nn.Module, g: nn.Module, pairs: tuple[Tensor, Tensor]) -> float:
    """How often, in percent, the partner is the nearest of all; the mean of both directions."""
    scores = nn.functional.normalize(f(pairs[0])) @ nn.functional.normalize(g(pairs[1])).T
    own = scores.diagonal()
    ways = [((scores > own.unsqueeze(1 - dim)).sum(1 - dim) == 0).double().mean() for dim in (0, 1)]
    return 100 * float(sum(ways)) / 2
