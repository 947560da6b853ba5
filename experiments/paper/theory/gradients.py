"""Gradients of the losses: symmetry, the limit q -> 0, and the derivatives that the paper prints."""

from collections.abc import Callable

import torch
from torch import Tensor

from rince.losses.objectives import info_nce

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
    others = torch.cat([score[..., None], negatives[..., 1:]], dim=-1)
    as_negative = objective(positive, torch.logsumexp(others, dim=-1)).sum()
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
    growth = torch.expm1(q * largest)
    share = torch.sigmoid(positive - negatives)
    return (1 + share) * growth, (1 - share) * growth


def info_nce_derivatives(positive: Tensor, negatives: Tensor) -> tuple[Tensor, Tensor]:
    """-(1 - p) by the positive score and p_i by the i-th negative one, where p and p_i are softmax shares.

    Args:
        positive: score of the positive pair, shape (...).
        negatives: scores of the negatives, shape (..., K).

    Returns:
        The derivative by the positive score, shape (...), and by each negative one, shape (..., K).

    Example:
        >>> info_nce_derivatives(torch.tensor(0.0), torch.tensor([0.0, 0.0]))
        (tensor(-0.6667), tensor([0.3333, 0.3333]))
    """
    shares = torch.softmax(torch.cat([positive[..., None], negatives], dim=-1), dim=-1)
    return -shares[..., 1:].sum(-1), shares[..., 1:]


def printed_derivatives(positive: Tensor, negatives: Tensor) -> tuple[Tensor, Tensor]:
    """The appendix's formulas ("InfoNCE is not symmetric"), which are wrong.

    Both divide by the loss where the chain rule divides by p, the argument of its logarithm; the second one has another
    numerator as well, and mostly the wrong sign.

    Args:
        positive: score of the positive pair, shape (...).
        negatives: scores of the negatives, shape (..., K).

    Returns:
        What is printed for the positive score, shape (...), and for each negative one, shape (..., K).

    Example:
        >>> printed_derivatives(torch.tensor(0.0), torch.tensor([0.0, 0.0]))  # true: -0.6667 and 0.3333
        (tensor(-0.2023), tensor([-0.2023, -0.2023]))
    """
    pos, neg = positive.exp(), negatives.exp()
    total = pos + neg.sum(-1)
    loss = total.log() - positive
    by_positive = -1 / loss * pos * neg.sum(-1) / total**2
    numerator = pos[..., None] * (1 - neg) + neg.sum(-1, keepdim=True)
    return by_positive, -1 / loss[..., None] * numerator / total[..., None] ** 2


def printed_proof_derivatives(positive: Tensor, negatives: Tensor) -> tuple[Tensor, Tensor]:
    """The middle lines of the proof of Lemma 1, which do not equal the right results below them.

    The first factor should be 1 / p in both: it is printed as p for the positive score, as 1 / p_i for a negative one.

    Args:
        positive: score of the positive pair, shape (...).
        negatives: scores of the negatives, shape (..., K).

    Returns:
        What is printed for the positive score, shape (...), and for each negative one, shape (..., K).

    Example:
        >>> printed_proof_derivatives(torch.tensor(0.0), torch.tensor([0.0, 0.0]))  # true: -0.6667 and 0.3333
        (tensor(-0.0741), tensor([0.3333, 0.3333]))
    """
    share = torch.softmax(torch.cat([positive[..., None], negatives], dim=-1), dim=-1)[..., 0]
    return -share * share * (1 - share), share[..., None].expand_as(negatives)
