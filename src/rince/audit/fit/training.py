"""Training of small towers, several pairs of them at once.

A step of towers this small is mostly the overhead of its many little operations. So towers that are trained alike on
different rows share them: their parameters are stacked, and every operation serves all of them.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rince.audit.fit.features import Features
from rince.audit.fit.towers import Recipe, tower
from rince.losses import RINCE
from rince.losses.contrast.dense import logsumexp
from rince.losses.contrast.scores import Scores

EPOCHS = 8
Towers = tuple[nn.Module, nn.Module]


class Lesson(NamedTuple):
    """What one pair of towers learns from.

    Attributes:
        rows: Pairs of the two columns.
        seed: Of its first weights and of the order of the pairs.
        ids: One per pair of ``rows``; pairs of equal id are no negatives of each other.
        weights: How much each of these pairs counts.
    """

    rows: NDArray[np.int64]
    seed: int
    ids: Tensor | None = None
    weights: Tensor | None = None


def train_towers(
    left: Features, right: Features, lessons: list[Lesson], recipe: Recipe, q: float, least_steps: int
) -> list[Towers]:
    """Towers for both sides, a pair of them per lesson.

    RINCE and a short schedule keep them from learning wrong pairs by heart.
    """
    sizes = [len(lesson.rows) for lesson in lessons]
    batch = min(recipe.batch, *sizes)
    steps = recipe.steps or min(max(least_steps, math.ceil(EPOCHS * max(sizes) / batch)), 2000)
    with torch.random.fork_rng(devices=[]):
        sides = _first_towers(left, right, lessons, recipe)
        torch.default_generator.manual_seed(lessons[0].seed)  # of dropout, if there is any
        stacks = [Stack(towers) for towers in sides]
        batches = [_Batches(lesson, batch) for lesson in lessons]
        with_ids = any(lesson.ids is not None for lesson in lessons)
        loss = RINCE(q, "balanced", recipe.temperature, scale="unit").objective(recipe.temperature)
        parameters = [p for stack in stacks for p in stack.parameters()]
        optimiser = torch.optim.Adam(parameters, lr=recipe.learning_rate, fused=True)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        for _ in range(steps):
            rows, keys, weights = (torch.stack(column) for column in zip(*(next(b) for b in batches), strict=True))
            chosen = rows.flatten().numpy()
            a, b = (
                stack(side[chosen].unflatten(0, rows.shape)) for stack, side in zip(stacks, (left, right), strict=True)
            )
            each = loss(stacked_scores(a, b, keys if with_ids else None, recipe.temperature))
            twice = weights.repeat(1, 2)  # a pair is an anchor of either side
            value = ((each * twice).sum(1) / twice.sum(1).clamp_min(1e-12)).sum()
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            schedule.step()
    for stack, towers in zip(stacks, sides, strict=True):
        stack.write_to(towers)
    return list(zip(*sides, strict=True))


def _first_towers(
    left: Features, right: Features, lessons: list[Lesson], recipe: Recipe
) -> tuple[list[nn.Sequential], list[nn.Sequential]]:
    first, second = [], []
    for lesson in lessons:
        torch.default_generator.manual_seed(lesson.seed)
        first.append(tower(left.width, recipe))
        second.append(tower(right.width, recipe))
    return first, second


class _Batches:
    """Batches of a lesson without end: rows, ids and weights."""

    def __init__(self, lesson: Lesson, batch: int):
        self.batch, self.random = batch, torch.Generator().manual_seed(lesson.seed)
        self.rows = torch.from_numpy(lesson.rows)
        self.ids = self.rows if lesson.ids is None else lesson.ids
        self.weights = torch.ones(len(self.rows)) if lesson.weights is None else lesson.weights
        self.order = torch.empty(0, dtype=torch.int64)

    def __next__(self) -> tuple[Tensor, Tensor, Tensor]:
        if len(self.order) < self.batch:
            self.order = torch.randperm(len(self.rows), generator=self.random)
        now, self.order = self.order[: self.batch], self.order[self.batch :]
        return self.rows[now], self.ids[now], self.weights[now]


class Stack(nn.Module):
    """Towers of one form as one network: (towers, rows, inputs) -> (towers, rows, dim)."""

    def __init__(self, towers: list[nn.Sequential]):
        super().__init__()
        self.form = list(towers[0])
        self.stacked = nn.ParameterDict(
            {
                name.replace(".", "_"): nn.Parameter(torch.stack([dict(t.named_parameters())[name] for t in towers]))
                for name, _ in towers[0].named_parameters()
            }
        )
        self.means: dict[int, Tensor] = {}
        self.squares: dict[int, Tensor] = {}
        for k, part in enumerate(self.form):
            if isinstance(part, nn.BatchNorm1d):
                self.means[k] = torch.zeros(len(towers) * part.num_features)
                self.squares[k] = torch.ones(len(towers) * part.num_features)

    def forward(self, x: Tensor) -> Tensor:
        x = x.transpose(1, 2)  # features before rows: then those of all towers are the channels of one normalisation
        for k, part in enumerate(self.form):
            if isinstance(part, nn.Linear):
                x = torch.baddbmm(self._of(k, "bias")[:, :, None], self._of(k, "weight"), x)
            elif isinstance(part, nn.BatchNorm1d):
                x = self._normalised(k, part, x)
            elif not isinstance(part, nn.Dropout):
                x = part(x)
            elif part.p:
                x = nn.functional.dropout(x, part.p)
        return x.transpose(1, 2)

    def _of(self, k: int, name: str) -> Tensor:
        return self.stacked[f"{k}_{name}"]

    def _normalised(self, k: int, part: nn.BatchNorm1d, x: Tensor) -> Tensor:
        channels = x.flatten(0, 1)[None]
        scale, shift = self._of(k, "weight").flatten(), self._of(k, "bias").flatten()
        momentum = 0.1 if part.momentum is None else part.momentum
        return nn.functional.batch_norm(
            channels, self.means[k], self.squares[k], scale, shift, training=True, momentum=momentum, eps=part.eps
        ).view_as(x)

    @torch.no_grad()
    def write_to(self, towers: list[nn.Sequential]) -> None:
        """Give every tower what it has learned."""
        for number, one in enumerate(towers):
            for name, parameter in one.named_parameters():
                parameter.copy_(self.stacked[name.replace(".", "_")][number])
            for k in self.means:
                state = {"running_mean": self.means[k], "running_var": self.squares[k]}
                own = {name: values.view(len(towers), -1)[number] for name, values in state.items()}
                one[k].load_state_dict(own, strict=False)
            one.requires_grad_(False).eval()


def stacked_scores(a: Tensor, b: Tensor, keys: Tensor | None, temperature: float) -> Scores:
    """What ``rince.CrossView`` gives, for several batches at once: (batches, pairs, dim) -> (batches, 2 * pairs).

    Keys (batches, pairs) have equal values for pairs that are no negatives of each other.
    """
    a, b = (nn.functional.normalize(z, dim=2) * temperature**-0.5 for z in (a, b))
    positive = (a * b).sum(2).repeat(1, 2)
    scores = torch.bmm(a, b.transpose(1, 2))
    if keys is None:
        scores.diagonal(dim1=1, dim2=2).fill_(-torch.inf)
        number = torch.full_like(positive, scores.shape[1] - 1)
    else:
        same = keys[:, :, None] == keys[:, None]
        scores = scores.masked_fill_(same, -torch.inf)
        number = scores.shape[1] - same.sum(2, dtype=positive.dtype).repeat(1, 2)
    if temperature > 0.03:  # exp(-2 / temperature) is a number in single precision: one exponential serves both sides
        chance = scores.sub_(1 / temperature).exp_()
        totals = torch.cat([chance.sum(2), chance.sum(1)], 1).clamp_min(torch.finfo(scores.dtype).tiny)
        negatives = totals.log() + 1 / temperature
    else:
        negatives = torch.cat([logsumexp(scores, 2), logsumexp(scores, 1)], 1)
    return Scores(positive, negatives, number, None)
