"""Small joint distributions of two views: noise, expected losses, and the bound of mutual information."""

import itertools
import math
from collections.abc import Callable

import torch
from torch import Tensor

from rince.errors import UsageError
from rince.losses.objectives import info_nce


def independent(joint: Tensor) -> Tensor:
    """P_X P_V: the joint distribution of the same two views if they knew nothing of each other.

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

    Raises:
        UsageError: if ``eta`` lies outside [0, 1].

    Example:
        >>> noisy(torch.tensor([[0.5, 0.0], [0.0, 0.5]]), 0.4)
        tensor([[0.4000, 0.1000],
                [0.1000, 0.4000]])
    """
    rate = torch.as_tensor(eta, dtype=joint.dtype)
    if bool(((rate < 0) | (rate > 1)).any()):
        raise UsageError(f"eta is a noise rate and must lie in [0, 1], got {eta}")
    rate = rate[..., None, None]
    return (1 - rate) * joint + rate * independent(joint)


def check_joint(joint: Tensor) -> None:
    """Raise where a table holds no joint distribution.

    Args:
        joint: should be probabilities, shape (..., x, v).

    Raises:
        UsageError: if a number is negative or a table does not sum to 1.
    """
    if joint.ndim < 2:
        raise UsageError(f"a joint distribution has a row per x and a column per v, got shape {tuple(joint.shape)}")
    if not bool((joint >= 0).all()):
        raise UsageError(f"probabilities must be at least 0, got {float(joint.min()):g}; divide counts by their sum")
    total = joint.sum((-2, -1))
    if not torch.allclose(total, torch.ones_like(total), atol=1e-6):
        worst = total.flatten()[(total - 1).abs().argmax()]
        raise UsageError(f"probabilities must sum to 1, got {float(worst):g}; divide the table by its sum")


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
