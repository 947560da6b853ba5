"""Value and gradient of a whole loss in one step, for batches whose matrix of scores fits into memory.

At 32 to 512 pairs a loss is a few dozen small operations, and recording them for autograd takes longer than running
them. A scalar loss has a gradient that is known, up to a factor, as soon as its value is: both are computed in the
forward pass, in closed form, and the backward pass multiplies. Nothing here waits for a device.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rince.losses.blocks import SAFE
from rince.losses.objectives import Gradient

MAX_SCORES = 1024 * 1024


class Plan(NamedTuple):
    """What is computed from two matrices of embeddings.

    Args:
        gradient: Objective with its derivatives, of scores minus 1 / temperature.
        temperature: Softmax temperature.
        two_view: Whether all views are compared with all others (``TwoView``), else one side with the other.
        symmetric: Whether both sides are anchors (``CrossView``).
        count_negatives: Whether the objective needs the number of negatives.
        mean: Whether the loss is a mean over anchors, else a sum.
        ids: One integer per pair, or ``None``.
        weights: One weight per pair, or ``None``.
        differentiable: The same loss in operations that can be differentiated again.
    """

    gradient: Gradient
    temperature: float
    two_view: bool
    symmetric: bool
    count_negatives: bool
    mean: bool
    ids: Tensor | None
    weights: Tensor | None
    differentiable: Callable[[Tensor, Tensor], Tensor]


def fits(pairs: int, temperature: float, two_view: bool) -> bool:
    """Whether one matrix and one exponential for all scores are enough (see ``Blocks``)."""
    return 0 < (4 if two_view else 1) * pairs * pairs <= MAX_SCORES and 2 / temperature <= SAFE


def small_batch_loss(a: Tensor, b: Tensor, plan: Plan) -> Tensor:
    """(n, d), (n, d) -> (): the loss of a batch that ``fits``."""
    if torch.compiler.is_compiling():  # a function of tensors only, which the compiler looks into
        return _KnownGradient.apply(a, b, *_value_and_gradient(a.detach(), b.detach(), plan, True))
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        return _SmallBatchLoss.apply(a, b, plan)
    with torch.no_grad():
        return _value_and_gradient(a, b, plan, False)[0]


class _SmallBatchLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, plan: Plan) -> Tensor:
        value, gradient = _value_and_gradient(a, b, plan, True)
        ctx.plan = plan
        ctx.save_for_backward(a, b, gradient)
        return value

    @staticmethod
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        a, b, gradient = ctx.saved_tensors
        needs = ctx.needs_input_grad
        if torch.is_grad_enabled():  # create_graph=True
            sides = a.view_as(a), b.view_as(b)  # if one is a function of the other, its gradient must not count twice
            wanted = [z for z, need in zip(sides, needs, strict=False) if need]
            results = iter(torch.autograd.grad(ctx.plan.differentiable(*sides), wanted, factor, create_graph=True))
            return next(results) if needs[0] else None, next(results) if needs[1] else None, None
        # float32 until here: half precision may need the factor of a GradScaler.
        d_a, d_b = (gradient * factor).chunk(2)
        return d_a.to(a.dtype) if needs[0] else None, d_b.to(b.dtype) if needs[1] else None, None


class _KnownGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(a, b, gradient)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor, Tensor, None, None]:
        a, b, gradient = ctx.saved_tensors
        d_a, d_b = (gradient * factor).chunk(2)
        return d_a.to(a.dtype), d_b.to(b.dtype), None, None


def _value_and_gradient(a: Tensor, b: Tensor, plan: Plan, need_gradient: bool) -> tuple[Tensor, Tensor]:
    """The loss, and the gradient of both sides below each other."""
    n, bound, symmetric = a.shape[0], 1 / plan.temperature, plan.symmetric
    z = torch.cat([a, b])
    z = z if z.dtype in (torch.float32, torch.float64) else z.float()
    largest = torch.threshold_(z.abs().amax(1, True), torch.finfo(z.dtype).tiny, torch.inf)  # see ``unit``
    z.div_(largest)
    length = torch.linalg.vector_norm(z, 2, 1, True).clamp_min_(1)  # at least 1, except in rows of zeros
    z.div_(length)
    left, right = (z, z) if plan.two_view else (z[:n], z[n:])

    # Scores minus their bound, and their exponentials.
    exponentials = torch.addmm(z.new_ones(()), left, right.T, beta=-bound, alpha=bound)
    positive = exponentials.diagonal(n if plan.two_view else 0)[:n].clone()
    exponentials.exp_()
    same = None if plan.ids is None else plan.ids[:, None] == plan.ids
    if same is not None:
        (exponentials.view(2, n, 2, n) if plan.two_view else exponentials).masked_fill_(
            same[:, None] if plan.two_view else same, 0
        )
    else:
        for offset in (0, n, -n) if plan.two_view else (0,):
            exponentials.diagonal(offset).zero_()
    sums = exponentials.sum(1)
    if plan.two_view:
        sums = sums.view(2, n)
    elif symmetric:
        sums = torch.cat([sums, exponentials.sum(0)]).view(2, n)
    num_negatives: float | Tensor = 2.0 * n - 2 if plan.two_view else n - 1.0
    if same is not None and plan.count_negatives:
        views = 2 if plan.two_view else 1
        num_negatives = same.sum(1, dtype=z.dtype).mul_(-views).add_(views * n)
    # Anchors of both sides are rows of (2, n) matrices, with one positive score per pair.
    values, d_positive, d_negatives = plan.gradient(positive, sums.log(), num_negatives)

    scale = 1.0
    if plan.weights is not None:
        weights = plan.weights.to(z.dtype)
        if plan.mean:
            smallest = 5e-324 if z.dtype == torch.float64 else 1e-45  # any weights are zeros if their sum is
            weights, scale = weights / weights.sum().clamp_min_(smallest), 0.5 if symmetric else 1.0
        value = (values * weights).sum() * scale
        d_positive, d_negatives = d_positive * weights, d_negatives * weights
    elif plan.mean:
        value, scale = values.mean(), 1 / ((2 if symmetric else 1) * n)
    else:
        value = values.sum()
    if not need_gradient:
        return value, value

    pull = d_negatives.div_(sums.clamp_min_(1e-30))  # sums are 0 or at least exp(-SAFE)
    if plan.two_view:
        pull = pull.view(2 * n)
        gradient_of_scores = (pull[:, None] + pull).mul_(exponentials)
    elif symmetric:
        gradient_of_scores = (pull[0, :, None] + pull[1]).mul_(exponentials)
    else:
        gradient_of_scores = exponentials.mul_(pull[:, None])
    if symmetric:
        d_positive = d_positive.sum(0)
    if plan.two_view:
        gradient_of_scores.diagonal(n).copy_(d_positive)
        gradient_of_scores.diagonal(-n).copy_(d_positive)
        gradient = gradient_of_scores @ z
    else:
        gradient_of_scores.diagonal().copy_(d_positive)
        gradient = torch.empty_like(z)
        torch.mm(gradient_of_scores, right, out=gradient[:n])
        torch.mm(gradient_of_scores.T, left, out=gradient[n:])
    along = (gradient * z).sum(1, keepdim=True)  # the loss does not depend on the length of a row
    return value, gradient.addcmul_(z, along, value=-1).div_(length.mul_(largest).mul_(1 / (scale * bound)))
