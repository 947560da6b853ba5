"""Pairs in memory and two small networks that learn from them, for comparisons, the demo and experiments."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rince.losses.schedules import Schedule
from rince.noise.pairs import wrong_pairs

TwoNetworks = tuple[nn.Module, nn.Module]


class Split(NamedTuple):
    """Training pairs with the mismatched ones marked; clean pairs to choose a temperature by, and to test on."""

    a: Tensor
    b: Tensor
    wrong: NDArray[np.bool_]
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]


def split(
    a: Tensor, b: Tensor, rate: float, seed: int, validation: int, test: int, groups: NDArray[np.int64] | None = None
) -> Split:
    """``test`` and ``validation`` pairs as they are, and the rest for training, a share ``rate`` of them mismatched.

    A swap of partners within one of the ``groups`` does not count as a mismatch, so none is made there.
    """
    order = np.random.default_rng(seed).permutation(len(a))
    held, chosen, train = order[:test], order[test : test + validation], order[test + validation :]
    partner, wrong = wrong_pairs(len(train), rate, seed, None if groups is None else groups[train])
    return Split(a[train], b[train[partner]], wrong, (a[chosen], b[chosen]), (a[held], b[held]))


def batches(pairs: int, epochs: int, draws: torch.Generator | None, batch: int) -> list[list[Tensor]]:
    """The rows of every batch of every epoch; the last, smaller batch of an epoch is left out."""
    size = min(batch, pairs)
    return [
        [rows for rows in torch.randperm(pairs, generator=draws).split(size) if len(rows) == size]
        for _ in range(epochs)
    ]


class CosineSteps:
    """An optimizer whose learning rate falls like a cosine over a number of steps, to 0 at the last one."""

    def __init__(self, optimizer: torch.optim.Optimizer, steps: int):
        self.optimizer = optimizer
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)

    def step(self, value: Tensor) -> None:
        """One step against the gradient of a loss."""
        self.optimizer.zero_grad()
        value.backward()
        self.optimizer.step()
        self.schedule.step()


def fit(
    towers: TwoNetworks,
    optimizer: torch.optim.Optimizer,
    a: Tensor,
    b: Tensor,
    loss: Any,
    plan: Sequence[Sequence[Tensor]],
    weights: Tensor | None = None,
    q: Schedule | None = None,
) -> TwoNetworks:
    """Train the towers on the batches of ``plan``, with a cosine schedule of the learning rate.

    Args:
        towers: One network for each side.
        optimizer: Of the parameters of both.
        a: The first side of all pairs.
        b: The second side, row by row.
        loss: Of the embeddings of a batch.
        plan: The rows of every batch of every epoch.
        weights: How far each pair is trusted, one value per pair; all alike by default.
        q: The q of the loss over training, from 0 to 1; as it is by default.

    Returns:
        The towers, ready for evaluation.
    """
    f, g = towers
    steps = sum(map(len, plan))
    training = CosineSteps(optimizer, steps)
    for step, rows in enumerate(rows for epoch in plan for rows in epoch):
        if q is not None:
            loss.q = q(step / steps)
        given = {} if weights is None else {"weights": weights[rows]}
        training.step(loss(f(a[rows]), g(b[rows]), **given))
    return f.eval(), g.eval()


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
    a: Tensor,
    b: Tensor,
    loss: Any,
    seed: int,
    training: Training,
    weights: Tensor | None = None,
    q: Schedule | None = None,
) -> tuple[nn.Module, nn.Module]:
    """Two towers after Adam and a cosine schedule on the pairs; the last, smaller batch of an epoch is left out."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        f, g = tower(a, training), tower(b, training)
        optimizer = torch.optim.Adam([*f.parameters(), *g.parameters(), *loss.parameters()], lr=training.lr)
        plan = batches(len(a), training.epochs, None, training.batch)
        return fit((f, g), optimizer, a, b, loss, plan, weights, q)


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


def word_numbers(texts: Sequence[str], least: int = 2, longest: int = 64) -> Tensor:
    """(texts, words): numbers from 2 up for words that occur ``least`` times, 1 for rarer ones, 0 after the end.

    Every text keeps at least one word, so that it has an embedding.
    """
    words = [re.findall(r"\w+", text.lower())[:longest] or ["?"] for text in texts]
    counts = Counter(word for text in words for word in text)
    number = {word: i for i, word in enumerate(sorted(w for w, n in counts.items() if n >= least), start=2)}
    rows = torch.zeros(len(words), max(map(len, words)), dtype=torch.long)
    for row, text in zip(rows, words, strict=True):
        row[: len(text)] = torch.tensor([number.get(word, 1) for word in text])
    return rows
