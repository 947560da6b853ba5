"""Joint distributions of two discrete views, as tables: rows are values of X, columns values of V.

Leading dimensions of a table are a batch of distributions.
"""

import torch
from torch import Tensor

from rince.errors import UsageError


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
