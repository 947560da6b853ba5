"""Scores for any two columns of features: small towers, cross-fitted, so that nobody judges what it has seen.

The pairs are split into folds. For every fold two multilayer perceptrons are trained with RINCE on the other folds,
wrong pairs and all, and then score the pairs of this fold, and strangers made of them. RINCE and a short schedule keep
the towers from learning wrong pairs by heart.
"""

import math
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rince.audit.columns import Keys, Matrix, RowCheck, chunks, read, release, row_codes
from rince.audit.null import STRANGERS, Scored, stranger_index
from rince.contrast import CrossView
from rince.losses import RINCE
from rince.progress import track

REFERENCES = 2048
IN_MEMORY = 50_000_000  # numbers; a larger column is read from where it is, batch by batch


@dataclass(frozen=True)
class Recipe:
    """How the towers are trained; the defaults are meant to be left alone.

    ``steps`` is the number of steps for a fold: by default ten epochs, but at least 200 and at most 2000 steps.
    ``members`` towers of different starts are trained for every fold and their scores averaged.
    """

    folds: int = 5
    members: int = 2
    width: int = 256
    dim: int = 64
    dropout: float = 0.0
    q: float = 0.5
    temperature: float = 0.1
    batch: int = 256
    learning_rate: float = 1e-3
    steps: int | None = None

    def __post_init__(self) -> None:
        if self.folds < 2:
            raise ValueError(f"folds must be at least 2, so that every pair can be held out once, got {self.folds}")
        for name in ("members", "width", "dim", "batch"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")


class Features:
    """One column, standardised: every feature has mean 0 and deviation 1, constant ones are 0, outliers end at 10."""

    def __init__(self, x: Matrix, name: str):
        check = RowCheck(name, zero_is_bad=False)
        total, squares = np.zeros(x.shape[1]), np.zeros(x.shape[1])
        origin: NDArray[np.float64] | None = None
        row_parts = []
        for rows in chunks(*x.shape):
            part = read(x, rows)
            check.see(part, rows.start)
            row_parts.append(row_codes(part))
            wide = part.double().numpy()
            origin = wide[0] if origin is None else origin  # a shift keeps the squares from swamping the variance
            total += (wide - origin).sum(0)
            squares += np.square(wide - origin).sum(0)
            release(x)
        check.verdict()
        assert origin is not None
        mean = total / len(x)
        deviation = np.sqrt(np.maximum(squares / len(x) - mean**2, 0))
        # A feature that hardly varies beside the others is rounding, not information.
        deviation[deviation <= 1e-6 * deviation.max()] = np.inf
        self.codes = np.concatenate(row_parts)
        self.width = x.shape[1]
        self._mean, self._deviation = torch.from_numpy(mean + origin).float(), torch.from_numpy(deviation).float()
        self._x = x
        self._all = self._standard(read(x, slice(None))) if x.size <= IN_MEMORY else None

    def _standard(self, x: Tensor) -> Tensor:
        return x.sub_(self._mean).div_(self._deviation).clamp_(-10, 10)

    def __getitem__(self, rows: NDArray[np.int64]) -> Tensor:
        if self._all is not None:
            return self._all[rows]
        x = self._standard(read(self._x, rows))
        release(self._x)
        return x


def fitted_scores(
    a: Matrix, b: Matrix, keys: Keys, seed: int = 0, recipe: Recipe | None = None, progress: bool | None = None
) -> Scored:
    """Scores of all pairs and of strangers, each by towers that were trained without them.

    A score is the logarithm of how many times likelier than chance the towers think the pair is: its cosine over the
    temperature, less the average (log-mean-exp) over the strangers of either side.
    """
    recipe = Recipe() if recipe is None else recipe
    left, right = Features(a, "a"), Features(b, "b")
    n = len(a)
    random = np.random.default_rng(seed)
    fold = _folds(n, recipe.folds, keys, random)
    everything = [np.arange(n), left.codes, right.codes, *keys]
    scores, null = np.empty(n, dtype=np.float32), []
    bar = iter(track(range(recipe.folds * recipe.members), "fitting towers", show=progress))
    for number in range(recipe.folds):
        seen, held_out = np.flatnonzero(fold != number), np.flatnonzero(fold == number)
        held_keys = [k[held_out] for k in everything]
        strangers = stranger_index(held_keys, held_keys, STRANGERS // recipe.folds, random)
        references = np.sort(random.permutation(len(held_out))[:REFERENCES])
        of_pairs, of_strangers = np.zeros(len(held_out)), np.zeros(len(strangers[0]))
        for member in range(recipe.members):
            next(bar)
            start = int(np.random.default_rng([seed, number, member]).integers(2**31))
            z_a, z_b = _train_and_embed(left, right, seen, held_out, _identity(everything, seen), start, recipe)
            pairs, others = relative_scores(z_a, z_b, held_keys, strangers, references, recipe.temperature)
            of_pairs, of_strangers = of_pairs + pairs / recipe.members, of_strangers + others / recipe.members
        scores[held_out] = of_pairs
        null.append(of_strangers)
    next(bar, None)  # lets the bar close
    return Scored(scores, np.concatenate(null).astype(np.float32))


def _folds(n: int, folds: int, keys: Keys, random: np.random.Generator) -> NDArray[np.int64]:
    """Folds of equal size; pairs of one id stay together, unless ids are so few that this would hide whole classes."""
    for key in keys:
        known, inverse = np.unique(key, return_inverse=True)
        if len(known) >= 20 * folds:
            return (random.permutation(len(known)) % folds)[inverse]
    return random.permutation(n) % folds


def _identity(keys: Keys, rows: NDArray[np.int64]) -> Tensor | None:
    """Ids for the loss, which takes one: what the user gave, or else equal rows of the side that has more of them."""
    candidates = keys[3:] or keys[1:3]
    best = min(candidates, key=lambda key: len(np.unique(key[rows])))
    return torch.from_numpy(best[rows]) if len(np.unique(best[rows])) < len(rows) else None


def tower(inputs: int, recipe: Recipe) -> nn.Sequential:
    layers: list[nn.Module] = []
    for width in (inputs, recipe.width):
        layers += [nn.Linear(width, recipe.width), nn.BatchNorm1d(recipe.width), nn.ReLU(), nn.Dropout(recipe.dropout)]
    return nn.Sequential(*layers, nn.Linear(recipe.width, recipe.dim))


def _train_and_embed(
    left: Features,
    right: Features,
    seen: NDArray[np.int64],
    held_out: NDArray[np.int64],
    ids: Tensor | None,
    seed: int,
    recipe: Recipe,
) -> tuple[Tensor, Tensor]:
    """Unit embeddings of the held-out pairs by towers trained on the seen ones."""
    batch = min(recipe.batch, len(seen))
    steps = recipe.steps or min(max(200, math.ceil(10 * len(seen) / batch)), 2000)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        f, g = tower(left.width, recipe), tower(right.width, recipe)
        loss = RINCE(recipe.q, "balanced", recipe.temperature, CrossView(), scale="unit")
        optimiser = torch.optim.Adam([*f.parameters(), *g.parameters()], lr=recipe.learning_rate, fused=True)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        order = torch.empty(0, dtype=torch.int64)
        for _ in range(steps):
            if len(order) < batch:
                order = torch.randperm(len(seen))
            now, order = order[:batch], order[batch:]
            rows = seen[now.numpy()]
            value = loss(f(left[rows]), g(right[rows]), ids=None if ids is None else ids[now])
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            schedule.step()
    return _embed(f, left, held_out), _embed(g, right, held_out)


@torch.no_grad()
def _embed(network: nn.Module, features: Features, rows: NDArray[np.int64]) -> Tensor:
    network.eval()
    parts = [network(features[rows[part]]) for part in chunks(len(rows), features.width)]
    return nn.functional.normalize(torch.cat(parts), dim=1)


def relative_scores(
    z_a: Tensor,
    z_b: Tensor,
    keys: Keys,
    strangers: tuple[NDArray[np.int64], NDArray[np.int64]],
    references: NDArray[np.int64],
    temperature: float,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Scores of the pairs (row i with row i) and of the strangers (i, j), relative to what chance gives both sides.

    An item that scores high with everybody is thus not taken for a good match. A stranger is left out of the average
    that it is compared with, as a pair is: otherwise the null would be too low.
    """
    i, j = strangers
    level_a, count_a = _level(z_a, z_b, keys, references, temperature)
    level_b, count_b = _level(z_b, z_a, keys, references, temperature)
    own = (z_a * z_b).sum(1).numpy() / temperature
    pairs = own - 0.5 * np.log(level_a / count_a) - 0.5 * np.log(level_b / count_b)
    parts = [(z_a[i[p]] * z_b[j[p]]).sum(1).numpy() for p in chunks(len(i), z_a.shape[1])]
    score = np.concatenate(parts) / temperature
    is_reference = np.zeros(len(z_a))
    is_reference[references] = 1
    chance = np.exp(score)
    rest_a = np.maximum(level_a[i] - is_reference[j] * chance, 1e-12) / np.maximum(count_a[i] - is_reference[j], 1)
    rest_b = np.maximum(level_b[j] - is_reference[i] * chance, 1e-12) / np.maximum(count_b[j] - is_reference[i], 1)
    return pairs.astype(np.float32), (score - 0.5 * np.log(rest_a) - 0.5 * np.log(rest_b)).astype(np.float32)


def _level(
    z: Tensor, others: Tensor, keys: Keys, references: NDArray[np.int64], temperature: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For every row the sum of exp(score) over the references that are strangers to it, and their number."""
    levels, counts = [], []
    for part in chunks(len(z), len(references)):
        stranger = np.ones((part.stop - part.start, len(references)), dtype=bool)
        for key in keys:
            stranger &= key[part][:, None] != key[references][None]
        chance = (z[part] @ others[references].T / temperature).exp().double().numpy()
        levels.append((chance * stranger).sum(1))
        counts.append(stranger.sum(1))
    return np.maximum(np.concatenate(levels), 1e-12), np.maximum(np.concatenate(counts), 1).astype(np.float64)
