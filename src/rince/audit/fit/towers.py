"""Small towers over any two columns of features: their scores and their training, several pairs of towers at once.

A step of towers this small is mostly the overhead of many little operations. So towers that are trained alike on
different rows share them: their parameters are stacked, and every operation serves all of them.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rince.audit.fit.features import Features
from rince.audit.null import Scored, share_other_class_better
from rince.errors import UsageError
from rince.losses import RINCE
from rince.losses.logsumexp import logsumexp
from rince.losses.objectives import Scores
from rince.pairs.matrix import chunks

EPOCHS = 8
Towers = tuple[nn.Module, nn.Module]


@dataclass(frozen=True)
class FitConfig:
    """How towers are fitted; the defaults are meant to be left alone.

    Attributes:
        folds: Number of folds, at least 3.
        members: Towers of different initializations per fold in the second round; their scores are averaged.
        layers: Hidden layers. A second layer costs more and memorizes wrong pairs sooner.
        width, dim: Width of the hidden layers and of the embedding.
        dropout: Dropout probability.
        first_q, q: q of RINCE in the first round, which weights all pairs alike, and in the second, weighted one.
        temperature: Softmax temperature.
        batch: Pairs per step.
        learning_rate: Learning rate of Adam, with a cosine schedule.
        steps: Number of steps. Default: eight epochs, at least 100 in the first and 150 in the second round, at most
            2000.
    """

    folds: int = 4
    members: int = 2
    layers: int = 1
    width: int = 256
    dim: int = 64
    dropout: float = 0.0
    first_q: float = 0.5
    q: float = 0.1
    temperature: float = 0.1
    batch: int = 256
    learning_rate: float = 1e-3
    steps: int | None = None

    def __post_init__(self) -> None:
        if self.folds < 3:
            raise UsageError(f"folds must be at least 3, so that two of them can be held out, got {self.folds}")
        for name in ("members", "layers", "width", "dim", "batch"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name} must be at least 1, got {getattr(self, name)}")


def tower(inputs: int, config: FitConfig) -> nn.Sequential:
    parts: list[nn.Module] = []
    for width in (inputs, *[config.width] * (config.layers - 1)):
        parts += [nn.Linear(width, config.width), nn.BatchNorm1d(config.width), nn.ReLU(), nn.Dropout(config.dropout)]
    return nn.Sequential(*parts, nn.Linear(config.width, config.dim))


@torch.no_grad()
def embed(network: nn.Module, features: Features, rows: NDArray[np.int64]) -> Tensor:
    """Unit embeddings of the rows."""
    parts = [network(features[rows[part]]) for part in chunks(len(rows), features.width)]
    return nn.functional.normalize(torch.cat(parts), dim=1)


def class_scores(
    of_classes: "Classes",
    z_a: Tensor,
    mismatched: tuple[NDArray[np.int64], NDArray[np.int64]],
    classes: NDArray[np.int64],
    temperature: float,
) -> Scored:
    """Relative scores where the other side is a class: how well a class fits a row of ``z_a``.

    Every score of a row with a class is relative to the *other* classes, whether it is its own or a mismatched one.
    """
    table, code = of_classes.table(z_a, temperature), np.searchsorted(of_classes.codes, classes)
    i, j = mismatched
    own = table[np.arange(len(z_a)), code]
    return Scored(own, table[i, code[j]], other_class_better=share_other_class_better(table, code))


class Classes(NamedTuple):
    """The classes of one side: sorted codes, and the embedding, share and rest of each.

    ``rest`` is the mean of exp(score) of a class over all rows of the other classes.
    """

    codes: NDArray[np.int64]
    z: Tensor
    share: NDArray[np.float64]
    rest: NDArray[np.float64]

    @classmethod
    def of(cls, z_a: Tensor, z_b: Tensor, classes: NDArray[np.int64], temperature: float) -> "Classes":
        codes, first, code, sizes = np.unique(classes, return_index=True, return_inverse=True, return_counts=True)
        chance = np.exp((z_a @ z_b[first].T / temperature).double().numpy())
        of_class = np.stack([np.bincount(code, weights=column, minlength=len(sizes)) for column in chance.T])
        rest = np.maximum(of_class.sum(1) - of_class.diagonal(), 1e-12) / (sizes.sum() - sizes)
        return cls(codes, z_b[first], sizes / sizes.sum(), rest)

    def table(self, z_a: Tensor, temperature: float) -> NDArray[np.float32]:
        """(rows, classes): the relative score of every row with every class."""
        score = (z_a @ self.z.T / temperature).double().numpy()
        chance = np.exp(score)
        others = np.maximum(chance @ self.share[:, None] - chance * self.share, 1e-12) / (1 - self.share)
        return (score - 0.5 * np.log(others) - 0.5 * np.log(self.rest)).astype(np.float32)

    def scores(self, z_a: Tensor, z_b: Tensor, classes: NDArray[np.int64], temperature: float) -> NDArray[np.float32]:
        """``class_scores`` of pairs only; an unknown class is scored relative to all known classes."""
        index = np.minimum(np.searchsorted(self.codes, classes), len(self.codes) - 1)
        result = self.table(z_a, temperature)[np.arange(len(z_a)), index]
        new = np.flatnonzero(self.codes[index] != classes)
        if len(new):
            total = np.exp((z_a[new] @ self.z.T / temperature).double().numpy()) @ self.share
            own = (z_a[new] * z_b[new]).sum(1).double().numpy() / temperature
            result[new] = own - 0.5 * np.log(total) - 0.5 * np.log(self.rest.mean())
        return result


# --- training ---------------------------------------------------------------------------------------------------------


class TrainTask(NamedTuple):
    """Training data of one pair of towers.

    Attributes:
        rows: Pairs of the two columns.
        seed: Seed of the initialization and of the order of the pairs.
        ids: One per pair of ``rows``; pairs of equal id are not negatives of each other.
        weights: Weight of each of these pairs.
    """

    rows: NDArray[np.int64]
    seed: int
    ids: Tensor | None = None
    weights: Tensor | None = None


def train_towers(
    left: Features, right: Features, tasks: list[TrainTask], config: FitConfig, q: float, min_steps: int
) -> list[Towers]:
    """Towers for both sides, a pair of them per task.

    RINCE and a short schedule limit memorization of wrong pairs.
    """
    sizes = [len(task.rows) for task in tasks]
    batch = min(config.batch, *sizes)
    steps = config.steps or min(max(min_steps, math.ceil(EPOCHS * max(sizes) / batch)), 2000)
    with torch.random.fork_rng(devices=[]):
        sides = _first_towers(left, right, tasks, config)
        torch.default_generator.manual_seed(tasks[0].seed)  # for dropout
        stacks = [Stack(towers) for towers in sides]
        batches = [_Batches(task, batch) for task in tasks]
        with_ids = any(task.ids is not None for task in tasks)
        loss = RINCE(q=q, lam="balanced", temperature=config.temperature, scale="unit").objective(config.temperature)
        parameters = [p for stack in stacks for p in stack.parameters()]
        optimizer = torch.optim.Adam(parameters, lr=config.learning_rate, fused=True)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        for _ in range(steps):
            rows, keys, weights = (torch.stack(column) for column in zip(*(next(b) for b in batches), strict=True))
            index = rows.flatten().numpy()
            a, b = (
                stack(side[index].unflatten(0, rows.shape)) for stack, side in zip(stacks, (left, right), strict=True)
            )
            losses = loss(stacked_scores(a, b, keys if with_ids else None, config.temperature))
            pair_weights = weights.repeat(1, 2)  # a pair is an anchor of either side
            value = ((losses * pair_weights).sum(1) / pair_weights.sum(1).clamp_min(1e-12)).sum()
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            schedule.step()
    for stack, towers in zip(stacks, sides, strict=True):
        stack.write_to(towers)
    return list(zip(*sides, strict=True))


def _first_towers(
    left: Features, right: Features, tasks: list[TrainTask], config: FitConfig
) -> tuple[list[nn.Sequential], list[nn.Sequential]]:
    first, second = [], []
    for task in tasks:
        torch.default_generator.manual_seed(task.seed)
        first.append(tower(left.width, config))
        second.append(tower(right.width, config))
    return first, second


class _Batches:
    """Endless batches of a task: rows, ids and weights."""

    def __init__(self, task: TrainTask, batch: int):
        self.batch, self.random = batch, torch.Generator().manual_seed(task.seed)
        self.rows = torch.from_numpy(task.rows)
        self.ids = self.rows if task.ids is None else task.ids
        self.weights = torch.ones(len(self.rows)) if task.weights is None else task.weights
        self.order = torch.empty(0, dtype=torch.int64)

    def __next__(self) -> tuple[Tensor, Tensor, Tensor]:
        if len(self.order) < self.batch:
            self.order = torch.randperm(len(self.rows), generator=self.random)
        index, self.order = self.order[: self.batch], self.order[self.batch :]
        return self.rows[index], self.ids[index], self.weights[index]


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
        x = x.transpose(1, 2)  # features before rows: then those of all towers are the channels of one normalization
        for k, part in enumerate(self.form):
            if isinstance(part, nn.Linear):
                x = torch.baddbmm(self._of(k, "bias")[:, :, None], self._of(k, "weight"), x)
            elif isinstance(part, nn.BatchNorm1d):
                x = self._normalized(k, part, x)
            elif not isinstance(part, nn.Dropout):
                x = part(x)
            elif part.p:
                x = nn.functional.dropout(x, part.p)
        return x.transpose(1, 2)

    def _of(self, k: int, name: str) -> Tensor:
        return self.stacked[f"{k}_{name}"]

    def _normalized(self, k: int, part: nn.BatchNorm1d, x: Tensor) -> Tensor:
        channels = x.flatten(0, 1)[None]
        scale, shift = self._of(k, "weight").flatten(), self._of(k, "bias").flatten()
        momentum = 0.1 if part.momentum is None else part.momentum
        return nn.functional.batch_norm(
            channels, self.means[k], self.squares[k], scale, shift, training=True, momentum=momentum, eps=part.eps
        ).view_as(x)

    @torch.no_grad()
    def write_to(self, towers: list[nn.Sequential]) -> None:
        """Copy the trained parameters back to the towers."""
        for number, network in enumerate(towers):
            for name, parameter in network.named_parameters():
                parameter.copy_(self.stacked[name.replace(".", "_")][number])
            for k in self.means:
                state = {"running_mean": self.means[k], "running_var": self.squares[k]}
                own = {name: values.view(len(towers), -1)[number] for name, values in state.items()}
                network[k].load_state_dict(own, strict=False)
            network.requires_grad_(False).eval()


def stacked_scores(a: Tensor, b: Tensor, keys: Tensor | None, temperature: float) -> Scores:
    """Scores of ``rince.CrossView`` for several batches at once: (batches, pairs, dim) -> (batches, 2 * pairs).

    Keys (batches, pairs) are equal for pairs that are not negatives of each other.
    """
    a, b = (nn.functional.normalize(z, dim=2) * temperature**-0.5 for z in (a, b))
    positive = (a * b).sum(2).repeat(1, 2)
    scores = torch.bmm(a, b.transpose(1, 2))
    if keys is None:
        scores.diagonal(dim1=1, dim2=2).fill_(-torch.inf)
        num_negatives = torch.full_like(positive, scores.shape[1] - 1)
    else:
        same = keys[:, :, None] == keys[:, None]
        scores = scores.masked_fill_(same, -torch.inf)
        num_negatives = scores.shape[1] - same.sum(2, dtype=positive.dtype).repeat(1, 2)
    if temperature > 0.03:  # exp(-2 / temperature) is a number in single precision: one exponential serves both sides
        chance = scores.sub_(1 / temperature).exp_()
        totals = torch.cat([chance.sum(2), chance.sum(1)], 1).clamp_min(torch.finfo(scores.dtype).tiny)
        negatives = totals.log() + 1 / temperature
    else:
        negatives = torch.cat([logsumexp(scores, 2), logsumexp(scores, 1)], 1)
    return Scores(positive, negatives, num_negatives, None)


Recipe = FitConfig  # name of versions before 0.3
