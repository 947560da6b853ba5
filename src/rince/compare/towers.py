"""Training of two small networks on pairs in memory, for comparisons, the demo and experiments."""

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
    """Training pairs, a mask of the mismatched ones, and clean pairs for validation and test."""

    a: Tensor
    b: Tensor
    wrong: NDArray[np.bool_]
    validation: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]


def split(
    a: Tensor, b: Tensor, rate: float, seed: int, validation: int, test: int, groups: NDArray[np.int64] | None = None
) -> Split:
    """Split at random; a share ``rate`` of the training pairs is mismatched, never within one of the ``groups``."""
    order = np.random.default_rng(seed).permutation(len(a))
    test_rows, val_rows, train_rows = order[:test], order[test : test + validation], order[test + validation :]
    partner, wrong = wrong_pairs(len(train_rows), rate, seed, None if groups is None else groups[train_rows])
    clean = (a[val_rows], b[val_rows]), (a[test_rows], b[test_rows])
    return Split(a[train_rows], b[train_rows[partner]], wrong, *clean)


def batches(pairs: int, epochs: int, draws: torch.Generator | None, batch: int) -> list[list[Tensor]]:
    """Row indices of every batch of every epoch; the last, smaller batch of an epoch is dropped."""
    size = min(batch, pairs)
    return [
        [rows for rows in torch.randperm(pairs, generator=draws).split(size) if len(rows) == size]
        for _ in range(epochs)
    ]


class CosineSteps:
    """Optimizer with a cosine schedule of the learning rate down to 0."""

    def __init__(self, optimizer: torch.optim.Optimizer, steps: int):
        self.optimizer = optimizer
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)

    def step(self, value: Tensor) -> None:
        """Backward pass and one step of optimizer and schedule."""
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
    """Train two networks, with a cosine schedule of the learning rate.

    Args:
        towers: One network for each side.
        optimizer: Optimizer of the parameters of both.
        a: (pairs, ...) inputs of the first side.
        b: (pairs, ...) inputs of the second side.
        loss: Loss of two batches of embeddings.
        plan: Row indices of every batch of every epoch.
        weights: (pairs,) weights. Default: None, all equal.
        q: Schedule of the q of the loss. Default: None, constant.

    Returns:
        The networks in evaluation mode.
    """
    f, g = towers
    steps = sum(map(len, plan))
    training = CosineSteps(optimizer, steps)
    for step, rows in enumerate(rows for epoch in plan for rows in epoch):
        if q is not None:
            loss.q = q(step / steps)
        options = {} if weights is None else {"weights": weights[rows]}
        training.step(loss(f(a[rows]), g(b[rows]), **options))
    return f.eval(), g.eval()


class Columns(NamedTuple):
    """Two columns of pairs.

    Float columns hold features; integer columns hold word indices, one text per row, padded with 0. Pairs of one of the
    ``groups`` are not mismatched with each other.
    """

    a: Tensor
    b: Tensor
    groups: NDArray[np.int64] | None = None


class Training(NamedTuple):
    """Hyperparameters of the two networks."""

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
    """Two networks trained with Adam and a cosine schedule."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        f, g = tower(a, training), tower(b, training)
        optimizer = torch.optim.Adam([*f.parameters(), *g.parameters(), *loss.parameters()], lr=training.lr)
        plan = batches(len(a), training.epochs, None, training.batch)
        return fit((f, g), optimizer, a, b, loss, plan, weights, q)


@torch.no_grad()
def recall_at_1(f: nn.Module, g: nn.Module, pairs: tuple[Tensor, Tensor]) -> float:
    """R@1 in percent, averaged over both directions. Ties with other items count as misses, duplicates do not."""
    scores = nn.functional.normalize(f(pairs[0])) @ nn.functional.normalize(g(pairs[1])).T
    recalls = []
    for table, items in ((scores, pairs[1]), (scores.T, pairs[0])):
        code = torch.unique(items, dim=0, return_inverse=True)[1]
        ties = ~(table < table.diagonal()[:, None]) & (code[:, None] != code)  # NaN is never lower
        lost = ties.any(1) | ~table.diagonal().isfinite()
        recalls.append((~lost).double().mean())
    return 100 * float(sum(recalls)) / 2


def word_numbers(texts: Sequence[str], least: int = 2, longest: int = 64) -> Tensor:
    """(texts, words) indices: from 2 for words that occur at least ``least`` times, 1 for rarer ones, 0 for padding."""
    words = [re.findall(r"\w+", text.lower())[:longest] or ["?"] for text in texts]
    counts = Counter(word for text in words for word in text)
    number = {word: i for i, word in enumerate(sorted(w for w, n in counts.items() if n >= least), start=2)}
    rows = torch.zeros(len(words), max(map(len, words)), dtype=torch.long)
    for row, text in zip(rows, words, strict=True):
        row[: len(text)] = torch.tensor([number.get(word, 1) for word in text])
    return rows
