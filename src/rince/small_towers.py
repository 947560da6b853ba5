"""Pairs in memory, and two small networks that learn from them, for comparisons, the demo and benchmarks."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rince.losses import ContrastiveLoss
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
    loss: ContrastiveLoss,
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
            loss.q = q(step / steps)  # type: ignore[assignment]
        training.step(loss(f(a[rows]), g(b[rows]), weights=None if weights is None else weights[rows]))
    return f.eval(), g.eval()


def held_out_embeddings(
    a: Tensor, b: Tensor, fold: Tensor, width: int, train: Callable[[Tensor], TwoNetworks]
) -> tuple[Tensor, Tensor]:
    """Embeddings of both sides of every pair, by networks that were trained without it.

    Args:
        a: The first side of all pairs.
        b: The second side.
        fold: The fold of each pair, numbered from 0.
        width: Of the embeddings.
        train: Called with the rows of all pairs but those of one fold, for every fold; returns trained networks.
    """
    sides = torch.empty(2, len(a), width)
    for number in range(int(fold.max()) + 1):
        held = fold == number
        towers = train((~held).nonzero()[:, 0])
        with torch.no_grad():
            for side, one, x in zip(sides, towers, (a, b), strict=True):
                side[held] = one(x[held])
    return sides[0], sides[1]
