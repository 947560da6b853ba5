"""Lemma 1: RINCE goes over into InfoNCE + log lam as q -> 0, value and gradient, and how fast.

With a = s+ and b = log(lam (pos + neg)) the loss is (e^{qb} - e^{qa}) / q, the integral of e^{qx} from a to b, while
InfoNCE + log lam is b - a. The distance between the two is the integral of e^{qx} - 1, which gives a bound for every q,
where the paper's proof by L'Hopital's rule gives the limit alone.
"""

import torch
from torch import Tensor

from rince.losses.objectives import info_nce


def _ends(positive: Tensor, negatives: Tensor, lam: float | Tensor) -> tuple[Tensor, Tensor]:
    """b - a, and the largest |x| between a and b."""
    gap = info_nce(positive, negatives) + torch.as_tensor(lam, dtype=positive.dtype).log()
    return gap, torch.maximum(positive.abs(), (positive + gap).abs())


def limit_error(positive: Tensor, negatives: Tensor, q: float | Tensor, lam: float | Tensor) -> Tensor:
    """How far RINCE can be from InfoNCE + log lam at most.

    Args:
        positive: score of the positive pair, any shape.
        negatives: log-sum-exp of the negative scores, same shape.
        q: in (0, 1].
        lam: above 0.

    Returns:
        |b - a| (e^{qM} - 1), where M is the larger of |a| and |b|: it falls in proportion to q.

    Example:
        >>> limit_error(torch.tensor(1.0), torch.tensor(0.0), q=0.001, lam=0.5)
        tensor(0.0004)
    """
    gap, largest = _ends(positive, negatives, lam)
    return gap.abs() * torch.expm1(q * largest)


def limit_gradient_error(
    positive: Tensor, negatives: Tensor, q: float | Tensor, lam: float | Tensor
) -> tuple[Tensor, Tensor]:
    """How far the gradients of RINCE can be from those of InfoNCE at most.

    Args:
        positive: score of the positive pair, any shape.
        negatives: log-sum-exp of the negative scores, same shape.
        q: in (0, 1].
        lam: above 0.

    Returns:
        Bounds for the derivative by ``positive`` and by ``negatives``.

    Example:
        >>> by_positive, by_negatives = limit_gradient_error(torch.tensor(1.0), torch.tensor(0.0), q=0.001, lam=0.5)
    """
    _, largest = _ends(positive, negatives, lam)
    grown = torch.expm1(q * largest)
    share = torch.sigmoid(positive - negatives)
    return (1 + share) * grown, (1 - share) * grown
