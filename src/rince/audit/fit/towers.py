"""Two small towers over any two columns of features, and the scores they give."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rince.audit.classes import share_with_rival
from rince.audit.columns import Keys, chunks
from rince.audit.fit.features import Features
from rince.audit.mismatched import Scored
from rince.errors import UsageError


@dataclass(frozen=True)
class Recipe:
    """How the towers are trained; the defaults are meant to be left alone.

    ``first_q`` is the q of the first round, which sees all pairs alike, and ``q`` that of the second, which knows whom
    to mistrust. ``steps`` is the number of steps: by default eight epochs, but at least 100 in the first and 150 in
    the second round, and at most 2000. ``members`` towers of different starts are trained for every fold in the second
    round, and their scores averaged. One hidden layer (``layers``) is the default: a second one costs more, and learns
    wrong pairs by heart sooner.
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


def tower(inputs: int, recipe: Recipe) -> nn.Sequential:
    parts: list[nn.Module] = []
    for width in (inputs, *[recipe.width] * (recipe.layers - 1)):
        parts += [nn.Linear(width, recipe.width), nn.BatchNorm1d(recipe.width), nn.ReLU(), nn.Dropout(recipe.dropout)]
    return nn.Sequential(*parts, nn.Linear(recipe.width, recipe.dim))


@torch.no_grad()
def embed(network: nn.Module, features: Features, rows: NDArray[np.int64]) -> Tensor:
    """Unit embeddings of the rows."""
    parts = [network(features[rows[part]]) for part in chunks(len(rows), features.width)]
    return nn.functional.normalize(torch.cat(parts), dim=1)


def relative_scores(
    z_a: Tensor,
    z_b: Tensor,
    keys: Keys,
    mismatched: tuple[NDArray[np.int64], NDArray[np.int64]],
    references: NDArray[np.int64],
    temperature: float,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Scores of the pairs (i, i) and of the mismatched pairs (i, j), relative to what chance gives both sides.

    An item that scores high with everybody is thus not taken for a good match. A mismatched pair is left out of the
    average that it is compared with, as a pair is: otherwise the null would be too low.
    """
    i, j = mismatched
    known = References(z_a[references], z_b[references], [key[references] for key in keys])
    level_a, count_a = _level(z_a, known.b, keys, known.keys, temperature)
    level_b, count_b = _level(z_b, known.a, keys, known.keys, temperature)
    pairs = _relative(z_a, z_b, level_a / count_a, level_b / count_b, temperature)
    parts = [(z_a[i[p]] * z_b[j[p]]).sum(1).numpy() for p in chunks(len(i), z_a.shape[1])]
    score = np.concatenate(parts) / temperature
    is_reference = np.zeros(len(z_a))
    is_reference[references] = 1
    chance = np.exp(score)
    rest_a = np.maximum(level_a[i] - is_reference[j] * chance, 1e-12) / np.maximum(count_a[i] - is_reference[j], 1)
    rest_b = np.maximum(level_b[j] - is_reference[i] * chance, 1e-12) / np.maximum(count_b[j] - is_reference[i], 1)
    return pairs, (score - 0.5 * np.log(rest_a) - 0.5 * np.log(rest_b)).astype(np.float32)


class References(NamedTuple):
    """A sample of pairs that others are compared with: embeddings of both sides, and what makes a pair one of them."""

    a: Tensor
    b: Tensor
    keys: Keys

    def scores(self, z_a: Tensor, z_b: Tensor, keys: Keys, temperature: float) -> NDArray[np.float32]:
        """``relative_scores`` of pairs alone."""
        level_a, count_a = _level(z_a, self.b, keys, self.keys, temperature)
        level_b, count_b = _level(z_b, self.a, keys, self.keys, temperature)
        return _relative(z_a, z_b, level_a / count_a, level_b / count_b, temperature)


def _relative(
    z_a: Tensor, z_b: Tensor, mean_a: NDArray[np.float64], mean_b: NDArray[np.float64], temperature: float
) -> NDArray[np.float32]:
    own = (z_a * z_b).sum(1).numpy() / temperature
    return (own - 0.5 * np.log(mean_a) - 0.5 * np.log(mean_b)).astype(np.float32)


def class_scores(
    known: "Classes",
    z_a: Tensor,
    mismatched: tuple[NDArray[np.int64], NDArray[np.int64]],
    classes: NDArray[np.int64],
    temperature: float,
) -> Scored:
    """Like ``relative_scores``, where the other side is a class: how well a class fits a row of ``z_a``.

    Every score of a row with a class is relative to the *other* classes, whether it is its own or a mismatched one.
    """
    table, code = known.table(z_a, temperature), np.searchsorted(known.codes, classes)
    i, j = mismatched
    own = table[np.arange(len(z_a)), code]
    return Scored(own, table[i, code[j]], with_rival=share_with_rival(table, code))


class Classes(NamedTuple):
    """The classes of one side: their codes in order, an embedding of each, its share, and what the others score.

    ``rest`` is for every class the mean of exp(score) over all rows of the other classes.
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
        """``class_scores`` of pairs alone; of a class that is not known, relative to all of those that are."""
        place = np.minimum(np.searchsorted(self.codes, classes), len(self.codes) - 1)
        found = self.table(z_a, temperature)[np.arange(len(z_a)), place]
        new = np.flatnonzero(self.codes[place] != classes)
        if len(new):
            every = np.exp((z_a[new] @ self.z.T / temperature).double().numpy()) @ self.share
            own = (z_a[new] * z_b[new]).sum(1).double().numpy() / temperature
            found[new] = own - 0.5 * np.log(every) - 0.5 * np.log(self.rest.mean())
        return found


def _level(
    z: Tensor, others: Tensor, keys: Keys, other_keys: Keys, temperature: float
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """For every row the sum of exp(score) over the references that do not belong to it, and their number."""
    levels, counts = [], []
    for part in chunks(len(z), len(others)):
        chance = (z[part] @ others.T).div_(temperature).exp_()
        row, reference = _own_references([key[part] for key in keys], other_keys)
        chance[row, reference] = 0
        levels.append(chance.sum(1, dtype=torch.float64).numpy())
        counts.append(len(others) - np.bincount(row, minlength=len(chance)))
    return np.maximum(np.concatenate(levels), 1e-12), np.maximum(np.concatenate(counts), 1).astype(np.float64)


def _own_references(keys: Keys, other_keys: Keys) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every (row, reference) with an equal key, once: there are few, so they are looked up rather than compared."""
    size, found = len(other_keys[0]), []
    for key, other in zip(keys, other_keys, strict=True):
        order = np.argsort(other, kind="stable")
        first, last = (np.searchsorted(other[order], key, side) for side in ("left", "right"))
        many = last - first
        row = np.repeat(np.arange(len(key)), many)
        place = np.arange(len(row)) - np.repeat(np.cumsum(many) - many, many) + np.repeat(first, many)
        found.append(row * size + order[place])
    both = np.unique(np.concatenate(found))
    return both // size, both % size
