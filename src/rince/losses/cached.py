"""Gradient caching: the gradient of a large batch in the memory of a small one.

A contrastive loss needs the embeddings of the whole batch, but the encoder does not need the batch at once. The batch
is encoded in chunks without a graph, the loss is computed from all embeddings, and the backward pass encodes every
chunk once more, with a graph, and backpropagates the chunk's part of the gradient. The result is exact: the second pass
has the random numbers, autocast state, modes and buffers of the first.

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

Encoder = nn.Module | Callable[..., Tensor]


def cached(
    loss: Callable[..., Tensor], encoders: Encoder | Sequence[Encoder], inputs: Sequence[Any], chunk: int, **given: Any
) -> Tensor:
    """The loss of a batch that is encoded chunk by chunk; its gradient is that of the whole batch.

    Memory for the whole batch is needed for embeddings and their gradient only. It costs one more forward pass.

    Args:
        loss: Called with the embeddings of every input: ``rince.RINCE()``, or any function of whole batches.
        encoders: One encoder for all inputs, or one per input: modules, ``DistributedDataParallel`` included, or
            methods of modules such as ``model.encode_image``.
        inputs: Inputs of the encoders, one entry per side of the pairs: a tensor, a list, a tuple of arguments or a
            mapping of keyword arguments, all with one row per pair. Tensors of one number, and values that are neither
            tensors nor lists, are not divided. Do not change tensors before ``backward``, which encodes them again.
        chunk: Rows per chunk.
        **given: Further arguments of the loss, such as ``labels``, ``ids`` and ``weights``.

    Returns:
        The value of the loss.

    Raises:
        UsageError: If chunk is below 1, inputs differ in length, encoders are not modules, or tensors inside of
            containers require a gradient.

    Layers that use the whole batch, such as batch normalization, get chunks. Under ``DistributedDataParallel``
    gradients are exchanged once per backward pass, and not at all inside ``no_sync``. Encoders with sharded parameters
    (FSDP) are an error.

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
    parts = _Inputs(inputs)
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
    # For the wrapper this is one forward pass and one backward pass: buffers are synchronized once, gradients are
    # exchanged once, and its own ``no_sync`` means what it always means.
    module = encoder.module
    args, kwargs = _arguments(inputs)
    encoder.module = _Through(module, chunk)
    try:
        return encoder(*args, **kwargs)
    finally:
        encoder.module = module


class _Inputs:
    """Arguments of an encoder: those with rows are taken in chunks, the others go whole into every chunk."""

    def __init__(self, inputs: Any):
        self.args, self.kwargs = _arguments(inputs)
        self.values = [*self.args, *self.kwargs.values()]
        self.tensors = [x for x in self.values if isinstance(x, Tensor)]
        lengths = [len(x) for x in self.values if _has_rows(x)]
        if not lengths:
            raise UsageError(f"inputs must hold a tensor or a list with one row per pair, got {type(inputs).__name__}")
        if len(set(lengths)) > 1:
            raise UsageError(f"all inputs of an encoder must have one row per pair, got {sorted(set(lengths))} rows")
        self.length = lengths[0]
        self.versions = [(x, x._version) for x in _tensors_in(self.values) if not x.is_inference()]

    def __len__(self) -> int:
        return self.length

    def call(self, encoder: Callable[..., Tensor], rows: slice, pieces: Sequence[Tensor] = ()) -> Tensor:
        """Encode some rows; ``pieces`` stand in for the tensors that want a gradient, or for their rows."""
        new = iter(pieces)

        def take(value: Any) -> Any:
            if pieces and isinstance(value, Tensor) and value.requires_grad:
                return next(new)
            return value[rows] if _has_rows(value) else value

        return encoder(*[take(value) for value in self.args], **{name: take(x) for name, x in self.kwargs.items()})

    def refuse_gradients_inside(self) -> None:
        """Tensors inside of other inputs reach the encoder, but no gradient would find its way back to them."""
        for value in self.values:
            if not isinstance(value, Tensor) and any(x.requires_grad for x in _tensors_in([value])):
                raise UsageError(
                    f"a tensor inside of a {type(value).__name__} wants a gradient, which rince.cached gives only to "
                    "tensors that are arguments of their own: give it as one, or give its .detach()"
                )

    def check_unchanged(self) -> None:
        """Raises where a tensor was written to since the first pass: the second one would encode something else."""
        for x, version in self.versions:
            if x._version != version:
                raise UsageError(
                    f"an input of rince.cached, {tuple(x.shape)} of {x.dtype}, was changed in place before the "
                    "backward pass, which encodes it again: change a copy, or call backward first"
                )


def _arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments out of what a user gives for one side of the pairs."""
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    return (inputs, {}) if isinstance(inputs, tuple) else ((inputs,), {})


def _rows_of(tensor: Tensor, rows: slice) -> Tensor:
    """Some rows; a tensor of one number has none and stays whole."""
    return tensor[rows] if tensor.dim() else tensor


def _has_rows(value: Any) -> bool:
    return isinstance(value, list) or (isinstance(value, Tensor) and value.dim() > 0)


def _tensors_in(value: Any) -> Iterator[Tensor]:
    """All tensors in lists, tuples and mappings, at any depth."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple, Mapping)):
        for part in value.values() if isinstance(value, Mapping) else value:
            yield from _tensors_in(part)


def _modes_of(owner: nn.Module) -> list[tuple[nn.Module, bool]]:
    return [(m, m.training) for m in owner.modules()]


def _set_modes(modes: list[tuple[nn.Module, bool]]) -> None:
    """One by one: ``train`` and ``eval`` would go on to the parts, which may have modes of their own."""
    for module, training in modes:
        if module.training != training:
            module.training = training


def _buffers_of(owner: nn.Module) -> list[tuple[nn.Module, str, Tensor]]:
    """Copies of what a forward pass may change, such as running statistics. In evaluation nothing changes."""
    trained = (m for m in owner.modules() if m.training)
    return [(m, name, b.detach().clone()) for m in trained for name, b in m._buffers.items() if b is not None]


@torch.no_grad()
def _restore(buffers: list[tuple[nn.Module, str, Tensor]]) -> None:
    for module, name, value in buffers:
        buffer = module._buffers[name]
        if buffer is not None and buffer.shape == value.shape:
            buffer.copy_(value)
        else:
            module._buffers[name] = value.clone()


def _random_state(devices: Sequence[torch.device]) -> list[Tensor]:
    others = [torch.get_device_module(d).get_rng_state(d) for d in devices if d.type not in ("cpu", "meta")]
    return [torch.get_rng_state(), *others]


def _set_random_state(devices: Sequence[torch.device], state: list[Tensor]) -> None:
    torch.set_rng_state(state[0])
    for device, value in zip((d for d in devices if d.type not in ("cpu", "meta")), state[1:], strict=True):
        torch.get_device_module(device).set_rng_state(value, device)


def _autocast_state(kind: str) -> tuple[str, torch.dtype, bool]:
    return kind, torch.get_autocast_dtype(kind), torch.is_autocast_enabled(kind)


class _Replay:
    """How a batch was encoded, so that every chunk can be encoded again in the very same way."""

    def __init__(self, encoder: Callable[..., Tensor], owner: nn.Module, parts: _Inputs, chunk: int, parameters: int):
        self.encoder, self.owner, self.parts, self.parameters = encoder, owner, parts, parameters
        self.ranges = _ranges(len(parts), chunk)
        self.devices = sorted({p.device for p in (*owner.parameters(), *parts.tensors)}, key=str)
        self.autocast = [_autocast_state(kind) for kind in sorted({"cpu", *(d.type for d in self.devices)})]
        self.modes, self.buffers = _modes_of(owner), _buffers_of(owner)
        self.states: list[Tensor] = []

    def first(self) -> Tensor:
        return _stacked(self._chunks(), self.ranges)

    def _chunks(self) -> Iterator[Tensor]:
        for i, rows in enumerate(self.ranges):
            state = _random_state(self.devices)
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
        modes = _modes_of(self.owner)
        _set_modes(self.modes)
        now, buffers = _random_state(self.devices), _buffers_of(self.owner)
        _restore(self.buffers)
        try:
            for i, rows in enumerate(self.ranges):
                # Copies: torch reads the state from the start of the storage, whatever the view.
                _set_random_state(self.devices, [every[i].clone() for every in self.states])
                pieces = [_rows_of(x, rows).detach().requires_grad_() for x in inputs]
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
                        _rows_of(whole, rows).add_(new)
        finally:
            _set_random_state(self.devices, now)
            _restore(buffers)
            _set_modes(modes)
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
