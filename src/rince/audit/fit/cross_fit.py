"""Scores for any two columns of features, by towers fitted to the other pairs: nobody judges what it has seen.

The pairs are split into folds, and there are two rounds.

1. For every two folds, towers are trained on the other folds, wrong pairs and all. They say of the pairs in either of
   the two how likely they are to be wrong.
2. For every fold, towers are trained on the other folds, this time each pair weighted by its probability to be right,
   and score the pairs of the fold and mismatched pairs made of them. These probabilities come from towers of the first
   round that had not seen the fold either, so nothing of it has reached the towers that judge it: to them its wrong
   pairs are mismatched pairs like any others.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rince._support.progress import track
from rince.audit.classes import class_side, share_hit_by_accident
from rince.audit.clusters import equal_pairs, together
from rince.audit.columns import Keys, Matrix
from rince.audit.estimate.probability import at_p_values
from rince.audit.estimate.rate import chances, p_values
from rince.audit.fit.features import Features
from rince.audit.fit.towers import Recipe, class_scores, embed, relative_scores, train_towers
from rince.audit.mismatched import MISMATCHED, Scored, mismatched_index

REFERENCES = 2048
FEW = 20_000  # mismatched pairs of a fold that the first round is content with


class Fold(NamedTuple):
    """The pairs of a fold, what tells which belong together, mismatched pairs made of them, and a sample of them."""

    rows: NDArray[np.int64]
    keys: Keys
    mismatched: tuple[NDArray[np.int64], NDArray[np.int64]]
    references: NDArray[np.int64]


def fitted_scores(
    a: Matrix, b: Matrix, keys: Keys, seed: int = 0, recipe: Recipe | None = None, progress: bool | None = None
) -> Scored:
    """Scores of all pairs and of mismatched pairs, each by towers that were trained without them.

    A score is the logarithm of how many times likelier than chance the towers think the pair is: its cosine over the
    temperature, less the average (log-mean-exp) over the mismatched partners of either side.
    """
    recipe = Recipe() if recipe is None else recipe
    fit = CrossFit(Features(a, "a"), Features(b, "b"), keys, seed, recipe)
    count = recipe.folds * (recipe.folds - 1) // 2 + recipe.folds * recipe.members
    fit.bar = iter(track(range(count), "fitting towers", show=progress))
    first = fit.first_round()
    scored = [fit.second_round(number, first) for number in range(recipe.folds)]
    next(fit.bar, None)  # lets the bar close
    scores = np.empty(len(a), dtype=np.float32)
    for fold, part in zip(fit.folds, scored, strict=True):
        scores[fold.rows] = part.scores
    null = np.concatenate([part.null for part in scored])
    by_accident = 0.0 if fit.classes is None else share_hit_by_accident(fit.classes)
    return Scored(scores, null, together(fit.pairs, keys), by_accident)


class CrossFit:
    """The folds of two columns and the towers of both rounds."""

    bar = iter(range(0))

    def __init__(self, left: Features, right: Features, keys: Keys, seed: int, recipe: Recipe):
        self.left, self.right, self.seed, self.recipe = left, right, seed, recipe
        n = len(left.codes)
        random = np.random.default_rng(seed)
        self.pairs = equal_pairs(left.codes, right.codes)
        self.number = fold_numbers(self.pairs, recipe.folds, keys, random)
        self.keys = [np.arange(n), left.codes, right.codes, *keys]
        self.side = class_side(left.codes, right.codes)
        self.classes = None if self.side is None else {"left": left.codes, "right": right.codes}[self.side]
        self.folds = [self._fold(np.flatnonzero(self.number == k), random) for k in range(recipe.folds)]

    def _fold(self, rows: NDArray[np.int64], random: np.random.Generator) -> Fold:
        keys = [key[rows] for key in self.keys]
        mismatched = mismatched_index(keys, keys, MISMATCHED // self.recipe.folds, random)
        return Fold(rows, keys, mismatched, np.sort(random.permutation(len(rows))[:REFERENCES]))

    def first_round(self) -> dict[tuple[int, int], Scored]:
        """(k, m): scores of fold m by towers that saw neither fold k nor fold m."""
        found = {}
        for i, j in combinations(range(self.recipe.folds), 2):
            rows = np.flatnonzero((self.number != i) & (self.number != j))
            towers = self._towers(rows, (i, j, 1), self.recipe.first_q, least_steps=100)
            for k, m in ((i, j), (j, i)):
                found[k, m] = self._scored(towers, self.folds[m], FEW)
        return found

    def second_round(self, number: int, first: dict[tuple[int, int], Scored]) -> Scored:
        """Scores of a fold by towers trained on the others, whose wrong pairs they have been told to mistrust."""
        rows = np.flatnonzero(self.number != number)
        chance = np.empty(len(self.number), dtype=np.float32)
        others = [m for m in range(self.recipe.folds) if m != number]
        for m in others:
            chance[self.folds[m].rows] = p_values(first[number, m].scores, first[number, m].null)
        p = chance[rows]
        trust = torch.from_numpy(1 - at_p_values(p, chances(p)))
        scored = []
        for member in range(self.recipe.members):
            towers = self._towers(rows, (number, member), self.recipe.q, least_steps=150, weights=trust)
            scored.append(self._scored(towers, self.folds[number]))
        return Scored(np.mean([one.scores for one in scored], axis=0), np.mean([one.null for one in scored], axis=0))

    def _towers(
        self, rows: NDArray[np.int64], key: tuple[int, ...], q: float, least_steps: int, weights: Tensor | None = None
    ) -> tuple[nn.Module, nn.Module]:
        next(self.bar, None)
        seed = int(np.random.default_rng([self.seed, *key]).integers(2**31))
        ids = identity(self.keys, rows)
        return train_towers(self.left, self.right, rows, ids, seed, self.recipe, q, least_steps, weights)

    def _scored(self, towers: tuple[nn.Module, nn.Module], fold: Fold, few: int | None = None) -> Scored:
        z_a, z_b = embed(towers[0], self.left, fold.rows), embed(towers[1], self.right, fold.rows)
        i, j = fold.mismatched
        mismatched = i[:few], j[:few]
        if self.classes is not None:
            sides = (z_b, z_a, mismatched[::-1]) if self.side == "left" else (z_a, z_b, mismatched)
            return Scored(*class_scores(*sides, self.classes[fold.rows], self.recipe.temperature))
        return Scored(*relative_scores(z_a, z_b, fold.keys, mismatched, fold.references, self.recipe.temperature))


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
        raise ValueError(f"only {number} of the {len(pairs):,} pairs are different: too few to fit towers to")
    return (random.permutation(number) % folds)[clusters]


def identity(keys: Keys, rows: NDArray[np.int64]) -> Tensor | None:
    """Ids for the loss, which takes one: what the user gave, or else equal rows of the side that has more of them."""
    candidates = keys[3:] or keys[1:3]
    best = min(candidates, key=lambda key: len(np.unique(key[rows])))
    return torch.from_numpy(best[rows]) if len(np.unique(best[rows])) < len(rows) else None
