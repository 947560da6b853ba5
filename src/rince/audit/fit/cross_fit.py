"""Scores for any two columns of features, by towers fitted to the other pairs: nobody judges what it has seen.

The pairs are split into folds, and there are two rounds.

1. For every two folds, towers are trained on the other folds, wrong pairs and all. They say of the pairs in either of
   the two how likely they are to be wrong.
2. For every fold, towers are trained on the other folds, this time each pair weighted by its probability to be right,
   and score the pairs of the fold and mismatched pairs made of them. These probabilities come from towers of the first
   round that had not seen the fold either, so nothing of it has reached the towers that judge it: to them its wrong
   pairs are mismatched pairs like any others.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rince.audit.classes import class_side
from rince.audit.clusters import equal_pairs, together
from rince.audit.columns import Keys
from rince.audit.estimate.probability import at_p_values
from rince.audit.estimate.rate import chances, p_values
from rince.audit.fit.features import Features
from rince.audit.fit.fold_judge import FoldJudge, Member
from rince.audit.fit.towers import Classes, Recipe, References, class_scores, embed, relative_scores
from rince.audit.fit.training import Lesson, Towers, train_towers
from rince.audit.mismatched import MISMATCHED, Scored, mismatched_index
from rince.errors import UsageError

FirstRound = dict[tuple[int, int], Scored]
REFERENCES = 2048
FEW = 20_000  # mismatched pairs of a fold that the first round is content with


class Fold(NamedTuple):
    """The pairs of a fold, what tells which belong together, mismatched pairs made of them, and a sample of them."""

    rows: NDArray[np.int64]
    keys: Keys
    mismatched: tuple[NDArray[np.int64], NDArray[np.int64]]
    references: NDArray[np.int64]


class CrossFit:
    """The folds of a sample of pairs, and the towers of both rounds.

    Args:
        left, right: Both sides of the sample.
        keys: What makes two of its pairs the same thing.
        seed: The same seed gives the same towers.
        recipe: How they are trained.
        rows: The numbers of its pairs among all; by default from 0.
    """

    def __init__(
        self,
        left: Features,
        right: Features,
        keys: Keys,
        seed: int,
        recipe: Recipe,
        rows: NDArray[np.int64] | None = None,
    ):
        self.left, self.right, self.seed, self.recipe = left, right, seed, recipe
        rows = np.arange(len(left.codes)) if rows is None else rows
        random = np.random.default_rng(seed)
        self.pairs = equal_pairs(left.codes, right.codes)
        self.number = fold_numbers(self.pairs, recipe.folds, keys, random)
        self.keys = [rows, left.codes, right.codes, *keys]
        self.side = class_side(left.codes, right.codes)
        self.classes = None if self.side is None else {"left": left.codes, "right": right.codes}[self.side]
        self.folds = [self._fold(np.flatnonzero(self.number == k), random) for k in range(recipe.folds)]

    def _fold(self, rows: NDArray[np.int64], random: np.random.Generator) -> Fold:
        keys = [key[rows] for key in self.keys]
        mismatched = mismatched_index(keys, keys, MISMATCHED // self.recipe.folds, random)
        return Fold(rows, keys, mismatched, np.sort(random.permutation(len(rows))[:REFERENCES]))

    def first_round(self, pairs: Sequence[tuple[int, int]]) -> FirstRound:
        """Towers that saw neither fold i nor fold j say what they think of both; (k, m) is fold m where k is judged."""
        rows = [np.flatnonzero((self.number != i) & (self.number != j)) for i, j in pairs]
        lessons = [self._lesson(seen, (i, j, 1)) for seen, (i, j) in zip(rows, pairs, strict=True)]
        learned = self._towers(lessons, self.recipe.first_q, least_steps=100)
        found: FirstRound = {}
        for towers, (i, j) in zip(learned, pairs, strict=True):
            found |= {(k, m): self._scored(towers, self.folds[m], FEW)[0] for k, m in ((i, j), (j, i))}
        return found

    def second_round(self, numbers: Sequence[int], first: FirstRound) -> list[FoldJudge]:
        """For every fold towers trained on the others, whose wrong pairs they have been told to mistrust."""
        lessons = []
        for number in numbers:
            rows = np.flatnonzero(self.number != number)
            trust = self._trust(number, rows, first)
            lessons += [self._lesson(rows, (number, member), trust) for member in range(self.recipe.members)]
        learned = iter(self._towers(lessons, self.recipe.q, least_steps=150))
        return [self._judge(number, [next(learned) for _ in range(self.recipe.members)]) for number in numbers]

    def _trust(self, number: int, rows: NDArray[np.int64], first: FirstRound) -> Tensor:
        """How far the first round trusts pairs of the other folds, without a look at this one."""
        chance = np.empty(len(self.number), dtype=np.float32)
        for m in range(self.recipe.folds):
            if m != number:
                chance[self.folds[m].rows] = p_values(first[number, m].scores, first[number, m].null)
        p = chance[rows]
        return torch.from_numpy(1 - at_p_values(p, chances(p)))

    def _judge(self, number: int, learned: list[Towers]) -> FoldJudge:
        fold = self.folds[number]
        scored, members = [], []
        for towers in learned:
            found, compared = self._scored(towers, fold)
            scored.append(found)
            members.append(Member(towers, compared))
        return FoldJudge(
            self.left.scale,
            self.right.scale,
            members,
            self.side,
            self.recipe.temperature,
            self.keys[0][fold.rows],
            np.mean([one.scores for one in scored], axis=0),
            np.mean([one.null for one in scored], axis=0),
            float(np.mean([one.with_rival for one in scored])),
        )

    def _lesson(self, rows: NDArray[np.int64], key: tuple[int, ...], weights: Tensor | None = None) -> Lesson:
        seed = int(np.random.default_rng([self.seed, *key]).integers(2**31))
        return Lesson(rows, seed, identity(self.keys, rows), weights)

    def _towers(self, lessons: list[Lesson], q: float, least_steps: int) -> list[Towers]:
        return train_towers(self.left, self.right, lessons, self.recipe, q, least_steps)

    def _scored(self, towers: Towers, fold: Fold, few: int | None = None) -> tuple[Scored, References | Classes]:
        """Scores of the pairs of a fold and of mismatched ones, and what any other pair of it can be compared with."""
        z_a, z_b = embed(towers[0], self.left, fold.rows), embed(towers[1], self.right, fold.rows)
        i, j = fold.mismatched
        mismatched, temperature = (i[:few], j[:few]), self.recipe.temperature
        if self.classes is not None:
            if self.side == "left":
                z_a, z_b, mismatched = z_b, z_a, mismatched[::-1]
            classes = self.classes[fold.rows]
            of_classes = Classes.of(z_a, z_b, classes, temperature)
            return class_scores(of_classes, z_a, mismatched, classes, temperature), of_classes
        some = fold.references
        known = References(z_a[some], z_b[some], [key[some] for key in fold.keys])
        return Scored(*relative_scores(z_a, z_b, fold.keys, mismatched, some, temperature)), known


def fold_numbers(pairs: NDArray[np.int64], folds: int, keys: Keys, random: np.random.Generator) -> NDArray[np.int64]:
    """Folds of about equal size, by the codes of the pairs and their keys.

    Equal pairs stay together, or towers would be asked about what they have learned. So do pairs that are linked by
    equal keys, unless these are so few that this would hide whole classes. Pairs that share one row only may part: each
    says something of its own.
    """
    clusters = together(pairs, keys, least=20 * folds)
    if clusters is None:
        return random.permutation(len(pairs)) % folds
    number = int(clusters.max()) + 1
    if number < 2 * folds:
        raise UsageError(f"only {number} of the {len(pairs):,} pairs are different: too few to fit towers to")
    return (random.permutation(number) % folds)[clusters]


def identity(keys: Keys, rows: NDArray[np.int64]) -> Tensor | None:
    """Ids for the loss, which takes one: what the user gave, or else equal rows of the side that has more of them."""
    candidates = keys[3:] or keys[1:3]
    best = min(candidates, key=lambda key: len(np.unique(key[rows])))
    return torch.from_numpy(best[rows]) if len(np.unique(best[rows])) < len(rows) else None
