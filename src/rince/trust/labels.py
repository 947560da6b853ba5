"""The trust in labels that make pairs: does an item look like the others of its label, or like those of another one?"""

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from rince.audit.classes import share_hit_by_accident
from rince.audit.mismatched import Scored
from rince.errors import UsageError
from rince.trust.cross_fitted import _matrix, fold_codes

if TYPE_CHECKING:
    from rince.audit.result import Audit


def judge_labels(
    z: NDArray[Any] | Tensor,
    labels: ArrayLike,
    folds: ArrayLike | None = None,
    *,
    seed: int = 0,
    scorer: str = "models that never saw the item",
) -> "Audit":
    """Which labels are wrong, from embeddings by models that did not train on the items.

    An item's score is its mean cosine with the other items of its label and fold; the null are its mean cosines with
    the items of every other label. A wrong label is taken to be one of the others at random. Labels that are confused
    with similar ones are not found; the upper end of the interval leaves room for them: it is at least the share of
    items that are more like the items of another label.

    Args:
        z: (items, width) embeddings. Rows of one fold are compared with one another only.
        labels: One whole number per item, from 0; negative where it is unknown.
        folds: One number per item: which model embedded it. None if one model embedded all of them.
        seed: Seed of the interval of the noise rate.
        scorer: What gave the embeddings, for the summary.

    Returns:
        An audit with one row per item. Items without a label are counted as right.

    Raises:
        UsageError: There are not two labels to tell apart, or something does not fit together.

    Example:
        >>> labels = torch.arange(400) % 4
        >>> z = torch.eye(4)[labels] + 0.1 * torch.randn(400, 4)
        >>> labels[:80] = (labels[:80] + torch.randint(1, 4, (80,))) % 4  # a fifth of the labels is wrong
        >>> found = rince.trust.judge_labels(z, labels)
        >>> found.verdict, round(found.noise_rate, 1)
        ('found', 0.2)
    """
    from rince.audit.run import judge

    vectors = nn.functional.normalize(_matrix(z, "z"), dim=1)
    given = torch.as_tensor(np.asarray(labels))
    if given.shape != (len(vectors),) or given.is_floating_point():
        raise UsageError(f"labels must be one whole number per item: expected ({len(vectors)},), got {given.shape}")
    number = torch.from_numpy(fold_codes(folds, len(vectors)))
    classes = int(given.max()) + 1
    if classes < 2:
        raise UsageError(f"labels must be of 2 classes or more to be told apart, got {max(classes, 0)}")
    scores = torch.full((len(vectors),), torch.nan)
    null, rivals = [], 0.0
    for k in range(int(number.max()) + 1):
        rows = ((number == k) & (given >= 0)).nonzero()[:, 0]
        own, others, with_rival = label_scores(vectors[rows], given[rows], classes)
        scores[rows] = own
        null.append(others)
        rivals += with_rival * len(rows) / len(vectors)
    mismatched = torch.cat(null)
    if not len(mismatched):
        raise UsageError("labels must be of 2 classes or more in every fold to be told apart: give fewer folds")
    best = float(mismatched.max()) + 1
    alone = torch.isnan(scores)  # nobody to differ from
    by_accident = share_hit_by_accident(given[given >= 0].numpy())
    found = Scored(torch.where(alone, best, scores).numpy(), mismatched.numpy(), None, by_accident, rivals)
    return judge(found, seed=seed, fitted=True, scorer=scorer)


def label_scores(z: Tensor, labels: Tensor, classes: int) -> tuple[Tensor, Tensor, float]:
    """The mean cosine of every item with the others of its label, NaN if there are none, and all those with others.

    Also the share of items that are more like the items of another label.
    """
    sums = torch.zeros(classes, z.shape[1]).index_add(0, labels, z)
    count = torch.bincount(labels, minlength=classes)
    own = ((sums[labels] - z) * z).sum(1) / (count[labels] - 1)
    own[count[labels] == 1] = torch.nan
    means = z @ (sums / count.clamp_min(1)[:, None]).T
    other = (torch.arange(classes) != labels[:, None]) & (count > 0)
    rival = means.masked_fill(~other, -torch.inf).amax(1) if len(z) else own
    return own, means[other], float((rival > own).float().mean()) if len(z) else 0.0
