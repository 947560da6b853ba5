"""The batch of all ranks, with exact gradients, and the settings that must match on every rank.

Every rank scores its own anchors against the candidates of all ranks. The backward pass adds up the gradients of a
candidate over all ranks and returns them to its owner, so either all ranks call backward or none does. Local batches
may differ in size.

A collective whose arguments differ between ranks hangs or aborts without a message. Each call of a loss therefore
starts with one exchange of a few integers: the batch sizes, which are needed anyway, and a summary of the settings. All
of them are known on the CPU and travel between CPUs (by gloo), so that nothing waits for a GPU.

``RINCE_EXCHANGE=change`` leaves out the exchange if nothing has changed on this rank since the last call with the same
settings. All ranks then have to change their batch size or settings at the same call, as with ``drop_last=True``, or
they wait for each other until the timeout of the process group.
"""

import dataclasses
import math
import numbers
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor, nn

from rince.errors import UsageError
from rince.losses.logsumexp import score_dtype
from rince.losses.temperature import LearnedTemperature, number_of, readable

_LOCAL: ContextVar[bool] = ContextVar("local candidates only", default=False)


@contextmanager
def alone(enabled: bool = True) -> Iterator[None]:
    """Let losses see the batch of this rank only, as if there were no others."""
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
        ring: Leave the embeddings where they are, for ``ring_negative_scores``.

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

DTYPES = (torch.float32, torch.float64)
REDUCTIONS = ("mean", "sum", "none")
GIVEN = ("none", "one per pair")
UNITS = 10**9  # settings travel as integers, in units of 1e-9; -1 for a setting that is not a number


def _as_integer(setting: object) -> int:
    if not isinstance(setting, (int, float)):
        return -1
    return max(-(2**62), min(round(setting * UNITS), 2**62)) if math.isfinite(setting) else -2


class Setting(NamedTuple):
    """One compared setting.

    Args:
        name: Its name in error messages.
        show: From the exchanged integer to its value; ``None`` for a checksum.
        tolerance: Relative difference that is allowed, for learned values.
        fix: What to do about a difference.
    """

    name: str
    show: Callable[[int], object] | None = None
    tolerance: float = 0.0
    fix: str = ""


def _number(otherwise: str) -> Callable[[int], str]:
    return lambda value: otherwise if value < 0 else f"{value / UNITS:g}"


def _learned(name: str) -> Setting:
    fix = ": if it is learned, make it part of the module in DistributedDataParallel, which keeps it in sync"
    return Setting(name, lambda value: f"{value / UNITS:.7g}", 1e-6, fix)


# In the order of the exchange.
SETTINGS: dict[str, Setting] = {
    "loss": Setting("loss"),
    "contrast": Setting("contrast"),
    "settings_of_contrast": Setting("settings of the contrast"),
    "width": Setting("width of the embeddings", int),
    "views": Setting("number of views", int),
    "dtype": Setting("precision of the scores", DTYPES.__getitem__),
    "ids": Setting("ids", GIVEN.__getitem__),
    "labels": Setting("labels", GIVEN.__getitem__),
    "weights": Setting("weights", GIVEN.__getitem__),
    "reduction": Setting("reduction", REDUCTIONS.__getitem__),
    "training": Setting("mode", ("eval", "train").__getitem__),
    "temperature": Setting("temperature", _number("a learned one")),
    "learned_temperature": _learned("learned temperature"),
    "q": Setting("q", _number("none")),
    "bias": _learned("bias"),
    "settings": Setting("settings of the loss"),
}


LEARNED = ("learned_temperature", "bias")  # compared where their value is on a CPU
MAX_AGREED = 64


class RankMismatch(UsageError):
    """Settings or inputs differ between ranks. Raised on all ranks at once."""


class RankSettings(NamedTuple):
    """Settings of a call as integers, and descriptions of those that are checksums."""

    values: dict[str, int]
    descriptions: Mapping[str, Callable[[], str]]


class _Call:
    """A call of a loss: its settings, and whether the ranks have exchanged them yet."""

    def __init__(self) -> None:
        self.settings, self.exchanged = RankSettings({}, {}), False


_CALL: ContextVar[_Call | None] = ContextVar("call of a loss", default=None)


@contextmanager
def one_call(settings: Callable[[], RankSettings] | None = None) -> Iterator[None]:
    """A call of a loss: its settings join the exchange, and an error before the exchange reaches the other ranks."""
    if processes() == 1:
        yield
        return
    call = _Call()
    token = _CALL.set(call)
    try:
        if settings is not None:
            call.settings = settings()
        yield
    except Exception:
        if not call.exchanged and not (_on_change() and _world().agreed):
            with suppress(Exception):  # the error of this rank matters more than that of the exchange
                _exchange([0] * (2 + len(SETTINGS)))
        raise
    finally:
        _CALL.reset(token)


def agree(embeddings: list[Tensor], ids: Tensor | None, labels: Tensor | None = None, **more: int) -> list[int]:
    """Batch sizes of all ranks, in the order of the ranks.

    Raises:
        RankMismatch: On all ranks, if ``SETTINGS`` differ or if a rank rejected its inputs.
    """
    first = embeddings[0]
    values = {"width": first.shape[1], "views": len(embeddings), "dtype": DTYPES.index(score_dtype(*embeddings))}
    values |= {"ids": int(ids is not None), "labels": int(labels is not None), **more}
    call, settings = _CALL.get(), RankSettings({}, {})
    if call is not None:
        settings, call.exchanged = call.settings, True
    values |= settings.values
    sent = [1, first.shape[0], *(values.get(name, 0) for name in SETTINGS)]
    if not _on_change():
        return _checked_sizes(_exchange(sent), settings)
    agreed, key = _world().agreed, tuple(values.get(name, 0) for name in SETTINGS if name not in LEARNED)
    if key not in agreed or agreed[key][0] != sent[1]:
        if len(agreed) >= MAX_AGREED:
            agreed.clear()
        agreed[key] = sent[1], _checked_sizes(_exchange(sent), settings)
    return agreed[key][1]


def _checked_sizes(rows: list[list[int]], settings: RankSettings) -> list[int]:
    for rank, (accepted, *_) in enumerate(rows):
        if not accepted:
            raise RankMismatch(f"rank {rank} rejected its inputs (see its error): aborting all ranks")
    for i, (key, setting) in enumerate(SETTINGS.items(), start=2):
        for rank, row in enumerate(rows):
            if abs(row[i] - rows[0][i]) > setting.tolerance * abs(rows[0][i]):
                here = settings.descriptions.get(key, lambda: "none")
                raise RankMismatch(_difference(setting, rows[0][i], row[i], rank, here))
    return [row[1] for row in rows]


def _difference(setting: Setting, first: int, other: int, rank: int, here: Callable[[], str]) -> str:
    same = f"{setting.name} must be the same on all ranks"
    if setting.show is None:
        return f"{same}: rank {rank} differs from rank 0 (this rank: {here()})"
    return f"{same}, got {setting.show(first)} on rank 0 and {setting.show(other)} on rank {rank}{setting.fix}"


def _on_change() -> bool:
    return os.environ.get("RINCE_EXCHANGE") == "change"


@dataclasses.dataclass
class _World:
    """The process group of torch.distributed, one of CPUs with the same ranks, and what has been agreed on in it."""

    group: Any
    cpu_group: Any
    agreed: dict[tuple[int, ...], tuple[int, list[int]]]


_worlds: list[_World] = []  # at most the current one


def _world() -> _World:
    if not _worlds or _worlds[0].group is not dist.group.WORLD:
        group = dist.group.WORLD
        has_cpu = "cpu" in dist.get_backend_config()
        _worlds[:] = [_World(group, group if has_cpu else dist.new_group(backend="gloo"), {})]
    return _worlds[0]


def _exchange(values: list[int]) -> list[list[int]]:
    """The integers of all ranks."""
    own = torch.tensor(values, device="cpu")
    rows = [torch.zeros_like(own) for _ in range(processes())]
    dist.all_gather(rows, own, group=_world().cpu_group)
    return [[int(value) for value in row] for row in torch.stack(rows).tolist()]


def settings_of(loss: Any, contrast: Any, weights: Tensor | None) -> RankSettings:
    """Settings of a call of a loss with a contrast.

    Only settings that rince knows are compared, and of those numbers and texts: what a user adds may differ on purpose.
    """
    kind, temperature = _class_of(loss), loss.temperature
    bias = loss.bias if "bias" in kind._checks else None
    own = set(kind._checks) - {"temperature", "contrast", "reduction", "bias"}
    values = {
        "loss": _checksum(kind.__qualname__),
        "contrast": _checksum(_class_of(contrast).__qualname__),
        "settings_of_contrast": _checksum(_listed(contrast, getattr(_class_of(contrast), "_settings", ()))),
        "weights": int(weights is not None),
        "reduction": REDUCTIONS.index(loss.reduction),
        "temperature": _as_integer(temperature),
        "learned_temperature": _learned_value(temperature),
        "q": _as_integer(getattr(loss, "q", None)),
        "bias": _learned_value(bias),
        "settings": _checksum(_objective_of(loss) + _listed(loss, own)),
    }
    of_loss, of_contrast = partial(_describe, loss), partial(_describe, contrast)
    descriptions = {"loss": of_loss, "settings": of_loss, "contrast": of_contrast, "settings_of_contrast": of_contrast}
    return RankSettings(values, descriptions)


def _learned_value(value: Any) -> int:
    """Of a learned number on a CPU; a GPU would have to wait."""
    parameter = value.log_temperature if isinstance(value, LearnedTemperature) else value
    return _as_integer(number_of(value)) if isinstance(parameter, Tensor) and readable(parameter) else 0


def _class_of(part: Any) -> Any:
    """The nearest class of rince: a subclass by a user may add what does not change the loss."""
    return next((kind for kind in type(part).__mro__ if kind.__module__.startswith("rince.")), object)


def _objective_of(loss: Any) -> str:
    if loss._objective is None:  # its class and settings are compared
        return ""
    function = loss._objective.function
    if isinstance(function, partial) and function.args:  # a function of two scores
        function = function.args[0]
    ours = str(getattr(function, "__module__", "")).startswith("rince.")
    return str(getattr(function, "__qualname__", "")) if ours else ""


def _listed(part: Any, names: Iterable[str]) -> str:
    return "; ".join(f"{name} {_as_text(getattr(part, name, None))}" for name in sorted(names))


def _as_text(value: Any) -> str:
    if isinstance(value, numbers.Real):
        return f"{float(value):.9g}"
    if isinstance(value, str):
        return value
    return repr(value) if dataclasses.is_dataclass(value) and _class_of(value) is type(value) else ""


def _checksum(text: str) -> int:
    return zlib.crc32(text.encode())


def _describe(part: Any) -> str:
    return f"{type(part).__name__}({part.extra_repr() if isinstance(part, nn.Module) else ''})"
