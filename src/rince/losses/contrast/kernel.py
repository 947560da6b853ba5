"""The log-sum-exp over negatives, exactly, without keeping the matrix of scores.

The matrix is walked in square tiles that fit into a core's cache; the backward pass computes the scores again instead
of remembering them. So memory grows with the batch, not with its square. A tile serves both of its sides: its rows as
anchors against its columns and, where asked, its columns as anchors against its rows. A matrix small enough to be one
tile is kept: there is nothing to save. A second reduction (``Second``) is taken in the same walk.

Entries with equal keys are left out: an anchor itself, its positive, and whatever else shares its id.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from rince.losses.contrast.dense import dense_reductions
from rince.losses.contrast.scores import Second
from rince.losses.contrast.tiled import tiled


class Negatives(NamedTuple):
    """What is left of the negatives of every anchor: their log-sum-exp, and the second reduction if one was asked."""

    lse: Tensor
    second: Tensor | None = None


def negative_scores(
    rows: Tensor,
    columns: Tensor,
    row_keys: Tensor | None,
    column_keys: Tensor | None,
    second: Second | None = None,
    diagonal: bool = False,
    bound: float | None = None,
) -> Negatives:
    """(n, d), (m, d) -> (n,): log-sum-exp over the columns of rows @ columns.T, without those of the row's key.

    ``diagonal`` says that column i is row i itself, which then stays out of its own bag; ``bound`` that no score is
    larger, up to rounding, nor smaller than its negative. Without it, a CPU looks for one; a GPU would have to wait.
    """
    if columns.shape[0] == 0:
        zeros = 0 * rows.sum(1)  # with the graph of the rows: an objective may look at nothing else
        nothing = zeros.masked_fill(torch.ones_like(zeros, dtype=torch.bool), -torch.inf)
        if second is None:
            return Negatives(nothing)
        return Negatives(nothing, zeros if second.kind == "softplus" else nothing)
    return _finish(_reduce(rows, columns, row_keys, column_keys, False, second, diagonal, bound)[0], second, rows)


def negative_scores_both(
    rows: Tensor,
    columns: Tensor,
    row_keys: Tensor,
    column_keys: Tensor,
    second: Second | None = None,
    bound: float | None = None,
) -> tuple[Negatives, Negatives]:
    """The same for both sides, rows against columns and columns against rows, from one matrix: (n,), (m,)."""
    of_rows, of_columns = _reduce(rows, columns, row_keys, column_keys, True, second, bound=bound)
    return _finish(of_rows, second, rows), _finish(of_columns, second, rows)


def negative_scores_self(
    rows: Tensor, keys: Tensor, second: Second | None = None, bound: float | None = None
) -> Negatives:
    """The same for rows against themselves, computing half of the symmetric matrix: (n, d) -> (n,)."""
    return _finish(_reduce(rows, None, keys, None, True, second, bound=bound)[0], second, rows)


def joined(*parts: Negatives) -> Negatives:
    """Anchors of several parts after each other."""
    seconds = [part.second for part in parts if part.second is not None]
    return Negatives(torch.cat([part.lse for part in parts]), torch.cat(seconds) if seconds else None)


def transformed() -> bool:
    """Whether a transform of torch.func (grad, vmap, ...) is at work, which sees through plain operations only."""
    return not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active()


def can_look(tensor: Tensor) -> bool:
    """Whether values can be looked at for nothing: a GPU would have to wait, and a compiler has no values yet."""
    return not torch.compiler.is_compiling() and tensor.device.type == "cpu" and not transformed()


def _finish(values: Tensor, second: Second | None, rows: Tensor) -> Negatives:
    if second is None:
        return Negatives(values[0])
    if second.kind != "tilted":
        return Negatives(values[0], values[1])
    nothing = torch.isneginf(values[0].detach())
    mean = (values[2] - values[1]).masked_fill(nothing, -torch.inf)
    return Negatives(values[0].to(rows.dtype), mean.to(rows.dtype))


def _reduce(
    rows: Tensor,
    columns: Tensor | None,
    row_keys: Tensor | None,
    column_keys: Tensor | None,
    both: bool,
    second: Second | None = None,
    diagonal: bool = False,
    bound: float | None = None,
) -> tuple[Tensor, Tensor]:
    """One line per reduction, one value per row (and per column): (k, n), (k, m)."""
    kind, beta, shift = ("", 0.0, None) if second is None else second
    if shift is not None:
        shift = shift.to(rows.dtype)
    arguments = (rows, columns, row_keys, column_keys, shift, kind, beta, diagonal, both)
    return dense_reductions(*arguments) if transformed() else tiled(*arguments, bound)[:2]
