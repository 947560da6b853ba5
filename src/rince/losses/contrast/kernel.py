"""The log-sum-exp over negatives, exactly, without keeping the matrix of scores.

The matrix is walked in square tiles that fit into a core's cache; the backward pass computes the scores again instead
of remembering them. So memory grows with the batch, not with its square. A tile serves both of its sides: its rows as
anchors against its columns and, where asked, its columns as anchors against its rows. A matrix small enough to be one
tile is kept: there is nothing to save.

Entries with equal keys are left out: an anchor itself, its positive, and whatever else shares its id.
"""

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

# Up to this many scores the matrix is one tile.
DENSE = 512 * 512

# exp(score - bound) keeps full float32 precision as long as no score lies further than this below the bound, and its
# inverse leaves room for large gradients.
SAFE = 60.0


def negative_scores(rows: Tensor, columns: Tensor, row_keys: Tensor | None, column_keys: Tensor | None) -> Tensor:
    """(n, d), (m, d) -> (n,): log-sum-exp over the columns of rows @ columns.T, without those of the row's key."""
    if columns.shape[0] == 0:
        return rows.new_full((rows.shape[0],), -torch.inf)
    return _logsumexps(rows, columns, row_keys, column_keys, False)[0]


def negative_scores_both(rows: Tensor, columns: Tensor, row_keys: Tensor, column_keys: Tensor) -> tuple[Tensor, Tensor]:
    """The same for both sides, rows against columns and columns against rows, from one matrix: (n,), (m,)."""
    return _logsumexps(rows, columns, row_keys, column_keys, True)


def negative_scores_self(rows: Tensor, keys: Tensor) -> Tensor:
    """The same for rows against themselves, computing half of the symmetric matrix: (n, d) -> (n,)."""
    return _logsumexps(rows, None, keys, None, True)[0]


def logsumexp(scores: Tensor, dim: int) -> Tensor:
    """torch's, but with a zero gradient instead of NaN where nothing is left to sum."""
    top = scores.detach().amax(dim, keepdim=True).clamp_min(torch.finfo(scores.dtype).min)
    total = (scores - top).exp().sum(dim)
    nothing = total == 0
    return (total.masked_fill(nothing, 1).log() + top.squeeze(dim)).masked_fill(nothing, -torch.inf)


def transformed() -> bool:
    """Whether a transform of torch.func (grad, vmap, ...) is at work, which sees through plain operations only."""
    return not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active()


def can_look(tensor: Tensor) -> bool:
    """Whether values can be looked at for nothing: a GPU would have to wait, and a compiler has no values yet."""
    return not torch.compiler.is_compiling() and tensor.device.type == "cpu" and not transformed()


def _logsumexps(
    rows: Tensor, columns: Tensor | None, row_keys: Tensor | None, column_keys: Tensor | None, both: bool
) -> tuple[Tensor, Tensor]:
    if transformed():
        return _dense(rows, columns, row_keys, column_keys, both)
    return _tiled(rows, columns, row_keys, column_keys, both)[:2]


def _dense(
    rows: Tensor, columns: Tensor | None, row_keys: Tensor | None, column_keys: Tensor | None, both: bool
) -> tuple[Tensor, Tensor]:
    """The same in plain operations, with the whole matrix: can be differentiated as often as one likes."""
    scores = rows @ (rows if columns is None else columns).T
    others = row_keys if columns is None else column_keys
    if row_keys is not None and others is not None:
        scores = scores.masked_fill(row_keys[:, None] == others, -torch.inf)
    columns_too = both and columns is not None
    return logsumexp(scores, 1), logsumexp(scores, 0) if columns_too else rows.new_empty(0)


class _Tiles:
    """The walk over the tiles, the same forwards and backwards. ``columns=None`` means rows against themselves."""

    def __init__(
        self,
        rows: Tensor,
        columns: Tensor | None,
        row_keys: Tensor | None,
        column_keys: Tensor | None,
        kept: Tensor | None = None,
    ):
        self.symmetric = columns is None
        self.rows, self.columns = rows, rows if columns is None else columns
        self.row_keys, self.column_keys = row_keys, row_keys if columns is None else column_keys
        n, m = self.rows.shape[0], self.columns.shape[0]
        self.single = n * m <= DENSE
        self.side = max(n, m, 1) if self.single else _side(rows, min(n, m))
        self.row_ranges = [(i, min(i + self.side, n)) for i in range(0, n, self.side)]
        self.column_ranges = [(j, min(j + self.side, m)) for j in range(0, m, self.side)]
        self.kept = kept if self.single else None
        self.buffer = rows.new_empty(0 if self.kept is not None else min(n, self.side) * min(m, self.side))
        self.meets = self._meets()

        # Shifting by a bound on all scores lets both sides of a tile share one exponential. Where scores spread too
        # far for that (temperatures below 0.034) each side has to be shifted by what it holds.
        self.bound = float(_longest(rows) * _longest(self.columns))
        self.shared = 2 * self.bound <= SAFE

    def _meets(self) -> list[list[bool]]:
        """Which tiles can hold equal keys at all; the others need no mask."""
        if self.row_keys is None or self.column_keys is None:
            return [[False] * len(self.column_ranges)] * len(self.row_ranges)
        if self.single:
            return [[True] * len(self.column_ranges)] * len(self.row_ranges)
        spans = _spans(self.column_keys, self.column_ranges)
        rows = spans if self.symmetric else _spans(self.row_keys, self.row_ranges)
        return [[low <= top and bottom <= high for bottom, top in spans] for low, high in rows]

    def __iter__(self) -> Iterator[tuple[slice, slice, Tensor, bool]]:
        """Rows, columns, their tile, and whether it lies off the diagonal of a symmetric matrix.

        The tile holds exponentials over the bound where they are shared, else scores; the next one overwrites it.
        """
        for i, (row, row_end) in enumerate(self.row_ranges):
            for j, (column, column_end) in enumerate(self.column_ranges):
                if not (self.symmetric and j < i):
                    r, c = slice(row, row_end), slice(column, column_end)
                    yield r, c, self._tile(r, c, self.meets[i][j]), not (self.symmetric and i == j)

    def _tile(self, r: slice, c: slice, masked: bool) -> Tensor:
        if self.kept is not None:
            return self.kept
        n, m = r.stop - r.start, c.stop - c.start
        scores = torch.mm(self.rows[r], self.columns[c].T, out=self.buffer[: n * m].view(n, m))
        if masked:
            assert self.row_keys is not None and self.column_keys is not None
            scores.masked_fill_(self.row_keys[r, None] == self.column_keys[c], -torch.inf)
        return scores.sub_(self.bound).exp_() if self.shared else scores


def _longest(rows: Tensor) -> Tensor:
    return rows.norm(dim=1).amax() if len(rows) else rows.new_zeros(())


def _side(rows: Tensor, shorter: int) -> int:
    if rows.device.type != "cpu":
        return 4096
    return 256 if shorter <= 1024 else 512


def _spans(keys: Tensor, ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Lowest and highest key of each range."""
    ends = torch.stack([torch.stack(keys[start:end].aminmax()) for start, end in ranges])
    return [(low, high) for low, high in ends.tolist()]


# Registered with the dispatcher by hand: torch.library.custom_op would import the whole compiler at the first call.
_LIBRARY = torch.library.Library("rince", "DEF")
_LIBRARY.define(
    "tiled_logsumexp(Tensor rows, Tensor? columns, Tensor? row_keys, Tensor? column_keys, bool both) "
    "-> (Tensor row_lse, Tensor column_lse, Tensor kept)"
)
_LIBRARY.define(
    "tiled_logsumexp_backward(Tensor row_grad, Tensor column_grad, Tensor rows, Tensor? columns, Tensor? row_keys, "
    "Tensor? column_keys, Tensor row_lse, Tensor column_lse, Tensor kept, bool both, bool need_rows, "
    "bool need_columns) -> (Tensor d_rows, Tensor d_columns)"
)
_tiled = torch.ops.rince.tiled_logsumexp.default
_tiled_backward = torch.ops.rince.tiled_logsumexp_backward.default


@torch.library.impl(_LIBRARY, "tiled_logsumexp", "CompositeExplicitAutograd")
def _forward_over_tiles(
    rows: Tensor, columns: Tensor | None, row_keys: Tensor | None, column_keys: Tensor | None, both: bool
) -> tuple[Tensor, Tensor, Tensor]:
    tiles = _Tiles(rows, columns, row_keys, column_keys)
    empty = 0.0 if tiles.shared else -torch.inf
    row_total = rows.new_full((rows.shape[0],), empty)
    column_total = row_total if columns is None else columns.new_full((columns.shape[0] if both else 0,), empty)
    for r, c, tile, off_diagonal in tiles:
        sides = [(row_total, r, 1), (column_total, c, 0)] if both and off_diagonal else [(row_total, r, 1)]
        for totals, where, dim in sides:
            if tiles.shared:
                totals[where] += tile.sum(dim)
            else:
                totals[where] = torch.logaddexp(totals[where], tile.logsumexp(dim))
    if tiles.shared:
        row_total.log_().add_(tiles.bound)
        if columns is not None:
            column_total.log_().add_(tiles.bound)
    kept = tiles.buffer.view(rows.shape[0], tiles.columns.shape[0]) if tiles.single else rows.new_empty(0)
    return row_total, rows.new_empty(0) if columns is None else column_total, kept


@torch.library.register_fake("rince::tiled_logsumexp", lib=_LIBRARY)
def _(
    rows: Tensor, columns: Tensor | None, row_keys: Tensor | None, column_keys: Tensor | None, both: bool
) -> tuple[Tensor, Tensor, Tensor]:
    n, m = rows.shape[0], (rows if columns is None else columns).shape[0]
    other = m if both and columns is not None else 0
    return rows.new_empty(n), rows.new_empty(other), rows.new_empty((n, m) if n * m <= DENSE else 0)


@torch.library.impl(_LIBRARY, "tiled_logsumexp_backward", "CompositeExplicitAutograd")
def _backward_over_tiles(
    row_grad: Tensor,
    column_grad: Tensor,
    rows: Tensor,
    columns: Tensor | None,
    row_keys: Tensor | None,
    column_keys: Tensor | None,
    row_lse: Tensor,
    column_lse: Tensor,
    kept: Tensor,
    both: bool,
    need_rows: bool,
    need_columns: bool,
) -> tuple[Tensor, Tensor]:
    tiles = _Tiles(rows, columns, row_keys, column_keys, kept)
    d_rows = torch.zeros_like(rows) if need_rows else rows.new_empty(0)
    if columns is None:
        d_columns, column_grad, column_lse = d_rows, row_grad, row_lse
    else:
        d_columns = torch.zeros_like(columns) if need_columns else rows.new_empty(0)
    # An anchor without negatives (-inf) has nothing to pull on.
    row_lse, column_lse = (lse.masked_fill(torch.isneginf(lse), torch.inf) for lse in (row_lse, column_lse))
    if tiles.shared:
        row_grad, column_grad = row_grad * (tiles.bound - row_lse).exp(), column_grad * (tiles.bound - column_lse).exp()
    scratch = None
    for r, c, tile, off_diagonal in tiles:
        scratch = torch.empty_like(tile) if scratch is None else scratch
        weights = scratch.flatten()[: tile.numel()].view(tile.shape)
        if not tiles.shared:
            torch.sub(tile, row_lse[r, None], out=weights).exp_().mul_(row_grad[r, None])
            if both:
                weights += (tile - column_lse[c]).exp_().mul_(column_grad[c])
        elif both:
            torch.add(row_grad[r, None], column_grad[c], out=weights).mul_(tile)
        else:
            torch.mul(tile, row_grad[r, None], out=weights)
        if need_rows:
            d_rows[r].addmm_(weights, tiles.columns[c])
        if need_columns and off_diagonal:  # on the diagonal rows and columns are the same, and both have had their part
            d_columns[c].addmm_(weights.T, rows[r])
    return d_rows, rows.new_empty(0) if columns is None else d_columns


@torch.library.register_fake("rince::tiled_logsumexp_backward", lib=_LIBRARY)
def _(
    row_grad: Tensor, column_grad: Tensor, rows: Tensor, columns: Tensor | None, *others: Any
) -> tuple[Tensor, Tensor]:
    *_, need_rows, need_columns = others
    d_columns = torch.empty_like(columns) if need_columns and columns is not None else rows.new_empty(0)
    return torch.empty_like(rows) if need_rows else rows.new_empty(0), d_columns


def _setup(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, Tensor, Tensor]) -> None:
    rows, columns, row_keys, column_keys, ctx.both = inputs
    ctx.save_for_backward(rows, columns, row_keys, column_keys, *output)


def _backward(ctx: Any, row_grad: Tensor, column_grad: Tensor, _: Tensor) -> tuple[Tensor | None, ...]:
    need_rows, need_columns = ctx.needs_input_grad[:2]
    if torch.is_grad_enabled() and not torch.compiler.is_compiling():  # create_graph=True: this is differentiated, too
        return _differentiable_backward(ctx, row_grad, column_grad)
    alone = ctx.saved_tensors[1] is None
    d_rows, d_columns = _tiled_backward(
        row_grad, column_grad, *ctx.saved_tensors, ctx.both, need_rows, need_rows if alone else need_columns
    )
    return d_rows if need_rows else None, d_columns if need_columns and not alone else None, None, None, None


def _differentiable_backward(ctx: Any, row_grad: Tensor, column_grad: Tensor) -> tuple[Tensor | None, ...]:
    rows, columns, row_keys, column_keys, *_ = ctx.saved_tensors
    row_lse, column_lse = _dense(rows, columns, row_keys, column_keys, ctx.both)
    values, gradients = [row_lse], [row_grad]
    if len(column_lse):
        values, gradients = [row_lse, column_lse], [row_grad, column_grad]
    wanted = [z for z, need in zip((rows, columns), ctx.needs_input_grad, strict=False) if need]
    found = iter(torch.autograd.grad(values, wanted, gradients, create_graph=True))
    return (*(next(found) if need else None for need in ctx.needs_input_grad[:2]), None, None, None)


torch.library.register_autograd("rince::tiled_logsumexp", _backward, setup_context=_setup, lib=_LIBRARY)
