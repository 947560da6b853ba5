"""Exact log-sum-exp over negatives without storing the matrix of scores: the operator ``rince::logsumexp``.

The matrix is computed in square blocks that fit into the cache of a core; the backward pass computes the scores again
instead of storing them, so memory grows with the batch and not with its square. A block serves both of its sides: rows
as anchors against columns and, on request, columns as anchors against rows. A matrix small enough to be one block is
kept. An ``ExtraReduction`` is computed in the same pass.

Entries with equal keys are left out: the anchor itself, its positive, and everything else with its id.

``RINCE_KERNEL=triton`` computes float32 reductions without an extra one by a fused Triton kernel (``rince[triton]``).
"""

import os
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from rince.losses.blocks import DENSE, Blocks, HardNegativeGradient, add_hard_negatives, powers, product, rounded
from rince.losses.inputs import transformed
from rince.losses.objectives import ExtraReduction


class Negatives(NamedTuple):
    """Reductions over the negatives of every anchor: the log-sum-exp and, on request, an extra one."""

    lse: Tensor
    extra: Tensor | None = None


def negative_scores(
    rows: Tensor,
    columns: Tensor,
    row_keys: Tensor | None,
    column_keys: Tensor | None,
    extra: ExtraReduction | None = None,
    diagonal: bool = False,
    bound: float | None = None,
    precision: str = "highest",
) -> Negatives:
    """(n, d), (m, d) -> (n,): log-sum-exp over the columns of rows @ columns.T, without those of the row's key.

    ``diagonal``: column i is row i itself and stays out of its own bag. ``bound``: upper bound of the absolute scores,
    up to rounding; computed on a CPU if it is ``None``, unused on a GPU, which would have to wait for it.
    ``precision``: of the products (``Precision``).
    """
    if columns.shape[0] == 0:
        zeros = 0 * rows.sum(1)  # part of the graph, also for objectives of the negatives alone
        empty = zeros.masked_fill(torch.ones_like(zeros, dtype=torch.bool), -torch.inf)
        if extra is None:
            return Negatives(empty)
        return Negatives(empty, zeros if extra.kind == "softplus" else empty)
    return finish(
        _reduce(rows, columns, row_keys, column_keys, False, extra, diagonal, bound, precision)[0], extra, rows
    )


def negative_scores_both(
    rows: Tensor,
    columns: Tensor,
    row_keys: Tensor,
    column_keys: Tensor,
    extra: ExtraReduction | None = None,
    bound: float | None = None,
    precision: str = "highest",
) -> tuple[Negatives, Negatives]:
    """The same for both sides, rows against columns and columns against rows, from one matrix: (n,), (m,)."""
    of_rows, of_columns = _reduce(rows, columns, row_keys, column_keys, True, extra, False, bound, precision)
    return finish(of_rows, extra, rows), finish(of_columns, extra, rows)


def negative_scores_self(
    rows: Tensor,
    keys: Tensor,
    extra: ExtraReduction | None = None,
    bound: float | None = None,
    precision: str = "highest",
) -> Negatives:
    """The same for rows against themselves, computing half of the symmetric matrix: (n, d) -> (n,)."""
    return finish(_reduce(rows, None, keys, None, True, extra, False, bound, precision)[0], extra, rows)


def joined(*parts: Negatives) -> Negatives:
    """Concatenated anchors of several parts."""
    extras = [part.extra for part in parts if part.extra is not None]
    return Negatives(torch.cat([part.lse for part in parts]), torch.cat(extras) if extras else None)


def score_dtype(*tensors: Tensor) -> torch.dtype:
    """Data type of the scores: float64 if one of the tensors has it, else float32."""
    return torch.float64 if any(z.dtype == torch.float64 for z in tensors) else torch.float32


def uses_triton(rows: Tensor, kind: str) -> bool:
    """Whether the Triton kernel is enabled and applicable: on a GPU, or on a CPU with Triton's interpreter."""
    if os.environ.get("RINCE_KERNEL", "blocks") != "triton" or kind or rows.dtype != torch.float32:
        return False
    return rows.device.type == "cuda" or os.environ.get("TRITON_INTERPRET") == "1"


def finish(values: Tensor, extra: ExtraReduction | None, rows: Tensor) -> Negatives:
    """Reductions for an objective from k reductions of n rows, (k, n)."""
    if extra is None:
        return Negatives(values[0])
    if extra.kind != "hard_negatives":
        return Negatives(values[0], values[1])
    empty = torch.isneginf(values[0].detach())
    mean = (values[2] - values[1]).masked_fill(empty, -torch.inf)
    return Negatives(values[0].to(rows.dtype), mean.to(rows.dtype))


def _reduce(
    rows: Tensor,
    columns: Tensor | None,
    row_keys: Tensor | None,
    column_keys: Tensor | None,
    both: bool,
    extra: ExtraReduction | None,
    diagonal: bool,
    bound: float | None,
    precision: str,
) -> tuple[Tensor, Tensor]:
    """k reductions of n rows and m columns: (k, n), (k, m)."""
    kind, beta, shift = ("", 0.0, None) if extra is None else extra
    if shift is not None:
        shift = shift.to(rows.dtype)
    arguments = (rows, columns, row_keys, column_keys, shift, kind, beta, diagonal, both)
    small = rows.shape[0] * (rows if columns is None else columns).shape[0] <= DENSE
    if transformed() or (small and torch.compiler.is_compiling()):  # plain operations, for the compiler to fuse
        return dense_reductions(*arguments, precision)
    return reductions(*arguments, bound, precision)[:2]


def logsumexp(scores: Tensor, dim: int) -> Tensor:
    """``torch.logsumexp`` with a zero gradient instead of NaN for empty sums."""
    top = scores.detach().amax(dim, keepdim=True).clamp_min(torch.finfo(scores.dtype).min)
    total = (scores - top).exp().sum(dim)
    empty = total == 0
    return (total.masked_fill(empty, 1).log() + top.squeeze(dim)).masked_fill(empty, -torch.inf)


def dense_reductions(
    rows: Tensor,
    columns: Tensor | None,
    row_keys: Tensor | None,
    column_keys: Tensor | None,
    shift: Tensor | None,
    kind: str,
    beta: float,
    diagonal: bool,
    both: bool,
    precision: str,
) -> tuple[Tensor, Tensor]:
    """The same in plain operations on the whole matrix, differentiable any number of times."""
    left, right = (z + (rounded(z, precision) - z).detach() for z in (rows, rows if columns is None else columns))
    scores = left @ right.T
    others = row_keys if columns is None else column_keys
    negatives, bag = scores, torch.full_like(scores, -torch.inf)
    if row_keys is not None and others is not None:
        same = row_keys[:, None] == others
        negatives = scores.masked_fill(same, -torch.inf)
        if diagonal or columns is None:
            same = same & ~torch.eye(*scores.shape, dtype=torch.bool, device=rows.device)
        bag = scores.masked_fill(~same, -torch.inf)

    def over(dim: int) -> Tensor:
        results = [logsumexp(negatives, dim)]
        if kind == "hard_negatives":
            results += [logsumexp(negatives * power, dim) for power in (beta, 1 + beta)]
        elif kind == "softplus":
            assert shift is not None
            results.append(softplus(negatives + shift, threshold=40).sum(dim))
        elif kind == "bag":
            results.append(logsumexp(bag, dim))
        return torch.stack(results)

    return over(1), over(0) if both and columns is not None else rows.new_empty(len(powers(kind, beta)), 0)


# Registered by hand: torch.library.custom_op would import the whole compiler at the first call.
_LIBRARY = torch.library.Library("rince", "DEF")
_INPUTS = (
    "Tensor rows, Tensor? columns, Tensor? row_keys, Tensor? column_keys, Tensor? shift, "
    "str kind, float beta, bool diagonal, bool both, float? bound, str precision"
)
_LIBRARY.define(f"logsumexp({_INPUTS}) -> (Tensor of_rows, Tensor of_columns, Tensor kept)")
_LIBRARY.define(
    "logsumexp_backward(Tensor row_grad, Tensor column_grad, Tensor of_rows, Tensor of_columns, Tensor kept, "
    f"{_INPUTS}, bool need_rows, bool need_columns) -> (Tensor d_rows, Tensor d_columns, Tensor d_shift)"
)
reductions = torch.ops.rince.logsumexp.default
reductions_backward = torch.ops.rince.logsumexp_backward.default


@torch.library.impl(_LIBRARY, "logsumexp", "CompositeExplicitAutograd")
def _forward_in_blocks(
    rows: Tensor,
    columns: Tensor | None,
    row_keys: Tensor | None,
    column_keys: Tensor | None,
    shift: Tensor | None,
    kind: str,
    beta: float,
    diagonal: bool,
    both: bool,
    bound: float | None,
    precision: str,
) -> tuple[Tensor, Tensor, Tensor]:
    if uses_triton(rows, kind):
        from rince.losses import triton_kernel

        results = triton_kernel.reductions(rows, columns, row_keys, column_keys, both, bound, precision)
        return *results, rows.new_empty(0)
    blocks = Blocks(rows, columns, row_keys, column_keys, kind, beta, shift, diagonal, bound, precision)
    row_totals = _start(blocks, rows.shape[0])
    column_totals = row_totals if columns is None else _start(blocks, columns.shape[0] if both else 0)
    for r, c, block, off_diagonal in blocks:
        sides = [(row_totals, r, 1), (column_totals, c, 0)] if both and off_diagonal else [(row_totals, r, 1)]
        if blocks.hard_apart:
            for totals, where, dim in sides:
                add_hard_negatives(blocks, block, totals, where, dim)
            continue
        for k, matrix in blocks.terms(block, r, c):
            power = blocks.powers[k]
            for totals, where, dim in sides:
                if blocks.shared or power is None:
                    totals[k, where] += matrix.sum(dim)
                else:
                    totals[k, where] = torch.logaddexp(totals[k, where], matrix.logsumexp(dim))
    if blocks.shared:
        for totals in (row_totals,) if columns is None else (row_totals, column_totals):
            for total, power in zip(totals, blocks.powers, strict=True):
                if power is not None:
                    total.log_().add_(power * blocks.bound)
    kept = blocks.buffer.view(rows.shape[0], blocks.columns.shape[0]) if blocks.single else rows.new_empty(0)
    return row_totals, row_totals.new_empty(len(blocks.powers), 0) if columns is None else column_totals, kept


def add_product(total: Tensor, a: Tensor, b: Tensor, precision: str) -> None:
    if precision == "highest":
        total.addmm_(a, b)
    else:
        total += product(a, b, precision)


def _start(blocks: Blocks, size: int) -> Tensor:
    totals = blocks.rows.new_zeros(len(blocks.powers), size, dtype=_totals_dtype(blocks.rows, blocks.kind))
    for total, power in zip(totals, blocks.powers, strict=True):
        if power is not None and not blocks.shared:
            total.fill_(-torch.inf)
    return totals


def _totals_dtype(rows: Tensor, kind: str) -> torch.dtype:
    """float64 for ``"hard_negatives"``: a difference of two large totals, too inexact in float32 for debiasing."""
    return torch.float64 if kind == "hard_negatives" and rows.device.type != "mps" else rows.dtype  # MPS has no float64


@torch.library.register_fake("rince::logsumexp", lib=_LIBRARY)
def _(
    rows: Tensor, columns: Tensor | None, row_keys: Any, column_keys: Any, shift: Any, *settings: Any
) -> tuple[Tensor, Tensor, Tensor]:
    kind, beta, _, both, *_ = settings
    n, m, k = rows.shape[0], (rows if columns is None else columns).shape[0], len(powers(kind, beta))
    other, dtype = m if both and columns is not None else 0, _totals_dtype(rows, kind)
    kept = rows.new_empty((n, m) if n * m <= DENSE and not uses_triton(rows, kind) else 0)
    return rows.new_empty(k, n, dtype=dtype), rows.new_empty(k, other, dtype=dtype), kept


@torch.library.impl(_LIBRARY, "logsumexp_backward", "CompositeExplicitAutograd")
def _backward_in_blocks(
    row_grad: Tensor,
    column_grad: Tensor,
    of_rows: Tensor,
    of_columns: Tensor,
    kept: Tensor,
    rows: Tensor,
    columns: Tensor | None,
    row_keys: Tensor | None,
    column_keys: Tensor | None,
    shift: Tensor | None,
    kind: str,
    beta: float,
    diagonal: bool,
    both: bool,
    bound: float | None,
    precision: str,
    need_rows: bool,
    need_columns: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    if uses_triton(rows, kind):
        from rince.losses import triton_kernel

        sides = (row_grad, of_rows), (column_grad, of_columns) if both and columns is not None else None
        needs = need_rows or columns is None, need_columns and columns is not None
        d_rows, d_columns = triton_kernel.gradients(*sides, rows, columns, row_keys, column_keys, precision, *needs)
        return d_rows, d_columns, rows.new_zeros(())
    blocks = Blocks(rows, columns, row_keys, column_keys, kind, beta, shift, diagonal, bound, precision, kept)
    d_rows = torch.zeros_like(rows) if need_rows else rows.new_empty(0)
    d_shift = rows.new_zeros((), dtype=torch.float64)
    if columns is None:
        d_columns, column_grad, of_columns = d_rows, row_grad, of_rows
    else:
        d_columns = torch.zeros_like(columns) if need_columns else rows.new_empty(0)
    kind_of_gradient = HardNegativeGradient if blocks.hard_apart else _ScoreGradient
    gradient = kind_of_gradient(blocks, (row_grad, of_rows), (column_grad, of_columns) if both else None)
    largest = kept.numel() if blocks.kept is not None else blocks.buffer.numel()
    scratch = [rows.new_empty(largest) for _ in blocks.powers[:2]]  # weights, and one more term
    for r, c, block, off_diagonal in blocks:
        weights, slopes = gradient.weights(block, r, c, [part[: block.numel()].view(block.shape) for part in scratch])
        if slopes is not None:  # a symmetric block on the diagonal holds every pair twice
            d_shift += slopes * (1.0 if off_diagonal else 0.5)
        if need_rows:
            add_product(d_rows[r], weights, blocks.columns[c], precision)
        if need_columns and off_diagonal:  # on the diagonal, rows and columns are the same
            add_product(d_columns[c], weights.T, rows[r], precision)
    return d_rows, rows.new_empty(0) if columns is None else d_columns, d_shift.to(rows.dtype)


Side = tuple[Tensor, Tensor]
"""Gradients of the reductions of one side, and their values."""


class _ScoreGradient:
    """Gradient of the scores of a block, from the gradients of all reductions."""

    def __init__(self, blocks: Blocks, of_rows: Side, of_columns: Side | None):
        self.blocks = blocks
        self.rows = self._factors(*of_rows)
        self.columns = None if of_columns is None else self._factors(*of_columns)

    def _factors(self, gradients: Tensor, values: Tensor) -> list[tuple[Tensor, Tensor]]:
        """Factors of the terms of a block, and the negative log-sum-exp to add to the terms first."""
        factors, blocks = [], self.blocks
        for gradient, value, power in zip(gradients, values, blocks.powers, strict=True):
            if power is None:
                factors.append((gradient, value))
                continue
            value = value.masked_fill(torch.isneginf(value), torch.inf)  # no gradient without negatives
            pull = gradient * (power * blocks.bound - value).exp() if blocks.shared else gradient
            factors.append(((pull if power == 1 else pull * power).to(blocks.rows.dtype), -value.to(blocks.rows.dtype)))
        return factors

    def weights(self, block: Tensor, r: slice, c: slice, buffers: list[Tensor]) -> tuple[Tensor, Tensor | None]:
        """Gradient of every score, in the first buffer, and the summed slopes of a plain sum if there is one."""
        blocks, slopes = self.blocks, None
        for k, matrix in blocks.terms(block, r, c, slopes=True):
            term, (pull, log) = buffers[1 if k else 0], self.rows[k]
            if blocks.shared or blocks.powers[k] is None:
                if self.columns is not None:
                    torch.add(pull[r, None], self.columns[k][0][c], out=term).mul_(matrix)
                else:
                    torch.mul(matrix, pull[r, None], out=term)
            else:
                torch.add(log[r, None], matrix, out=term).exp_().mul_(pull[r, None])
                if self.columns is not None:
                    term += torch.add(self.columns[k][1][c], matrix).exp_().mul_(self.columns[k][0][c])
            if k > 0:
                buffers[0] += term
                if blocks.powers[k] is None:
                    slopes = term.sum(dtype=torch.float64)
        return buffers[0], slopes


@torch.library.register_fake("rince::logsumexp_backward", lib=_LIBRARY)
def _(
    row_grad: Tensor, column_grad: Tensor, of_rows: Tensor, of_columns: Tensor, kept: Tensor, *inputs: Any
) -> tuple[Tensor, Tensor, Tensor]:
    rows, columns, *_, need_rows, need_columns = inputs
    d_columns = torch.empty_like(columns) if need_columns and columns is not None else rows.new_empty(0)
    return torch.empty_like(rows) if need_rows else rows.new_empty(0), d_columns, rows.new_empty(())


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    *tensors, ctx.kind, ctx.beta, ctx.diagonal, ctx.both, ctx.bound, ctx.precision = inputs
    ctx.save_for_backward(*output, *tensors)


def _backward(ctx: Any, row_grad: Tensor, column_grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    need_rows, need_columns, _, _, need_shift, *_ = ctx.needs_input_grad
    saved = ctx.saved_tensors  # once: activation checkpointing does not allow a second read
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():  # create_graph=True: this is differentiated, too
        return _differentiable_backward(ctx, saved[3:], row_grad, column_grad)
    symmetric = saved[4] is None
    settings = ctx.kind, ctx.beta, ctx.diagonal, ctx.both, ctx.bound, ctx.precision
    d_rows, d_columns, d_shift = reductions_backward(
        row_grad, column_grad, *saved, *settings, need_rows, need_rows if symmetric else need_columns
    )
    d_columns = d_columns if need_columns and not symmetric else None
    return d_rows if need_rows else None, d_columns, None, None, d_shift if need_shift else None, *[None] * 6


def _differentiable_backward(
    ctx: Any, saved: tuple[Any, ...], row_grad: Tensor, column_grad: Tensor
) -> tuple[Tensor | None, ...]:
    needs = ctx.needs_input_grad[:5]
    # Views stop the gradient here: if the columns are a function of the rows, it would count twice.
    inputs = [z.view_as(z) if need else z for z, need in zip(saved, needs, strict=True)]
    rows, columns, row_keys, column_keys, shift = inputs
    of_rows, of_columns = dense_reductions(
        rows, columns, row_keys, column_keys, shift, ctx.kind, ctx.beta, ctx.diagonal, ctx.both, ctx.precision
    )
    values, gradients = [of_rows], [row_grad]
    if of_columns.numel():
        values, gradients = [of_rows, of_columns], [row_grad, column_grad]
    tensors = [z for z, need in zip(inputs, needs, strict=True) if need]
    results = iter(torch.autograd.grad(values, tensors, gradients, create_graph=True))
    return *(next(results) if need else None for need in needs), *[None] * 6


torch.library.register_autograd("rince::logsumexp", _backward, setup_context=_setup, lib=_LIBRARY)
