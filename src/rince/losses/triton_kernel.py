# mypy: allow-untyped-defs, allow-incomplete-defs
"""The reductions of ``rince::logsumexp`` as fused Triton kernels: ``RINCE_KERNEL=triton``. Not measured on a GPU yet.

A program processes a block of rows, iterates over all columns and never stores a score. Where a bound of all scores is
low enough, sums of rows and of columns share one pass and one exponential; else columns have a separate pass, with the
running maximum of each row. The backward pass computes the scores again, once per side.
"""

import os

import torch
import triton
import triton.language as tl
from torch import Tensor

from rince.losses.blocks import SAFE

SIDE = 64
"""Rows and columns of a block."""


@triton.jit
def _scores(rows, columns, i, j, n, m, width, DEPTH: tl.constexpr, SIDE: tl.constexpr, PRECISION: tl.constexpr):
    """Products of a block of rows with a block of columns."""
    scores = tl.zeros((SIDE, SIDE), tl.float32)
    for start in range(0, width, DEPTH):
        k = start + tl.arange(0, DEPTH)
        a = tl.load(rows + i[:, None] * width + k, mask=(i < n)[:, None] & (k < width), other=0.0)
        b = tl.load(columns + j * width + k[:, None], mask=(j < m) & (k < width)[:, None], other=0.0)
        scores += _dot(a, b, PRECISION)
    return scores


@triton.jit
def _dot(a, b, PRECISION: tl.constexpr):
    if PRECISION == "bfloat16":
        return tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16))
    elif PRECISION == "tf32":
        return tl.dot(a, b, input_precision="tf32")
    elif PRECISION == "emulated bfloat16":  # the interpreter multiplies in float32 only; see ``rounded``
        return tl.dot(_rounded(a, 65537.0), _rounded(b, 65537.0), input_precision="ieee")
    elif PRECISION == "emulated tf32":
        return tl.dot(_rounded(a, 8193.0), _rounded(b, 8193.0), input_precision="ieee")
    else:
        return tl.dot(a, b, input_precision="ieee")


@triton.jit
def _rounded(x, FACTOR: tl.constexpr):
    split = x * FACTOR
    return split - (split - x)


@triton.jit
def _left_out(i, j, n, m, own, column_keys, KEYS: tl.constexpr):
    out = (i >= n)[:, None] | (j >= m)
    if KEYS:
        out = out | (own[:, None] == tl.load(column_keys + j, mask=j < m, other=0))
    return out


@triton.jit
def _reduce(
    rows, columns, row_keys, column_keys, of_rows, sums_of_columns, n, m, width, bound,
    KEYS: tl.constexpr, SHARED: tl.constexpr, BOTH: tl.constexpr,
    DEPTH: tl.constexpr, SIDE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Log-sum-exp of a block of rows; SHARED and BOTH: sums of exp(score - bound) of all columns, too."""
    i = (tl.program_id(0) * SIDE + tl.arange(0, SIDE)).to(tl.int64)
    own = tl.load(row_keys + i, mask=i < n, other=0) if KEYS else i
    top = tl.zeros((SIDE,), tl.float32) - float("inf")
    total = tl.zeros((SIDE,), tl.float32)
    for start in range(0, m, SIDE):
        j = (start + tl.arange(0, SIDE)).to(tl.int64)
        scores = _scores(rows, columns, i, j, n, m, width, DEPTH, SIDE, PRECISION)
        out = _left_out(i, j, n, m, own, column_keys, KEYS)
        if SHARED:
            exponentials = tl.where(out, 0.0, tl.exp(scores - bound))
            total += tl.sum(exponentials, 1)
            if BOTH:
                tl.atomic_add(sums_of_columns + j, tl.sum(exponentials, 0), mask=j < m)
        else:
            scores = tl.where(out, -float("inf"), scores)
            highest = tl.maximum(top, tl.max(scores, 1))
            shift = tl.where(highest == -float("inf"), 0.0, highest)
            total = total * tl.exp(top - shift) + tl.sum(tl.exp(scores - shift[:, None]), 1)
            top = highest
    empty = total == 0
    result = tl.log(tl.where(empty, 1.0, total)) + (bound if SHARED else top)
    tl.store(of_rows + i, tl.where(empty, -float("inf"), result), mask=i < n)


@triton.jit
def _gradient(
    rows, columns, row_keys, column_keys, row_grad, of_rows, column_grad, of_columns, d_rows, n, m, width,
    KEYS: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
    DEPTH: tl.constexpr, WIDE: tl.constexpr, SIDE: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """WIDE columns of the gradient of a block of rows, as anchors (ROWS) and as candidates of the columns (COLUMNS)."""
    i = (tl.program_id(0) * SIDE + tl.arange(0, SIDE)).to(tl.int64)
    d = tl.program_id(1) * WIDE + tl.arange(0, WIDE)
    own = tl.load(row_keys + i, mask=i < n, other=0) if KEYS else i
    total = tl.zeros((SIDE, WIDE), tl.float32)
    for start in range(0, m, SIDE):
        j = (start + tl.arange(0, SIDE)).to(tl.int64)
        scores = _scores(rows, columns, i, j, n, m, width, DEPTH, SIDE, PRECISION)
        out = _left_out(i, j, n, m, own, column_keys, KEYS)
        scores = tl.where(out, -float("inf"), scores)
        weights = tl.zeros((SIDE, SIDE), tl.float32)
        if ROWS:
            log = tl.load(of_rows + i, mask=i < n, other=0.0)
            weights += tl.exp(scores - log[:, None]) * tl.load(row_grad + i, mask=i < n, other=0.0)[:, None]
        if COLUMNS:
            log = tl.load(of_columns + j, mask=j < m, other=0.0)
            weights += tl.exp(scores - log) * tl.load(column_grad + j, mask=j < m, other=0.0)
        block = tl.load(columns + j[:, None] * width + d, mask=(j < m)[:, None] & (d < width), other=0.0)
        total += _dot(weights, block, PRECISION)
    tl.store(d_rows + i[:, None] * width + d, total, mask=(i < n)[:, None] & (d < width))


def reductions(
    rows: Tensor,
    columns: Tensor | None,
    row_keys: Tensor | None,
    column_keys: Tensor | None,
    both: bool,
    bound: float | None,
    precision: str,
) -> tuple[Tensor, Tensor]:
    """Log-sum-exp of n rows and, on request, of m columns: (1, n), (1, m)."""
    bound = bound if bound is not None and 2 * bound <= SAFE else None
    if columns is None:
        columns, column_keys, both = rows, row_keys, False
    sides = (rows, row_keys, columns, column_keys)
    of_rows, sums = _walk(*sides, bound, both and bound is not None, precision)
    if not both:
        return of_rows[None], rows.new_empty(1, 0)
    if bound is not None:
        return of_rows[None], sums.log_().add_(bound)[None]
    return of_rows[None], _walk(*sides[2:], *sides[:2], None, False, precision)[0][None]


def _walk(
    rows: Tensor,
    row_keys: Tensor | None,
    columns: Tensor,
    column_keys: Tensor | None,
    bound: float | None,
    both: bool,
    precision: str,
) -> tuple[Tensor, Tensor]:
    rows, columns = rows.contiguous(), columns.contiguous()
    (n, width), m = rows.shape, columns.shape[0]
    of_rows, sums = rows.new_empty(n), rows.new_zeros(m if both else 1)
    keys = row_keys is not None and column_keys is not None
    _reduce[(triton.cdiv(n, SIDE),)](
        *(rows, columns, *_contiguous(row_keys, column_keys, keys, rows), of_rows, sums, n, m, width, bound or 0.0),
        *(keys, bound is not None, both, _depth(width), SIDE, _dot_precision(precision)),
    )
    return of_rows, sums


def gradients(
    of_rows: tuple[Tensor, Tensor],
    of_columns: tuple[Tensor, Tensor] | None,
    rows: Tensor,
    columns: Tensor | None,
    row_keys: Tensor | None,
    column_keys: Tensor | None,
    precision: str,
    need_rows: bool,
    need_columns: bool,
) -> tuple[Tensor, Tensor]:
    """Gradients of rows and columns, from the gradients and values of each side."""
    if columns is None:
        columns, column_keys, of_columns, need_columns = rows, row_keys, of_rows, False
    row_side, column_side = _finite(of_rows), None if of_columns is None else _finite(of_columns)
    left, right = (rows, row_keys, row_side), (columns, column_keys, column_side)
    none = rows.new_empty(0)
    return (
        _one_gradient(*left, *right, precision) if need_rows else none,
        _one_gradient(*right, *left, precision) if need_columns else none,
    )


def _finite(side: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
    """Rows without negatives, whose log-sum-exp is -inf, have no gradient."""
    gradient, value = (part[0].contiguous() for part in side)
    empty = torch.isneginf(value)
    return gradient.masked_fill(empty, 0), value.masked_fill(empty, 0)


def _one_gradient(
    rows: Tensor,
    row_keys: Tensor | None,
    row_side: tuple[Tensor, Tensor] | None,
    columns: Tensor,
    column_keys: Tensor | None,
    column_side: tuple[Tensor, Tensor] | None,
    precision: str,
) -> Tensor:
    rows, columns = rows.contiguous(), columns.contiguous()
    (n, width), m = rows.shape, columns.shape[0]
    d_rows, wide = torch.empty_like(rows), max(16, min(128, triton.next_power_of_2(width)))
    keys = row_keys is not None and column_keys is not None
    _gradient[(triton.cdiv(n, SIDE), triton.cdiv(width, wide))](
        *(rows, columns, *_contiguous(row_keys, column_keys, keys, rows)),
        *(row_side or (rows, rows)),
        *(column_side or (rows, rows)),
        *(d_rows, n, m, width, keys, row_side is not None, column_side is not None),
        *(_depth(width), wide, SIDE, _dot_precision(precision)),
    )
    return d_rows


def _contiguous(row_keys: Tensor | None, column_keys: Tensor | None, keys: bool, rows: Tensor) -> tuple[Tensor, Tensor]:
    if not keys or row_keys is None or column_keys is None:
        return rows, rows  # not read
    return row_keys.contiguous(), column_keys.contiguous()


def _depth(width: int) -> int:
    return max(16, min(64, triton.next_power_of_2(width)))


def _dot_precision(precision: str) -> str:
    interpreted = os.environ.get("TRITON_INTERPRET") == "1"
    return f"emulated {precision}" if interpreted and precision != "highest" else precision
