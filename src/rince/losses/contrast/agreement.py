"""What all processes of a call have to agree on, said in one exchange instead of a dead wait.

A collective in which processes differ hangs or aborts without a word. Each call of a loss therefore starts with a few
integers from every process: the sizes of the batches, which are needed anyway, and what must be the same.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from typing import NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from rince.errors import UsageError
from rince.losses.contrast.contrast import precision

DTYPES = (torch.float32, torch.float64)
REDUCTIONS = ("mean", "sum", "none")
GIVEN = ("none", "one per pair")
UNITS = 10**9  # settings travel as integers, in thousand millionths; -1 stands for one that is no number


def as_fact(setting: object) -> int:
    """A setting of a loss as it travels: -1 for one that is not given as a number, such as a learned one."""
    if not isinstance(setting, (int, float)):
        return -1
    return max(-(2**62), min(round(setting * UNITS), 2**62)) if math.isfinite(setting) else -2


def _setting(otherwise: str) -> Callable[[int], str]:
    return lambda fact: otherwise if fact < 0 else f"{fact / UNITS:g}"


class Fact(NamedTuple):
    """What processes compare: its name, and what its numbers stand for; ``None`` for a checksum, which only differs.

    What is learned may be rounded differently, by ``tolerance`` times its size.
    """

    name: str
    meaning: Callable[[int], object] | None = None
    tolerance: float = 0.0
    way_out: str = ""


def _learned(name: str) -> Fact:
    way_out = ": where it is learned, make it a part of the module in DistributedDataParallel, which keeps it the same"
    return Fact(name, lambda fact: f"{fact / UNITS:.7g}", 1e-6, way_out)


# In the order in which they travel.
FACTS: dict[str, Fact] = {
    "loss": Fact("loss"),
    "contrast": Fact("contrast"),
    "settings_of_contrast": Fact("settings of the contrast"),
    "width": Fact("width of the embeddings", int),
    "views": Fact("number of views", int),
    "dtype": Fact("precision of the scores", DTYPES.__getitem__),
    "ids": Fact("ids", GIVEN.__getitem__),
    "labels": Fact("labels", GIVEN.__getitem__),
    "weights": Fact("weights", GIVEN.__getitem__),
    "reduction": Fact("reduction", REDUCTIONS.__getitem__),
    "training": Fact("mode", ("eval", "train").__getitem__),
    "temperature": Fact("temperature", _setting("a learned one")),
    "learned_temperature": _learned("learned temperature"),
    "q": Fact("q", _setting("none")),
    "bias": _learned("bias"),
    "settings": Fact("settings of the loss"),
}


class Disagreement(UsageError):
    """Raised on all processes at once, so nobody has to be told."""


class Known(NamedTuple):
    """What the call of a loss adds to the facts, and words for those that are checksums."""

    facts: dict[str, int]
    words: Mapping[str, Callable[[], str]]


class _Call:
    """The call of a loss: what it knows, and whether the processes have exchanged it yet."""

    def __init__(self) -> None:
        self.known, self.exchanged = Known({}, {}), False


_CALL: ContextVar[_Call | None] = ContextVar("the call of a loss", default=None)


_ALONE: ContextVar[bool] = ContextVar("alone", default=False)


@contextmanager
def alone(really: bool = True) -> Iterator[None]:
    """Losses inside see the batch of this process only, as if there were no others."""
    token = _ALONE.set(really)
    try:
        yield
    finally:
        _ALONE.reset(token)


def processes() -> int:
    """How many processes share the batch; 1 where torch.distributed is not in use."""
    if not (dist.is_available() and dist.is_initialized()):  # first: the compiler cannot read a ContextVar
        return 1
    return 1 if _ALONE.get() else dist.get_world_size()


def agree(embeddings: list[Tensor], ids: Tensor | None, labels: Tensor | None = None, **more: int) -> list[int]:
    """The numbers of pairs of all processes, in the order of their ranks.

    Raises:
        Disagreement: on all processes, if they differ in anything of ``FACTS`` or if one has refused its input.
    """
    first = embeddings[0]
    facts = {"width": first.shape[1], "views": len(embeddings), "dtype": DTYPES.index(precision(*embeddings))}
    facts |= {"ids": int(ids is not None), "labels": int(labels is not None), **more}
    call, known = _CALL.get(), Known({}, {})
    if call is not None:
        known, call.exchanged = call.known, True
    facts |= known.facts
    rows = _exchange([1, first.shape[0], *(facts.get(name, 0) for name in FACTS)], first.device)
    for rank, (accepted, *_) in enumerate(rows):
        if not accepted:
            raise Disagreement(f"process {rank} refused what it was given, see its own error: no process goes on")
    for i, (key, fact) in enumerate(FACTS.items(), start=2):
        for rank, row in enumerate(rows):
            if abs(row[i] - rows[0][i]) > fact.tolerance * abs(rows[0][i]):
                raise Disagreement(_difference(fact, rows[0][i], row[i], rank, known.words.get(key, lambda: "none")))
    return [row[1] for row in rows]


def _difference(fact: Fact, first: int, other: int, rank: int, here: Callable[[], str]) -> str:
    same = f"all processes must give the same {fact.name}"
    if fact.meaning is None:
        return f"{same}, process {rank} differs from process 0 (this process: {here()})"
    return f"{same}, got {fact.meaning(first)} on process 0 and {fact.meaning(other)} on process {rank}{fact.way_out}"


@contextmanager
def one_call(device: torch.device | None, know: Callable[[], Known] | None = None) -> Iterator[None]:
    """The call of a loss: facts that are exchanged with its batch, and a word to the others if this process fails.

    What fails on a process mostly fails before the exchange: there the others wait for its numbers.
    """
    if processes() == 1:
        yield
        return
    call = _Call()
    token = _CALL.set(call)
    try:
        if know is not None:
            call.known = know()
        yield
    except Exception:
        if not call.exchanged:
            with suppress(Exception):  # where nothing can be said, the error of this process still has to be seen
                _tell_of_failure(device)
        raise
    finally:
        _CALL.reset(token)


def _tell_of_failure(device: torch.device | None) -> None:
    if dist.get_backend() == "nccl" and (device is None or device.type == "cpu"):
        device = torch.device("cuda", torch.cuda.current_device())
    _exchange([0] * (2 + len(FACTS)), device)


def _exchange(numbers: list[int], device: torch.device | None) -> list[list[int]]:
    own = torch.tensor(numbers, device=device)
    every = [torch.zeros_like(own) for _ in range(processes())]
    dist.all_gather(every, own)
    return [[int(number) for number in row] for row in torch.stack(every).tolist()]
