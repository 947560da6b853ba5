"""New partners for wrong pairs: the best candidates of every row, and the probability that each is the right one.

If a column was shuffled or shifted, the right partner of a wrong pair is in another wrong pair, so these are the
candidates by default. The search is exact and runs block by block. Scores are cosines, less half the level that the
candidate has with its nearest rows (CSLS): some items are close to everything. The probability has two parts, both
learned from pairs that are likely right:

1. *If* the right partner is among the candidates: a softmax over them, at the temperature under which right pairs,
   their own partner added to the candidates, have the greatest likelihood.
2. *Whether* it is among them: the lead of the best candidate over the next ones is compared with that of right pairs,
   with their own partner among the candidates and without it.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

from rince._support.csv_cells import CsvWriter
from rince._support.optional_imports import require
from rince._support.progress import track
from rince.errors import UsageError
from rince.pairs.matrix import MIN_PAIRS, Matrix, as_matrix, check_columns, read, release, row_codes

if TYPE_CHECKING:
    from rince.trust.clean import Audited

TEMPERATURES = np.geomspace(0.005, 1.0, 24)
MIN_WEIGHT = 0.5  # of pairs to calibrate with
CALIBRATION = 1000  # of them calibrate the probabilities
REFERENCES = 2048
NEIGHBORS = 10  # from which levels and leads are taken
MAX_ASSIGNED = 12_000  # rows of a one-to-one assignment, whose scores are held in memory
QUERIES, CANDIDATES = 256, 4096  # rows of a block: 4 MB of scores, which stay in the processor's cache


class Partners(NamedTuple):
    """The ``k`` best partners of every query, best first.

    Attributes:
        rows: (queries,) queried rows.
        partners: (queries, k) rows of the other column.
        probability: (queries, k) probability that such a pair is right.
        scores: (queries, k) cosine, less half the level that the candidate has with its nearest rows.
        present: (queries,) probability that the right partner is among the candidates at all.

    Example:
        >>> random = np.random.default_rng(0)
        >>> a = random.normal(size=(300, 8)).astype(np.float32)
        >>> new = rince.trust.best_partners(a, a, np.arange(30), np.ones(300, np.float32), k=2)
        >>> new.partners.shape, new.partners[:3, 0].tolist()
        ((30, 2), [0, 1, 2])
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
    weights: NDArray[np.float32],
    *,
    k: int = 5,
    candidates: NDArray[np.int64] | Literal["all"] | None = None,
    one_to_one: bool = False,
    fit: bool = False,
    seed: int = 0,
    progress: bool | None = None,
) -> Partners:
    """The most likely partners in ``b`` of some rows of ``a``, such as those that an audit flagged.

    Args:
        a, b: (pairs, width) arrays, tensors or memory maps: embeddings of one space, or any features with ``fit``.
        rows: Rows of ``a`` to find partners for.
        weights: (pairs,) weights in [0, 1], such as those of an audit.
        k: Number of partners per row.
        candidates: Rows of ``b`` to search: by default ``rows``, that is the other wrong pairs; ``"all"`` for partners
            that may be in several pairs.
        one_to_one: Give every row another first partner: the assignment with the highest sum of scores (scipy).
        fit: Learn a common space first, by CCA, as the audit does: every row is compared in a fit without its pair.
        seed: The same seed gives the same partners.
        progress: Show a bar; by default on a terminal.

    Returns:
        Partners with the probability that each is right.

    Raises:
        UsageError: The arguments do not match, or too few pairs are likely right to learn from.

    Example:
        >>> random = np.random.default_rng(0)
        >>> a = random.normal(size=(500, 16)).astype(np.float32)
        >>> b = a + 0.3 * random.normal(size=a.shape).astype(np.float32)
        >>> b[:100] = np.roll(b[:100], 1, axis=0)  # the right partner of row i is row i + 1
        >>> weights = rince.trust.weights_of(rince.audit_pairs(a, b))
        >>> rince.trust.best_partners(a, b, np.arange(100), weights, k=1).partners[:5, 0].tolist()
        [1, 2, 3, 4, 5]
    """
    a, b = as_matrix(a, "a"), as_matrix(b, "b")
    check_columns(a, b)
    n, rows, weights = len(a), np.asarray(rows), np.asarray(weights, dtype=np.float32)
    if weights.shape != (n,):
        raise UsageError(f"weights must have one weight per pair: expected ({n},), got {weights.shape}")
    searched = np.arange(n) if isinstance(candidates, str) else np.asarray(rows if candidates is None else candidates)
    for name, index in (("rows", rows), ("candidates", searched)):
        if index.ndim != 1 or (len(index) and (index.dtype.kind not in "iu" or index.min() < 0 or index.max() >= n)):
            raise UsageError(f"{name} must be row numbers from 0 to {n - 1}")
    if not fit and a.shape[1] != b.shape[1]:
        raise UsageError(f"a and b must be of one space, but are {a.shape[1]} and {b.shape[1]} wide: use fit=True")
    if k < 1:
        raise UsageError(f"k must be at least 1, got {k}")
    rows, searched = rows.astype(np.int64), np.unique(searched.astype(np.int64))
    k = min(k, len(searched))
    shape = len(rows), k
    result = Partners(
        rows,
        np.zeros(shape, np.int64),
        np.zeros(shape, np.float32),
        np.zeros(shape, np.float32),
        np.zeros(len(rows), np.float32),
    )
    if not len(rows):
        return result
    if one_to_one and max(len(rows), len(searched)) > MAX_ASSIGNED:
        raise UsageError(f"one_to_one is for up to {MAX_ASSIGNED:,} rows, got {max(len(rows), len(searched)):,}")
    spaces = fitted_spaces(a, b, seed) if fit else [Space(a, b, np.arange(n))]
    all_scores = np.empty((len(rows), len(searched)), dtype=np.float32) if one_to_one else None
    temperatures = np.ones(len(rows))
    for space in track(spaces, "finding partners", total=None, show=progress):
        inside = np.flatnonzero(np.isin(rows, space.rows))
        if not len(inside):
            continue
        likely = np.setdiff1d(space.rows[weights[space.rows] >= MIN_WEIGHT], rows)
        search = Search(space, searched, likely, weights, np.random.default_rng(seed))
        top, index, total = search.best(rows[inside], max(k, NEIGHBORS + 1))
        result.present[inside] = presence(_lead(top), *search.leads_of_right_pairs())
        result.partners[inside] = searched[index[:, :k]]
        result.scores[inside] = top[:, :k]
        shares = np.exp(top[:, :k] / search.temperature - total[:, None])
        result.probability[inside] = np.clip(shares, 0, 1) * result.present[inside, None]
        temperatures[inside] = search.temperature
        if all_scores is not None:
            for place, part, scores in search.blocks(rows[inside]):
                all_scores[inside[place], part] = scores.numpy()
    if all_scores is not None:
        _assign(result, all_scores, temperatures, searched)
    return result


def _assign(
    result: Partners, scores: NDArray[np.float32], temperatures: NDArray[np.float64], candidates: NDArray[np.int64]
) -> None:
    """Put the partner of the best one-to-one assignment first; partners before it move back."""
    odds = scores / temperatures[:, None]
    queries, chosen = require("scipy.optimize", "audit").linear_sum_assignment(odds, maximize=True)
    shares = np.exp(odds[queries, chosen] - np.logaddexp.reduce(odds[queries], axis=1))
    for query, choice, share in zip(queries.tolist(), chosen.tolist(), shares.tolist(), strict=True):
        matches = np.flatnonzero(result.partners[query] == candidates[choice])
        last = int(matches[0]) if len(matches) else result.partners.shape[1] - 1
        for values in (result.partners[query], result.probability[query], result.scores[query]):
            values[1 : last + 1] = values[:last].copy()
        result.partners[query, 0], result.scores[query, 0] = candidates[choice], scores[query, choice]
        result.probability[query, 0] = share * result.present[query]


class Space(NamedTuple):
    """Two columns in one space, and the rows whose pairs may be judged in it."""

    a: Matrix
    b: Matrix
    rows: NDArray[np.int64]


class Search:
    """Exact search among candidates, calibrated by pairs of the space that are likely right."""

    def __init__(
        self,
        space: Space,
        candidates: NDArray[np.int64],
        likely: NDArray[np.int64],
        weights: NDArray[np.float32],
        random: np.random.Generator,
    ):
        if len(likely) < MIN_PAIRS:
            raise UsageError(
                f"re-pairing learns from pairs with a weight of at least {MIN_WEIGHT:g} and needs {MIN_PAIRS} of them, "
                f"got {len(likely)}"
            )
        self.space, self.candidates = space, candidates
        references = np.sort(random.permutation(len(space.a))[:REFERENCES])
        self.references = _unit(space.a, references)
        self.levels = torch.cat(
            [self._level(_unit(space.b, candidates[part])) for part in _slices(len(candidates), CANDIDATES)]
        )
        self.calibration = np.sort(random.permutation(likely)[:CALIBRATION])
        self.weights = torch.from_numpy(weights[self.calibration]).double()
        partners = _unit(space.b, self.calibration)
        self.own = ((_unit(space.a, self.calibration) * partners).sum(1) - self._level(partners)).double()
        self.temperature = self._fit_temperature()

    def best(self, rows: NDArray[np.int64], k: int) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:
        """The ``k`` highest scores of the rows, the indices of their candidates, and the log-sum-exp over all."""
        k = min(k, len(self.candidates))
        top = torch.full((len(rows), k), -torch.inf)
        index = torch.zeros((len(rows), k), dtype=torch.int64)
        total = torch.full((len(rows),), -torch.inf, dtype=torch.float64)
        for place, part, scores in self.blocks(rows):
            values, columns = scores.topk(min(k, scores.shape[1]), dim=1)
            order = torch.cat([top[place], values], 1).topk(k, dim=1)
            index[place] = torch.cat([index[place], columns + part.start], 1).gather(1, order.indices)
            top[place] = order.values
            total[place] = torch.logaddexp(total[place], (scores / self.temperature).logsumexp(1).double())
        return top.numpy(), index.numpy(), total.numpy()

    def leads_of_right_pairs(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Leads of the best candidates of right pairs, with their own partner among the candidates and without it."""
        top = self.best(self.calibration, NEIGHBORS + 1)[0]
        with_own = np.sort(np.column_stack([top, self.own.numpy()]), axis=1)[:, ::-1][:, : top.shape[1]]
        return _lead(with_own), _lead(top)

    def blocks(self, rows: NDArray[np.int64]) -> Iterator[tuple[slice, slice, Tensor]]:
        """(slice of the queries, slice of the candidates, scores) block by block; candidates are read once."""
        for part in _slices(len(self.candidates), CANDIDATES):
            block = _unit(self.space.b, self.candidates[part])
            for place in _slices(len(rows), QUERIES):
                yield place, part, (_unit(self.space.a, rows[place]) @ block.T).sub_(self.levels[part])
            release(self.space.a)
            release(self.space.b)

    def _level(self, z: Tensor) -> Tensor:
        """Half the mean cosine of every item with its nearest references."""
        scores = z @ self.references.T
        return 0.5 * scores.topk(min(NEIGHBORS, scores.shape[1]), dim=1).values.mean(1)

    def _fit_temperature(self) -> float:
        """The temperature with the greatest likelihood of right pairs, their own partner added to the candidates."""
        totals = [self.own / t for t in TEMPERATURES]
        for place, part, scores in self.blocks(self.calibration):
            is_own = torch.from_numpy(self.calibration[place][:, None] == self.candidates[part][None])
            scores = scores.masked_fill_(is_own, -torch.inf)  # the own partner counts once
            for total, t in zip(totals, TEMPERATURES, strict=True):
                total[place] = torch.logaddexp(total[place], (scores / t).logsumexp(1).double())
        likelihood = [
            float(((self.own / t - total) * self.weights).sum()) for total, t in zip(totals, TEMPERATURES, strict=True)
        ]
        return float(TEMPERATURES[int(np.argmax(likelihood))])


def fitted_spaces(a: Matrix, b: Matrix, seed: int) -> Iterator[Space]:
    """One space per fold: canonical variates of a fit to the other folds, pairs weighted by their probability."""
    from rince.audit.cca import cross_fit_cca
    from rince.audit.units import equal_pairs, joined

    fit = cross_fit_cca(a, b, units=joined([equal_pairs(row_codes(a), row_codes(b))]), seed=seed).fit
    folds = fit.folds.find([np.arange(len(a))])
    for k in range(len(fit.scorers)):
        yield Space(*fit.spaces(a, b, k), np.flatnonzero(folds == k))


def presence(leads: NDArray[Any], present: NDArray[Any], absent: NDArray[Any], bins: int = 20) -> NDArray[np.float64]:
    """(queries,) probability that the partner is among the candidates, by the lead of the best candidate.

    ``present`` and ``absent`` are leads of queries for which this is known. Their densities are histograms with bins of
    equal mass. The share of queries with a partner among the candidates maximizes the likelihood, with half a query of
    either kind added; its slope changes sign once, so bisection finds it.
    """
    edges = np.unique(np.quantile(np.concatenate([present, absent]), np.linspace(0, 1, bins + 1)[1:-1]))
    present_counts, absent_counts = (
        np.bincount(np.searchsorted(edges, x), minlength=len(edges) + 1) + 0.5 for x in (present, absent)
    )
    ratio = (present_counts / present_counts.sum() / (absent_counts / absent_counts.sum()))[
        np.searchsorted(edges, leads)
    ]
    low, high = 0.0, 1.0
    for _ in range(50):
        share = (low + high) / 2
        slope = float(((ratio - 1) / (share * ratio + 1 - share)).sum()) + 0.5 / share - 0.5 / (1 - share)
        low, high = (share, high) if slope > 0 else (low, share)
    return share * ratio / (share * ratio + 1 - share)


def _lead(top: NDArray[Any]) -> NDArray[Any]:
    """The best score less the mean of the next ones."""
    return top[:, 0] - top[:, 1:].mean(1) if top.shape[1] > 1 else top[:, 0]


def _unit(x: Matrix, rows: slice | NDArray[np.int64]) -> Tensor:
    return normalize(torch.from_numpy(read(x, rows)), dim=1)


def _slices(n: int, step: int) -> Iterator[slice]:
    return (slice(start, min(n, start + step)) for start in range(0, n, step))


# --- files of re-pairing ----------------------------------------------------------------------------------------------


def write_repair(
    folder: Path, result: Partners, audited: "Audited", show_a: Any = None, show_b: Any = None
) -> list[Path]:
    """``repair.csv`` with one row per query and new partner, and ``repair.html``.

    The page is a copy of the audit page with the new partners if ``audit.html`` exists beside the table; else a table.
    """
    from rince.report.page import partners_on_page, repair_page

    name_of = _names(audited, result)
    with open(folder / "repair.csv", "w", newline="", encoding="utf-8") as file:
        writer = CsvWriter(file)
        writer.writerow(["id", "row", "rank", "partner", "partner_row", "probability", "score"])
        for i, row in enumerate(result.rows.tolist()):
            for rank, partner in enumerate(result.partners[i].tolist()):
                numbers = f"{result.probability[i, rank]:.6g}", f"{result.scores[i, rank]:.6g}"
                writer.writerow([name_of(row), row, rank + 1, name_of(partner), partner, *numbers])
    page, beside = None, audited.table.path.with_name("audit.html")
    if beside.is_file():
        page = partners_on_page(beside.read_text(encoding="utf-8", errors="replace"), result, name_of, show_b)
    page = page or repair_page(result, name_of, show_a, show_b)
    (folder / "repair.html").write_text(page, encoding="utf-8", errors="replace")
    return [folder / "repair.csv", folder / "repair.html"]


def _names(audited: "Audited", result: Partners) -> Callable[[int], str]:
    """Ids by row, kept in memory only for the rows of the result."""
    rows = set(np.unique(np.concatenate([result.rows, result.partners.ravel()])).tolist())
    ids = {row: name for row, name in enumerate(audited.ids()) if row in rows}
    return lambda row: ids.get(row) or str(row)


def repair_sentence(result: Partners) -> str:
    """Sentence on how many new partners are likely right."""
    first = result.probability[:, 0] if len(result.rows) else np.empty(0)
    return (
        f"new partners for {len(result.rows):,} pairs: {int((first > 0.5).sum()):,} are more likely right than wrong, "
        f"about {float(first.sum()):,.0f} of all the best ones are right"
    )
