"""Reductions over the candidates of all ranks, which pass around a ring instead of being gathered.

Each rank holds its own candidates and those of one other rank at a time: after as many steps as there are ranks, all
anchors have been compared with all candidates. The backward pass sends candidates around again, together with their
gradients, which arrive at their owner complete. Values and gradients equal those of ``ranks.gather``.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from rince.losses.blocks import powers
from rince.losses.logsumexp import Negatives, finish, reductions, reductions_backward
from rince.losses.objectives import ExtraReduction


class _Settings(NamedTuple):
    sizes: list[int]
    views: int
    kind: str
    beta: float
    diagonal: bool
    bound: float | None
    precision: str


def ring_negative_scores(
    rows: Tensor,
    columns: Tensor,
    row_keys: Tensor,
    column_keys: Tensor,
    sizes: list[int],
    views: int,
    extra: ExtraReduction | None = None,
    diagonal: bool = False,
    bound: float | None = None,
    precision: str = "highest",
) -> Negatives:
    """``negative_scores`` against the columns of all ranks.

    Args:
        rows: (n, d) anchors of this rank.
        columns: (views * pairs, d) candidates of this rank, view by view.
        row_keys: n integers.
        column_keys: One integer per pair of every rank, in the order of the ranks.
        sizes: Number of pairs of every rank.
        views: Number of candidates per pair.
        extra: One more reduction.
        diagonal: Whether own column i is row i itself.
        bound: Upper bound of the absolute scores; ``None`` if unknown.
        precision: Precision of the products.
    """
    kind, beta, shift = ("", 0.0, None) if extra is None else extra
    shift = None if shift is None else shift.to(rows.dtype)
    settings = _Settings(sizes, views, kind, beta, diagonal, bound, precision)
    values = _Ring.apply(rows, columns, row_keys, column_keys, shift, settings)
    return finish(values, extra, rows)


class _Ring(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        rows: Tensor,
        columns: Tensor,
        row_keys: Tensor,
        column_keys: Tensor,
        shift: Tensor | None,
        settings: _Settings,
    ) -> Tensor:
        parts: list[Tensor] = []
        for (block,), keys, own in _circulate([columns], column_keys, settings):
            inputs = rows, block, row_keys, keys, shift, settings.kind, settings.beta, settings.diagonal and own
            part, *_ = reductions(*inputs, False, settings.bound, settings.precision)
            parts = [_joined(parts[0], part, settings) if parts else part]
        ctx.settings = settings
        ctx.save_for_backward(*parts, rows, columns, row_keys, column_keys, shift)
        return parts[0]

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise RuntimeError("second derivatives (create_graph=True) are supported on one rank only")
        values, rows, columns, row_keys, column_keys, shift = ctx.saved_tensors
        settings, none = ctx.settings, gradient.new_empty(len(gradient), 0)
        d_rows, d_shift = torch.zeros_like(rows), torch.zeros((), dtype=rows.dtype, device=rows.device)
        d_columns = torch.zeros_like(columns)
        for (block, d_block), keys, own in _circulate([columns, d_columns], column_keys, settings, home=1):
            inputs = rows, block, row_keys, keys, shift, settings.kind, settings.beta, settings.diagonal and own
            of_rows, of_block, of_shift = reductions_backward(
                *(gradient, none, values, none, rows.new_empty(0)),
                *(*inputs, False, settings.bound, settings.precision, True, True),
            )
            d_rows += of_rows
            d_block += of_block
            d_shift += of_shift
        return d_rows, d_columns, None, None, d_shift if shift is not None else None, None


def _joined(values: Tensor, part: Tensor, settings: _Settings) -> Tensor:
    """Reductions over the columns of both parts."""
    parts = zip(values, part, powers(settings.kind, settings.beta), strict=True)
    return torch.stack([a + b if power is None else torch.logaddexp(a, b) for a, b, power in parts])


def _circulate(
    parts: list[Tensor], column_keys: Tensor, settings: _Settings, home: int = 0
) -> Iterator[tuple[list[Tensor], Tensor, bool]]:
    """The parts of every rank in turn, starting with the own ones; their keys; and whether they are the own ones.

    Changes to the last ``home`` parts travel with them, and end up in the tensors of their owner.
    """
    sizes, rank, world = settings.sizes, dist.get_rank(), dist.get_world_size()
    keys, views, rows = column_keys.split(sizes), settings.views, settings.views * max(1, *sizes)
    buffers = [torch.cat([part, part.new_zeros(rows - len(part), part.shape[1])]) for part in parts]
    for step in range(world):
        source = (rank - step) % world
        current = [part[: views * sizes[source]] for part in buffers]
        moving = len(buffers) - home if step < world - 1 else 0
        arriving, done = _exchange(buffers[:moving])  # while the block is computed
        yield current, keys[source].repeat(views), step == 0
        changed, other_done = _exchange(buffers[len(buffers) - home :])
        for request in (*done, *other_done):
            request.wait()
        buffers = [*(arriving or buffers[: len(buffers) - home]), *changed]
    for part, arrived in zip(parts[len(parts) - home :], buffers[len(buffers) - home :], strict=True):
        part.copy_(arrived[: len(part)])


def _exchange(tensors: list[Tensor]) -> tuple[list[Tensor], list[Any]]:
    """Send to the next rank and receive from the previous one. Received tensors are valid after the requests."""
    if not tensors:
        return [], []
    rank, world = dist.get_rank(), dist.get_world_size()
    arriving = [torch.empty_like(tensor) for tensor in tensors]
    operations = [dist.P2POp(dist.isend, tensor, (rank + 1) % world) for tensor in tensors]
    operations += [dist.P2POp(dist.irecv, tensor, (rank - 1) % world) for tensor in arriving]
    return arriving, dist.batch_isend_irecv(operations)
