"""What all processes of a call have to agree on, said in one exchange instead of a dead wait.

A collective in which processes differ hangs or aborts without a word. Each call of a loss therefore starts with a few
integers from every process: the sizes of the batches, which are needed anyway, and what must be the same.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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
    """A setting of a loss as it travels. One that is learned is kept the same by what keeps the models the same."""
    return min(round(setting * UNITS), 2**62) if isinstance(setting, (int, float)) else -1


def _setting(otherwise: str) -> Callable[[int], str]:
    return lambda fact: otherwise if fact < 0 else f"{fact / UNITS:g}"


# In the order in which they travel: what a fact is called, and what its numbers stand for.
FACTS: dict[str, tuple[str, Callable[[int], object]]] = {
    "width": ("width of the embeddings", int),
    "views": ("number of views", int),
    "dtype": ("precision of the scores", DTYPES.__getitem__),
    "ids": ("ids", GIVEN.__getitem__),
    "labels": ("labels", GIVEN.__getitem__),
    "weights": ("weights", GIVEN.__getitem__),
    "reduction": ("reduction", REDUCTIONS.__getitem__),
    "training": ("mode", ("eval", "train").__getitem__),
    "temperature": ("temperature", _setting("a learned one")),
    "q": ("q", _setting("none")),
}


class Disagreement(UsageError):
    """Raised on all processes at once, so nobody has to be told."""


class _Call:
    """The call of a loss: what it adds to the facts, and whether the processes have exchanged them yet."""

    def __init__(self, facts: dict[str, int]):
        self.facts, self.exchanged = facts, False


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
    call = _CALL.get()
    if call is not None:
        facts |= call.facts
        call.exchanged = True
    rows = _exchange([1, first.shape[0], *(facts.get(name, 0) for name in FACTS)], first.device)
    for rank, (accepted, *_) in enumerate(rows):
        if not accepted:
            raise Disagreement(f"process {rank} refused what it was given, see its own error: no process goes on")
    for i, (name, meaning) in enumerate(FACTS.values(), start=2):
        for rank, row in enumerate(rows):
            if row[i] != rows[0][i]:
                here, there = meaning(rows[0][i]), meaning(row[i])
                raise Disagreement(
                    f"all processes must give the same {name}, got {here} on process 0 and {there} on process {rank}"
                )
    return [row[1] for row in rows]


@contextmanager
def one_call(device: torch.device | None, **facts: int) -> Iterator[None]:
    """The call of a loss: facts that are exchanged with its batch, and a word to the others if this process fails.

    What a process refuses, it refuses before the exchange: there the others wait for its numbers.
    """
    if processes() == 1:
        yield
        return
    call = _Call(facts)
    token = _CALL.set(call)
    try:
        yield
    except (UsageError, TypeError):
        if not call.exchanged:
            if dist.get_backend() == "nccl" and (device is None or device.type == "cpu"):
                device = torch.device("cuda", torch.cuda.current_device())
            _exchange([0] * (2 + len(FACTS)), device)
        raise
    finally:
        _CALL.reset(token)


def _exchange(numbers: list[int], device: torch.device | None) -> list[list[int]]:
    own = torch.tensor(numbers, device=device)
    every = [torch.zeros_like(own) for _ in range(processes())]
    dist.all_gather(every, own)
    return [[int(number) for number in row] for row in torch.stack(every).tolist()]
