"""Pairs in memory, and two small networks that learn from them, for comparisons, the demo and benchmarks."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rince.losses import ContrastiveLoss
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


def fit(
    towers: TwoNetworks,
    optimizer: torch.optim.Optimizer,
    a: Tensor,
    b: Tensor,
    loss: ContrastiveLoss,
    plan: Sequence[Sequence[Tensor]],
    weights: Tensor | None = None,
) -> TwoNetworks:
    """Train the towers on the batches of ``plan``, with a cosine schedule; ``weights`` has one value per pair."""
    f, g = towers
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, sum(map(len, plan)))
    for rows in (rows for epoch in plan for rows in epoch):
        value = loss(f(a[rows]), g(b[rows]), weights=None if weights is None else weights[rows])
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
        schedule.step()
    return f.eval(), g.eval()
