"""The batch of all processes, with gradients.

Every process scores its own anchors against the candidates of all. The backward pass adds up what all processes want of
a candidate and hands it back to the process that owns it, so all processes have to call backward, or none: one that
does not leaves the others waiting. Local batches may differ in size.
"""

from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from rince.losses.contrast.agreement import agree, alone, processes

__all__ = ["Gathered", "alone", "gather", "processes", "total"]


def total(value: Tensor) -> Tensor:
    """The sum of a tensor over all processes, without gradient."""
    value = value.detach().clone()
    if processes() > 1:
        dist.all_reduce(value)
    return value


class Gathered(NamedTuple):
    """The rows of all processes in the order of their ranks, and where those of this process start."""

    embeddings: list[Tensor]
    ids: Tensor | None
    labels: Tensor | None
    start: int


def gather(
    embeddings: list[Tensor], ids: Tensor | None = None, labels: Tensor | None = None, sizes: list[int] | None = None
) -> Gathered:
    """The batch of all processes; ``sizes`` are the numbers of pairs, where the processes have agreed on them already.

    Raises:
        UsageError: on all processes, if they differ in what only makes sense together (``agree``).
    """
    if processes() == 1:
        return Gathered(embeddings, ids, labels, 0)
    sizes = agree(embeddings, ids, labels) if sizes is None else sizes
    joined = _Gather.apply(torch.cat(embeddings, 1), sizes)  # one collective carries them all
    everything = list(joined.split([z.shape[1] for z in embeddings], 1))
    ids, labels = (None if values is None else _collect(values, sizes) for values in (ids, labels))
    return Gathered(everything, ids, labels, sum(sizes[: dist.get_rank()]))


def _padded(tensor: Tensor, rows: int) -> Tensor:
    padded = tensor.new_zeros((rows, *tensor.shape[1:]))
    padded[: tensor.shape[0]] = tensor
    return padded


def _collect(tensor: Tensor, sizes: list[int]) -> Tensor:
    every = [tensor.new_empty((max(sizes), *tensor.shape[1:])) for _ in sizes]
    dist.all_gather(every, _padded(tensor, max(sizes)))
    return torch.cat([part[:size] for part, size in zip(every, sizes, strict=True)])


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, sizes: list[int]) -> Tensor:
        ctx.sizes = sizes
        return _collect(tensor, sizes)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        if torch.is_grad_enabled():  # what the processes exchange below has no gradient of its own
            raise RuntimeError("gradients of gradients (create_graph=True) go through the loss on one process only")
        rank, sizes = dist.get_rank(), ctx.sizes
        if dist.get_backend() == "nccl":
            parts = torch.cat([_padded(part, max(sizes)) for part in gradient.split(sizes)])
            own = parts.new_empty((max(sizes), *parts.shape[1:]))
            dist.reduce_scatter_tensor(own, parts)
            return own[: sizes[rank]], None
        gradient = gradient.contiguous().clone()
        dist.all_reduce(gradient)
        return gradient.split(sizes)[rank], None
