"""Binary classification with flipped labels: what a symmetric loss guarantees, and when the guarantee says nothing.

Inputs are n points with probabilities ``weights`` and labels -1 or 1; the label of a point is flipped with a
probability of its own. A loss is symmetric if l(s, 1) + l(s, -1) is the same for every score s.
"""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import softplus

Loss = Callable[[Tensor, Tensor], Tensor]


def exponential_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """-y e^s, the loss of a pair in RINCE at q = 1: symmetric, of either sign.

    Args:
        scores: any shape.
        labels: -1 or 1, same shape.

    Returns:
        The loss of each score.

    Example:
        >>> exponential_loss(torch.tensor([0.0, 0.0]), torch.tensor([1.0, -1.0]))
        tensor([-1.,  1.])
    """
    return -labels * scores.exp()


def sigmoid_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """1 / (1 + e^{ys}): symmetric, from 0 to 1.

    Args:
        scores: any shape.
        labels: -1 or 1, same shape.

    Returns:
        The loss of each score.

    Example:
        >>> sigmoid_loss(torch.tensor([0.0]), torch.tensor([1.0]))
        tensor([0.5000])
    """
    return torch.sigmoid(-labels * scores)


def logistic_loss(scores: Tensor, labels: Tensor) -> Tensor:
    """log(1 + e^{-ys}), InfoNCE with one negative as a function of s+ - s-: not symmetric.

    Args:
        scores: any shape.
        labels: -1 or 1, same shape.

    Returns:
        The loss of each score.

    Example:
        >>> logistic_loss(torch.tensor([0.0]), torch.tensor([1.0]))
        tensor([0.6931])
    """
    return softplus(-labels * scores)


def risk(loss: Loss, scores: Tensor, labels: Tensor, weights: Tensor, flips: float | Tensor = 0.0) -> Tensor:
    """The expected loss of a classifier on labels that are flipped with probability ``flips``.

    Args:
        loss: of scores and labels, such as :func:`exponential_loss`.
        scores: classifier scores at each point, shape (..., n).
        labels: true labels, -1 or 1, shape (..., n).
        weights: probability of each point, shape (..., n).
        flips: a number, or one for each point, shape (..., n). 0 gives the clean risk.

    Returns:
        The risk, shape (...).

    Example:
        >>> point = torch.ones(1)
        >>> risk(sigmoid_loss, torch.tensor([5.0]), labels=point, weights=point, flips=0.2)
        tensor(0.2040)
    """
    return (weights * ((1 - flips) * loss(scores, labels) + flips * loss(scores, -labels))).sum(-1)


def risk_bound(
    best: float | Tensor, max_flip: float | Tensor, ceiling: float | Tensor = 0.0, min_flip: float | Tensor = 0.0
) -> float | Tensor:
    """How large the clean risk of the best classifier under noise can be, for a symmetric loss.

    Non-negative losses need no ``ceiling``: this is the theorem of Ghosh et al. 2015. With ``ceiling`` = e^{s_max} it
    is the paper's corollary for -y e^s. Both forget the ``min_flip`` flip rate; with it the bound gets tighter, and for
    equal flip rates everywhere it says that noise costs nothing.

    Args:
        best: the smallest clean risk of any classifier in the family.
        max_flip: the largest flip rate of any point, below 1/2.
        ceiling: B such that B + loss is never negative.
        min_flip: the smallest flip rate of any point.

    Returns:
        ((1 - 2 min_flip) best + 2 (max_flip - min_flip) ceiling) / (1 - 2 max_flip).

    Example:
        >>> round(risk_bound(best=-0.5, max_flip=0.4, ceiling=1.0), 6)  # 5 best + 4 ceiling: no loss exceeds 1 anyway
        1.5
    """
    return ((1 - 2 * min_flip) * best + 2 * (max_flip - min_flip) * ceiling) / (1 - 2 * max_flip)


def vacuous_flip_rate(best: float | Tensor, ceiling: float | Tensor) -> float | Tensor:
    """The largest flip rate from which on the corollary allows ``ceiling``, which no risk exceeds anyway.

    A share ``pi`` of positive labels means best > -pi ceiling: the corollary is thus vacuous from (1 + pi) / 4 at the
    latest, 0.375 if half of the labels are positive.

    Args:
        best: the smallest clean risk of any classifier in the family, for -y e^s.
        ceiling: e^{s_max}, the largest loss.

    Returns:
        (1 - best / ceiling) / 4.

    Example:
        >>> vacuous_flip_rate(best=-0.5, ceiling=1.0)
        0.375
    """
    return (1 - best / ceiling) / 4
