"""Value and gradient of a whole loss in one step, for batches whose matrix of scores fits into memory.

At 32 to 512 pairs a loss is a few dozen small operations, and recording them for autograd takes longer than running
them. A scalar loss has a gradient that is known, up to a factor, as soon as its value is: both are computed in the
forward pass, in closed form, and the backward pass multiplies. Nothing here waits for a GPU.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from rince.losses.blocks import SAFE
from rince.losses.contrasts import is_moderate
from rince.losses.objectives import Gradient

MAX_SCORES = 1024 * 1024


class SmallBatch(NamedTuple):
    """Settings of the loss of two matrices of embeddings.

    Args:
        gradient: Objective with its derivatives.
        needs_count: Whether ``gradient`` uses the number of negatives.
        temperature: Softmax temperature.
        two_view: Whether all views are compared with all others (``TwoView``), else one side with the other.
        symmetric: Whether both sides are anchors.
        mean: Whether the loss is a mean over anchors, else a sum.
        ids: One integer per pair, or ``None``.
        weights: One weight per pair, or ``None``.
        differentiable: The same loss in operations that can be differentiated again.
    """

    gradient: Gradient
    needs_count: bool
    temperature: float
    two_view: bool
    symmetric: bool
    mean: bool
    ids: Tensor | None
    weights: Tensor | None
    differentiable: Callable[[Tensor, Tensor], Tensor]


def is_small(a: Tensor, temperature: float, two_view: bool) -> bool:
    """Whether one matrix and one exponential for all scores are enough (see ``Blocks``)."""
    anchors = a.shape[0] * (2 if two_view else 1)
    return 0 < anchors * anchors <= MAX_SCORES and 2 / temperature <= SAFE


def small_batch_loss(a: Tensor, b: Tensor, batch: SmallBatch) -> Tensor:
    """(n, d), (n, d) -> (): the loss of a batch that ``is_small``."""
    if torch.compiler.is_compiling():  # a function of tensors only, which the compiler traces
        return _KnownGradient.apply(a, b, *_value_and_gradient(a.detach(), b.detach(), batch, True))
    if torch.is_grad_enabled() and (a.requires_grad or b.requires_grad):
        return _SmallBatchLoss.apply(a, b, batch)
    with torch.no_grad():
        return _value_and_gradient(a, b, batch, False)[0]


class _KnownGradient(torch.autograd.Function):
    """A loss from its value and gradient."""

    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, value: Tensor, gradient: Tensor) -> Tensor:
        ctx.save_for_backward(a, b, gradient)
        return value.clone()

    @staticmethod
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor | None, ...]:
        a, b, gradient = ctx.saved_tensors
        # float32 until here: half precision may need the factor of a GradScaler.
        gradient, (need_a, need_b, *_) = gradient * factor, ctx.needs_input_grad
        n = a.shape[0]
        return gradient[:n].to(a.dtype) if need_a else None, gradient[n:].to(b.dtype) if need_b else None, None, None


class _SmallBatchLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, a: Tensor, b: Tensor, batch: SmallBatch) -> Tensor:
        value, gradient = _value_and_gradient(a, b, batch, True)
        ctx.batch = batch
        ctx.save_for_backward(a, b, gradient)
        return value

    @staticmethod
    def backward(ctx: Any, factor: Tensor) -> tuple[Tensor | None, ...]:
        if not torch.is_grad_enabled():
            return _KnownGradient.backward(ctx, factor)[:3]
        a, b, _ = ctx.saved_tensors  # create_graph=True
        need_a, need_b, _ = ctx.needs_input_grad
        a, b = a.view_as(a), b.view_as(b)  # if one is a function of the other, its gradient must not count twice
        inputs = [z for z, need in ((a, need_a), (b, need_b)) if need]
        results = iter(torch.autograd.grad(ctx.batch.differentiable(a, b), inputs, factor, create_graph=True))
        return next(results) if need_a else None, next(results) if need_b else None, None


def _value_and_gradient(a: Tensor, b: Tensor, batch: SmallBatch, need_gradient: bool) -> tuple[Tensor, Tensor]:
    """The loss, and the stacked gradients of both sides."""
    n, bound, two_view, symmetric = a.shape[0], 1 / batch.temperature, batch.two_view, batch.symmetric
    z = torch.cat((a, b))
    z = z if z.dtype in (torch.float32, torch.float64) else z.float()
    length = torch.linalg.vector_norm(z, 2, 1, True)
    largest = None
    if not is_moderate(length):
        largest = torch.threshold_(z.abs().amax(1, True), torch.finfo(z.dtype).tiny, torch.inf)  # see ``unit``
        length = torch.linalg.vector_norm(z.div_(largest), 2, 1, True).clamp_min_(1)  # less in rows of zeros only
    z.div_(length)
    left, right = (z, z) if two_view else (z[:n], z[n:])

    scores = torch.addmm(z.new_zeros(()), left, right.T, beta=0, alpha=bound)
    exponentials = scores.exp()  # at most exp(SAFE / 2)
    same = None if batch.ids is None else batch.ids[:, None] == batch.ids
    if same is None:
        exponentials.fill_diagonal_(0)
        for offset in (n, -n) if two_view else ():
            exponentials.diagonal(offset).zero_()
    elif two_view:
        exponentials.view(2, n, 2, n).masked_fill_(same[:, None], 0)
    else:
        exponentials.masked_fill_(same, 0)
    sums = exponentials.sum(1)
    if two_view:
        sums = sums.view(2, n)
    elif symmetric:
        sums = torch.cat((sums, exponentials.sum(0))).view(2, n)
    views = 2 if two_view else 1
    num_negatives: float | Tensor = float(views * (n - 1))
    if same is not None and batch.needs_count:
        num_negatives = torch.rsub(same.sum(1, dtype=z.dtype), views * n, alpha=views)
    # Anchors of both sides are rows of (2, n) matrices, with one positive score per pair.
    positive = scores.diagonal(n if two_view else 0)[:n]
    values, d_positive, d_negatives = batch.gradient(positive, sums.log(), num_negatives)

    factor = bound  # of the gradient
    if batch.weights is not None:
        weights = batch.weights.to(z.dtype)
        if batch.mean:
            smallest = 5e-324 if z.dtype == torch.float64 else 1e-45  # if the sum is 0, all weights are 0
            weights, factor = weights / weights.sum().clamp_min_(smallest), bound / (2 if symmetric else 1)
        value = (values * weights).sum()
        value = value * 0.5 if batch.mean and symmetric else value
        d_positive, d_negatives = d_positive.mul_(weights), d_negatives.mul_(weights)
    elif batch.mean:
        value, factor = values.mean(), bound / ((2 if symmetric else 1) * n)
    else:
        value = values.sum()
    if not need_gradient:
        return value, value

    if same is not None or n == 1:
        sums.clamp_min_(1e-30)  # 0 without negatives, else at least exp(-SAFE / 2)
    pull = d_negatives.div_(sums)
    if not symmetric:
        d_scores = exponentials.mul_(pull[:, None])
    else:
        rows, columns = (pull.view(-1),) * 2 if two_view else pull
        d_scores = torch.add(rows[:, None], columns, out=scores).mul_(exponentials)
        d_positive = d_positive.sum(0)
    for offset in (n, -n) if two_view else (0,):
        d_scores.diagonal(offset).copy_(d_positive)
    gradient = torch.addmm(left, d_scores, right, beta=0, alpha=factor)
    if not two_view:
        gradient = torch.cat((gradient, torch.addmm(right, d_scores.T, left, beta=0, alpha=factor)))
    along = (gradient * z).sum(1, keepdim=True)  # the loss does not depend on the length of a row
    return value, gradient.addcmul_(z, along, value=-1).div_(length if largest is None else length.mul_(largest))
