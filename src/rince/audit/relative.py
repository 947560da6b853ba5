"""Relative scores: the cosine of a pair, relative to how well both of its items fit other partners.

The score of a pair is cosine / t minus the mean of two levels: for either item, the log of the mean of exp(cosine / t)
with a sample of other partners. The correction removes how high an item scores with everything. Mismatched pairs get
the same correction, so that they are the null distribution of these scores.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince.audit.estimate import Null
from rince.audit.null import NONE_APART
from rince.audit.scan import Sample
from rince.errors import UsageError
from rince.pairs.matrix import Keys, Matrix, chunks, unit_rows

REFERENCES = 1024
"""Reference partners per score."""
MANY_ROWS = 20_000  # pairs of given embeddings up to which four times as many references are used
MAX_FIT_PAIRS = 50_000
"""Pairs that closed-form scorers are fitted to and mismatched pairs are made of."""
RELATIVE_NULL_SIZE = 200_000
TEMPERATURE = 0.1  # of given embeddings

Floats = NDArray[np.float32]
Sums = NDArray[np.float64]


class Scorer(ABC):
    """Scorer of any pair; it can be sent to the workers that hold the shards.

    Attributes:
        settings: Settings chosen by the fit without labels; empty if there were none to choose.
    """

    settings: str = ""

    @abstractmethod
    def score(self, x: Floats, y: Floats, keys: Keys, pairs: NDArray[np.int64]) -> Floats:
        """Scores of pairs: raw rows of both sides; row numbers, codes of both sides and user keys; pair codes."""

    def spaces(self, a: Matrix, b: Matrix) -> tuple[Floats, Floats] | None:
        """(pairs, width) unit rows of both sides whose inner products are scores; None if not available."""
        return None


class Terms(NamedTuple):
    """Sums of exp((cosine - peak) / t) of rows with the references that do not belong to them.

    Attributes:
        peak: (rows,) the largest cosine / t; its term is 1.
        second: (rows,) the second largest term.
        rest: (rows,) sum of all others.
        others: (rows,) number of references.
    """

    peak: Sums
    second: Sums
    rest: Sums
    others: Sums


@dataclass(frozen=True, eq=False)
class References:
    """A sample of pairs with which every pair is compared.

    Attributes:
        a, b: (references, width) unit rows of both sides.
        keys: Arrays of codes; pairs with an equal code belong together. The first are row numbers. References that
            share a key with a pair are left out of its comparison.
        temperature: Divides the cosines.
        skip_best: Leave the best other partner out. Where wrong pairs come from a shuffle it may be the right one,
            which mismatched pairs made from right pairs do not have.
    """

    a: Floats
    b: Floats
    keys: Keys
    temperature: float
    skip_best: bool = True

    @classmethod
    def of(
        cls, a: Floats, b: Floats, keys: Keys, rows: NDArray[np.int64], temperature: float, skip_best: bool = True
    ) -> "References":
        """References from the given rows."""
        return cls(a[rows], b[rows], [key[rows] for key in keys], temperature, skip_best)

    def score(self, a: Floats, b: Floats, keys: Keys) -> Floats:
        """Scores of pairs, from (rows, width) unit rows and the keys of the pairs."""
        return self._scores(a, b, *self._terms(a, b, keys))

    def score_with_null(
        self, a: Floats, b: Floats, keys: Keys, mismatched: tuple[NDArray[np.int64], NDArray[np.int64]]
    ) -> tuple[Floats, Floats]:
        """Scores of pairs, and of mismatched pairs (i, j) of the same rows.

        Like a pair, a mismatched pair is left out of its own comparison; otherwise the null would be too low.
        """
        terms = self._terms(a, b, keys)
        is_reference = np.isin(keys[0], self.keys[0])
        i, j = mismatched
        cosines = np.concatenate([np.einsum("nk,nk->n", a[i[p]], b[j[p]]) for p in chunks(len(i), a.shape[1])])
        own = cosines.astype(np.float64) / self.temperature
        levels = [
            self._level(side, row, np.where(is_reference[partner], own, -np.inf))
            for side, row, partner in zip(terms, (i, j), (j, i), strict=True)
        ]
        return self._scores(a, b, *terms), (own - (levels[0] + levels[1]) / 2).astype(np.float32)

    def _scores(self, a: Floats, b: Floats, terms_a: Terms, terms_b: Terms) -> Floats:
        own = np.einsum("nk,nk->n", a, b).astype(np.float64) / self.temperature
        rows, no_term = np.arange(len(a)), np.full(len(a), -np.inf)
        levels = self._level(terms_a, rows, no_term) + self._level(terms_b, rows, no_term)
        return np.asarray(own - levels / 2, dtype=np.float32)

    def _terms(self, a: Floats, b: Floats, keys: Keys) -> tuple[Terms, Terms]:
        parts: tuple[list[list[Sums]], list[list[Sums]]] = ([], [])
        for part in chunks(len(a), 4 * len(self.a)):
            row, reference = equal_keys([key[part] for key in keys], self.keys)
            for columns, side, others in zip(parts, (a, b), (self.b, self.a), strict=True):
                x = side[part] @ others.T
                x /= self.temperature
                x[row, reference] = -np.inf
                best, rows = x.argmax(1), np.arange(len(x))
                peak = np.maximum(x[rows, best], -1 / self.temperature)  # where no reference is left
                x -= peak[:, None]
                np.exp(x, out=x)
                x[rows, best] = 0
                best = x.argmax(1)
                second = x[rows, best]
                x[rows, best] = 0
                number = (len(others) - np.bincount(row, minlength=len(x))).astype(np.float64)
                columns.append([peak, second, x.sum(1, dtype=np.float64), number])
        terms_a, terms_b = (Terms(*(np.concatenate(c, dtype=np.float64) for c in zip(*p, strict=True))) for p in parts)
        return terms_a, terms_b

    def _level(self, terms: Terms, rows: NDArray[np.int64], own: Sums) -> Sums:
        """The level of rows without a partner: ``own`` is its cosine / t, -inf where it is not a reference."""
        peak, second, rest, others = (values[rows] for values in terms)
        term = np.exp(own - peak)
        is_best, is_top = term > 1 - 1e-4, term > second * (1 - 1e-4)  # up to rounding
        total = np.where(is_top, rest, rest + second - term) + (0 if self.skip_best else np.where(is_best, second, 1))
        number = np.maximum(others - (own > -np.inf) - self.skip_best, 1)
        lowest = -1 / self.temperature
        return np.maximum(peak + np.log(np.maximum(total, 1e-300) / number), lowest)


def equal_keys(keys: Keys, others: Keys) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Every (row, other row) with an equal key, once: there are few, so they are looked up rather than compared."""
    size, codes = len(others[0]), []
    for key, other in zip(keys, others, strict=True):
        order = np.argsort(other, kind="stable")
        first, last = (np.searchsorted(other[order], key, side) for side in ("left", "right"))
        counts = last - first
        row = np.repeat(np.arange(len(key)), counts)
        index = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts) + np.repeat(first, counts)
        codes.append(row * size + order[index])
    unique = np.unique(np.concatenate(codes))
    return unique // size, unique % size


def draw_mismatched(keys: Keys, size: int, random: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Up to ``size`` random pairs of rows that share no key, with replacement; at most 40 per row."""
    n = len(keys[0])
    size = min(size, 40 * n)
    i, j = random.integers(n, size=(2, 2 * size))
    mask = np.ones(len(i), dtype=bool)
    for key in keys:
        mask &= key[i] != key[j]
    if not mask.any():
        raise UsageError(NONE_APART)
    return i[mask][:size], j[mask][:size]


# --- embeddings of one space ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RelativeScorer(Scorer):
    """Relative scores of embeddings of one space against a sample of them.

    Attributes:
        references: The sample.
        rows: Sorted row numbers of the pairs that the null was drawn from.
        scores: Scores of these pairs, which are not computed again.
    """

    references: References
    rows: NDArray[np.int64]
    scores: Floats

    def score(self, x: Floats, y: Floats, keys: Keys, pairs: NDArray[np.int64]) -> Floats:
        """Scores of pairs: rows of both sides; row numbers, codes of both sides and user keys."""
        index = np.minimum(np.searchsorted(self.rows, keys[0]), len(self.rows) - 1)
        scores = self.scores[index]
        new = np.flatnonzero(self.rows[index] != keys[0])
        if len(new):
            scores[new] = self.references.score(unit_rows(x[new]), unit_rows(y[new]), [key[new] for key in keys])
        return scores


def fit_relative(a: Sample, b: Sample, rows: NDArray[np.int64], seed: int = 0) -> tuple[RelativeScorer, Null]:
    """A scorer of embeddings of one space, and scores of mismatched pairs.

    Args:
        a, b: Both sides of a sample of the pairs.
        rows: Row numbers of its pairs.
        seed: Seed of the references and of the mismatched pairs.
    """
    keys = [rows, a.own, b.own, *a.keys]
    count = 4 * REFERENCES if len(rows) <= MANY_ROWS else REFERENCES
    sample = np.sort(np.random.default_rng([seed, 2]).permutation(len(rows))[:count])
    za, zb = unit_rows(a.x), unit_rows(b.x)
    references = References.of(za, zb, keys, sample, TEMPERATURE)
    mismatched = draw_mismatched(keys, RELATIVE_NULL_SIZE, np.random.default_rng(seed))
    scores, null = references.score_with_null(za, zb, keys, mismatched)
    return RelativeScorer(references, rows, scores), Null(null)
