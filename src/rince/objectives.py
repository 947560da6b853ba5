"""The loss of an anchor, as a function of two numbers.

``positive`` is the score of the anchor's positive pair (cosine over temperature), ``negatives`` the log-sum-exp of the
scores of its negatives, without the positive. Both have any shape, the result has the same; ``negatives = -inf`` means
that there are none.
"""

import torch
from torch import Tensor
from torch.nn.functional import softplus


def info_nce(positive: Tensor, negatives: Tensor) -> Tensor:
    """-log(pos / (pos + neg)): the positive has to win against all negatives at once."""
    return softplus(negatives - positive, threshold=40)


def dcl(positive: Tensor, negatives: Tensor) -> Tensor:
    """-log(pos / neg): decoupled, with the positive left out of the denominator; GraphCL's published form.

    Unbounded below, so an anchor without negatives counts as 0 instead of -inf.
    """
    alone = torch.isneginf(negatives)
    return torch.where(alone, 0, torch.where(alone, positive, negatives) - positive)


def rince(positive: Tensor, negatives: Tensor, q: float | Tensor = 0.5, lam: float | Tensor = 0.01) -> Tensor:
    """-pos^q / q + (lam (pos + neg))^q / q, for q in [0, 1] and lam in (0, 1].

    q = 1 is symmetric in the sense of noisy classification, q -> 0 goes over into InfoNCE + log lam, which is what
    q = 0 returns.
    """
    # With u = log(lam (pos + neg) / pos) the loss is pos^q (e^{qu} - 1) / q. In this form nothing cancels as q -> 0,
    # and taking the larger of the two powers out of the bracket lets nothing overflow that would fit.
    log_lam = torch.log(lam) if isinstance(lam, Tensor) else torch.log(positive.new_tensor(lam))
    u = info_nce(positive, negatives) + log_lam
    if not isinstance(q, Tensor) and q == 0:
        return u
    above, below = u.clamp(min=0), u.clamp(max=0)
    return torch.where(
        u > 0,
        torch.exp(q * (positive + above)) * -torch.expm1(-q * above) / q,
        torch.exp(q * positive) * torch.expm1(q * below) / q,
    )
