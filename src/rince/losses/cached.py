"""Gradient caching: the gradient of a large batch in the memory of a small one.

A contrastive loss needs the embeddings of the whole batch, but the encoder does not need the batch at once. The batch
is encoded in chunks without keeping their activations, the loss is computed from all embeddings, and the backward pass
encodes every chunk once more. The result is exact: the second pass has the random numbers, autocast state and buffers
of the first.

Gao et al., 2021, Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup.
"""

import numbers
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint

from rince.errors import UsageError

Encoder = nn.Module | Callable[..., Tensor]


def cached(
    loss: Callable[..., Tensor], encoders: Encoder | Sequence[Encoder], inputs: Sequence[Any], chunk: int, **kwargs: Any
) -> Tensor:
    """The loss of a batch that is encoded chunk by chunk; its gradient is that of the whole batch.

    Memory for the whole batch is needed for embeddings and their gradient only. It costs one more forward pass.

    Args:
        loss: Called with the embeddings of every input: ``rince.RINCE()``, or any function of whole batches.
        encoders: One encoder for all inputs, or one per input: modules, ``DistributedDataParallel`` included, or
            methods of modules such as ``model.encode_image``.
        inputs: Inputs of the encoders, one entry per side of the pairs: a tensor, a list, a tuple of arguments or a
            mapping of keyword arguments, all with one row per pair. Tensors of one number, and values that are neither
            tensors nor lists, are not divided. Do not change them before ``backward``, which encodes them again.
        chunk: Rows per chunk.
        **kwargs: Further arguments of the loss, such as ``labels``, ``ids`` and ``weights``.

    Returns:
        The value of the loss.

    Raises:
        UsageError: If chunk is below 1, inputs differ in length, or encoders are not modules.

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
    per_input: list[Any] = (
        list(encoders) if isinstance(encoders, (Sequence, nn.ModuleList)) else [encoders] * len(inputs)
    )
    if len(per_input) != len(inputs):
        raise UsageError(f"there must be one encoder per input, or one for all: got {len(per_input)} for {len(inputs)}")
    return loss(*(encode(encoder, items, chunk) for encoder, items in zip(per_input, inputs, strict=True)), **kwargs)


def encode(encoder: Encoder, inputs: Any, chunk: int) -> Tensor:
    """The embeddings of ``inputs`` with a gradient, keeping the activations of one chunk at a time.

    Args:
        encoder: As in ``cached``.
        inputs: As one entry of ``inputs`` in ``cached``.
        chunk: Rows that are encoded at a time.

    Returns:
        The embeddings of all rows.
    """
    if not isinstance(chunk, numbers.Integral) or chunk < 1:
        raise UsageError(f"chunk must be an integer of at least 1, got {chunk!r}")
    args, kwargs = ((), dict(inputs)) if isinstance(inputs, Mapping) else (inputs, {})
    args = args if isinstance(args, tuple) else (args,)
    if not isinstance(encoder, DistributedDataParallel):
        return _encode(encoder, args, kwargs, int(chunk))
    # For the wrapper this is one forward pass and one backward pass: buffers are synchronized once, gradients are
    # exchanged once, and its ``no_sync`` works as usual.
    module = encoder.module
    encoder.module = _InChunks(module, int(chunk))
    try:
        return encoder(*args, **kwargs)
    finally:
        encoder.module = module


class _InChunks(nn.Module):
    """Replaces the module inside DistributedDataParallel during a forward pass."""

    def __init__(self, module: nn.Module, chunk: int):
        super().__init__()
        object.__setattr__(self, "encoder", module)  # its parameters belong to the wrapper as before
        self.chunk = chunk

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        encoder: Any = self.encoder
        return _encode(encoder, args, kwargs, self.chunk)


def _encode(encoder: Encoder, args: tuple[Any, ...], kwargs: dict[str, Any], chunk: int) -> Tensor:
    module = encoder if isinstance(encoder, nn.Module) else getattr(encoder, "__self__", None)
    if not isinstance(module, nn.Module):
        raise UsageError(f"an encoder must be a module or a method of one, got {type(encoder).__name__}")
    if any("FullyShardedDataParallel" in type(m).__name__ or hasattr(m, "reshard") for m in module.modules()):
        raise UsageError("rince.cached does not support encoders with sharded parameters: use DistributedDataParallel")
    lengths = {len(x) for x in (*args, *kwargs.values()) if _has_rows(x)}
    if not lengths:
        raise UsageError("inputs must hold a tensor or a list with one row per pair")
    if len(lengths) > 1:
        raise UsageError(f"all inputs of an encoder must have one row per pair, got {sorted(lengths)} rows")
    (length,) = lengths

    def embedding(rows: slice, *_: Any) -> Tensor:
        def of_rows(value: Any) -> Any:
            return value[rows] if _has_rows(value) else value

        with _no_autocast_cache():
            output = encoder(*map(of_rows, args), **{name: of_rows(value) for name, value in kwargs.items()})
        if not isinstance(output, Tensor):
            raise UsageError(f"an encoder must return a tensor of embeddings, got {type(output).__name__}: wrap it")
        if output.shape[:1] != (rows.stop - rows.start,):
            expected = rows.stop - rows.start
            raise UsageError(f"an encoder must return one row per pair: expected {expected}, got {tuple(output.shape)}")
        return output

    copies: Copies = {}

    def contexts() -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        nonlocal copies
        copies = _copy_buffers(module, copies)
        return nullcontext(), _WithBuffers(copies)

    parts = []
    parameter = next(module.parameters(), None)  # tells ``checkpoint`` which device's random state to restore
    for start in range(0, max(length, 1), chunk):
        rows = slice(start, min(start + chunk, length))
        watched = [x[rows] for x in (*args, *kwargs.values()) if _has_rows(x)]  # changes before backward are an error
        part = checkpoint(embedding, rows, parameter, *watched, use_reentrant=False, context_fn=contexts)
        if start == 0:
            buffer = part.new_empty((length, *part.shape[1:]))
        buffer[rows] = part.detach()
        part.data = buffer[rows]  # separate memory between the activations of two chunks would fragment it
        parts.append(part)
    return torch.cat(parts)


def _has_rows(value: Any) -> bool:
    return isinstance(value, list) or (isinstance(value, Tensor) and value.dim() > 0)


@contextmanager
def _no_autocast_cache() -> Iterator[None]:
    """Cast weights for every chunk: one cast for all would add up their gradients in half precision."""
    enabled = torch.is_autocast_cache_enabled()
    torch.set_autocast_cache_enabled(False)
    try:
        yield
    finally:
        torch.set_autocast_cache_enabled(enabled)


Copies = dict[tuple[nn.Module, str], tuple[Tensor, int, Tensor]]
"""By module and name: a buffer, its version, and a copy of that version."""


def _copy_buffers(module: nn.Module, previous: Copies) -> Copies:
    """Copies of buffers that a forward pass may change, such as running statistics: those in training mode."""
    copies = Copies()
    for part in module.modules():
        for name, buffer in part._buffers.items() if part.training else ():
            if buffer is not None:
                last = previous.get((part, name))
                same = last is not None and last[0] is buffer and last[1] == buffer._version
                value = last[2] if last is not None and same else buffer.detach().clone()
                copies[part, name] = buffer, buffer._version, value
    return copies


class _WithBuffers:
    """Context with the buffers of the first pass of a chunk.

    Tensors are exchanged, not written to: the second pass may keep a buffer for its gradient.
    """

    def __init__(self, copies: Copies):
        self.copies = copies

    def __enter__(self) -> None:
        self.now = {(module, name): module._buffers[name] for module, name in self.copies}
        clones: dict[int, Tensor] = {}  # by buffer, which modules may share
        for (module, name), (buffer, _, value) in self.copies.items():
            module._buffers[name] = clones.setdefault(id(buffer), value.clone())

    def __exit__(self, *error: object) -> None:
        for (module, name), buffer in self.now.items():
            module._buffers[name] = buffer
