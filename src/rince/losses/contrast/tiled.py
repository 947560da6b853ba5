"""The operator behind the kernel: forward and backward pass over the tiles, as torch's dispatcher wants them."""

from typing import Any

import torch
from torch import Tensor

from rince.losses.contrast import tilted
from rince.losses.contrast.dense import dense_reductions
from rince.losses.contrast.tiles import DENSE, Tiles, powers

# Registered with the dispatcher by hand: torch.library.custom_op would import the whole compiler at the first call.
_LIBRARY = torch.library.Library("rince", "DEF")
_INPUTS = (
    "Tensor rows, Tensor? columns, Tensor? row_keys, Tensor? column_keys, Tensor? shift, "
    "str kind, float beta, bool diagonal, bool both, float? bound"
)
_LIBRARY.define(f"tiled({_INPUTS}) -> (Tensor of_rows, Tensor of_columns, Tensor kept)")
_LIBRARY.define(
    f"tiled_backward(Tensor row_grad, Tensor column_grad, Tensor of_rows, Tensor of_columns, Tensor kept, {_INPUTS}, "
    "bool need_rows, bool need_columns) -> (Tensor d_rows, Tensor d_columns, Tensor d_shift)"
)
tiled = torch.ops.rince.tiled.default
tiled_backward = torch.ops.rince.tiled_backward.default


@torch.library.impl(_LIBRARY, "tiled", "CompositeExplicitAutograd")
def _forward_over_tiles(
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
) -> tuple[Tensor, Tensor, Tensor]:
    tiles = Tiles(rows, columns, row_keys, column_keys, kind, beta, shift, diagonal, bound)
    row_totals = _start(tiles, rows.shape[0])
    column_totals = row_totals if columns is None else _start(tiles, columns.shape[0] if both else 0)
    for r, c, tile, off_diagonal in tiles:
        sides = [(row_totals, r, 1), (column_totals, c, 0)] if both and off_diagonal else [(row_totals, r, 1)]
        if tiles.tilted_apart:
            for totals, where, dim in sides:
                tilted.add_tile(tiles, tile, totals, where, dim)
            continue
        for k, matrix in tiles.terms(tile, r, c):
            power = tiles.powers[k]
            for totals, where, dim in sides:
                if tiles.shared or power is None:
                    totals[k, where] += matrix.sum(dim)
                else:
                    totals[k, where] = torch.logaddexp(totals[k, where], matrix.logsumexp(dim))
    if tiles.shared:
        for totals in (row_totals,) if columns is None else (row_totals, column_totals):
            for total, power in zip(totals, tiles.powers, strict=True):
                if power is not None:
                    total.log_().add_(power * tiles.bound)
    kept = tiles.buffer.view(rows.shape[0], tiles.columns.shape[0]) if tiles.single else rows.new_empty(0)
    return row_totals, row_totals.new_empty(len(tiles.powers), 0) if columns is None else column_totals, kept


def _start(tiles: Tiles, number: int) -> Tensor:
    totals = tiles.rows.new_zeros(len(tiles.powers), number, dtype=_totals_dtype(tiles.rows, tiles.kind))
    for total, power in zip(totals, tiles.powers, strict=True):
        if power is not None and not tiles.shared:
            total.fill_(-torch.inf)
    return totals


def _totals_dtype(rows: Tensor, kind: str) -> torch.dtype:
    """Of ``"tilted"``, the difference of two large totals is wanted: in float32 it would lose what debiasing needs."""
    return torch.float64 if kind == "tilted" and rows.device.type != "mps" else rows.dtype  # mps has no float64


@torch.library.register_fake("rince::tiled", lib=_LIBRARY)
def _(
    rows: Tensor, columns: Tensor | None, row_keys: Any, column_keys: Any, shift: Any, *settings: Any
) -> tuple[Tensor, Tensor, Tensor]:
    kind, beta, _, both, _ = settings
    n, m, k = rows.shape[0], (rows if columns is None else columns).shape[0], len(powers(kind, beta))
    other, dtype = m if both and columns is not None else 0, _totals_dtype(rows, kind)
    kept = rows.new_empty((n, m) if n * m <= DENSE else 0)
    return rows.new_empty(k, n, dtype=dtype), rows.new_empty(k, other, dtype=dtype), kept


@torch.library.impl(_LIBRARY, "tiled_backward", "CompositeExplicitAutograd")
def _backward_over_tiles(
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
    need_rows: bool,
    need_columns: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    tiles = Tiles(rows, columns, row_keys, column_keys, kind, beta, shift, diagonal, bound, kept)
    d_rows = torch.zeros_like(rows) if need_rows else rows.new_empty(0)
    d_shift = rows.new_zeros((), dtype=torch.float64)
    if columns is None:
        d_columns, column_grad, of_columns = d_rows, row_grad, of_rows
    else:
        d_columns = torch.zeros_like(columns) if need_columns else rows.new_empty(0)
    kind_of_pulls = tilted.Pulls if tiles.tilted_apart else _Pulls
    pulls = kind_of_pulls(tiles, (row_grad, of_rows), (column_grad, of_columns) if both else None)
    largest = kept.numel() if tiles.kept is not None else tiles.buffer.numel()
    scratch = [rows.new_empty(largest) for _ in tiles.powers[:2]]  # weights, and the part of one more term
    for r, c, tile, off_diagonal in tiles:
        weights, slopes = pulls.weights(tile, r, c, [part[: tile.numel()].view(tile.shape) for part in scratch])
        if slopes is not None:  # both sides of a symmetric tile on the diagonal are the same pairs
            d_shift += slopes * (1.0 if off_diagonal else 0.5)
        if need_rows:
            d_rows[r].addmm_(weights, tiles.columns[c])
        if need_columns and off_diagonal:  # on the diagonal rows and columns are the same, and both have had their part
            d_columns[c].addmm_(weights.T, rows[r])
    return d_rows, rows.new_empty(0) if columns is None else d_columns, d_shift.to(rows.dtype)


Side = tuple[Tensor, Tensor]
"""Gradients of the reductions of one side, and their values."""


class _Pulls:
    """What the gradients of all reductions do to the scores of a tile."""

    def __init__(self, tiles: Tiles, of_rows: Side, of_columns: Side | None):
        self.tiles = tiles
        self.rows = self._factors(*of_rows)
        self.columns = None if of_columns is None else self._factors(*of_columns)

    def _factors(self, gradients: Tensor, values: Tensor) -> list[tuple[Tensor, Tensor]]:
        """What the terms of a tile are multiplied by, and the negative of their log-sum-exp, to add to them first."""
        found, tiles = [], self.tiles
        for gradient, value, power in zip(gradients, values, tiles.powers, strict=True):
            if power is None:
                found.append((gradient, value))
                continue
            value = value.masked_fill(torch.isneginf(value), torch.inf)  # an anchor without negatives pulls on nothing
            pull = gradient * (power * tiles.bound - value).exp() if tiles.shared else gradient
            found.append(((pull if power == 1 else pull * power).to(tiles.rows.dtype), -value.to(tiles.rows.dtype)))
        return found

    def weights(self, tile: Tensor, r: slice, c: slice, places: list[Tensor]) -> tuple[Tensor, Tensor | None]:
        """The gradient of every score, in the first of the places, and the sum of a plain sum's where there is one."""
        tiles, slopes = self.tiles, None
        for k, matrix in tiles.terms(tile, r, c, slopes=True):
            term, (pull, log) = places[1 if k else 0], self.rows[k]
            if tiles.shared or tiles.powers[k] is None:
                if self.columns is not None:
                    torch.add(pull[r, None], self.columns[k][0][c], out=term).mul_(matrix)
                else:
                    torch.mul(matrix, pull[r, None], out=term)
            else:
                torch.add(log[r, None], matrix, out=term).exp_().mul_(pull[r, None])
                if self.columns is not None:
                    term += torch.add(self.columns[k][1][c], matrix).exp_().mul_(self.columns[k][0][c])
            if k > 0:
                places[0] += term
                if tiles.powers[k] is None:
                    slopes = term.sum(dtype=torch.float64)
        return places[0], slopes


@torch.library.register_fake("rince::tiled_backward", lib=_LIBRARY)
def _(
    row_grad: Tensor, column_grad: Tensor, of_rows: Tensor, of_columns: Tensor, kept: Tensor, *inputs: Any
) -> tuple[Tensor, Tensor, Tensor]:
    rows, columns, *_, need_rows, need_columns = inputs
    d_columns = torch.empty_like(columns) if need_columns and columns is not None else rows.new_empty(0)
    return torch.empty_like(rows) if need_rows else rows.new_empty(0), d_columns, rows.new_empty(())


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    *tensors, ctx.kind, ctx.beta, ctx.diagonal, ctx.both, ctx.bound = inputs
    ctx.save_for_backward(*output, *tensors)


def _backward(ctx: Any, row_grad: Tensor, column_grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    need_rows, need_columns, _, _, need_shift, *_ = ctx.needs_input_grad
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():  # create_graph=True: this is differentiated, too
        return _differentiable_backward(ctx, row_grad, column_grad)
    alone = ctx.saved_tensors[4] is None
    settings = ctx.kind, ctx.beta, ctx.diagonal, ctx.both, ctx.bound
    d_rows, d_columns, d_shift = tiled_backward(
        row_grad, column_grad, *ctx.saved_tensors, *settings, need_rows, need_rows if alone else need_columns
    )
    d_columns = d_columns if need_columns and not alone else None
    return d_rows if need_rows else None, d_columns, None, None, d_shift if need_shift else None, *[None] * 5


def _differentiable_backward(ctx: Any, row_grad: Tensor, column_grad: Tensor) -> tuple[Tensor | None, ...]:
    needs = ctx.needs_input_grad[:5]
    # Views, so that the gradient stops here: where the columns are a function of the rows, it would count both ways.
    inputs = [z.view_as(z) if need else z for z, need in zip(ctx.saved_tensors[3:], needs, strict=True)]
    rows, columns, row_keys, column_keys, shift = inputs
    of_rows, of_columns = dense_reductions(
        rows, columns, row_keys, column_keys, shift, ctx.kind, ctx.beta, ctx.diagonal, ctx.both
    )
    values, gradients = [of_rows], [row_grad]
    if of_columns.numel():
        values, gradients = [of_rows, of_columns], [row_grad, column_grad]
    wanted = [z for z, need in zip(inputs, needs, strict=True) if need]
    found = iter(torch.autograd.grad(values, wanted, gradients, create_graph=True))
    return *(next(found) if need else None for need in needs), *[None] * 5


torch.library.register_autograd("rince::tiled", _backward, setup_context=_setup, lib=_LIBRARY)
