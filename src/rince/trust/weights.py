"""Weights of pairs: estimated from two columns or in a training loop, taken from an audit, checked."""

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from rince.errors import UsageError
from rince.pairs.matrix import MIN_PAIRS, as_matrix, check_columns, codes, named_rows, row_codes

if TYPE_CHECKING:
    from rince.audit.result import Audit

Column = NDArray[Any] | Tensor | Sequence[Any]
"""A feature matrix (pairs, width), or raw items: texts, or paths or bytes of pictures and sounds."""


MIN_DIFFERENT = 8
"""Minimum number of different pairs or ids for cross-fitting."""
WIDE_INTERVAL = 0.1
"""Width of the interval of the share of wrong pairs above which a second kind of features is tried."""


@dataclass(frozen=True, eq=False)
class WeightEstimate:
    """Weights of pairs, and the estimate behind them.

    Attributes:
        weights: (pairs,) weights in [0, 1] for ``loss(..., weights=)``: the probability that the pair is right; see
            ``rince.audit.Audit.weights``.
        audit: The audit of the scores, with the summary and the page.
        scorer: Origin of the scores, such as "CCA of the given features".
        seconds: Time the estimate took.

    Example:
        >>> random = np.random.default_rng(0)
        >>> a = random.normal(size=(500, 16))
        >>> estimate = rince.trust.estimate_weights(a, a + 0.3 * random.normal(size=a.shape))
        >>> estimate.verdict == "none found", bool((estimate.weights == 1).all())
        (True, True)
    """

    weights: NDArray[np.float32]
    audit: "Audit"
    scorer: str
    seconds: float

    @property
    def verdict(self) -> str:
        """Whether wrong pairs were found: "found", "none found" or "cannot tell"."""
        return self.audit.verdict

    @property
    def noise_rate(self) -> float:
        """Estimated share of wrong pairs; 0 unless some were found."""
        return self.audit.noise_rate

    @property
    def interval(self) -> tuple[float, float]:
        """95 % interval of the share of wrong pairs."""
        return self.audit.interval

    def __str__(self) -> str:
        return f"{describe_weights(self.audit)}; {self.scorer}, {self.seconds:.1f} s"


def describe_weights(audit: "Audit") -> str:
    """One sentence on the share of wrong pairs in an audit, and on its weights."""
    low, high = audit.interval
    if audit.noise_found:
        return f"about {audit.noise_rate:.1%} of the pairs are wrong (95% interval {low:.1%} to {high:.1%})"
    if audit.uninformative or audit.cannot_tell:
        guess = f"weights follow the best guess of {audit.best_guess:.0%}"
        conclusion = "all weights are 1" if bool((audit.weights == 1).all()) else guess
        return f"cannot tell whether pairs are wrong (up to {high:.0%} may be), so {conclusion}"
    return f"no wrong pairs found (at most {max(high, 0.001):.1%}), so all weights are 1"


def estimate_weights(
    a: Column,
    b: Column,
    *,
    encoder_a: str | None = None,
    encoder_b: str | None = None,
    ids: ArrayLike | None = None,
    thorough: bool = False,
    skip_invalid: bool = False,
    seed: int = 0,
) -> WeightEstimate:
    """Estimate a training weight for every pair, before training, without a model.

    Both sides become features; cross-fitted canonical correlation analysis scores every pair by a fit without
    it; the scores of mismatched pairs turn these into probabilities. About 2 CPU seconds for 6,000 pairs.

    Args:
        a, b: (pairs, width) features of any widths, or raw items, one per pair: a list of texts, or of paths or bytes
            of pictures or sounds. Raw items go through the default encoder of their kind: hashed n-grams, image
            patches, spectrograms.
        encoder_a, encoder_b: Another encoder for raw items: an ``encoder.safetensors`` of rince, an .onnx file,
            ``module:function``, or a sentence-transformers model.
        ids: One value per pair. Pairs of equal id are the same item: they are never mismatched with one another and
            are scored by the same fit. Equal pairs of rows do not need ids.
        thorough: Compare scalings, random features and six ridges, as ``rince audit --fit`` does, instead of fitting
            centered features with two ridges. It takes about six times as long. In any case, neighborhoods of rows
            (up to 10,000 pairs) are fitted where the quick fit gives a wide interval, and all of this where it cannot
            tell.
        skip_invalid: Give pairs with missing, unreadable or non-finite values the weight 0 instead of raising.
        seed: The same seed gives the same weights.

    Returns:
        The weights and the estimate. All weights are 1 where no wrong pairs are found, and where the features are
        uninformative. Where they rank pairs but the share of wrong ones is uncertain ("cannot tell"), the weights
        follow the best guess of the share.

    Raises:
        UsageError: The columns have different lengths or fewer than 50 pairs, or hold invalid values.

    Example:
        >>> random = np.random.default_rng(0)
        >>> a = random.normal(size=(600, 16))
        >>> b = a @ random.normal(size=(16, 12)) + random.normal(size=(600, 12))
        >>> b[:200] = np.roll(b[:200], 1, axis=0)  # a third of the pairs is wrong
        >>> weights = rince.trust.estimate_weights(a, b).weights
        >>> bool(weights[:200].mean() < 0.3 < 0.8 < weights[200:].mean())
        True
    """
    from rince.audit.result import with_gaps

    started = time.perf_counter()
    left, source_a = _features(a, "a", encoder_a, skip_invalid, seed)
    right, source_b = _features(b, "b", encoder_b, skip_invalid, seed)
    check_columns(left, right)
    valid = np.isfinite(left).all(1) & np.isfinite(right).all(1)
    invalid = np.flatnonzero(~valid)
    if len(invalid) and not skip_invalid:
        raise UsageError(
            f"a or b has NaN or infinite values in {named_rows(invalid.tolist())}: fix them, or pass skip_invalid=True"
        )
    if valid.sum() < MIN_PAIRS:
        raise UsageError(f"weights need at least {MIN_PAIRS} valid pairs, got {valid.sum()}")
    same = None if ids is None else codes(ids, "ids", len(left))[valid]
    scorer = f"CCA of {source_a}" + ("" if source_a == source_b else f" and {source_b}")
    audit = judge_features(left[valid], right[valid], same, thorough=thorough, seed=seed, scorer=scorer)
    if len(invalid):
        audit = with_gaps(audit, len(left), invalid)
    return WeightEstimate(weights_of(audit), audit, audit.scorer, time.perf_counter() - started)


def judge_features(
    a: NDArray[Any],
    b: NDArray[Any],
    same: NDArray[np.int64] | None = None,
    *,
    thorough: bool = False,
    seed: int = 0,
    scorer: str = "CCA",
) -> "Audit":
    """The audit of two feature matrices by cross-fitted CCA. Pairs with equal numbers in ``same`` share a fold.

    A quick fit comes first. If its interval is wide, the neighborhoods of the rows are fitted, too, and if it cannot
    tell, so are more scalings and ridges. The fit whose pairs outscore the most mismatched pairs is used.
    """
    from rince.audit.api import judge
    from rince.audit.cca import cross_fit_cca
    from rince.audit.null import Scored
    from rince.audit.side_features import MAX_NEIGHBOR_ROWS, neighborhoods
    from rince.audit.units import equal_pairs, joined

    copies = equal_pairs(row_codes(a), row_codes(b))
    units = joined([copies] if same is None else [copies, same])
    if units is not None and (count := len(np.unique(units))) < MIN_DIFFERENT:
        raise UsageError(f"weights need at least {MIN_DIFFERENT} different pairs or ids, got {count}")

    def fit(x: NDArray[Any], y: NDArray[Any], quick: bool, name: str = scorer) -> "tuple[float, Audit]":
        result = cross_fit_cca(x, y, units=units, quick=quick, seed=seed)
        scored = Scored(result.scores, result.null, units)
        return result.outscored, judge(scored, seed=seed, fitted=True, scorer=name)

    if thorough:
        return fit(a, b, False)[1]
    best = fit(a, b, True)
    low, high = best[1].interval
    if high - low > WIDE_INTERVAL and len(a) <= MAX_NEIGHBOR_ROWS:
        neighbors = [neighborhoods(torch.as_tensor(side).float(), seed).numpy() for side in (a, b)]
        best = max(
            best,
            fit(neighbors[0], neighbors[1], True, f"{scorer}, as neighborhoods"),
            key=lambda fitted: fitted[0],
        )
    if best[1].uninformative or best[1].cannot_tell:
        best = max(best, fit(a, b, False), key=lambda fitted: fitted[0])
    return best[1]


def _features(x: Column, name: str, encoder: str | None, skip_invalid: bool, seed: int) -> tuple[NDArray[Any], str]:
    """(pairs, width) features of a column, and their description."""
    from rince.audit.encode import encoded, encoder_for
    from rince.pairs.raw import as_raw

    if isinstance(x, Tensor | np.ndarray) and x.ndim > 1:
        if encoder is not None:
            raise UsageError(f"encoder_{name} is for raw items, but {name} holds features: leave it out")
        return as_matrix(x, name), "the given features"
    items = [str(item) if isinstance(item, Path | np.str_) else item for item in x]
    raw = as_raw(items, name, Path(), Path("/"))
    if raw is None:
        return as_matrix(np.asarray(x), name), "the given features"
    chosen = encoder_for(raw.kind, encoder, seed)
    return encoded(raw, chosen, skip_invalid=skip_invalid, progress=False).rows, f"{raw.kind} through {chosen.name}"


class WarmUpWeights(nn.Module):
    """Weights of pairs from the model's own features, estimated once, after a warm-up of the training loop.

    For data whose features are uninformative before training. All weights are 1 until ``update`` is called with the
    features of all pairs; it runs the same cross-fitted CCA as ``estimate_weights``. Warm up with a robust loss such as
    ``GCE`` for about 15 % of the steps, and keep it afterwards: a loss such as InfoNCE memorizes wrong pairs.

    Weights and step are buffers: as part of the model, or saved beside it, they are kept in its ``state_dict``.

    Args:
        pairs: Number of training pairs.
        at_step: Number of calls of ``due`` before the estimate, such as 15 % of the training steps.

    Attributes:
        weights: (pairs,) weights in [0, 1].
        estimate: The last estimate in this process. Default: None.

    Raises:
        UsageError: ``pairs`` is not positive, ``at_step`` is negative, or ``update`` gets another number of pairs.

    Example:
        >>> features = torch.randn(600, 16, generator=torch.Generator().manual_seed(0))
        >>> warm_up = rince.trust.WarmUpWeights(pairs=600, at_step=2)
        >>> for step in range(4):
        ...     if warm_up.due():  # true once, in the third step
        ...         estimate = warm_up.update(features, features.roll(1, 1))  # hidden features of all pairs
        ...     weights = warm_up(torch.arange(64))  # for loss(z_a, z_b, weights=weights)
        >>> step, estimate.verdict == "none found"
        (3, True)
    """

    weights: Tensor
    step: Tensor

    def __init__(self, pairs: int, at_step: int):
        super().__init__()
        if pairs < 1 or at_step < 0:
            raise UsageError(f"pairs must be positive and at_step not negative, got {pairs} and {at_step}")
        self.at_step = at_step
        self.estimate: WeightEstimate | None = None
        self.register_buffer("weights", torch.ones(pairs))
        self.register_buffer("step", torch.zeros((), dtype=torch.int64))

    def due(self) -> bool:
        """Whether to make the estimate in this step. Call it once per step."""
        is_due = int(self.step) == self.at_step
        self.step += 1
        return is_due

    def update(self, a: Tensor, b: Tensor, *, ids: ArrayLike | None = None, seed: int = 0) -> WeightEstimate:
        """Estimate the weights from (pairs, width) features of both sides of all pairs, in the order of their rows."""
        if len(a) != len(self.weights) or len(b) != len(self.weights):
            raise UsageError(f"expected features of {len(self.weights):,} pairs, got {len(a):,} and {len(b):,}")
        self.estimate = estimate_weights(a.detach().float(), b.detach().float(), ids=ids, seed=seed)
        self.weights.copy_(torch.from_numpy(self.estimate.weights))
        return self.estimate

    def forward(self, rows: Tensor) -> Tensor:
        """Weights of the pairs with these row numbers."""
        return self.weights[rows]


def weights_of(audit: "Audit") -> NDArray[np.float32]:
    """``audit.weights``, the training weights of an audit, as a function.

    Args:
        audit: Result of an audit.

    Returns:
        ``(pairs,)`` weights in [0, 1].

    Example:
        >>> random = np.random.default_rng(0)
        >>> scores = np.concatenate([random.normal(5, 1, 400), random.normal(0, 1, 100)])
        >>> audit = rince.audit.judge(scores, random.normal(0, 1, 100_000))
        >>> weights = rince.trust.weights_of(audit)  # loss(z1, z2, weights=torch.from_numpy(weights[rows]))
        >>> bool(weights[:400].mean() > 0.9 > 0.2 > weights[400:].mean())
        True
    """
    return audit.weights


def check_weights(weights: NDArray[Any], where: str) -> NDArray[np.float32]:
    """Weights of pairs, from ``where``, as float32.

    Raises:
        UsageError: A weight is missing or outside of [0, 1], or all of them are 0.
    """
    values = np.asarray(weights, dtype=np.float32)
    invalid = np.flatnonzero(~(np.isfinite(values) & (values >= 0) & (values <= 1)))
    if len(invalid):
        raise UsageError(f"weights must be in [0, 1], got {values[invalid[0]]:g} in row {invalid[0]:,} of {where}")
    if len(values) and not values.any():
        raise UsageError(f"all weights in {where} are 0: no pair is left to learn from")
    return values
