"""Scores of pairs and of mismatched pairs: the cosine, the relative score, or a scorer fitted to the pairs.

Every scorer works in the same steps, in memory and over shards: a scan of the data draws a sample of rows; a fit to the
sample gives a ``Scorer`` and the null; the scorer scores every shard, piece by piece. Memory is bounded by the sample
and one piece of a shard.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince.audit.estimate import Null
from rince.audit.null import class_side, cosine_null
from rince.audit.relative import MAX_FIT_PAIRS, Scorer, fit_relative
from rince.audit.scan import Sample, draw_rows
from rince.audit.units import GivenFolds, equal_pairs
from rince.errors import UsageError
from rince.pairs.matrix import row_codes
from rince.pairs.shards import Pieces, Shard, check_block

if TYPE_CHECKING:
    from rince.audit.fit.towers import FitConfig

SCORES = ("relative", "cosine")
SCORERS = ("cca", "towers", "both")
SAMPLE_PAIRS = {
    "cosine": 200_000,
    "relative": MAX_FIT_PAIRS,
    "cca": MAX_FIT_PAIRS,
    "towers": 262_144,
    "both": MAX_FIT_PAIRS,
}
"""Pairs that a scorer is fitted to and mismatched pairs are made of, by method: at most so many ..."""
SAMPLE_NUMBERS, MIN_SAMPLE_PAIRS = 80_000_000, 16_384
"""... and so many numbers of both sides (320 MB), but never fewer pairs."""


class Fitted(NamedTuple):
    """A scorer and its scores of mismatched pairs.

    Attributes:
        name: ``"cosine"``, ``"relative"``, ``"cca"`` or ``"towers"``.
        scorer: The scorer; None for the cosine, which the scan computes.
        null: Scores of mismatched pairs.
    """

    name: str
    scorer: Scorer | None
    null: Null

    @property
    def settings(self) -> str:
        """Settings chosen by the fit without labels; empty if there were none to choose."""
        return "" if self.scorer is None else self.scorer.settings


def check_scoring(score: str, scorer: str) -> None:
    """Reject unknown names."""
    if score not in SCORES:
        raise UsageError(f"score must be one of {', '.join(SCORES)}, got {score!r}")
    if scorer not in SCORERS:
        raise UsageError(f"scorer must be one of {', '.join(SCORERS)}, got {scorer!r}")


def sample_rows(pairs: int, widths: tuple[int, int], seed: int, method: str) -> NDArray[np.int64]:
    """The pairs that a scorer is fitted to: all of them, or as many as fit into memory."""
    max_pairs = min(SAMPLE_PAIRS[method], max(MIN_SAMPLE_PAIRS, SAMPLE_NUMBERS // sum(widths)))
    return (
        np.arange(pairs)
        if pairs <= max_pairs
        else draw_rows(pairs, max_pairs, np.random.default_rng([seed, max_pairs]))
    )


def fit_scorer(
    a: Sample,
    b: Sample,
    rows: NDArray[np.int64],
    method: str,
    seed: int = 0,
    config: "FitConfig | None" = None,
    progress: bool | None = None,
    blocks: GivenFolds | None = None,
) -> Fitted:
    """Fit a scorer to a sample of the pairs.

    Args:
        a, b: Both sides of the sample.
        rows: Row numbers of its pairs.
        method: ``"cosine"``, ``"relative"``, ``"cca"``, ``"towers"`` or ``"both"``. If one side is a class, it is
            compared by the cosine or by towers, which handle classes.
        seed: The same seed gives the same scorer.
        config: How towers are trained.
        progress: Show a progress bar.
        blocks: Folds of ordered data, which are always fitted by CCA.
    """
    classes = class_side(a.own, b.own) is not None
    if method == "cosine" or (method == "relative" and classes):
        return Fitted("cosine", None, cosine_null(a, b, rows, seed))
    if method == "relative":
        return Fitted(method, *fit_relative(a, b, rows, seed))
    results = []
    if blocks is not None or (method != "towers" and not classes):
        from rince.audit.cca import fit_cca

        results.append(Fitted("cca", *fit_cca(a, b, rows, seed, blocks, progress=progress)))
    if blocks is None and (method != "cca" or classes):
        from rince.audit.fit.cross_fit import fit_towers

        results.append(Fitted("towers", *fit_towers(a, b, rows, seed, config, progress)))
    return max(results, key=lambda result: outscored(result, a, b, rows)) if len(results) > 1 else results[0]


def outscored(fitted: Fitted, a: Sample, b: Sample, rows: NDArray[np.int64], most: int = 20_000) -> float:
    """Share of mismatched pairs that pairs outscore on average: a criterion without labels to choose a scorer by."""
    assert fitted.scorer is not None
    index = np.arange(0, len(rows), max(1, len(rows) // most))
    keys = [rows[index], a.own[index], b.own[index], *(key[index] for key in a.keys)]
    scores = fitted.scorer.score(a.x[index], b.x[index], keys, equal_pairs(a.own, b.own)[index])
    return float(np.searchsorted(np.sort(fitted.null.scores), scores).mean() / len(fitted.null.scores))


def widths_of(shard: Shard) -> tuple[int, int]:
    """Widths of both sides."""
    return next(check_block(a, b, shard) for a, b in shard.blocks())


def score_shard(shard: Shard, start: int, codes: NDArray[np.int64], scorer: Scorer) -> NDArray[np.float32]:
    """Scores of all pairs of a shard, whose first row has the number ``start``."""
    scores = np.empty(shard.rows, dtype=np.float32)
    for first, x, y in Pieces(shard):
        piece = slice(first, first + len(x))
        user: list[Any] = [codes[piece, k] for k in range(1, codes.shape[1])]
        keys = [np.arange(start + first, start + first + len(x)), row_codes(x), row_codes(y), *user]
        scores[piece] = scorer.score(x, y, keys, codes[piece, 0])
    return scores
