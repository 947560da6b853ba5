"""New partners for mismatched pairs: the best ones among all rows, and how likely each of them is the right one.

The search is exact: every query is compared with every candidate, tile by tile, so that memory does not grow with
their numbers. How likely a candidate is the right one has two parts:

1. *If* the right partner is there: a softmax over all candidates, whose temperature is the one under which pairs that
   are trusted find their own partners with the greatest likelihood.
2. *Whether* it is there: the best score of a query is compared with the best scores of trusted queries, once with
   their own partner among the candidates and once without. The share of queries whose partner is there is the one with
   the greatest likelihood.
"""

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rince._support.progress import track
from rince.audit.columns import FEWEST, Matrix, as_matrix, check_columns, read, release
from rince.errors import UsageError

if TYPE_CHECKING:
    from rince.audit.fit.towers import Recipe

TEMPERATURES = np.geomspace(0.005, 1.0, 24)
TRUSTED = 0.9  # pairs trusted at least this much show what right ones look like
CALIBRATION = 1000  # of them say what the best scores are, with and without the right partner
FEW = 250  # of these say what the temperature is: every temperature takes a pass over all candidates
REFERENCES = 2048
CHUNK = 65_536  # candidates that are read at a time
QUERIES, CANDIDATES = 256, 4096  # of a tile: 4 MB of scores, which stay in the cache of the processor


class Partners(NamedTuple):
    """For every query its ``k`` best partners, best first.

    Attributes:
        rows: (queries,) the rows that a partner was sought for.
        partners: (queries, k) rows of the other column.
        probability: (queries, k) the probability that such a pair is right.
        scores: (queries, k) the cosine, less half the level that the candidate has with everybody.
        present: (queries,) the probability that the right partner is among the rows at all.

    Example:
        >>> random = np.random.default_rng(0)
        >>> a = random.normal(size=(300, 8)).astype(np.float32)
        >>> new = rince.trust.best_partners(a, a, np.arange(3), np.ones(300, np.float32), k=2)
        >>> new.partners.shape, new.partners[:, 0].tolist()
        ((3, 2), [0, 1, 2])
    """

    rows: NDArray[np.int64]
    partners: NDArray[np.int64]
    probability: NDArray[np.float32]
    scores: NDArray[np.float32]
    present: NDArray[np.float32]


def best_partners(
    a: NDArray[Any] | Tensor,
    b: NDArray[Any] | Tensor,
    rows: NDArray[np.int64],
    trust: NDArray[np.float32],
    *,
    k: int = 5,
    fit: bool = False,
    seed: int = 0,
    recipe: "Recipe | None" = None,
    progress: bool | None = None,
) -> Partners:
    """The most likely partners in ``b`` of some rows of ``a``, such as those that an audit flagged.

    Args:
        a, b: (pairs, width) arrays, tensors or memory maps: embeddings of one space, or any features with ``fit``.
        rows: The rows of ``a`` to find partners for.
        trust: One weight in [0, 1] per pair, of an audit.
        k: How many partners.
        fit: Learn a common space first, as the audit does: every row is compared by towers that never saw its pair.
        seed: The same seed gives the same partners.
        recipe: How towers are fitted; three folds by default.
        progress: Show a bar; by default on a terminal.

    Returns:
        Partners with the probability that each is right.

    Raises:
        UsageError: Something does not fit together, or too few pairs are trusted to learn from.

    Example:
        >>> random = np.random.default_rng(0)
        >>> a = random.normal(size=(500, 16)).astype(np.float32)
        >>> b = a + 0.3 * random.normal(size=a.shape).astype(np.float32)
        >>> b[:100] = np.roll(b[:100], 1, axis=0)  # the right partner of row i is row i + 1
        >>> found = rince.audit.audit(a, b)
        >>> new = rince.trust.best_partners(a, b, np.arange(5), rince.trust.trust_of(found), k=1)
        >>> new.partners[:, 0].tolist()
        [1, 2, 3, 4, 5]
    """
    a, b = as_matrix(a, "a"), as_matrix(b, "b")
    check_columns(a, b)
    rows, trust = _checked(np.asarray(rows), np.asarray(trust, dtype=np.float32), len(a), k)
    if not fit and a.shape[1] != b.shape[1]:
        raise UsageError(f"a and b must live in one space, but are {a.shape[1]} and {b.shape[1]} wide: use fit=True")
    spaces = fitted_spaces(a, b, trust, seed, recipe) if fit else [Space(a, b, np.arange(len(a)))]
    found = []
    for space in track(spaces, "finding partners", total=None, show=progress):
        inside = np.isin(rows, space.rows)
        if not inside.any():
            continue
        sought = rows[inside]
        trusted = np.setdiff1d(space.rows[trust[space.rows] >= TRUSTED], sought)
        search = Search(space, trusted, np.random.default_rng(seed))
        top, index, total = search.best(sought, k)
        shares = np.exp(top / search.temperature - total[:, None])
        present = chance_of_presence(top[:, 0], *search.best_of_trusted())
        found.append((np.flatnonzero(inside), index, shares, top, present))
    if not found:
        nothing = np.empty((0, k), dtype=np.float32)
        return Partners(rows, nothing.astype(np.int64), nothing, nothing, np.empty(0, dtype=np.float32))
    order = np.argsort(np.concatenate([part[0] for part in found]))
    index, shares, top, present = (np.concatenate([part[i] for part in found])[order] for i in (1, 2, 3, 4))
    probability = np.clip(shares * present[:, None], 0, 1).astype(np.float32)
    return Partners(rows, index, probability, top.astype(np.float32), present.astype(np.float32))


class Space(NamedTuple):
    """Two columns in one space, and the rows whose pairs may be judged in it."""

    a: Matrix
    b: Matrix
    rows: NDArray[np.int64]


class Search:
    """Exact search in a space, with the temperature under which trusted pairs find their own partners."""

    def __init__(self, space: Space, trusted: NDArray[np.int64], random: np.random.Generator):
        if len(trusted) < FEWEST:
            raise UsageError(
                f"re-pairing learns what right pairs look like from those with a trust of {TRUSTED:g} or more, and "
                f"needs {FEWEST} of them, got {len(trusted)}"
            )
        self.space, n = space, len(space.b)
        references = np.sort(random.permutation(n)[:REFERENCES])
        self.level = self._levels(_unit(space.a, references))
        self.calibration = np.sort(random.permutation(trusted)[:CALIBRATION])
        self.temperature = self._calibrated()

    def best(self, rows: NDArray[np.int64], k: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """The ``k`` highest scores of the rows, their candidates, and the log-sum-exp over all candidates."""
        return self._search(rows, k, leave_out_own=False)

    def best_of_trusted(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """The best scores of trusted rows, with their own partner among the candidates and without it."""
        both = (self._search(self.calibration, 1, leave_out_own=out)[0][:, 0] for out in (False, True))
        return next(both), next(both)

    def _levels(self, references: Tensor) -> Tensor:
        """Half the mean cosine of every candidate with its 10 nearest references: some are everybody's neighbours."""
        parts = []
        for start in range(0, len(self.space.b), CANDIDATES):
            scores = _unit(self.space.b, slice(start, start + CANDIDATES)) @ references.T
            parts.append(0.5 * scores.topk(min(10, scores.shape[1]), dim=1).values.mean(1))
        release(self.space.b)
        return torch.cat(parts)

    def _tiles(self, rows: NDArray[np.int64]) -> Any:
        """(place of the queries, place of the candidates, scores) of every tile; candidates are read once."""
        for begin in range(0, len(self.space.b), CHUNK):
            candidates = _unit(self.space.b, slice(begin, begin + CHUNK))
            for first in range(0, len(rows), QUERIES):
                queries = _unit(self.space.a, rows[first : first + QUERIES])
                for start in range(0, len(candidates), CANDIDATES):
                    tile = candidates[start : start + CANDIDATES]
                    part = slice(begin + start, begin + start + len(tile))
                    scores = (queries @ tile.T).sub_(self.level[part])
                    yield slice(first, first + len(queries)), part, scores
            release(self.space.a)
            release(self.space.b)

    def _search(
        self, rows: NDArray[np.int64], k: int, leave_out_own: bool
    ) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        top = torch.full((len(rows), k), -torch.inf)
        index = torch.zeros((len(rows), k), dtype=torch.int64)
        total = torch.full((len(rows),), -torch.inf, dtype=torch.float64)
        for place, part, scores in self._tiles(rows):
            if leave_out_own:
                _mask_own(scores, rows[place], part)
            highest = scores.amax(1)
            # After some tiles few queries find anything better, and sorting is the dearest part for those that do.
            better = (highest > top[place, -1]).nonzero()[:, 0]
            values, where = scores[better].topk(min(k, scores.shape[1]), dim=1)
            at = better + place.start
            order = torch.cat([top[at], values], 1).topk(k, dim=1)
            index[at] = torch.cat([index[at], where + part.start], 1).gather(1, order.indices)
            top[at] = order.values
            total[place] = torch.logaddexp(total[place], _log_sum_exp_(scores, highest, self.temperature))
        return top.numpy(), index.numpy(), total.numpy()

    def _calibrated(self) -> float:
        """The temperature of the softmax with the greatest likelihood of the own partners of trusted rows."""
        rows = self.calibration[:: max(1, len(self.calibration) // FEW)]
        own = (_unit(self.space.a, rows) * _unit(self.space.b, rows)).sum(1) - self.level[rows]
        totals = torch.full((len(TEMPERATURES), len(rows)), -torch.inf, dtype=torch.float64)
        for place, _, scores in self._tiles(rows):
            highest = scores.amax(1)
            for t, temperature in enumerate(TEMPERATURES):
                part = _log_sum_exp_(scores.clone(), highest, temperature)
                totals[t, place] = torch.logaddexp(totals[t, place], part)
        likelihood = [float((own.double() / t - total).mean()) for t, total in zip(TEMPERATURES, totals, strict=True)]
        return float(TEMPERATURES[int(np.argmax(likelihood))])


def _log_sum_exp_(scores: Tensor, highest: Tensor, temperature: float) -> Tensor:
    """The log-sum-exp of every row of ``scores / temperature``, which are overwritten; ``highest`` of every row.

    Single precision is enough for the sum of one tile, whose largest term is 1; tiles are added up in double.
    """
    level = highest.clamp_min(torch.finfo(scores.dtype).min)  # a row without candidates
    sums = scores.sub_(level[:, None]).div_(temperature).exp_().sum(1)
    return sums.double().log() + level.double() / temperature


def fitted_spaces(
    a: Matrix, b: Matrix, trust: NDArray[np.float32], seed: int, recipe: "Recipe | None" = None
) -> Iterator[Space]:
    """One space per fold, learned from the other pairs as far as they are trusted."""
    from rince.audit.clusters import equal_pairs
    from rince.audit.fit.cross_fit import fold_numbers
    from rince.audit.fit.features import Features
    from rince.audit.fit.towers import Recipe, embed
    from rince.audit.fit.training import Lesson, train_towers

    recipe = Recipe(folds=3) if recipe is None else recipe
    left, right = Features(a, "a"), Features(b, "b")
    random = np.random.default_rng(seed)
    number = fold_numbers(equal_pairs(left.codes, right.codes), recipe.folds, [], random)
    everything = np.arange(len(a))
    seen = [np.flatnonzero((number != fold) & (trust > 0)) for fold in range(recipe.folds)]
    lessons = [Lesson(rows, seed + fold, None, torch.from_numpy(trust[rows].copy())) for fold, rows in enumerate(seen)]
    for fold, towers in enumerate(train_towers(left, right, lessons, recipe, recipe.q, 200)):
        spaces = [embed(tower, x, everything).numpy() for tower, x in zip(towers, (left, right), strict=True)]
        yield Space(spaces[0], spaces[1], np.flatnonzero(number == fold))


def _checked(
    rows: NDArray[Any], trust: NDArray[np.float32], n: int, k: int
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    if trust.shape != (n,):
        raise UsageError(f"trust must have one weight per pair: expected ({n},), got {trust.shape}")
    if rows.ndim != 1 or (len(rows) and (rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= n)):
        raise UsageError(f"rows must be numbers of rows from 0 to {n - 1}")
    if not 1 <= k <= n:
        raise UsageError(f"k must lie between 1 and the {n} rows there are, got {k}")
    return rows.astype(np.int64), trust


def chance_of_presence(
    best: NDArray[Any], present: NDArray[Any], absent: NDArray[Any], bins: int = 20
) -> NDArray[np.float64]:
    """The probability of every query to have its partner among the candidates, by its best score.

    ``present`` and ``absent`` are best scores of queries of which that is known. Their densities are histograms with
    bins of equal mass. The share of queries whose partner is there has the greatest likelihood, with half a query of
    either kind added: the likelihood falls on both sides of it, so halving an interval finds it, where expectation
    maximisation would creep if the densities are alike.
    """
    edges = np.unique(np.quantile(np.concatenate([present, absent]), np.linspace(0, 1, bins + 1)[1:-1]))
    here, gone = (np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1) + 0.5 for x in (present, absent))
    ratio = (here / here.sum() / (gone / gone.sum()))[np.searchsorted(edges, best)]
    low, high = 0.0, 1.0
    for _ in range(50):
        share = (low + high) / 2
        slope = float(((ratio - 1) / (share * ratio + 1 - share)).sum()) + 0.5 / share - 0.5 / (1 - share)
        low, high = (share, high) if slope > 0 else (low, share)
    return share * ratio / (share * ratio + 1 - share)


def _unit(x: Matrix, rows: slice | NDArray[np.int64]) -> Tensor:
    return nn.functional.normalize(read(x, rows), dim=1)


def _mask_own(scores: Tensor, rows: NDArray[np.int64], part: slice) -> None:
    inside = np.flatnonzero((rows >= part.start) & (rows < part.stop))
    scores[torch.from_numpy(inside), torch.from_numpy(rows[inside] - part.start)] = -math.inf
