"""Scores of pairs by regularized canonical correlation analysis (CCA), cross-fitted: a closed form, in seconds.

Every pair is scored by a fit that never saw it, and so is every mismatched pair made from the same fold:

1. Each side becomes features: centered on one common scale, or as normal scores of ranks; PCA to at most 256
   dimensions, with or without 512 random ReLU features. None of this looks at the pairing.
2. The pairs are split into folds. The fit for a fold needs nothing but sums and cross products of the other folds
   (``Moments``, which add up over folds, shards and machines).
3. View and ridge are chosen for each fold by pairs of the other folds: fits without two folds score both.
4. A second round weights pairs by their probability to be right, from fits that saw neither the pair nor the fold
   that is scored in the end.

Large data are fitted on a sample of the pairs; all pairs are then scored in one pass, chunk by chunk.
"""

from collections import Counter
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rince._support.progress import track, working
from rince.audit.calibrate import local_probability, room_for_mismatched
from rince.audit.estimate import Null
from rince.audit.relative import MAX_FIT_PAIRS, REFERENCES, References, Scorer, draw_mismatched
from rince.audit.scan import Sample
from rince.audit.side_features import MAX_RANK_WIDTH, RELU_FEATURES, SideFeatures
from rince.audit.units import FOLDS, Folds, GivenFolds, equal_pairs, fold_numbers
from rince.pairs.matrix import Keys, Matrix, chunks, read, row_codes, unit_rows

COMPONENTS = 64
RIDGES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Candidate ridges, as multiples of the mean eigenvalue of a side's covariance."""
FIRST_RIDGES = (1.0, 10.0)  # ridges for comparing scalings; a quick fit tries no others
TEMPERATURE = 0.05
MIN_WEIGHT = 0.02  # of a pair in the second round


class Sizes(NamedTuple):
    """Samples of a fit.

    Attributes:
        null: Number of mismatched pairs.
        selection: Pairs per fold for comparing views and ridges.
        references: Reference pairs for the weights of the second round.
    """

    null: int
    selection: int
    references: int


THOROUGH, QUICK = Sizes(200_000, 500, REFERENCES), Sizes(40_000, 250, 256)

Rows = NDArray[np.generic] | Tensor


@dataclass(frozen=True, order=True)
class View:
    """How both sides become features.

    Attributes:
        ranks_a, ranks_b: Normal scores of ranks instead of one common scale.
        relu: Whether random ReLU features are added.
    """

    ranks_a: bool = False
    ranks_b: bool = False
    relu: bool = False

    def __str__(self) -> str:
        names = ["ranks" if ranks else "common scale" for ranks in (self.ranks_a, self.ranks_b)]
        scaling = names[0] if names[0] == names[1] else f"{names[0]} / {names[1]}"
        return scaling + (", random ReLU features" if self.relu else "")


class CCAScores(NamedTuple):
    """Cross-fitted scores.

    Attributes:
        scores: (pairs,) score of every pair; higher means a better fit.
        null: Scores of mismatched pairs with the same correction.
        fit: The fits of all folds.
    """

    scores: NDArray[np.float32]
    null: NDArray[np.float32]
    fit: "CCAScorer"

    @property
    def outscored(self) -> float:
        """Share of mismatched pairs that a held-out pair outscores on average; 0.5 for unrelated sides."""
        return float(np.searchsorted(np.sort(self.null), self.scores).mean() / len(self.null))


def cross_fit_cca(
    a: Matrix,
    b: Matrix,
    *,
    units: NDArray[np.int64] | None = None,
    folds: GivenFolds | None = None,
    rounds: int = 2,
    quick: bool = False,
    max_fit_pairs: int = MAX_FIT_PAIRS,
    seed: int = 0,
) -> CCAScores:
    """Score all pairs of rows of two feature matrices by CCA fits that never saw them.

    Args:
        a, b: (pairs, p) and (pairs, q) finite features; memory maps are read in chunks.
        units: (pairs,) numbers from 0. Pairs of one unit stay in one fold and are never mismatched with one another.
            Default: every pair is a unit of its own.
        folds: Folds and units, such as from ``block_folds``. Default: random folds of units.
        rounds, quick: As for ``fit_cca``.
        max_fit_pairs: Number of pairs that fits are made from; all pairs are scored.
        seed: The same seed gives the same scores.

    Example:
        >>> random = np.random.default_rng(0)
        >>> a = random.normal(size=(400, 8))
        >>> b = a @ random.normal(size=(8, 5)) + 0.1 * random.normal(size=(400, 5))
        >>> cross_fit_cca(a, b).outscored > 0.9
        True
    """
    random = np.random.default_rng(seed)
    if folds is None:
        units = np.arange(len(a)) if units is None else units
        number = (random.permutation(int(units.max()) + 1) % FOLDS)[units]
        folds = GivenFolds(number, units, np.ones(len(a), dtype=bool))
    rows = np.sort(random.permutation(len(a))[:max_fit_pairs])
    keys = [np.arange(len(a)), row_codes(a), row_codes(b), folds.units]
    samples = [
        Sample(read(x, rows), own[rows], partner[rows], [folds.units[rows]])
        for x, own, partner in ((a, keys[1], keys[2]), (b, keys[2], keys[1]))
    ]
    fit, null = fit_cca(samples[0], samples[1], rows, seed, folds, rounds=rounds, quick=quick)
    scores = np.empty(len(a), dtype=np.float32)
    for part in chunks(len(a), max(a.shape[1], b.shape[1], RELU_FEATURES)):
        of_part = [key[part] for key in keys]
        scores[part] = fit.score(read(a, part), read(b, part), of_part, equal_pairs(of_part[1], of_part[2]))
    return CCAScores(scores, null.scores, fit)


# --- closed-form fits -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums from which CCA is fitted; those of disjoint sets of pairs add up.

    Attributes:
        weight: Sum of the weights of the pairs.
        sum_a, sum_b: Sums of the features.
        aa, bb, ab: Sums of products of features.
    """

    weight: float
    sum_a: Tensor
    sum_b: Tensor
    aa: Tensor
    bb: Tensor
    ab: Tensor

    @classmethod
    def of(cls, a: Tensor, b: Tensor, weights: Tensor | None = None) -> "Moments":
        """Sums over (pairs, p) and (pairs, q) features, optionally weighted."""
        w = torch.ones(len(a)) if weights is None else weights
        wa, wb = a * w[:, None], b * w[:, None]
        return cls(
            float(w.sum()), wa.sum(0).double(), wb.sum(0).double(), (wa.T @ a).double(), (wb.T @ b).double(),
            (wa.T @ b).double(),
        )  # fmt: skip

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(
            self.weight + other.weight, self.sum_a + other.sum_a, self.sum_b + other.sum_b,
            self.aa + other.aa, self.bb + other.bb, self.ab + other.ab,
        )  # fmt: skip

    def fit(self, ridge: float) -> "CanonicalMaps":
        """Ridge CCA, each component weighted by the square root of its correlation."""
        mean_a, mean_b = self.sum_a / self.weight, self.sum_b / self.weight
        factors = []
        for products, mean in ((self.aa, mean_a), (self.bb, mean_b)):
            covariance = products / self.weight - torch.outer(mean, mean)
            # Above the variance where rows are far from the mean of all rows.
            rounding = 1e-6 * products.diagonal().sum() / self.weight
            diagonal = (ridge * covariance.diagonal().mean()).clamp_min(1e-12).maximum(rounding)
            factors.append(torch.linalg.cholesky((covariance + diagonal * torch.eye(len(mean))).float()))
        cross = (self.ab / self.weight - torch.outer(mean_a, mean_b)).float()
        half = torch.linalg.solve_triangular(factors[0], cross, upper=False)
        u, s, v = top_singular(torch.linalg.solve_triangular(factors[1], half.T, upper=False).T, COMPONENTS)
        maps = [
            (torch.linalg.solve_triangular(factor.T, x, upper=True) * s.sqrt()).float()
            for factor, x in zip(factors, (u, v), strict=True)
        ]
        return CanonicalMaps(mean_a.float(), mean_b.float(), *maps)


def top_singular(x: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The largest singular values of a matrix and their vectors, by subspace iteration where it is large."""
    if min(x.shape) > 2 * count:
        start = torch.randn(x.shape[1], count + 32, generator=torch.Generator().manual_seed(0), dtype=x.dtype)
        basis = x @ start
        for _ in range(4):
            basis = x @ (x.T @ torch.linalg.qr(basis).Q)
        basis = torch.linalg.qr(basis).Q
        u, s, vh = torch.linalg.svd(basis.T @ x, full_matrices=False)
        u = basis @ u
    else:
        u, s, vh = torch.linalg.svd(x, full_matrices=False)
    return u[:, :count], s[:count], vh[:count].T


@dataclass(frozen=True, eq=False)
class CanonicalMaps:
    """Means and linear maps of both sides to their weighted canonical variates."""

    mean_a: Tensor
    mean_b: Tensor
    map_a: Tensor
    map_b: Tensor

    def embed(self, a: Tensor, b: Tensor) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Unit rows whose inner product is the cosine of a pair."""
        return (
            unit_rows(((a - self.mean_a) @ self.map_a).numpy()),
            unit_rows(((b - self.mean_b) @ self.map_b).numpy()),
        )


# --- cross-fitting ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FoldScorer:
    """Scorer of the pairs of one fold; it can be sent to the workers that hold the shards.

    Attributes:
        view, ridge: Chosen by pairs of the other folds.
        side_a, side_b: Features of either side.
        maps: The fit to the other folds.
        references: Items of this fold.
        null: Scores of mismatched pairs of this fold.
    """

    view: View
    ridge: float
    side_a: SideFeatures
    side_b: SideFeatures
    maps: CanonicalMaps
    references: References
    null: NDArray[np.float32]

    def embed(self, a: Rows, b: Rows) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """(rows, components) unit canonical variates of (rows, p) and (rows, q) raw values."""
        x = self.side_a.transform(a, self.view.ranks_a, self.view.relu)
        y = self.side_b.transform(b, self.view.ranks_b, self.view.relu)
        return self.maps.embed(x, y)

    def score(self, a: Rows, b: Rows, keys: Keys) -> NDArray[np.float32]:
        """Scores of (rows, p) and (rows, q) raw values; keys as in ``References``."""
        return self.references.score(*self.embed(a, b), keys)


@dataclass(frozen=True, eq=False)
class CCAScorer(Scorer):
    """Scores any pair by the fit of its fold.

    Attributes:
        scorers: One per fold.
        folds: The fold of every pair.
    """

    scorers: list[FoldScorer]
    folds: Folds | GivenFolds

    @property
    def settings(self) -> str:  # type: ignore[override]
        """Most frequent view, and the range of ridges, over the folds."""
        view = Counter(str(scorer.view) for scorer in self.scorers).most_common(1)[0][0]
        ridges = sorted({scorer.ridge for scorer in self.scorers})
        ridge = f"{ridges[0]:g}" + (f" to {ridges[-1]:g}" if len(ridges) > 1 else "")
        sides = {"A": self.scorers[0].side_a.scalings[False].axes, "B": self.scorers[0].side_b.scalings[False].axes}
        wide = [
            f"; {axes.shape[1]} principal components of the {axes.shape[0]:,} columns of {name}, without ranks"
            for name, axes in sides.items()
            if axes.shape[0] > MAX_RANK_WIDTH
        ]
        return f"features: {view}; ridge {ridge}" + "".join(wide)

    def score(
        self, x: NDArray[np.float32], y: NDArray[np.float32], keys: Keys, pairs: NDArray[np.int64]
    ) -> NDArray[np.float32]:
        """Scores of pairs: raw rows of both sides; row numbers, codes of both sides and user keys; pair codes."""
        number = self.folds.find([keys[0], pairs, *keys[3:]])
        scores = np.empty(len(number), dtype=np.float32)
        for k, scorer in enumerate(self.scorers):
            rows = np.flatnonzero(number == k)
            if len(rows):
                scores[rows] = scorer.score(x[rows], y[rows], [key[rows] for key in keys])
        return scores

    def spaces(self, a: Matrix, b: Matrix, k: int = 0) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """(pairs, components) unit variates of both sides by the fit of one fold, to compare rows of all folds."""
        parts = [self.scorers[k].embed(a[part], b[part]) for part in chunks(len(a), max(a.shape[1], b.shape[1]))]
        za, zb = (np.concatenate(side) for side in zip(*parts, strict=True))
        return za, zb


def fit_cca(
    a: Sample,
    b: Sample,
    rows: NDArray[np.int64],
    seed: int = 0,
    folds: GivenFolds | None = None,
    *,
    rounds: int = 2,
    quick: bool = False,
    progress: bool | None = False,
) -> tuple[CCAScorer, Null]:
    """Fit a scorer of all pairs to a sample of them.

    Args:
        a, b: Both sides of the sample.
        rows: Row numbers of its pairs.
        seed: The same seed gives the same scorer.
        folds: Folds of all rows. Default: random ones of pairs that belong together.
        rounds: 1, or 2 to refit with every pair weighted by its probability to be right.
        quick: Use centered features on one common scale with two ridges, instead of comparing views and six ridges:
            about six times faster and a little less accurate where sides are heavy-tailed or not related linearly.
        progress: Show a progress bar. None: on a terminal.

    Returns:
        The scorer, and scores of mismatched pairs.
    """
    pairs = equal_pairs(a.own, b.own)
    row_folds: Folds | GivenFolds
    if folds is None:
        number = fold_numbers(pairs, FOLDS, a.keys, np.random.default_rng(seed))
        row_folds, trainable = Folds.of(number, FOLDS, [rows, pairs, *a.keys]), np.ones(len(rows), dtype=bool)
    else:
        row_folds, number, trainable = folds, folds.number[rows], folds.trainable[rows]
    with working("finding principal components", progress):
        sides = [SideFeatures.fit(torch.from_numpy(x.x), seed + k, ranks=not quick) for k, x in enumerate((a, b))]
    fits = _Fits(sides[0], sides[1], [rows, a.own, b.own, *a.keys], number, trainable, seed, quick)
    scorers = [fits.scorer(k, rounds) for k in track(range(fits.count), "fitting CCA to folds", show=progress)]
    return CCAScorer(scorers, row_folds), Null(np.concatenate([scorer.null for scorer in scorers]))


class _Fits:
    """Cache of the fits to the sample without one or two folds."""

    def __init__(
        self,
        side_a: SideFeatures,
        side_b: SideFeatures,
        keys: Keys,
        folds: NDArray[np.int64],
        trainable: NDArray[np.bool_],
        seed: int,
        quick: bool,
    ):
        self.side_a, self.side_b, self.keys, self.seed, self.quick = side_a, side_b, keys, seed, quick
        self.sizes = QUICK if quick else THOROUGH
        self.count = int(folds.max()) + 1
        self.rows = [np.flatnonzero(folds == k) for k in range(self.count)]
        self.trainable = [rows[trainable[rows]] for rows in self.rows]
        random = np.random.default_rng(seed)
        self.selection = [np.sort(random.permutation(rows)[: self.sizes.selection]) for rows in self.rows]
        self._features: dict[View, tuple[Tensor, Tensor]] = {}
        self._moments: dict[View, list[Moments]] = {}
        self._maps: dict[tuple[View, float, tuple[int, ...]], CanonicalMaps] = {}
        self._outscored: dict[tuple[View, float, tuple[int, int]], tuple[float, float]] = {}

    def scorer(self, k: int, rounds: int) -> FoldScorer:
        """The scorer of fold k, fitted to the others."""
        view, ridge = self.choose(k)
        if rounds == 1:
            maps = self.maps(view, ridge, (k,))
        else:
            others = [j for j in range(self.count) if j != k]
            weighted = [self.weighted_moments(view, ridge, j, (min(j, k), max(j, k))) for j in others]
            maps = sum(weighted[1:], weighted[0]).fit(ridge)
        references, null, _ = self.judge(view, maps, k, self.sizes.null // self.count, REFERENCES)
        sides = replace(self.side_a, features={}), replace(self.side_b, features={})
        return FoldScorer(view, ridge, *sides, maps, references, null)

    def features(self, view: View) -> tuple[Tensor, Tensor]:
        if view not in self._features:
            self._features[view] = (
                self.side_a.fitted(view.ranks_a, view.relu),
                self.side_b.fitted(view.ranks_b, view.relu),
            )
        return self._features[view]

    def maps(self, view: View, ridge: float, without: tuple[int, ...]) -> CanonicalMaps:
        """The fit to all folds except ``without``."""
        if view not in self._moments:
            a, b = self.features(view)
            self._moments[view] = [Moments.of(a[rows], b[rows]) for rows in self.trainable]
        if (view, ridge, without) not in self._maps:
            kept = [moments for k, moments in enumerate(self._moments[view]) if k not in without]
            self._maps[view, ridge, without] = sum(kept[1:], kept[0]).fit(ridge)
        return self._maps[view, ridge, without]

    def choose(self, k: int) -> tuple[View, float]:
        """View and ridge by pairs outside fold k: first the scalings, then whether ReLU features help."""
        if self.quick:
            return max((self.criterion(View(), ridge, k), View(), ridge) for ridge in FIRST_RIDGES)[1:]
        linear = [View(ranks_a, ranks_b) for ranks_a in self.side_a.scalings for ranks_b in self.side_b.scalings]
        first = max((self.criterion(view, ridge, k), view) for view in linear for ridge in FIRST_RIDGES)[1]
        candidates = (first, replace(first, relu=True))
        return max((self.criterion(view, ridge, k), view, ridge) for view in candidates for ridge in RIDGES)[1:]

    def criterion(self, view: View, ridge: float, k: int) -> float:
        """Mean share of mismatched pairs outscored in the other folds, by fits that saw neither them nor fold k."""
        shares = []
        for pair in combinations(range(self.count), 2):
            if k in pair:
                if (view, ridge, pair) not in self._outscored:
                    maps = self.maps(view, ridge, pair)
                    first, second = (self.outscored(view, maps, j) for j in pair)
                    self._outscored[view, ridge, pair] = first, second
                shares.append(self._outscored[view, ridge, pair][pair[0] == k])
        return float(np.mean(shares))

    def outscored(self, view: View, maps: CanonicalMaps, j: int) -> float:
        """Share of mismatched pairs that pairs of fold j outscore, in a sample of the fold."""
        rows = self.selection[j]
        a, b = self.features(view)
        za, zb = maps.embed(a[rows], b[rows])
        cosines = torch.from_numpy(za @ zb.T).double() / TEMPERATURE
        mask = torch.ones(cosines.shape, dtype=torch.bool)
        for key in self.keys:
            mask &= torch.from_numpy(key[rows][:, None] != key[rows][None])
        terms = cosines.exp() * mask
        count = mask.sum(1).clamp_min(1)
        # Like the true partner, a mismatched partner is left out of its own comparison.
        rest_a, rest_b = terms.sum(1, keepdim=True), terms.sum(0, keepdim=True)
        log_a, log_b = (rest_a - terms).clamp_min(1e-6).log(), (rest_b - terms).clamp_min(1e-6).log()
        relative = cosines - (log_a + log_b) / 2
        own = relative.diagonal()
        below = ((relative < own[:, None]) & mask).sum(1) + ((relative < own[None]) & mask).sum(0)
        return float((below / (2 * count)).mean())

    def judge(
        self, view: View, maps: CanonicalMaps, k: int, null_size: int, count: int
    ) -> tuple[References, NDArray[np.float32], NDArray[np.float32]]:
        """References (``count`` of them), null and scores of fold k."""
        rows = self.rows[k]
        a, b = self.features(view)
        za, zb = maps.embed(a[rows], b[rows])
        keys = [key[rows] for key in self.keys]
        sample = np.sort(np.random.default_rng([self.seed, k]).permutation(len(rows))[:count])
        references = References.of(za, zb, keys, sample, TEMPERATURE)
        mismatched = draw_mismatched(keys, null_size, np.random.default_rng(self.seed + k))
        scores, null = references.score_with_null(za, zb, keys, mismatched)
        return references, null, scores

    def weighted_moments(self, view: View, ridge: float, j: int, fit_without: tuple[int, int]) -> Moments:
        """Moments of fold j, weighted by the probability to be right under a fit without fold j and another one."""
        _, null, scores = self.judge(
            view, self.maps(view, ridge, fit_without), j, self.sizes.null // 10, self.sizes.references
        )
        right = 1 - local_probability(scores, null, room_for_mismatched(scores, null))
        mask = np.isin(self.rows[j], self.trainable[j])
        a, b = self.features(view)
        weights = torch.from_numpy(right[mask]).clamp_min(MIN_WEIGHT)
        return Moments.of(a[self.trainable[j]], b[self.trainable[j]], weights)
