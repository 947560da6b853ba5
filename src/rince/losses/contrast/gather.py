"""The batch of all processes, with gradients.

Every process scores its own anchors against the candidates of all. The backward pass adds up what all processes want of
a candidate and hands it back to the process that owns it, so all processes have to call backward, or none: one that
does not leaves the others waiting. Local batches may differ in size.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

_alone: ContextVar[bool] = ContextVar("alone", default=False)


@contextmanager
def alone(really: bool = True) -> Iterator[None]:
    """Losses inside see the batch of this process only, as if there were no others."""
    token = _alone.set(really)
    try:
        yield
    finally:
        _alone.reset(token)


def processes() -> int:
    if _alone.get():
        return 1
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def total(value: Tensor) -> Tensor:
    """The sum of a tensor over all processes, without gradient."""
    value = value.detach().clone()
    if processes() > 1:
        dist.all_reduce(value)
    return value


def gather(embeddings: list[Tensor], integers: list[Tensor]) -> tuple[list[Tensor], list[Tensor], int]:
    """The rows of all processes in the order of their ranks, and where the rows of this process start."""
    if processes() == 1:
        return embeddings, integers, 0
    sizes = _sizes(embeddings[0])
    joined = _Gather.apply(torch.cat(embeddings, 1), sizes)  # one collective carries them all
    everything = list(joined.split([z.shape[1] for z in embeddings], 1))
    return everything, [_collect(values, sizes) for values in integers], sum(sizes[: dist.get_rank()])


def _sizes(tensor: Tensor) -> list[int]:
    own = torch.tensor([tensor.shape[0]], device=tensor.device)
    every = [torch.zeros_like(own) for _ in range(processes())]
    dist.all_gather(every, own)
    return torch.cat(every).tolist()  # at once: a GPU is waited for once, not once per process


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
