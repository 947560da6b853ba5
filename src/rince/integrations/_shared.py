"""Objectives, pair weights and scores of small batches for several integrations."""

from typing import Any, Literal

import torch
from torch import Tensor

from rince.losses import GCE, RINCE, DensityRatio
from rince.losses.blocks import DENSE, SAFE
from rince.losses.inputs import can_look, check_weights
from rince.losses.logsumexp import logsumexp
from rince.losses.rince import DEFAULT_LAM as DEFAULT_LAM
from rince.losses.temperature import Temperature

Lam = float | DensityRatio | Literal["balanced"]


def rince_objective(q: float, lam: Lam, temperature: Temperature, unit: bool) -> RINCE:
    """RINCE with ``unit`` instead of ``scale``, which is the inverse temperature in other libraries."""
    return RINCE(q=q, lam=lam, temperature=temperature, scale="unit" if unit else "paper")


def weighted_mean(losses: Tensor, weights: Tensor) -> Tensor:
    """Mean of one loss per pair with one weight per pair; 0 if all weights are 0."""
    weights = check_weights(weights, losses)  # type: ignore[assignment]
    weights = weights.to(losses)
    total = weights.sum()
    return (losses * (weights / torch.where(total == 0, 1, total))).sum()


class WithQ:
    """Loss with an attribute ``q`` that may be changed between steps."""

    contrastive: Any

    @property
    def q(self) -> float:
        return self.contrastive.q

    @q.setter
    def q(self, value: float) -> None:
        self.contrastive.q = value


def settings_of(contrastive: Any) -> dict[str, Any]:
    """Settings of an objective, for model cards and logs."""
    if isinstance(contrastive, RINCE):
        lam = f"DensityRatio({contrastive.lam.r:g})" if isinstance(contrastive.lam, DensityRatio) else contrastive.lam
        return {"q": contrastive.q, "lam": lam, "unit": contrastive.scale == "unit"}
    return {"q": contrastive.q} if isinstance(contrastive, GCE) else {}


def small(rows: Tensor, columns: Tensor) -> bool:
    """Whether the score matrix is small and on a CPU, so that it is computed at once."""
    return rows.shape[0] * columns.shape[0] <= DENSE and can_look(rows)


def diagonal_scores(rows: Tensor, columns: Tensor, start: int = 0, both: bool = False) -> tuple[Tensor, Tensor, Tensor]:
    """Positive scores and log-sum-exps of negatives from ``rows @ columns.T``.

    Args:
        rows: (n, d) anchors.
        columns: (m, d) candidates. Candidate ``start + i`` is the positive of row i, all others are negatives.
        start: See ``columns``.
        both: Whether columns are anchors, too. Requires n = m and ``start`` 0.

    Returns:
        (n,) positive scores, (n,) log-sum-exps of the rows, and (n,) of the columns if ``both``, else (0,).
    """
    return _Diagonal.apply(rows, columns, start, both)


class _Diagonal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, columns: Tensor, start: int, both: bool) -> tuple[Tensor, Tensor, Tensor]:
        scores = rows @ columns.T
        own = scores.diagonal(start)
        positive = own.clone()
        own.fill_(-torch.inf)
        top = scores.amax(1, keepdim=True).clamp_min_(torch.finfo(scores.dtype).min)
        if both:  # one exponential for rows and columns, unless the range of scores is too large
            highest, lowest = top.amax(), top.amin()
            across = scores.amax(0, keepdim=True).clamp_min_(torch.finfo(scores.dtype).min)
            top = highest if float(highest - torch.minimum(lowest, across.amin())) <= SAFE else top
        powers = scores.sub_(top).exp_()
        sums = powers.sum(1)
        of_rows = sums.log().add_(top.flatten() if top.dim() else top)
        of_columns, back = rows.new_empty(0), rows.new_empty(0)
        if both and top.dim() == 0:
            of_columns = powers.sum(0).log_().add_(top)
        elif both:
            back = (rows @ columns.T).sub_(across)
            back.diagonal(start).fill_(-torch.inf)
            of_columns = back.exp_().sum(0).log_().add_(across.flatten())
        ctx.start, ctx.both = start, both
        ctx.save_for_backward(rows, columns, powers, back, of_rows, of_columns, top)
        ctx.across = across.flatten() if both else None
        return positive, of_rows, of_columns

    @staticmethod
    def backward(ctx: Any, d_positive: Tensor, d_rows: Tensor, d_columns: Tensor) -> tuple[Tensor | None, ...]:
        rows, columns, powers, back, of_rows, of_columns, top = ctx.saved_tensors
        if torch.is_grad_enabled():  # create_graph=True
            return *_differentiable_backward(ctx, rows, columns, (d_positive, d_rows, d_columns)), None, None
        pull = _share(d_rows, top.flatten() if top.dim() else top, of_rows)
        if ctx.both and not back.numel():
            weights = (pull[:, None] + _share(d_columns, top, of_columns)).mul_(powers)
        else:
            weights = powers * pull[:, None]
            if ctx.both:
                weights.addcmul_(back, _share(d_columns, ctx.across, of_columns).expand_as(back))
        weights.diagonal(ctx.start).copy_(d_positive)
        need_rows, need_columns, *_ = ctx.needs_input_grad
        return weights @ columns if need_rows else None, weights.T @ rows if need_columns else None, None, None


def _share(gradient: Tensor, top: Tensor, value: Tensor) -> Tensor:
    """Factor of the exponentials relative to ``top``; 0 for an anchor without negatives."""
    return gradient * (top - value.masked_fill(torch.isneginf(value), torch.inf)).exp_()


def _differentiable_backward(
    ctx: Any, rows: Tensor, columns: Tensor, gradients: tuple[Tensor, ...]
) -> tuple[Tensor | None, ...]:
    """The backward pass in differentiable operations."""
    rows, columns = rows.view_as(rows), columns.view_as(columns)  # one may be a function of the other
    scores = rows @ columns.T
    mask = torch.zeros_like(scores, dtype=torch.bool)
    mask.diagonal(ctx.start).fill_(True)
    others = scores.masked_fill(mask, -torch.inf)
    values = [scores.diagonal(ctx.start), logsumexp(others, 1), *([logsumexp(others, 0)] if ctx.both else [])]
    needs = ctx.needs_input_grad[:2]
    inputs = [z for z, need in zip((rows, columns), needs, strict=True) if need]
    results = iter(torch.autograd.grad(values, inputs, gradients[: len(values)], create_graph=True))
    return tuple(next(results) if need else None for need in needs)
