"""The batch of all ranks, with exact gradients, and the settings that must match on every rank.

Every rank scores its own anchors against the candidates of all ranks. The backward pass adds up the gradients of a
candidate over all ranks and returns them to its owner, so either all ranks call backward or none does. Local batches
may differ in size.

A collective whose arguments differ between ranks hangs or aborts without a message. Each call of a loss therefore
starts with one exchange of a few numbers: the batch sizes, which are needed anyway, and a checksum of the settings. All
of them are known on the CPU and travel between CPUs (by gloo), so that nothing waits for a GPU.

``RINCE_EXCHANGE=change`` leaves out the exchange if nothing has changed on this rank since the last call with the same
settings. All ranks then have to change their batch size or settings at the same call, as with ``drop_last=True``, or
they wait for each other until the timeout of the process group.
"""

import dataclasses
import numbers
import os
import zlib
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from rince.errors import UsageError
from rince.losses.logsumexp import score_dtype
from rince.losses.temperature import LearnedTemperature, number_of, readable

_LOCAL: ContextVar[bool] = ContextVar("local candidates only", default=False)


@contextmanager
def alone(enabled: bool = True) -> Iterator[None]:
    """Restrict losses to the batch of this rank, as in a single process."""
    token = _LOCAL.set(enabled)
    try:
        yield
    finally:
        _LOCAL.reset(token)


def processes() -> int:
    """Number of ranks that share the batch; 1 without torch.distributed."""
    if not (dist.is_available() and dist.is_initialized()):  # first: the compiler cannot read a ContextVar
        return 1
    return 1 if _LOCAL.get() else dist.get_world_size()


def total(value: Tensor) -> Tensor:
    """Sum of a tensor over all ranks, without gradient."""
    value = value.detach().clone()
    if processes() > 1:
        dist.all_reduce(value)
    return value


class Gathered(NamedTuple):
    """Rows of all ranks in the order of the ranks, the pairs of every rank, and where those of this rank start."""

    embeddings: list[Tensor]
    ids: Tensor | None
    labels: Tensor | None
    sizes: list[int]
    start: int


def gather(
    embeddings: list[Tensor],
    ids: Tensor | None = None,
    labels: Tensor | None = None,
    sizes: list[int] | None = None,
    ring: bool = False,
) -> Gathered:
    """The batch of all ranks.

    Args:
        embeddings: (pairs, width) matrices of this rank.
        ids: One integer per pair.
        labels: One integer per pair.
        sizes: Batch sizes of all ranks, if they are known from ``agree``.
        ring: Do not gather the embeddings, for ``ring_negative_scores``.

    Raises:
        UsageError: On all ranks, if their settings differ (see ``agree``).
    """
    if processes() == 1:
        return Gathered(embeddings, ids, labels, [embeddings[0].shape[0]], 0)
    sizes = agree(embeddings, ids, labels) if sizes is None else sizes
    if not ring:
        joined = _Gather.apply(torch.cat(embeddings, 1), sizes)  # one collective for all of them
        embeddings = list(joined.split([z.shape[1] for z in embeddings], 1))
    ids, labels = (None if values is None else _collect(values, sizes) for values in (ids, labels))
    return Gathered(embeddings, ids, labels, sizes, sum(sizes[: dist.get_rank()]))


def _padded(tensor: Tensor, rows: int) -> Tensor:
    padded = tensor.new_zeros((rows, *tensor.shape[1:]))
    padded[: tensor.shape[0]] = tensor
    return padded


def _collect(tensor: Tensor, sizes: list[int]) -> Tensor:
    parts = [tensor.new_empty((max(sizes), *tensor.shape[1:])) for _ in sizes]
    dist.all_gather(parts, _padded(tensor, max(sizes)))
    return torch.cat([part[:size] for part, size in zip(parts, sizes, strict=True)])


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, sizes: list[int]) -> Tensor:
        ctx.sizes = sizes
        return _collect(tensor, sizes)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        if torch.is_grad_enabled():  # the collectives below have no gradient of their own
            raise RuntimeError("second derivatives (create_graph=True) are supported on one rank only")
        rank, sizes = dist.get_rank(), ctx.sizes
        if dist.get_backend() == "nccl":
            parts = torch.cat([_padded(part, max(sizes)) for part in gradient.split(sizes)])
            own = parts.new_empty((max(sizes), *parts.shape[1:]))
            dist.reduce_scatter_tensor(own, parts)
            return own[: sizes[rank]], None
        gradient = gradient.contiguous().clone()
        dist.all_reduce(gradient)
        return gradient.split(sizes)[rank], None


# --- Settings that must match on every rank ---------------------------------------------------------------------------

TOLERANCE = 1e-6
"""Largest relative difference between learned values."""
MAX_AGREED = 64


class RankMismatch(UsageError):
    """Settings or inputs differ between ranks. Raised on all ranks at once."""


class _Call:
    """A call of a loss: its settings, and whether the ranks have exchanged them yet."""

    def __init__(self) -> None:
        self.settings: dict[str, str] = {}
        self.learned, self.exchanged = (0.0, 0.0), False


_CALL: ContextVar[_Call | None] = ContextVar("call of a loss", default=None)


@contextmanager
def one_call(loss: Any, contrast: Any, weights: Tensor | None) -> Iterator[None]:
    """A call of a loss: its settings join the exchange, and an error before the exchange reaches the other ranks."""
    if processes() == 1:
        yield
        return
    call = _Call()
    token = _CALL.set(call)
    try:
        call.settings, call.learned = settings_of(loss, contrast, weights), _learned_values(loss)
        yield
    except Exception:
        if not call.exchanged and not (_on_change() and _world().agreed):
            with suppress(Exception):  # the error of this rank takes precedence over that of the exchange
                _exchange([0.0] * 5)
        raise
    finally:
        _CALL.reset(token)


def agree(embeddings: list[Tensor], ids: Tensor | None, labels: Tensor | None = None, **more: str) -> list[int]:
    """Batch sizes of all ranks, in the order of the ranks.

    Raises:
        RankMismatch: On all ranks, if settings or kinds of inputs differ, or if a rank rejected its inputs.
    """
    size, width = embeddings[0].shape
    call = _CALL.get() or _Call()
    call.exchanged = True
    settings = call.settings | {
        "width of the embeddings": str(width),
        "number of views": str(len(embeddings)),
        "precision of the scores": str(score_dtype(*embeddings)),
        "ids": _given(ids),
        "labels": _given(labels),
        **more,
    }
    checksum = zlib.crc32(repr(settings).encode())
    agreed = _world().agreed if _on_change() else {}
    if checksum in agreed and agreed[checksum][0] == size:
        return agreed[checksum][1]
    rows = _exchange([1.0, size, checksum, *call.learned])
    for rank, (accepted, *_) in enumerate(rows):
        if not accepted:
            raise RankMismatch(f"rank {rank} rejected its inputs (see its error): aborting all ranks")
    if any(row[2] != rows[0][2] for row in rows):
        _raise_difference(settings)
    for rank, row in enumerate(rows):
        for name, first, other in zip(("learned temperature", "bias"), rows[0][3:], row[3:], strict=True):
            if abs(other - first) > TOLERANCE * abs(first):
                raise RankMismatch(
                    f"{name} must be the same on all ranks, got {first:.7g} on rank 0 and {other:.7g} on rank {rank}: "
                    "if it is learned, make it part of the module in DistributedDataParallel, which keeps it in sync"
                )
    sizes = [int(row[1]) for row in rows]
    if len(agreed) >= MAX_AGREED:
        agreed.clear()
    agreed[checksum] = size, sizes
    return sizes


def _raise_difference(settings: dict[str, str]) -> None:
    """Raise an error about the first setting that differs."""
    rows: list[Any] = [None] * processes()
    dist.all_gather_object(rows, settings, group=_world().cpu_group)
    for rank, other in enumerate(rows):
        for name in rows[0] | other:
            expected, actual = rows[0].get(name, "none"), other.get(name, "none")
            if expected != actual:
                raise RankMismatch(
                    f"{name} must be the same on all ranks, got {expected} on rank 0 and {actual} on rank {rank}"
                )


def _on_change() -> bool:
    return os.environ.get("RINCE_EXCHANGE") == "change"


@dataclasses.dataclass
class _World:
    """Process group of torch.distributed, a CPU group of the same ranks, and the agreed batch sizes.

    Batch sizes are stored by the checksum of their settings, with that of this rank first.
    """

    group: Any
    cpu_group: Any
    agreed: dict[int, tuple[int, list[int]]]


_worlds: list[_World] = []  # at most the current one


def _world() -> _World:
    if not _worlds or _worlds[0].group is not dist.group.WORLD:
        group = dist.group.WORLD
        has_cpu = "cpu" in dist.get_backend_config()
        _worlds[:] = [_World(group, group if has_cpu else dist.new_group(backend="gloo"), {})]
    return _worlds[0]


def _exchange(values: list[float]) -> list[list[float]]:
    """The numbers of all ranks."""
    own = torch.tensor(values, dtype=torch.float64, device="cpu")
    rows = [torch.zeros_like(own) for _ in range(processes())]
    dist.all_gather(rows, own, group=_world().cpu_group)
    return torch.stack(rows).tolist()


def settings_of(loss: Any, contrast: Any, weights: Tensor | None) -> dict[str, str]:
    """Settings of a call of a loss with a contrast, by name.

    Only numbers and strings among the settings of rince are compared: additions by users may differ on purpose.
    """
    kind, kind_of_contrast, temperature = _class_of(loss), _class_of(contrast), loss.temperature
    settings = {
        "loss": kind.__qualname__,
        "contrast": kind_of_contrast.__qualname__,
        "weights": _given(weights),
        "reduction": loss.reduction,
        "temperature": f"{temperature:.9g}" if isinstance(temperature, float) else "a learned one",
        "q": _as_text(getattr(loss, "q", "none")),
        "objective": _objective_of(loss),
    }
    for name in getattr(kind_of_contrast, "_settings", ()):
        settings[f"{name} of the contrast"] = _as_text(getattr(contrast, name))
    for name in kind._checks:
        if name not in ("temperature", "contrast", "reduction", "bias"):
            settings[name] = _as_text(getattr(loss, name))
    return settings


def _learned_values(loss: Any) -> tuple[float, float]:
    """Learned temperature and bias, where they are on a CPU; a GPU would have to wait."""

    def number(value: Any) -> float:
        parameter = value.log_temperature if isinstance(value, LearnedTemperature) else value
        return number_of(value) if isinstance(parameter, Tensor) and readable(parameter) else 0.0

    return number(loss.temperature), number(loss.bias if "bias" in _class_of(loss)._checks else None)


def _given(values: Tensor | None) -> str:
    return "none" if values is None else "one per pair"


def _class_of(part: Any) -> Any:
    """Nearest base class in rince: a user's subclass may add settings that do not change the loss."""
    return next((kind for kind in type(part).__mro__ if kind.__module__.startswith("rince.")), object)


def _objective_of(loss: Any) -> str:
    if loss._objective is None:  # its class and settings are compared
        return ""
    function = loss._objective.function
    if isinstance(function, partial) and function.args:  # a function of two scores
        function = function.args[0]
    ours = str(getattr(function, "__module__", "")).startswith("rince.")
    return str(getattr(function, "__qualname__", "")) if ours else ""


def _as_text(value: Any) -> str:
    if isinstance(value, numbers.Real):
        return f"{float(value):.9g}"
    if isinstance(value, str):
        return value
    return repr(value) if dataclasses.is_dataclass(value) and _class_of(value) is type(value) else ""
