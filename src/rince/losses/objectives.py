"""The loss of an anchor, as a function of two numbers.

``positive`` is the score of the anchor's positive pair (cosine over temperature), ``negatives`` the log-sum-exp of the
scores of its negatives, without the positive. Both have any shape, the result has the same; ``negatives = -inf`` means
that there are none.
"""

import math
from typing import Any

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
    # Numbers are quicker than scalar tensors, but a compiled loss takes a tensor's new value without compiling again.
    if isinstance(q, Tensor) and q.device.type == "cpu" and not torch.compiler.is_compiling():
        q = float(q)
    smallest = 1e-30  # as good as 0 in what follows
    q = q.clamp_min(smallest) if isinstance(q, Tensor) else max(q, smallest)
    return _Rince.apply(positive, negatives, q, lam.log() if isinstance(lam, Tensor) else math.log(lam))


class _Rince(torch.autograd.Function):
    """With u = log(lam (pos + neg) / pos) the loss is pos^q (e^{qu} - 1) / q: nothing cancels as q -> 0.

    The larger of the two powers is taken out of the difference, half of it in front and half behind, so that nothing
    overflows that would fit. Gradients are written out for the same reasons, and because it takes half the time.
    """

    @staticmethod
    def forward(positive: Tensor, negatives: Tensor, q: float | Tensor, log_lam: float | Tensor) -> Tensor:
        u = info_nce(positive, negatives) + log_lam
        half = torch.exp(q / 2 * (positive + u.relu()))
        return (half * torch.expm1(-q * u.abs()) * (u.sign() * (-1 / q)) * half).to(positive.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        positive, negatives, *others = inputs
        ctx.numbers = [None if isinstance(x, Tensor) else x for x in others]
        ctx.save_for_backward(positive, negatives, *(x if isinstance(x, Tensor) else None for x in others))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        positive, negatives, *tensors = ctx.saved_tensors
        q, log_lam = (x if number is None else number for x, number in zip(tensors, ctx.numbers, strict=True))
        info = info_nce(positive, negatives)
        powers = q * log_lam - (1 - q) * info
        half = torch.exp(q / 2 * positive)
        pull = half * torch.expm1(powers) * half
        push = torch.exp(powers + negatives - (1 - q) * positive)
        to_lam = gradient * torch.exp(q * (positive + info + log_lam)) if ctx.needs_input_grad[3] else None
        return gradient * pull, gradient * push, None, to_lam
