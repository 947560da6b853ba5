"""Audits and weights from embeddings of models that were not trained on the scored pairs or labels."""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor
from torch.nn.functional import normalize

from rince.audit.null import Scored, mismatched_index, share_right_by_chance
from rince.audit.relative import References
from rince.errors import UsageError
from rince.pairs.matrix import MIN_PAIRS, Keys, codes, row_codes, unit_rows
from rince.trust.weights import weights_of

if TYPE_CHECKING:
    from rince.audit.result import Audit

MISMATCHED = 400_000
REFERENCES = 2048
ROUNDING = 1e4  # equal inputs give embeddings that are equal up to rounding


def weights_from_embeddings(
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
        a, b: (pairs, width) embeddings; row i of ``a`` is paired with row i of ``b``. Rows are compared within their
            fold only, so every fold may have its own model.
        folds: (pairs,) number of the model that embedded the pair. Default: one model embedded all pairs.
        ids: One value per pair; pairs of equal id are never mismatched with one another.
        temperature: Divides the cosines, as in the loss.
        seed: The same seed gives the same weights.

    Returns:
        (pairs,) weights in [0, 1] for ``loss(..., weights=)``. All are 1 where no wrong pairs are found.

    Raises:
        UsageError: The shapes do not match, or a fold has fewer than 50 pairs.

    Example:
        >>> random = torch.Generator().manual_seed(0)
        >>> z_a = torch.randn(400, 16, generator=random)
        >>> z_b = z_a + 0.3 * torch.randn(400, 16, generator=random)
        >>> z_b[:100] = z_b[:100].roll(1, 0)  # a quarter of the pairs is wrong
        >>> folds = torch.arange(400) % 2  # which of two models embedded the pair
        >>> weights = rince.trust.weights_from_embeddings(z_a, z_b, folds)
        >>> bool(weights[:100].mean() < 0.3 < 0.9 < weights[100:].mean())
        True
    """
    return torch.from_numpy(weights_of(judge_embeddings(a, b, folds, ids=ids, temperature=temperature, seed=seed)))


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
    """The audit behind :func:`weights_from_embeddings`: noise rate, interval, and a probability for every pair.

    From cross-fitted scores instead of embeddings, use ``rince.audit.judge(scores, mismatched)``.

    Args:
        a, b: (pairs, width) embeddings; row i of ``a`` is paired with row i of ``b``.
        folds: (pairs,) number of the model that embedded the pair. Default: one model embedded all pairs.
        ids: One value per pair; pairs of equal id are never mismatched with one another.
        temperature: Divides the cosines, as in the loss.
        seed: The same seed gives the same audit.
        scorer: Origin of the embeddings, for the summary.

    Returns:
        The audit; ``weights_of(audit)`` are the weights.

    Raises:
        UsageError: The shapes do not match, or a fold has fewer than 50 pairs.

    Example:
        >>> random = torch.Generator().manual_seed(0)
        >>> z_a = torch.randn(400, 16, generator=random)
        >>> z_b = z_a + 0.3 * torch.randn(400, 16, generator=random)
        >>> z_b[:100] = z_b[:100].roll(1, 0)  # a quarter of the pairs is wrong
        >>> folds = torch.arange(400) % 2  # which of two models embedded the pair
        >>> rince.trust.judge_embeddings(z_a, z_b, folds).noise_found
        True
    """
    from rince.audit.api import judge

    left, right = _matrix(a, "a"), _matrix(b, "b")
    if left.shape != right.shape:
        raise UsageError(f"a and b must be embeddings of one space, got {tuple(left.shape)} and {tuple(right.shape)}")
    fold = _fold_codes(folds, len(left))
    keys = [] if ids is None else [codes(ids, "ids", len(left))]
    scores = np.empty(len(left), dtype=np.float32)
    null = []
    parts = [np.flatnonzero(fold == k) for k in range(int(fold.max()) + 1)]
    for k, rows in enumerate(parts):
        scored = fold_scores(
            left[rows], right[rows], [key[rows] for key in keys], temperature, (seed, k), MISMATCHED // len(parts)
        )
        scores[rows] = scored.scores
        null.append(scored.null)
    return judge(Scored(scores, np.concatenate(null)), seed=seed, fitted=True, scorer=scorer)


def fold_scores(
    a: Tensor, b: Tensor, keys: Keys, temperature: float, seed: tuple[int, ...], mismatched: int = MISMATCHED
) -> Scored:
    """Scores of the pairs of one fold and of mismatched pairs made from them.

    A score is the log ratio of the pair's likelihood under the model to that of a random pair.
    """
    random = np.random.default_rng(seed)
    za, zb = unit_rows(a.numpy()), unit_rows(b.numpy())
    same = [row_codes((z * ROUNDING).round()) for z in (za, zb)]
    all_keys = [np.arange(len(za)), *same, *keys]
    pairs = mismatched_index(all_keys, all_keys, mismatched, random)
    reference_rows = np.sort(random.permutation(len(za))[:REFERENCES])
    references = References.of(za, zb, all_keys, reference_rows, temperature, skip_best=False)
    return Scored(*references.score_with_null(za, zb, all_keys, pairs))


def judge_labels(
    z: NDArray[Any] | Tensor,
    labels: ArrayLike,
    folds: ArrayLike | None = None,
    *,
    seed: int = 0,
    scorer: str = "models that never saw the item",
) -> "Audit":
    """Find wrong labels, from embeddings by models that did not train on the items.

    An item's score is its mean cosine with the other items of its label and fold; the null are its mean cosines with
    the items of every other label. A wrong label is assumed to be one of the others at random. Labels that are confused
    with similar ones are not found; the interval allows for them: its upper end is at least the share of items that are
    closer to the items of another label.

    Args:
        z: (items, width) embeddings. Rows are compared within their fold only.
        labels: (items,) integers from 0; negative where the label is unknown.
        folds: (items,) number of the model that embedded the item. Default: one model embedded all items.
        seed: Seed of the interval of the noise rate.
        scorer: Origin of the embeddings, for the summary.

    Returns:
        An audit with one row per item. Items without a label count as right.

    Raises:
        UsageError: There are fewer than two labels, or the shapes do not match.

    Example:
        >>> labels = torch.arange(400) % 4
        >>> z = torch.eye(4)[labels] + 0.1 * torch.randn(400, 4)
        >>> labels[:80] = (labels[:80] + torch.randint(1, 4, (80,))) % 4  # a fifth of the labels is wrong
        >>> audit = rince.trust.judge_labels(z, labels)
        >>> audit.noise_found, round(audit.noise_rate, 1)
        (True, 0.2)
    """
    from rince.audit.api import judge

    vectors = normalize(_matrix(z, "z"), dim=1)
    given = torch.as_tensor(np.asarray(labels))
    if given.shape != (len(vectors),) or given.is_floating_point():
        raise UsageError(f"labels must be one integer per item: expected ({len(vectors)},), got {tuple(given.shape)}")
    fold = torch.from_numpy(_fold_codes(folds, len(vectors)))
    classes = int(given.max()) + 1
    if classes < 2:
        raise UsageError(f"labels must have at least 2 classes, got {max(classes, 0)}")
    scores = torch.full((len(vectors),), torch.nan)
    null, share = [], 0.0
    for k in range(int(fold.max()) + 1):
        rows = ((fold == k) & (given >= 0)).nonzero()[:, 0]
        own, others, other_class_better = label_scores(vectors[rows], given[rows], classes)
        scores[rows] = own
        null.append(others)
        share += other_class_better * len(rows) / len(vectors)
    mismatched = torch.cat(null)
    if not len(mismatched):
        raise UsageError("every fold must have labels of at least 2 classes: use fewer folds")
    scores = scores.nan_to_num(nan=float(mismatched.max()) + 1)  # the only item of its label, or no label
    by_accident = share_right_by_chance(given[given >= 0].numpy())
    scored = Scored(scores.numpy(), mismatched.numpy(), None, by_accident, share)
    return judge(scored, seed=seed, fitted=True, scorer=scorer)


def label_scores(z: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor, float]:
    """Mean cosines of every item with the other items of its label, and with the items of every other label.

    The first are NaN for the only item of a label. Last comes the share of items that are closer to another label.
    """
    sums = torch.zeros(classes, z.shape[1]).index_add(0, labels, z)
    count = torch.bincount(labels, minlength=classes)
    own = ((sums[labels] - z) * z).sum(1) / (count[labels] - 1)
    own[count[labels] == 1] = torch.nan
    means = z @ (sums / count.clamp_min(1)[:, None]).T
    other = (torch.arange(classes) != labels[:, None]) & (count > 0)
    best = means.masked_fill(~other, -torch.inf).amax(1) if len(z) else own
    return own, means[other], float((best > own).float().mean()) if len(z) else 0.0


def _fold_codes(folds: ArrayLike | None, pairs: int) -> NDArray[np.int64]:
    """Folds numbered from 0 without gaps."""
    if folds is None:
        folds = np.zeros(pairs, dtype=np.int64)
    given = folds.detach().cpu().numpy() if isinstance(folds, Tensor) else np.asarray(folds)
    if given.shape != (pairs,):
        raise UsageError(f"folds must have one number per pair: expected ({pairs},), got {given.shape}")
    names, number, counts = np.unique(given, return_inverse=True, return_counts=True)
    if not len(names) or counts.min() < MIN_PAIRS:
        smallest = counts.min() if pairs else 0
        raise UsageError(f"every fold needs at least {MIN_PAIRS} pairs, got {smallest}: use fewer folds")
    return number.reshape(-1).astype(np.int64)


def _matrix(x: NDArray[Any] | Tensor, name: str) -> Tensor:
    matrix = x.detach().cpu() if isinstance(x, Tensor) else torch.from_numpy(np.ascontiguousarray(x))
    if matrix.dim() != 2 or not (matrix.is_floating_point() or matrix.dtype in (torch.int32, torch.int64)):
        raise UsageError(f"{name} must have the shape (pairs, width), got {matrix.dtype} {tuple(matrix.shape)}")
    matrix = matrix.float()
    broken = (~torch.isfinite(matrix).all(1)).nonzero()[:, 0]
    if len(broken):
        raise UsageError(f"{name} has NaN or infinite values in row {int(broken[0])}: leave such pairs out")
    return matrix
