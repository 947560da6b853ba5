"""From embeddings by models that never saw the pairs they judge to a trust in each pair."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from rince.audit.columns import FEWEST, Keys, codes, row_codes
from rince.audit.fit.towers import relative_scores
from rince.audit.mismatched import Scored, mismatched_index
from rince.errors import UsageError
from rince.trust.weights import trust_of

if TYPE_CHECKING:
    from rince.audit.result import Audit

MISMATCHED = 400_000
REFERENCES = 2048
ROUNDING = 1e4  # equal inputs give embeddings that are equal up to rounding


def pair_trust(
    a: NDArray[Any] | Tensor,
    b: NDArray[Any] | Tensor,
    folds: ArrayLike | None = None,
    *,
    ids: ArrayLike | None = None,
    temperature: float = 0.1,
    seed: int = 0,
) -> Tensor:
    """A weight for every pair, from embeddings of both sides by models that did not train on it.

    Args:
        a, b: (pairs, width) embeddings; row i of one belongs to row i of the other. Rows of one fold are compared
            with one another only, so every fold may have its own model.
        folds: One number per pair: which model embedded it. None if one model embedded all of them.
        ids: One value per pair; pairs of equal id are never taken for mismatched ones.
        temperature: What cosines are divided by, as in the loss.
        seed: The same seed gives the same weights.

    Returns:
        One weight in [0, 1] per pair, for ``loss(..., weights=)``. All are 1 where no noise is found.

    Raises:
        UsageError: The sides or the folds do not fit together, or are too few.

    Example:
        >>> random = torch.Generator().manual_seed(0)
        >>> z_a = torch.randn(400, 16, generator=random)
        >>> z_b = z_a + 0.3 * torch.randn(400, 16, generator=random)
        >>> z_b[:100] = z_b[:100].roll(1, 0)  # a quarter of the pairs is wrong
        >>> folds = torch.arange(400) % 2  # which of two models embedded the pair
        >>> weights = rince.trust.pair_trust(z_a, z_b, folds)
        >>> bool(weights[:100].mean() < 0.3 < 0.9 < weights[100:].mean())
        True
    """
    found = judge_embeddings(a, b, folds, ids=ids, temperature=temperature, seed=seed)
    return torch.from_numpy(trust_of(found))


def judge_embeddings(
    a: NDArray[Any] | Tensor,
    b: NDArray[Any] | Tensor,
    folds: ArrayLike | None = None,
    *,
    ids: ArrayLike | None = None,
    temperature: float = 0.1,
    seed: int = 0,
    scorer: str = "models that never saw the pair",
) -> "Audit":
    """The audit behind :func:`pair_trust`, with the noise rate, its interval and the probability of every pair.

    From cross-fitted scores instead of embeddings, use ``rince.audit.judge(scores, mismatched)``.

    Args:
        a, b: (pairs, width) embeddings; row i of one belongs to row i of the other.
        folds: One number per pair: which model embedded it. None if one model embedded all of them.
        ids: One value per pair; pairs of equal id are never taken for mismatched ones.
        temperature: What cosines are divided by, as in the loss.
        seed: The same seed gives the same audit.
        scorer: What gave the embeddings, for the summary.

    Returns:
        An audit; ``trust_of(found)`` are the weights.

    Raises:
        UsageError: The sides or the folds do not fit together, or are too few.

    Example:
        >>> random = torch.Generator().manual_seed(0)
        >>> z_a = torch.randn(400, 16, generator=random)
        >>> z_b = z_a + 0.3 * torch.randn(400, 16, generator=random)
        >>> z_b[:100] = z_b[:100].roll(1, 0)  # a quarter of the pairs is wrong
        >>> folds = torch.arange(400) % 2  # which of two models embedded the pair
        >>> found = rince.trust.judge_embeddings(z_a, z_b, folds)
        >>> found.verdict
        'found'
    """
    from rince.audit.run import judge

    left, right = _matrix(a, "a"), _matrix(b, "b")
    if left.shape != right.shape:
        raise UsageError(f"a and b must be embeddings of one space, got {tuple(left.shape)} and {tuple(right.shape)}")
    number = fold_codes(folds, len(left))
    known = [] if ids is None else [codes(ids, "ids", len(left))]
    scores = np.empty(len(left), dtype=np.float32)
    null = []
    parts = [np.flatnonzero(number == k) for k in range(int(number.max()) + 1)]
    for k, rows in enumerate(parts):
        scored = fold_scores(
            left[rows], right[rows], [key[rows] for key in known], temperature, (seed, k), MISMATCHED // len(parts)
        )
        scores[rows] = scored.scores
        null.append(scored.null)
    return judge(Scored(scores, np.concatenate(null)), seed=seed, fitted=True, scorer=scorer)


def fold_scores(
    a: Tensor, b: Tensor, keys: Keys, temperature: float, seed: tuple[int, ...], mismatched: int = MISMATCHED
) -> Scored:
    """Scores of the pairs of one fold, and of mismatched pairs made of them, as the audit's towers give them.

    A score is the logarithm of how many times likelier than chance the model finds the pair.
    """
    random = np.random.default_rng(seed)
    a, b = nn.functional.normalize(a, dim=1), nn.functional.normalize(b, dim=1)
    same = [row_codes((z * ROUNDING).round()) for z in (a, b)]
    every = [np.arange(len(a)), *same, *keys]
    i, j = mismatched_index(every, every, mismatched, random)
    references = np.sort(random.permutation(len(a))[:REFERENCES])
    return Scored(*relative_scores(a, b, every, (i, j), references, temperature))


def fold_codes(folds: ArrayLike | None, pairs: int) -> NDArray[np.int64]:
    """Folds numbered from 0 without gaps, each with enough pairs to say something."""
    if folds is None:
        folds = np.zeros(pairs, dtype=np.int64)
    given = folds.detach().cpu().numpy() if isinstance(folds, Tensor) else np.asarray(folds)
    if given.shape != (pairs,):
        raise UsageError(f"folds must have one number per pair: expected ({pairs},), got {given.shape}")
    names, number, counts = np.unique(given, return_inverse=True, return_counts=True)
    if not len(names) or counts.min() < FEWEST:
        raise UsageError(
            f"a fold needs at least {FEWEST} pairs to tell right from wrong ones, got {counts.min() if pairs else 0}: "
            "give fewer folds"
        )
    return number.reshape(-1).astype(np.int64)


def _matrix(x: NDArray[Any] | Tensor, name: str) -> Tensor:
    found = x.detach().cpu() if isinstance(x, Tensor) else torch.from_numpy(np.ascontiguousarray(x))
    if found.dim() != 2 or not (found.is_floating_point() or found.dtype in (torch.int32, torch.int64)):
        raise UsageError(
            f"{name} must be embeddings of the shape (pairs, width), got {found.dtype} {tuple(found.shape)}"
        )
    found = found.float()
    broken = (~torch.isfinite(found).all(1)).nonzero()[:, 0]
    if len(broken):
        raise UsageError(f"{name} has NaN or infinite values in row {int(broken[0])}: leave such pairs out")
    return found
