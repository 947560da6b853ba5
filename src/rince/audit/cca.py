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
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rince.audit.calibrate import local_probability, room_for_mismatched
from rince.audit.estimate import Null
from rince.audit.scan import Sample
from rince.audit.side_features import RELU_FEATURES, SideFeatures, chunks, row_codes
from rince.audit.units import Folds, RowFolds, equal_pairs, fold_numbers

FOLDS = 4
COMPONENTS = 64
RIDGES = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
"""Candidate ridges, as multiples of the mean eigenvalue of a side's covariance."""
FIRST_RIDGES = (1.0, 10.0)  # with which scalings are compared; the only ones of a quick fit
TEMPERATURE = 0.05
REFERENCES = 1024
"""Other partners per fold that a score is compared with."""
MAX_FIT_PAIRS = 50_000
RELATIVE_TEMPERATURE = 0.1  # of the relative score of given embeddings
MANY_ROWS = 20_000  # pairs from which given embeddings are compared with fewer references
NULL_SIZE, QUICK_NULL_SIZE = 200_000, 40_000
MIN_WEIGHT = 0.02  # of a pair in the second round
SELECTION_ROWS = 500  # pairs per fold that views and ridges are compared on

Keys = Sequence[NDArray[np.int64]]
Floats = NDArray[np.float64]
Rows = NDArray[np.generic] | Tensor
unit = torch.nn.functional.normalize


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


@dataclass(frozen=True, eq=False)
class CCAScores:
    """Cross-fitted scores.

    Attributes:
        scores: (pairs,) score of every pair; higher means a better fit.
        null: Scores of mismatched pairs with the same correction.
        folds: (pairs,) fold of every pair.
        views: The view chosen for each fold.
        ridges: The ridge chosen for each fold, as a multiple of the mean eigenvalue.
        outscored: Share of mismatched pairs that a held-out pair outscores on average; 0.5 for unrelated sides.
    """

    scores: NDArray[np.float32]
    null: NDArray[np.float32]
    folds: NDArray[np.int64]
    views: tuple[View, ...]
    ridges: tuple[float, ...]
    outscored: float


def cross_fit_cca(
    a: NDArray[np.generic],
    b: NDArray[np.generic],
    *,
    units: NDArray[np.int64] | None = None,
    folds: NDArray[np.int64] | None = None,
    trainable: NDArray[np.bool_] | None = None,
    rounds: int = 2,
    quick: bool = False,
    max_fit_pairs: int = MAX_FIT_PAIRS,
    seed: int = 0,
) -> CCAScores:
    """Score all pairs of rows of two feature matrices by CCA fits that never saw them.

    Args:
        a, b: (pairs, p) and (pairs, q) finite features; memory maps are read in chunks.
        units: (pairs,) integers. Pairs of one unit stay in one fold and are never mismatched with one another.
            Default: every pair is a unit of its own.
        folds: (pairs,) fold of every pair from 0, such as from ``block_folds``. Default: random folds of units.
        trainable: (pairs,) pairs that may be fitted on. Default: all. Pairs in the gaps of ``block_folds`` are not.
        rounds: 1, or 2 to refit with every pair weighted by its probability to be right.
        quick: Use centered features on one common scale with two ridges, instead of comparing views and six ridges:
            about six times faster and a little less accurate where sides are heavy-tailed or not related linearly.
        max_fit_pairs: Number of pairs that fits are made from; all pairs are scored.
        seed: The same seed gives the same scores.

    Returns:
        Scores of the pairs and of mismatched pairs.

    Example:
        >>> random = np.random.default_rng(0)
        >>> a = random.normal(size=(400, 8))
        >>> b = a @ random.normal(size=(8, 5)) + 0.1 * random.normal(size=(400, 5))
        >>> bool(cross_fit_cca(a, b).outscored > 0.9)
        True
    """
    random = np.random.default_rng(seed)
    units = np.arange(len(a)) if units is None else np.unique(units, return_inverse=True)[1]
    if folds is None:
        folds = (random.permutation(int(units.max()) + 1) % FOLDS)[units]
    keys = [units, row_codes(a), row_codes(b)]
    rows = np.arange(len(a))
    if len(a) > max_fit_pairs:
        rows = np.sort(random.permutation(len(a))[:max_fit_pairs])
    scorers = fit_cca(
        SideFeatures.fit(a, rows, seed, ranks=not quick),
        SideFeatures.fit(b, rows, seed + 1, ranks=not quick),
        [key[rows] for key in keys],
        folds[rows],
        None if trainable is None else trainable[rows],
        rounds,
        seed,
        quick,
    )
    scores = np.empty(len(a), dtype=np.float32)
    for part in chunks(len(a), max(a.shape[1], b.shape[1], RELU_FEATURES)):
        for k, scorer in enumerate(scorers):
            own = part[folds[part] == k]
            if len(own):
                scores[own] = scorer.score(a[own], b[own], [key[own] for key in keys])
    null = np.concatenate([scorer.null for scorer in scorers])
    below = np.searchsorted(np.sort(null), scores) / len(null)
    views, ridges = tuple(one.view for one in scorers), tuple(one.ridge for one in scorers)
    return CCAScores(scores, null, folds, views, ridges, float(below.mean()))


def block_folds(
    rows: int, block: int, gap: int, folds: int = FOLDS, seed: int = 0
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]]:
    """Folds of contiguous blocks for ordered data.

    Args:
        rows: Number of pairs.
        block: Rows per block.
        gap: Rows at both ends of a block that no fit uses, so that scored rows have no neighbors among fitted ones.
        folds: Number of folds.
        seed: Random assignment of blocks.

    Returns:
        For every row its fold, its block (use it as ``units``), and whether fits may use it (``trainable``).
    """
    blocks = np.minimum(np.arange(rows) // block, max(rows // block - 1, 0))
    fold = (np.random.default_rng(seed).permutation(int(blocks[-1]) + 1) % folds)[blocks]
    first = np.searchsorted(blocks, blocks, "left")
    last = np.searchsorted(blocks, blocks, "right") - 1
    at = np.arange(rows)
    outer = (at - first < gap) & (first > 0) | (last - at < gap) & (last < rows - 1)
    return fold, blocks, ~outer


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
            rounding = (
                1e-6 * products.diagonal().sum() / self.weight
            )  # above the variance far from the mean of all rows
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

    def embed(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        """Unit rows whose inner product is the cosine of a pair."""
        za, zb = (a - self.mean_a) @ self.map_a, (b - self.mean_b) @ self.map_b
        return torch.nn.functional.normalize(za, dim=1), torch.nn.functional.normalize(zb, dim=1)


# --- scores -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class References:
    """A sample of items that every score is compared with.

    Attributes:
        a, b: Unit embeddings of both sides.
        keys: Their keys: items that share any key with a pair are left out of its comparison.
    """

    a: Tensor
    b: Tensor
    keys: Keys
    temperature: float = TEMPERATURE

    def terms(self, za: Tensor, zb: Tensor, keys: Keys, top: int) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Of exp(cosine / t) of both items with other partners: sums, the largest, and the number of partners."""
        sums_a, sums_b, count = (np.empty(len(za)) for _ in range(3))
        top_a, top_b = (np.empty((len(za), top)) for _ in range(2))
        for part in chunks(len(za), 4 * len(self.a)):
            other = torch.ones(len(part), len(self.a), dtype=torch.bool)
            for own, known in zip(keys, self.keys, strict=True):
                other &= torch.from_numpy(own[part][:, None] != known[None])
            for sums, largest, z, reference in ((sums_a, top_a, za, self.b), (sums_b, top_b, zb, self.a)):
                terms = (z[part] @ reference.T / self.temperature).exp() * other
                sums[part] = terms.sum(1).numpy()
                largest[part] = (terms.amax(1, keepdim=True) if top == 1 else terms.topk(top).values).numpy()
            count[part] = other.sum(1).numpy()
        return sums_a, sums_b, top_a, top_b, count

    def score(self, za: Tensor, zb: Tensor, keys: Keys) -> NDArray[np.float32]:
        """Cosine / t minus the mean of both log-mean-exps over other partners, for every pair of rows.

        The best other partner is left out: where wrong pairs come from a shuffle it may be the right one, which
        mismatched pairs made from right pairs do not have.
        """
        own = ((za * zb).sum(1) / self.temperature).double().numpy()
        sums_a, sums_b, top_a, top_b, count = self.terms(za, zb, keys, top=1)
        return _relative(own, sums_a - top_a[:, 0], sums_b - top_b[:, 0], count - 1, count - 1)

    def null(
        self, za: Tensor, zb: Tensor, keys: Keys, inside: NDArray[np.bool_], size: int, seed: int
    ) -> NDArray[np.float32]:
        """The same for mismatched pairs, which are not compared with themselves either.

        Args:
            za, zb: Embeddings of pairs that include the references.
            keys: Keys of these pairs.
            inside: Which of these pairs are references.
            size: Number of mismatched pairs.
            seed: Of the random draw.
        """
        i, j = mismatched(keys, size, np.random.default_rng(seed))
        za, zb = za.double(), zb.double()  # sums without one large term need the precision
        own = np.concatenate([(za[i[s]] * zb[j[s]]).sum(1).numpy() for s in chunks(len(i), 512)]) / self.temperature
        known = replace(self, a=self.a.double(), b=self.b.double())
        sums_a, sums_b, top_a, top_b, count = known.terms(za, zb, keys, top=2)
        rest = []
        for sums, top, row, compared in ((sums_a, top_a, i, inside[j]), (sums_b, top_b, j, inside[i])):
            term = compared * np.exp(own)
            best = np.where(term >= top[row, 0] * (1 - 1e-9), top[row, 1], top[row, 0])
            rest += [sums[row] - term - best, count[row] - compared - 1]
        return _relative(own, rest[0], rest[2], rest[1], rest[3])


def _relative(own: Floats, sums_a: Floats, sums_b: Floats, count_a: Floats, count_b: Floats) -> NDArray[np.float32]:
    log_a = np.log(np.maximum(sums_a, 1e-6) / np.maximum(count_a, 1))
    log_b = np.log(np.maximum(sums_b, 1e-6) / np.maximum(count_b, 1))
    return (own - (log_a + log_b) / 2).astype(np.float32)


def mismatched(keys: Keys, size: int, random: np.random.Generator) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Up to ``size`` random pairs of rows that share no key."""
    n = len(keys[0])
    size = min(size, 40 * n)
    i, j = random.integers(n, size=(2, 2 * size))
    apart = np.ones(len(i), dtype=bool)
    for key in keys:
        apart &= key[i] != key[j]
    return i[apart][:size], j[apart][:size]


# --- cross-fitting ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class FoldScorer:
    """What scores any pair of one fold; it can be sent to where shards of the data are.

    Attributes:
        view, ridge: As chosen by pairs of the other folds.
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

    def embed(self, a: Rows, b: Rows) -> tuple[Tensor, Tensor]:
        """Unit canonical variates of (rows, p) and (rows, q) raw values."""
        x = self.side_a.transform(a, self.view.ranks_a, self.view.relu)
        y = self.side_b.transform(b, self.view.ranks_b, self.view.relu)
        return self.maps.embed(x, y)

    def score(self, a: Rows, b: Rows, keys: Keys) -> NDArray[np.float32]:
        """Scores of (rows, p) and (rows, q) raw values; keys as in ``References``."""
        return self.references.score(*self.embed(a, b), keys)


@dataclass(frozen=True, eq=False)
class CCAScorer:
    """Scores any pair by the fit of its fold.

    Attributes:
        scorers: One per fold.
        folds: The fold of every pair.
    """

    scorers: list[FoldScorer]
    folds: Folds | RowFolds

    @property
    def settings(self) -> str:
        """What most folds chose."""
        view = Counter(str(one.view) for one in self.scorers).most_common(1)[0][0]
        ridges = sorted({one.ridge for one in self.scorers})
        ridge = f"{ridges[0]:g}" + (f" to {ridges[-1]:g}" if len(ridges) > 1 else "")
        return f"features: {view}; ridge {ridge}"

    def score(self, x: Tensor, y: Tensor, keys: Keys, pairs: NDArray[np.int64]) -> NDArray[np.float32]:
        """Scores of pairs: raw rows of both sides; row numbers, codes of both sides and user keys; pair codes."""
        number = self.folds.find([keys[0], pairs, *keys[3:]])
        out = np.empty(len(number), dtype=np.float32)
        for k, scorer in enumerate(self.scorers):
            inside = np.flatnonzero(number == k)
            if len(inside):
                out[inside] = scorer.score(x[inside], y[inside], [key[inside] for key in keys])
        return out

    def spaces(self, a: NDArray[np.generic], b: NDArray[np.generic]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """(pairs, components) unit variates of both sides by the fit of one fold, to compare rows of all folds."""
        parts = [self.scorers[0].embed(a[part], b[part]) for part in chunks(len(a), max(a.shape[1], b.shape[1]))]
        return torch.cat([x for x, _ in parts]).numpy(), torch.cat([y for _, y in parts]).numpy()


def fit_cca_sample(
    a: Sample,
    b: Sample,
    rows: NDArray[np.int64],
    seed: int = 0,
    blocks: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.bool_]] | None = None,
) -> tuple[CCAScorer, Null]:
    """Fit a scorer of all pairs to a sample of them.

    Args:
        a, b: Both sides of the sample.
        rows: Row numbers of its pairs.
        seed: The same seed gives the same scorer.
        blocks: Fold, block and trainability of every row of ordered data, see ``block_folds``.

    Returns:
        The scorer, and scores of mismatched pairs.
    """
    pairs = equal_pairs(a.own, b.own)
    keys = [rows, a.own, b.own, *a.keys]
    trainable: NDArray[np.bool_] | None = None
    folds: Folds | RowFolds
    if blocks is None:
        number = fold_numbers(pairs, FOLDS, a.keys, np.random.default_rng(seed))
        folds = Folds.of(number, FOLDS, [rows, pairs, *a.keys])
    else:
        number, trainable, folds = blocks[0][rows], blocks[2][rows], RowFolds(blocks[0])
    sides = [SideFeatures.fit(x.x.numpy(), np.arange(len(rows)), seed + k) for k, x in enumerate((a, b))]
    scorers = fit_cca(sides[0], sides[1], keys, number, trainable, seed=seed)
    return CCAScorer(scorers, folds), Null(np.concatenate([one.null for one in scorers]))


# --- embeddings of one space ------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class RelativeScorer:
    """Relative scores of embeddings of one space against a sample of them."""

    references: References

    def score(self, x: Tensor, y: Tensor, keys: Keys, pairs: NDArray[np.int64]) -> NDArray[np.float32]:
        """Scores of pairs: rows of both sides; row numbers, codes of both sides and user keys."""
        return self.references.score(unit(x.float(), dim=1), unit(y.float(), dim=1), keys)


def fit_relative(a: Sample, b: Sample, rows: NDArray[np.int64], seed: int = 0) -> tuple[RelativeScorer, Null]:
    """Relative scores of embeddings: cosine / t minus the mean log-mean-exp of both sides over a sample.

    The correction removes how high an item scores with everything. Mismatched pairs get the same correction.

    Args:
        a, b: Both sides of a sample of the pairs.
        rows: Row numbers of its pairs.
        seed: Of the references and of the mismatched pairs.

    Returns:
        The scorer, and scores of mismatched pairs.
    """
    keys = [rows, a.own, b.own, *a.keys]
    count = 4 * REFERENCES if len(rows) <= MANY_ROWS else REFERENCES
    inside = np.zeros(len(rows), dtype=bool)
    inside[np.random.default_rng([seed, 2]).permutation(len(rows))[:count]] = True
    za, zb = unit(a.x.float(), dim=1), unit(b.x.float(), dim=1)
    known = References(za[inside], zb[inside], [key[inside] for key in keys], RELATIVE_TEMPERATURE)
    return RelativeScorer(known), Null(known.null(za, zb, keys, inside, NULL_SIZE, seed))


# --- fits of all folds ------------------------------------------------------------------------------------------------


def fit_cca(
    side_a: SideFeatures,
    side_b: SideFeatures,
    keys: Keys,
    folds: NDArray[np.int64],
    trainable: NDArray[np.bool_] | None = None,
    rounds: int = 2,
    seed: int = 0,
    quick: bool = False,
) -> list[FoldScorer]:
    """One scorer per fold, fitted to the other folds; ``quick`` as in ``cross_fit_cca``."""
    fits = _Fits(side_a, side_b, keys, folds, trainable, seed, quick)
    empty = replace(side_a, features={}), replace(side_b, features={})
    scorers = []
    for k in range(fits.count):
        view, ridge = fits.choose(k)
        maps = fits.maps(view, ridge, (k,))
        if rounds > 1:
            weighted = [
                fits.weighted_moments(view, ridge, j, fit_without=(min(j, k), max(j, k)))
                for j in range(fits.count)
                if j != k
            ]
            maps = sum(weighted[1:], weighted[0]).fit(ridge)
        references, null = fits.judge(view, maps, k, fits.null_size // fits.count)[:2]
        scorers.append(FoldScorer(view, ridge, *empty, maps, references, null))
    return scorers


class _Fits:
    """All fits to the fitted rows without one or two folds, each made once."""

    def __init__(
        self,
        side_a: SideFeatures,
        side_b: SideFeatures,
        keys: Keys,
        folds: NDArray[np.int64],
        trainable: NDArray[np.bool_] | None,
        seed: int,
        quick: bool,
    ):
        self.side_a, self.side_b, self.keys, self.seed, self.quick = side_a, side_b, keys, seed, quick
        self.null_size = QUICK_NULL_SIZE if quick else NULL_SIZE
        self.count = int(folds.max()) + 1
        self.rows = [np.flatnonzero(folds == k) for k in range(self.count)]
        self.trainable = [rows if trainable is None else rows[trainable[rows]] for rows in self.rows]
        random = np.random.default_rng(seed)
        self.selection = [np.sort(random.permutation(rows)[:SELECTION_ROWS]) for rows in self.rows]
        self._features: dict[View, tuple[Tensor, Tensor]] = {}
        self._moments: dict[View, list[Moments]] = {}
        self._outscored: dict[tuple[View, float, tuple[int, int]], tuple[float, float]] = {}

    def features(self, view: View) -> tuple[Tensor, Tensor]:
        if view not in self._features:
            self._features[view] = (
                self.side_a.fitted(view.ranks_a, view.relu),
                self.side_b.fitted(view.ranks_b, view.relu),
            )
        return self._features[view]

    def maps(self, view: View, ridge: float, without: tuple[int, ...]) -> CanonicalMaps:
        """The fit to all folds but some."""
        if view not in self._moments:
            a, b = self.features(view)
            self._moments[view] = [Moments.of(a[rows], b[rows]) for rows in self.trainable]
        kept = [moments for k, moments in enumerate(self._moments[view]) if k not in without]
        return sum(kept[1:], kept[0]).fit(ridge)

    def choose(self, k: int) -> tuple[View, float]:
        """View and ridge by pairs outside fold k: first the scalings, then whether ReLU features help."""
        if self.quick:
            return max((self.criterion(View(), ridge, k), View(), ridge) for ridge in FIRST_RIDGES)[1:]
        linear = [View(one, other) for one in self.side_a.scalings for other in self.side_b.scalings]
        first = max((self.criterion(view, ridge, k), view) for view in linear for ridge in FIRST_RIDGES)[1]
        both = (first, replace(first, relu=True))
        return max((self.criterion(view, ridge, k), view, ridge) for view in both for ridge in RIDGES)[1:]

    def criterion(self, view: View, ridge: float, k: int) -> float:
        """Mean share of mismatched pairs outscored in the other folds, by fits that saw neither them nor fold k."""
        shares = []
        for pair in combinations(range(self.count), 2):
            if k in pair:
                if (view, ridge, pair) not in self._outscored:
                    maps = self.maps(view, ridge, pair)
                    one, other = (self.outscored(view, maps, j) for j in pair)
                    self._outscored[view, ridge, pair] = one, other
                shares.append(self._outscored[view, ridge, pair][pair[0] == k])
        return float(np.mean(shares))

    def outscored(self, view: View, maps: CanonicalMaps, j: int) -> float:
        """Share of mismatched pairs that pairs of fold j outscore, among some of them."""
        rows = self.selection[j]
        a, b = self.features(view)
        za, zb = maps.embed(a[rows], b[rows])
        cosines = (za @ zb.T).double() / TEMPERATURE
        other = torch.ones(cosines.shape, dtype=torch.bool)
        for key in self.keys:
            other &= torch.from_numpy(key[rows][:, None] != key[rows][None])
        terms = cosines.exp() * other
        count = other.sum(1).clamp_min(1)
        # A mismatched partner is left out of its own comparison, as the own partner is.
        rest_a, rest_b = terms.sum(1, keepdim=True), terms.sum(0, keepdim=True)
        log_a, log_b = (rest_a - terms).clamp_min(1e-6).log(), (rest_b - terms).clamp_min(1e-6).log()
        relative = cosines - (log_a + log_b) / 2
        own = relative.diagonal()
        below = ((relative < own[:, None]) & other).sum(1) + ((relative < own[None]) & other).sum(0)
        return float((below / (2 * count)).mean())

    def judge(
        self, view: View, maps: CanonicalMaps, k: int, null_size: int
    ) -> tuple[References, NDArray[np.float32], NDArray[np.float32]]:
        """References, null and scores of fold k."""
        rows = self.rows[k]
        a, b = self.features(view)
        za, zb = maps.embed(a[rows], b[rows])
        keys = [key[rows] for key in self.keys]
        inside = np.zeros(len(rows), dtype=bool)
        inside[np.random.default_rng([self.seed, k]).permutation(len(rows))[:REFERENCES]] = True
        references = References(za[inside], zb[inside], [key[inside] for key in keys])
        null = references.null(za, zb, keys, inside, null_size, self.seed + k)
        return references, null, references.score(za, zb, keys)

    def weighted_moments(self, view: View, ridge: float, j: int, fit_without: tuple[int, int]) -> Moments:
        """Moments of fold j, weighted by the probability to be right under a fit without fold j and another one."""
        _, null, scores = self.judge(view, self.maps(view, ridge, fit_without), j, self.null_size // 10)
        right = 1 - local_probability(scores, null, room_for_mismatched(scores, null))
        kept = np.isin(self.rows[j], self.trainable[j])
        a, b = self.features(view)
        weights = torch.from_numpy(right[kept]).clamp_min(MIN_WEIGHT)
        return Moments.of(a[self.trainable[j]], b[self.trainable[j]], weights)
