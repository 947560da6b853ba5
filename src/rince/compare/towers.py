"""Two small towers on two columns: the training that a comparison repeats many times."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rince import small_towers
from rince.losses import ContrastiveLoss
from rince.small_towers import Split


class Columns(NamedTuple):
    """Two columns that belong together row by row.

    Floats are features; whole numbers are words, one text per row, with 0 where a text has ended. ``groups``, where
    given, say which rows are so alike that a swap within a group is no mismatch.
    """

    a: Tensor
    b: Tensor
    groups: NDArray[np.int64] | None = None


class Training(NamedTuple):
    """How the towers are trained."""

    epochs: int = 40
    batch: int = 256
    lr: float = 1e-3
    width: int = 256
    dim: int = 64


def split(columns: Columns, rate: float, seed: int, validation: int, test: int) -> Split:
    """``test`` and ``validation`` pairs as they are, and the rest for training, a share of them mismatched."""
    return small_towers.split(columns.a, columns.b, rate, seed, validation, test, columns.groups)


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
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        f, g = tower(a, training), tower(b, training)
        optimizer = torch.optim.Adam([*f.parameters(), *g.parameters(), *loss.parameters()], lr=training.lr)
        plan = small_towers.batches(len(a), training.epochs, None, training.batch)
        return small_towers.fit((f, g), optimizer, a, b, loss, plan, weights)


@torch.no_grad()
def recall_at_1(f: nn.Module, g: nn.Module, pairs: tuple[Tensor, Tensor]) -> float:
    """How often, in percent, the partner is the nearest of all; the mean of both directions.

    Another item that scores as high is a rival, unless it is the same item again: towers that see no differences, or
    give no numbers, find nothing.
    """
    scores = nn.functional.normalize(f(pairs[0])) @ nn.functional.normalize(g(pairs[1])).T
    ways = []
    for table, items in ((scores, pairs[1]), (scores.T, pairs[0])):
        code = torch.unique(items, dim=0, return_inverse=True)[1]
        rivals = ~(table < table.diagonal()[:, None]) & (code[:, None] != code)  # NaN is never lower
        lost = rivals.any(1) | ~table.diagonal().isfinite()
        ways.append((~lost).double().mean())
    return 100 * float(sum(ways)) / 2
