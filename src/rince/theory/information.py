"""Mutual information, and InfoNCE as a lower bound of it."""

import math

import torch
from torch import Tensor

from rince.losses.objectives import info_nce
from rince.theory.distributions import check_joint, independent
from rince.theory.expectation import expected_loss


def mutual_information(joint: Tensor) -> Tensor:
    """I(X; V) = KL(P_XV, P_X P_V), in nats.

    Args:
        joint: probabilities, shape (..., x, v).

    Returns:
        Shape (...).

    Raises:
        UsageError: if ``joint`` is no distribution.

    Example:
        >>> mutual_information(torch.tensor([[0.5, 0.0], [0.0, 0.5]]))
        tensor(0.6931)
    """
    check_joint(joint)
    return (torch.special.xlogy(joint, joint) - torch.special.xlogy(joint, independent(joint))).sum((-2, -1))


def information_bound(joint: Tensor, scores: Tensor, number: int) -> Tensor:
    """log(K + 1) - E[InfoNCE], which is at most the mutual information for any scores.

    The paper prints log(K) with K negatives. That holds too, but gives log((K + 1) / K) away: K + 1 is the number of
    candidates, and no larger constant would do, since independent views and scores that are all equal reach it.

    Args:
        joint: probabilities, shape (..., x, v).
        scores: score of every pair, shape (..., x, v).
        number: K, the number of negatives.

    Returns:
        Shape (...).

    Raises:
        UsageError: if ``joint`` is no distribution or there is no negative.

    Example:
        >>> joint = torch.tensor([[0.5, 0.0], [0.0, 0.5]])
        >>> information_bound(joint, torch.zeros(2, 2), number=1)
        tensor(0.)
    """
    return math.log(number + 1) - expected_loss(info_nce, joint, scores, number)


def best_scores(joint: Tensor) -> Tensor:
    """log P(x, v) / (P(x) P(v)): the scores for which the bound is tightest.

    Args:
        joint: probabilities, shape (..., x, v), all above 0.

    Returns:
        Pointwise mutual information, same shape.

    Example:
        >>> best_scores(torch.tensor([[0.4, 0.1], [0.1, 0.4]]))
        tensor([[ 0.4700, -0.9163],
                [-0.9163,  0.4700]])
    """
    return torch.log(joint / independent(joint))
