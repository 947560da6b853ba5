"""When is a contrastive loss symmetric, and in which sense?

Over pairs (the paper's sense): the loss is a sum of l(s+, 1) and lam l(s-, -1) with l(s, 1) + l(s, -1) constant. Then
no derivative depends on another score, and a score pulls as a positive in a fixed proportion to its push as a negative.

Over candidates (the sense of (K + 1)-way classification): the losses with each of the candidates as the positive sum to
a constant. A mismatched positive is one candidate like any other, so that its expected loss is a constant as well.
"""

from collections.abc import Callable

import torch
from torch import Tensor

Objective = Callable[[Tensor, Tensor], Tensor]


def pull_over_push(objective: Objective, score: Tensor, positive: Tensor, negatives: Tensor) -> Tensor:
    """How strongly a score is raised as the positive, over how strongly it is lowered as a negative.

    Args:
        objective: loss from (positive score, log-sum-exp of the negative scores).
        score: the score in question, shape (...). It is compared in two roles:
            as the positive among ``negatives``, and as one more negative beside ``positive`` and all but the first of
            ``negatives``.
        positive: shape (...).
        negatives: shape (..., K).

    Returns:
        Minus the quotient of the two derivatives by ``score``, shape (...): one number, whatever the other scores are,
        for a loss that is symmetric over pairs ((1 - lam) / lam for RINCE at q = 1).

    Example:
        >>> q1 = functools.partial(rince.objectives.rince, q=1.0, lam=0.2)
        >>> ratio = pull_over_push(q1, torch.tensor([0.3]), torch.tensor([2.0]), torch.tensor([[1.0, -1.0]]))
        >>> round(float(ratio), 4)
        4.0
    """
    score = score.detach().requires_grad_()
    as_positive = objective(score, torch.logsumexp(negatives, dim=-1)).sum()
    beside = torch.cat([score[..., None], negatives[..., 1:]], dim=-1)
    as_negative = objective(positive, torch.logsumexp(beside, dim=-1)).sum()
    (pull,), (push,) = (torch.autograd.grad(loss, score) for loss in (as_positive, as_negative))
    return -pull / push


def entanglement(objective: Objective, positive: Tensor, negatives: Tensor) -> Tensor:
    """How the derivative by the positive score changes with each negative score: zero if the loss is a sum over pairs.

    Args:
        objective: loss from (positive score, log-sum-exp of the negative scores).
        positive: shape (...).
        negatives: shape (..., K).

    Returns:
        The mixed second derivatives, shape (..., K): 0 for RINCE at q = 1, and -p p_i, never 0, for InfoNCE.

    Example:
        >>> entanglement(rince.objectives.info_nce, torch.tensor([0.0]), torch.tensor([[0.0]]))
        tensor([[-0.2500]])
    """
    positive, negatives = positive.detach().requires_grad_(), negatives.detach().requires_grad_()
    loss = objective(positive, torch.logsumexp(negatives, dim=-1)).sum()
    (pull,) = torch.autograd.grad(loss, positive, create_graph=True)
    if not pull.requires_grad:
        return torch.zeros_like(negatives)
    (mixed,) = torch.autograd.grad(pull.sum(), negatives, allow_unused=True)
    return torch.zeros_like(negatives) if mixed is None else mixed


def candidate_sum(objective: Objective, scores: Tensor) -> Tensor:
    """The sum of the losses with each candidate as the positive and all others as its negatives.

    Args:
        objective: loss from (positive score, log-sum-exp of the negative scores).
        scores: one score per candidate, shape (..., K + 1).

    Returns:
        The sum, shape (...): K for ``1 - p``, 0 for RINCE at q = 1 and lam = 1 / (K + 1), whatever the scores are.

    Example:
        >>> q1 = functools.partial(rince.objectives.rince, q=1.0, lam=0.5)
        >>> candidate_sum(q1, torch.tensor([[0.0, 1.0], [2.0, -3.0]])).abs() < 1e-5
        tensor([True, True])
    """
    same = torch.eye(scores.shape[-1], dtype=torch.bool, device=scores.device)
    negatives = torch.logsumexp(scores[..., None, :].masked_fill(same, -torch.inf), dim=-1)
    return objective(scores, negatives).sum(-1)
