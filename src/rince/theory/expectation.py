"""The expected loss of a contrastive objective, exactly and by simulation.

An anchor x and its positive v come from the joint distribution, its K negatives independently from P_V, as in the
definition of the loss. With discrete views the expectation is a finite sum.
"""

import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from rince.errors import UsageError
from rince.theory.distributions import check_joint

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

    Raises:
        UsageError: if ``joint`` is no distribution or there is no negative.

    Example:
        >>> joint = torch.tensor([[0.5, 0.0], [0.0, 0.5]], dtype=torch.float64)
        >>> expected_loss(rince.objectives.info_nce, joint, torch.zeros(2, 2, dtype=torch.float64), number=3)  # log 4
        tensor(1.3863, dtype=torch.float64)
    """
    check_joint(joint)
    counts = _multisets(joint.shape[-1], number).to(joint)
    by_value = joint.sum(-2)
    ways = math.lgamma(number + 1) - torch.lgamma(counts + 1).sum(-1)
    chance = torch.exp(ways + torch.special.xlogy(counts, by_value[..., None, :]).sum(-1))
    negatives = torch.logsumexp(scores[..., None, :] + counts.log(), dim=-1)
    losses = objective(*torch.broadcast_tensors(scores[..., None], negatives[..., None, :]))
    return (joint[..., None] * chance[..., None, None, :] * losses).sum((-3, -2, -1))


def _multisets(values: int, number: int) -> Tensor:
    """How often each of ``values`` occurs among ``number`` negatives, one row per possibility."""
    if number < 1:
        raise UsageError(f"the number of negatives must be at least 1, got {number}")
    drawn = itertools.combinations_with_replacement(range(values), number)
    return torch.tensor([[each.count(v) for v in range(values)] for each in drawn])


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

    Raises:
        UsageError: if ``joint`` is no distribution, or there are fewer than 2 samples or 1 negative.

    Example:
        >>> joint, scores = torch.tensor([[0.5, 0.0], [0.0, 0.5]]), torch.zeros(2, 2)
        >>> generator = torch.Generator().manual_seed(0)
        >>> mean, error = sampled_loss(rince.objectives.info_nce, joint, scores, 3, 1000, generator)
        >>> round(float(mean), 4)  # log 4
        1.3863
    """
    check_joint(joint)
    if samples < 2 or number < 1:
        raise UsageError(f"a simulation needs 2 samples and 1 negative at least, got {samples} and {number}")
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
