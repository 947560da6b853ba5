"""The towers of a fold as a judge of any pair that they have not seen: small enough to be sent to every partition."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rince.audit.columns import Keys
from rince.audit.fit.features import Scale
from rince.audit.fit.towers import Classes, References


class Member(NamedTuple):
    """A pair of towers, and what pairs are compared with in their space."""

    towers: tuple[nn.Module, nn.Module]
    compared: References | Classes


class FoldJudge(NamedTuple):
    """Judges the pairs of one fold.

    Attributes:
        left, right: What makes the inputs of the towers from the features of either side.
        members: Towers of different starts, whose scores are averaged.
        side: Which side is a class; None if neither is.
        temperature: That of the towers.
        rows: The numbers of the pairs of the sample that are of this fold, in order.
        scores: Their scores.
        null: The scores of mismatched pairs made of them.
        with_rival: The share of them that fit another class better than their own; 0 if neither side is a class.
    """

    left: Scale
    right: Scale
    members: list[Member]
    side: str | None
    temperature: float
    rows: NDArray[np.int64]
    scores: NDArray[np.float32]
    null: NDArray[np.float32]
    with_rival: float = 0.0

    def known(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
        """Which of the rows are of the sample, and their scores (anything for the others)."""
        place = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return self.rows[place] == rows, self.scores[place]

    @torch.no_grad()
    def judge(self, x: Tensor, y: Tensor, keys: Keys) -> NDArray[np.float32]:
        """Scores of pairs; ``keys`` are their row number, the codes of both sides, and all others."""
        a, b = self.left.of(x), self.right.of(y)
        found = []
        for (f, g), compared in self.members:
            z_a, z_b = nn.functional.normalize(f(a), dim=1), nn.functional.normalize(g(b), dim=1)
            if isinstance(compared, References):
                found.append(compared.scores(z_a, z_b, keys, self.temperature))
            elif self.side == "left":
                found.append(compared.scores(z_b, z_a, keys[1], self.temperature))
            else:
                found.append(compared.scores(z_a, z_b, keys[2], self.temperature))
        return np.mean(found, axis=0)


class Folds(NamedTuple):
    """In which fold a pair is: that of the sample's pairs it is one thing with, or else any.

    Attributes:
        folds: How many folds there are.
        known: For the row number, the code of the pair and every key: codes of the sample, in order, and their fold.
    """

    folds: int
    known: list[tuple[NDArray[np.int64], NDArray[np.int64]]]

    @classmethod
    def of(cls, number: NDArray[np.int64], folds: int, keys: Keys) -> "Folds":
        """From the folds of the sample. A code whose pairs lie in several folds is a class, and says nothing."""
        known = []
        for key in keys:
            order = np.argsort(key, kind="stable")
            codes, first = np.unique(key[order], return_index=True)
            lowest, highest = (f.reduceat(number[order], first) for f in (np.minimum, np.maximum))
            one = lowest == highest
            known.append((codes[one], lowest[one]))
        return cls(folds, known)

    def find(self, keys: Keys) -> NDArray[np.int64]:
        """The fold of every pair; ``keys`` as in ``known``. Pairs that nobody knows are spread by their own code."""
        found = keys[1] % self.folds
        for key, (codes, number) in zip(reversed(keys), reversed(self.known), strict=True):
            if len(codes):
                place = np.minimum(np.searchsorted(codes, key), len(codes) - 1)
                found = np.where(codes[place] == key, number[place], found)
        return found
