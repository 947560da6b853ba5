"""Scores of any two columns of features by cross-fitted towers: every pair is scored by towers that never saw it.

The pairs are split into folds, and there are two rounds.

1. For every two folds, towers are trained on the other folds, with all pairs alike. They give the pairs of either fold
   a probability to be mismatched.
2. For every fold, towers are trained on the other folds, each pair weighted by its probability to be right, and score
   the pairs of the fold and mismatched pairs made of them. These probabilities come from towers of the first round that
   had not seen the fold either, so nothing of it has reached the towers that score it: to them its wrong pairs are
   mismatched pairs like any others.

Large data are fitted on a sample. A pair outside of the sample is scored by the towers of the fold of its copies, or by
any: none of them has seen it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rince._support.progress import track
from rince.audit.calibrate import probability_curve
from rince.audit.estimate import Curve, Null
from rince.audit.fit.features import Features, Scale
from rince.audit.fit.towers import (
    Classes,
    FitConfig,
    Towers,
    TrainTask,
    class_scores,
    embed,
    train_towers,
)
from rince.audit.null import NULL_SIZE, Scored, class_side, mismatched_index, share_right_by_chance
from rince.audit.rate import noise_rate, p_values
from rince.audit.relative import References, Scorer
from rince.audit.scan import Sample
from rince.audit.units import Folds, equal_pairs, fold_numbers
from rince.pairs.matrix import Keys

FirstRound = dict[tuple[int, int], Scored]
REFERENCES = 2048
FIRST_ROUND_NULL = 20_000  # mismatched pairs per fold in the first round


class Fold(NamedTuple):
    """The pairs of a fold, their keys, mismatched pairs drawn from them, and a sample of reference pairs."""

    rows: NDArray[np.int64]
    keys: Keys
    mismatched: tuple[NDArray[np.int64], NDArray[np.int64]]
    references: NDArray[np.int64]


class CrossFit:
    """The folds of a sample of pairs, and the towers of both rounds.

    Args:
        left, right: Both sides of the sample.
        keys: Keys that make two of its pairs one unit.
        seed: The same seed gives the same towers.
        config: Training settings of the towers.
        rows: Row numbers of its pairs among all pairs. Default: from 0.
    """

    def __init__(
        self,
        left: Features,
        right: Features,
        keys: Keys,
        seed: int,
        config: FitConfig,
        rows: NDArray[np.int64] | None = None,
    ):
        self.left, self.right, self.seed, self.config = left, right, seed, config
        rows = np.arange(len(left.codes)) if rows is None else rows
        random = np.random.default_rng(seed)
        self.pairs = equal_pairs(left.codes, right.codes)
        self.number = fold_numbers(self.pairs, config.folds, keys, random)
        self.keys = [rows, left.codes, right.codes, *keys]
        self.side = class_side(left.codes, right.codes)
        self.classes = None if self.side is None else {"left": left.codes, "right": right.codes}[self.side]
        self.folds = [self._fold(np.flatnonzero(self.number == k), random) for k in range(config.folds)]

    def _fold(self, rows: NDArray[np.int64], random: np.random.Generator) -> Fold:
        keys = [key[rows] for key in self.keys]
        mismatched = mismatched_index(keys, keys, NULL_SIZE // self.config.folds, random)
        return Fold(rows, keys, mismatched, np.sort(random.permutation(len(rows))[:REFERENCES]))

    def first_round(self, pairs: Sequence[tuple[int, int]]) -> FirstRound:
        """Scores of folds i and j by towers that saw neither; (k, m) is fold m, for weights where fold k is scored."""
        rows = [np.flatnonzero((self.number != i) & (self.number != j)) for i, j in pairs]
        tasks = [self._task(task_rows, (i, j, 1)) for task_rows, (i, j) in zip(rows, pairs, strict=True)]
        trained = self._towers(tasks, self.config.first_q, min_steps=100)
        result: FirstRound = {}
        for towers, (i, j) in zip(trained, pairs, strict=True):
            result |= {(k, m): self._scored(towers, self.folds[m], FIRST_ROUND_NULL)[0] for k, m in ((i, j), (j, i))}
        return result

    def second_round(self, numbers: Sequence[int], first: FirstRound) -> list["FoldScorer"]:
        """For every fold towers trained on the others, weighted by the first round."""
        tasks = []
        for number in numbers:
            rows = np.flatnonzero(self.number != number)
            weights = self._weights(number, rows, first)
            tasks += [self._task(rows, (number, member), weights) for member in range(self.config.members)]
        trained = iter(self._towers(tasks, self.config.q, min_steps=150))
        return [self._scorer(number, [next(trained) for _ in range(self.config.members)]) for number in numbers]

    def _weights(self, number: int, rows: NDArray[np.int64], first: FirstRound) -> Tensor:
        """Weights of the pairs of the other folds: their probability to be right by the first round."""
        p_all = np.empty(len(self.number), dtype=np.float32)
        for m in range(self.config.folds):
            if m != number:
                p_all[self.folds[m].rows] = p_values(first[number, m].scores, first[number, m].null)
        p = p_all[rows]
        curve = probability_curve(1 - p.astype(np.float64), np.ones(len(p), dtype=np.int64), noise_rate(p).value)
        return torch.from_numpy(1 - Curve(*curve).at(p))

    def _scorer(self, number: int, trained: list[Towers]) -> "FoldScorer":
        fold = self.folds[number]
        scored, members = [], []
        for towers in trained:
            result, compared = self._scored(towers, fold)
            scored.append(result)
            members.append(Member(towers, compared))
        return FoldScorer(
            self.left.scale,
            self.right.scale,
            members,
            self.side,
            self.config.temperature,
            self.keys[0][fold.rows],
            np.mean([part.scores for part in scored], axis=0),
            np.mean([part.null for part in scored], axis=0),
            float(np.mean([part.other_class_better for part in scored])),
        )

    def _task(self, rows: NDArray[np.int64], key: tuple[int, ...], weights: Tensor | None = None) -> TrainTask:
        seed = int(np.random.default_rng([self.seed, *key]).integers(2**31))
        return TrainTask(rows, seed, identity(self.keys, rows), weights)

    def _towers(self, tasks: list[TrainTask], q: float, min_steps: int) -> list[Towers]:
        return train_towers(self.left, self.right, tasks, self.config, q, min_steps)

    def _scored(self, towers: Towers, fold: Fold, max_null: int | None = None) -> tuple[Scored, References | Classes]:
        """Scores of the pairs and mismatched pairs of a fold, and references for scoring its other pairs."""
        z_a, z_b = embed(towers[0], self.left, fold.rows), embed(towers[1], self.right, fold.rows)
        i, j = fold.mismatched
        mismatched, temperature = (i[:max_null], j[:max_null]), self.config.temperature
        if self.classes is not None:
            if self.side == "left":
                z_a, z_b, mismatched = z_b, z_a, mismatched[::-1]
            classes = self.classes[fold.rows]
            of_classes = Classes.of(z_a, z_b, classes, temperature)
            return class_scores(of_classes, z_a, mismatched, classes, temperature), of_classes
        a, b = z_a.numpy(), z_b.numpy()
        references = References.of(a, b, fold.keys, fold.references, temperature, skip_best=False)
        return Scored(*references.score_with_null(a, b, fold.keys, mismatched)), references


def identity(keys: Keys, rows: NDArray[np.int64]) -> Tensor | None:
    """Ids for the loss: the user key, or else the side, with the fewest distinct values."""
    candidates = keys[3:] or keys[1:3]
    best = min(candidates, key=lambda key: len(np.unique(key[rows])))
    return torch.from_numpy(best[rows]) if len(np.unique(best[rows])) < len(rows) else None


# --- scorers of folds -------------------------------------------------------------------------------------------------


class Member(NamedTuple):
    """A pair of towers, and the references in their space."""

    towers: tuple[nn.Module, nn.Module]
    compared: References | Classes


class FoldScorer(NamedTuple):
    """Scores the pairs of one fold; small enough to be sent to every shard.

    Attributes:
        left, right: Scalings of the features of either side.
        members: Towers of different initializations, whose scores are averaged.
        side: Which side is a class; None if neither is.
        temperature: Softmax temperature of the towers.
        rows: Sorted row numbers of the sample pairs in this fold.
        scores: Scores of these pairs.
        null: Scores of mismatched pairs drawn from them.
        other_class_better: Share of these pairs that fit another class better than their own; 0 without classes.
    """

    left: Scale
    right: Scale
    members: list[Member]
    side: str | None
    temperature: float
    rows: NDArray[np.int64]
    scores: NDArray[np.float32]
    null: NDArray[np.float32]
    other_class_better: float = 0.0

    def known(self, rows: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
        """Mask of the rows that are in the sample, and their scores (undefined for other rows)."""
        index = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return self.rows[index] == rows, self.scores[index]

    @torch.no_grad()
    def score(self, x: Tensor, y: Tensor, keys: Keys) -> NDArray[np.float32]:
        """Scores of pairs; ``keys`` are their row number, the codes of both sides, and all others."""
        a, b = self.left.of(x), self.right.of(y)
        results = []
        for (f, g), compared in self.members:
            z_a, z_b = nn.functional.normalize(f(a), dim=1), nn.functional.normalize(g(b), dim=1)
            if isinstance(compared, References):
                results.append(compared.score(z_a.numpy(), z_b.numpy(), keys))
            elif self.side == "left":
                results.append(compared.scores(z_b, z_a, keys[1], self.temperature))
            else:
                results.append(compared.scores(z_a, z_b, keys[2], self.temperature))
        return np.mean(results, axis=0)


@dataclass(frozen=True, eq=False)
class Ensemble(Scorer):
    """The scorers of all folds."""

    scorers: list[FoldScorer]
    folds: Folds

    def score(
        self,
        x: NDArray[np.float32],
        y: NDArray[np.float32],
        keys: Keys,
        pairs: NDArray[np.int64],
    ) -> NDArray[np.float32]:
        """Scores of pairs: raw rows of both sides, keys as in ``FoldScorer.score``, and codes of the pairs."""
        rows, user = keys[0], keys[3:]
        number = self.folds.find([rows, pairs, *user])
        scores = np.empty(len(rows), dtype=np.float32)
        for k, scorer in enumerate(self.scorers):
            index = np.flatnonzero(number == k)
            is_known, scores[index] = scorer.known(rows[index])
            new = index[~is_known]
            if len(new):
                scores[new] = scorer.score(
                    torch.from_numpy(x[new]), torch.from_numpy(y[new]), [key[new] for key in keys]
                )
        return scores


MAX_STACKED_PAIRS = 4096  # pairs, up to which all towers of a round are trained together


def fit_towers(
    a: Sample,
    b: Sample,
    rows: NDArray[np.int64],
    seed: int,
    config: FitConfig | None = None,
    progress: bool | None = None,
) -> tuple[Ensemble, Null]:
    """Fit towers to a sample of pairs.

    Args:
        a, b: Both sides of the sample.
        rows: Row numbers of its pairs.
        seed: The same seed gives the same towers.
        config: How towers are trained.
        progress: Show a progress bar.

    Returns:
        The scorer of all pairs, and scores of mismatched pairs.
    """
    config = FitConfig() if config is None else config
    fit = CrossFit(Features(a.x, "a"), Features(b.x, "b"), a.keys, seed, config, rows)
    pairs, folds = list(combinations(range(config.folds), 2)), list(range(config.folds))
    small = len(rows) <= MAX_STACKED_PAIRS
    first: FirstRound = {}
    scorers: list[FoldScorer] = []
    for task in track([pairs] if small else [[pair] for pair in pairs], "fitting towers", show=progress):
        first |= fit.first_round(task)
    for numbers in track([folds] if small else [[k] for k in folds], "refitting towers", show=progress):
        scorers += fit.second_round(numbers, first)
    better = float(
        np.average([scorer.other_class_better for scorer in scorers], weights=[len(scorer.rows) for scorer in scorers])
    )
    chance = 0.0 if fit.classes is None else share_right_by_chance(fit.classes)
    null = Null(np.concatenate([scorer.null for scorer in scorers]), chance, better)
    return Ensemble(scorers, Folds.of(fit.number, config.folds, [rows, fit.pairs, *a.keys])), null
