"""Small joint distributions of two views: noise, expected losses, and the bound of mutual information."""

import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from rince.losses.objectives import info_nce


def independent(joint: Tensor) -> Tensor:
    """P_X P_V: joint distribution of the same two views if they were independent.

    Args:
        joint: probabilities, shape (..., x, v).

    Returns:
        The product of the marginals, same shape.

    Example:
        >>> independent(torch.tensor([[0.5, 0.0], [0.0, 0.5]]))
        tensor([[0.2500, 0.2500],
                [0.2500, 0.2500]])
    """
    return joint.sum(-1, keepdim=True) * joint.sum(-2, keepdim=True)


def noisy(joint: Tensor, eta: float | Tensor) -> Tensor:
    """(1 - eta) P_XV + eta P_X P_V: a share ``eta`` of the pairs is mismatched at random.

    Args:
        joint: probabilities, shape (..., x, v).
        eta: noise rate in [0, 1], a number or one for each distribution, shape (...).

    Returns:
        The joint distribution of the noisy pairs, same shape as ``joint``; its marginals are those of ``joint``.

    Example:
        >>> noisy(torch.tensor([[0.5, 0.0], [0.0, 0.5]]), 0.4)
        tensor([[0.4000, 0.1000],
                [0.1000, 0.4000]])
    """
    rate = torch.as_tensor(eta, dtype=joint.dtype)[..., None, None]
    return (1 - rate) * joint + rate * independent(joint)


Objective = Callable[[Tensor, Tensor], Tensor]


def expected_loss(objective: Objective, joint: Tensor, scores: Tensor, number: int) -> Tensor:
    """E[objective], over every anchor, positive and multiset of negatives.

    The order of the negatives does not matter, so that v values of V give (v + K - 1 choose K) terms instead of v^K.

    Args:
        objective: loss from (positive score, log-sum-exp of the negative scores), as in :mod:`rince.objectives`.
        joint: probabilities, shape (..., x, v).
        scores: score of every pair, already divided by the temperature, shape (..., x, v).
        number: K, the number of negatives.

    Returns:
        The expected loss of each distribution, shape (...).

    Example:
        >>> joint = torch.tensor([[0.5, 0.0], [0.0, 0.5]], dtype=torch.float64)
        >>> expected_loss(rince.objectives.info_nce, joint, torch.zeros(2, 2, dtype=torch.float64), number=3)  # log 4
        tensor(1.3863, dtype=torch.float64)
    """
    counts = _multisets(joint.shape[-1], number).to(joint)
    by_value = joint.sum(-2)
    ways = math.lgamma(number + 1) - torch.lgamma(counts + 1).sum(-1)
    chance = torch.exp(ways + torch.special.xlogy(counts, by_value[..., None, :]).sum(-1))
    negatives = torch.logsumexp(scores[..., None, :] + counts.log(), dim=-1)
    losses = objective(*torch.broadcast_tensors(scores[..., None], negatives[..., None, :]))
    return (joint[..., None] * chance[..., None, None, :] * losses).sum((-3, -2, -1))


def _multisets(values: int, number: int) -> Tensor:
    """How often each of ``values`` occurs among ``number`` negatives, one row per possibility."""
    drawn = itertools.combinations_with_replacement(range(values), number)
    return torch.tensor([[multiset.count(v) for v in range(values)] for multiset in drawn])


def sampled_loss(
    objective: Objective, joint: Tensor, scores: Tensor, number: int, samples: int, generator: torch.Generator
) -> tuple[Tensor, Tensor]:
    """E[objective] by simulation: the mean over random anchors, positives and negatives, and its standard error.

    Args:
        objective: loss from (positive score, log-sum-exp of the negative scores).
        joint: probabilities, shape (..., x, v).
        scores: score of every pair, shape (..., x, v).
        number: K, the number of negatives.
        samples: how many anchors to draw, at least 2.
        generator: source of the random numbers.

    Returns:
        Mean and standard error, each of shape (...).

    Example:
        >>> joint, scores = torch.tensor([[0.5, 0.0], [0.0, 0.5]]), torch.zeros(2, 2)
        >>> generator = torch.Generator().manual_seed(0)
        >>> mean, error = sampled_loss(rince.objectives.info_nce, joint, scores, 3, 1000, generator)
        >>> round(float(mean), 4)  # log 4
        1.3863
    """
    values = joint.shape[-1]
    tables = joint.reshape(-1, joint.shape[-2] * values)
    pairs = torch.multinomial(tables, samples, replacement=True, generator=generator)
    marginal = joint.sum(-2).reshape(-1, values)
    others = torch.multinomial(marginal, samples * number, replacement=True, generator=generator)
    others = others.reshape(-1, samples, number) + (pairs // values * values)[..., None]
    flat = scores.reshape(tables.shape)
    positive = flat.gather(1, pairs)
    negative = flat[:, None].expand(-1, samples, -1).gather(2, others)
    losses = objective(positive, torch.logsumexp(negative, dim=-1)).reshape(*joint.shape[:-2], samples)
    return losses.mean(-1), losses.std(-1) / samples**0.5


def mutual_information(joint: Tensor) -> Tensor:
    """I(X; V) = KL(P_XV, P_X P_V), in nats.

    Args:
        joint: probabilities, shape (..., x, v).

    Returns:
        Shape (...).

    Example:
        >>> mutual_information(torch.tensor([[0.5, 0.0], [0.0, 0.5]]))
        tensor(0.6931)
    """
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
