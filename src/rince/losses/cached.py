"""Gradient caching: the gradient of a large batch in the memory of a small one.

A contrastive loss needs the embeddings of the whole batch, but an encoder does not need the batch at once. So the
batch is encoded chunk by chunk without a graph, the loss is taken over all embeddings, and the backward pass encodes
every chunk once more, this time with a graph, and hands it its part of the gradient of the embeddings. Nothing is
approximated: random numbers, autocast, modes and buffers of the second pass are those of the first.

Gao et al., 2021, Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup.
"""

import numbers
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from rince.errors import UsageError
from rince.losses.replayed_inputs import Inputs, arguments, rows_of
from rince.losses.replayed_state import (
    autocast_state,
    buffers_of,
    modes_of,
    random_state,
    restore,
    set_modes,
    set_random_state,
)

Encoder = nn.Module | Callable[..., Tensor]


def cached(
    loss: Callable[..., Tensor], encoders: Encoder | Sequence[Encoder], inputs: Sequence[Any], chunk: int, **given: Any
) -> Tensor:
    """The loss of a batch that is encoded chunk by chunk; its gradient is that of the whole batch.

    Memory grows with the batch by its embeddings and their gradient alone; time grows by one more forward pass.

    Args:
        loss: Called with the embeddings of every input: ``rince.RINCE()``, or any function of whole batches.
        encoders: One encoder for all inputs, or one per input: modules, ``DistributedDataParallel`` included, or
            methods of modules such as ``model.encode_image``.
        inputs: What the encoders take, one entry per side of the pairs: a tensor, a list, a tuple of arguments or a
            mapping of keyword arguments, all with one row per pair. Tensors of one number, and what is neither tensor
            nor list, stay whole. Leave tensors as they are until ``backward``, which encodes them again.
        chunk: Rows that are encoded at a time.
        **given: Passed on to the loss, such as ``labels``, ``ids`` and ``weights``.

    Returns:
        What the loss returns. Call ``backward`` on it as ever.

    Raises:
        UsageError: For a chunk below 1, inputs of different lengths, encoders that are no modules, or tensors inside
            of lists and the like that want a gradient.

    Layers that look at the whole batch, such as batch normalisation, see chunks. Under ``DistributedDataParallel``
    gradients are exchanged once per backward pass, and not at all inside ``no_sync``. Encoders whose parameters are
    sharded (FSDP) are refused.

    Example:
        >>> encoder = nn.Linear(8, 4)
        >>> value = cached(rince.RINCE(), encoder, (torch.randn(64, 8), torch.randn(64, 8)), chunk=16)
        >>> value.backward()
    """
    if isinstance(inputs, (Tensor, Mapping, str)):
        raise UsageError(f"inputs must hold one entry per side of the pairs, got one {type(inputs).__name__}")
    inputs = list(inputs)
    several = isinstance(encoders, (Sequence, nn.ModuleList))
    every: list[Any] = list(encoders) if several else [encoders] * len(inputs)  # type: ignore[arg-type]
    if len(every) != len(inputs):
        raise UsageError(f"there must be one encoder per input, or one for all: got {len(every)} for {len(inputs)}")
    return loss(*(encode(encoder, items, chunk) for encoder, items in zip(every, inputs, strict=True)), **given)


def encode(encoder: Encoder, inputs: Any, chunk: int) -> Tensor:
    """The embeddings of ``inputs`` with a gradient, keeping the activations of one chunk at a time.

    Args:
        encoder: As in ``cached``.
        inputs: As one entry of ``inputs`` in ``cached``.
        chunk: Rows that are encoded at a time.

    Returns:
        The embeddings of all rows.
    """
    if not isinstance(chunk, numbers.Integral) or isinstance(chunk, bool) or chunk < 1:
        raise UsageError(f"chunk must be a whole number of at least 1, got {chunk!r}")
    if isinstance(encoder, DistributedDataParallel):
        return _through_ddp(encoder, inputs, int(chunk))
    return _encode(encoder, _owner(encoder), inputs, int(chunk))


def _encode(encoder: Callable[..., Tensor], owner: nn.Module, inputs: Any, chunk: int) -> Tensor:
    parts = Inputs(inputs)
    parameters = [p for p in owner.parameters() if p.requires_grad]
    wanted = [*parameters, *(x for x in parts.tensors if x.requires_grad)]
    if torch.is_grad_enabled():
        parts.refuse_gradients_inside()
    if not torch.is_grad_enabled() or not wanted:
        ranges = _ranges(len(parts), chunk)
        return _stacked((_embedding(parts.call(encoder, rows), rows) for rows in ranges), ranges)
    return _Cached.apply(_Replay(encoder, owner, parts, chunk, len(parameters)), *wanted)


class _Through(nn.Module):
    """Stands in for the module inside DistributedDataParallel while a batch goes through it chunk by chunk."""

    def __init__(self, module: nn.Module, chunk: int):
        super().__init__()
        object.__setattr__(self, "encoder", module)  # its parameters belong to the wrapper as before
        self.chunk = chunk

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        module: Any = self.encoder
        return _encode(module, module, kwargs if kwargs else args, self.chunk)


def _through_ddp(encoder: DistributedDataParallel, inputs: Any, chunk: int) -> Tensor:
    # For the wrapper this is one forward pass and one backward pass: buffers are synchronised once, gradients are
    # exchanged once, and its own ``no_sync`` means what it always means.
    module = encoder.module
    args, kwargs = arguments(inputs)
    encoder.module = _Through(module, chunk)
    try:
        return encoder(*args, **kwargs)
    finally:
        encoder.module = module


class _Replay:
    """How a batch was encoded, so that every chunk can be encoded again in the very same way."""

    def __init__(self, encoder: Callable[..., Tensor], owner: nn.Module, parts: Inputs, chunk: int, parameters: int):
        self.encoder, self.owner, self.parts, self.parameters = encoder, owner, parts, parameters
        self.ranges = _ranges(len(parts), chunk)
        self.devices = sorted({p.device for p in (*owner.parameters(), *parts.tensors)}, key=str)
        self.autocast = [autocast_state(kind) for kind in sorted({"cpu", *(d.type for d in self.devices)})]
        self.modes, self.buffers = modes_of(owner), buffers_of(owner)
        self.states: list[Tensor] = []

    def first(self) -> Tensor:
        return _stacked(self._chunks(), self.ranges)

    def _chunks(self) -> Iterator[Tensor]:
        for i, rows in enumerate(self.ranges):
            state = random_state(self.devices)
            if not self.states:
                self.states = [s.new_empty((len(self.ranges), *s.shape)) for s in state]
            for every, s in zip(self.states, state, strict=True):
                every[i] = s
            with self.like_then():
                yield _embedding(self.parts.call(self.encoder, rows), rows)

    def again(self, gradient: Tensor, wanted: Sequence[Tensor]) -> list[Tensor | None]:
        """The gradient of every wanted tensor: parameters first, then inputs."""
        self.parts.check_unchanged()
        parameters, inputs = wanted[: self.parameters], wanted[self.parameters :]
        total: list[Tensor | None] = [None] * len(parameters)
        of_inputs = [torch.zeros_like(x) for x in inputs]
        modes = modes_of(self.owner)
        set_modes(self.modes)
        now, buffers = random_state(self.devices), buffers_of(self.owner)
        restore(self.buffers)
        try:
            for i, rows in enumerate(self.ranges):
                # Copies: torch reads the state from the start of the storage, whatever the view.
                set_random_state(self.devices, [every[i].clone() for every in self.states])
                pieces = [rows_of(x, rows).detach().requires_grad_() for x in inputs]
                with torch.enable_grad(), self.like_then():
                    embedding = _embedding(self.parts.call(self.encoder, rows, pieces), rows)
                if not embedding.requires_grad:
                    continue
                found = torch.autograd.grad(
                    embedding, [*parameters, *pieces], gradient[rows].to(embedding.dtype), allow_unused=True
                )
                for i, new in enumerate(found[: len(parameters)]):
                    total[i] = _sum(total[i], new)
                for whole, new in zip(of_inputs, found[len(parameters) :], strict=True):
                    if new is not None:
                        rows_of(whole, rows).add_(new)
        finally:
            set_random_state(self.devices, now)
            restore(buffers)
            set_modes(modes)
        return [*total, *of_inputs]

    def like_then(self) -> ExitStack:
        """The autocast of the first pass, without its cache: weights cast without a graph must not be used again."""
        stack = ExitStack()
        for kind, dtype, enabled in self.autocast:
            stack.enter_context(torch.autocast(kind, dtype=dtype, enabled=enabled, cache_enabled=False))
        return stack


class _Cached(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, replay: _Replay, *wanted: Tensor) -> Tensor:
        ctx.replay = replay
        ctx.save_for_backward(*wanted)
        return replay.first()

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise UsageError("gradients of gradients (create_graph=True) do not go through rince.cached")
        return (None, *ctx.replay.again(gradient, ctx.saved_tensors))


def _ranges(length: int, chunk: int) -> list[slice]:
    return [slice(i, min(i + chunk, length)) for i in range(0, max(length, 1), chunk)]


def _owner(encoder: Encoder) -> nn.Module:
    """The module whose parameters an encoder uses."""
    owner = encoder if isinstance(encoder, nn.Module) else getattr(encoder, "__self__", None)
    if not isinstance(owner, nn.Module):
        raise UsageError(f"an encoder must be a module or a method of one, got {type(encoder).__name__}")
    if any("FullyShardedDataParallel" in type(m).__name__ or hasattr(m, "reshard") for m in owner.modules()):
        raise UsageError("rince.cached does not take encoders with sharded parameters: use DistributedDataParallel")
    return owner


def _embedding(output: Any, rows: slice) -> Tensor:
    if not isinstance(output, Tensor):
        raise UsageError(f"an encoder must return a tensor of embeddings, got {type(output).__name__}: wrap it")
    if output.shape[:1] != (rows.stop - rows.start,):
        raise UsageError(
            f"an encoder must return one row per pair: expected {rows.stop - rows.start}, got {tuple(output.shape)}"
        )
    return output


def _stacked(chunks: Iterable[Tensor], ranges: Sequence[slice]) -> Tensor:
    """One tensor out of chunks. Were each kept until all are there, small pieces would split up the free memory."""
    whole: Tensor | None = None
    for rows, part in zip(ranges, chunks, strict=True):
        whole = part.new_empty((ranges[-1].stop, *part.shape[1:])) if whole is None else whole
        whole[rows] = part
    assert whole is not None
    return whole


def _sum(total: Tensor | None, new: Tensor | None) -> Tensor | None:
    if new is None:
        return total
    return new.clone() if total is None else total.add_(new)  # a gradient may be shared: only a copy can grow
