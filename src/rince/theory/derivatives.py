"""The derivatives of InfoNCE by its scores, and what the paper's appendix prints in their place."""

import torch
from torch import Tensor


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
