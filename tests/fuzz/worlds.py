"""Losses on two and three processes against the dense float64 reference of the joined batch."""

import random
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection
from typing import Any

import torch
import torch.distributed as dist

import losses

WORLDS = (2, 3)
SECONDS = 120  # that a process waits for the others before it is a hang


class Worlds:
    """Processes that wait for cases: those of a world of two, and those of a world of three."""

    def __init__(self, lines: dict[int, list[Connection]]):
        self.lines = lines

    def one(self, chance: random.Random) -> tuple[str, str | None]:
        world = chance.choice(WORLDS)
        state = chance.getstate()
        case = losses.drawn(chance, most=200, several=True)
        sizes = shares(chance, len(case.z1), world)
        what = f"{case} over {sizes}"
        for line in self.lines[world]:
            line.send((state, sizes))
        told = []
        for rank, line in enumerate(self.lines[world]):
            if not line.poll(SECONDS):
                return what, f"hangs: process {rank} has not answered after {SECONDS} s"
            told.append(line.recv())
        if problems := [one for one in told if isinstance(one, str)]:
            return what, problems[0]
        value = torch.stack([value for value, _ in told]).mean()
        firsts, seconds = zip(*(gradient.chunk(2) for _, gradient in told), strict=True)
        got = torch.cat([*firsts, *seconds]).double() / world
        return what, losses.difference(case, value, got, losses.dense(case))


def shares(chance: random.Random, n: int, world: int) -> list[int]:
    """How many pairs each process has; one of them may have none."""
    cuts = sorted(chance.randint(0, n) for _ in range(world - 1))
    return [b - a for a, b in zip([0, *cuts], [*cuts, n], strict=True)]


@contextmanager
def worlds() -> Iterator[Worlds]:
    context = get_context("fork")
    lines: dict[int, list[Connection]] = {}
    started = []
    with tempfile.TemporaryDirectory() as folder:
        for world in WORLDS:
            lines[world] = []
            for rank in range(world):
                ours, theirs = context.Pipe()
                process = context.Process(target=_serve, args=(theirs, rank, world, f"{folder}/{world}"), daemon=True)
                process.start()
                started.append(process)
                lines[world].append(ours)
        try:
            yield Worlds(lines)
        finally:
            for line in (line for of_world in lines.values() for line in of_world):
                line.send(None)
            for process in started:
                process.join(10)
                if process.is_alive():
                    process.kill()


def _serve(line: Connection, rank: int, world: int, meeting: str) -> None:
    torch.set_num_threads(1)
    timeout = timedelta(seconds=SECONDS)
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=world, timeout=timeout)
    while (given := line.recv()) is not None:
        try:
            answer: Any = _part(*given, rank)
        except Exception as error:
            answer = f"process {rank}: {type(error).__name__}: {error}"
        line.send(answer)
    dist.destroy_process_group()


def _part(state: Any, sizes: list[int], rank: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Value and gradient of one process: of its own pairs, with those of all others as candidates."""
    chance = random.Random()
    chance.setstate(state)
    case = losses.drawn(chance, most=200, several=True)
    own = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
    z1, z2 = (z.detach()[own].clone().requires_grad_() for z in (case.z1, case.z2))
    given = {name: None if (x := getattr(case, name)) is None else x[own] for name in ("ids", "weights")}
    labels = case.labels[own] if case.kind == "Supervised" else None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loss = case.loss.make(contrast=losses.CONTRASTS[case.kind](z1.shape[1]), reduction=case.reduction)
        if case.kind == "Queue":  # which all processes keep alike
            mine = torch.arange(len(case.queue)).tensor_split(len(sizes))[rank]
            ids = {} if case.ids is None else {"ids": case.queue_ids[mine]}
            loss.contrast.push(case.queue[mine], **ids)
        value = loss(z1, z2, labels=labels, **given)
    gradients = torch.autograd.grad(value, (z1, z2), materialize_grads=True)
    return value.detach(), torch.cat(gradients)
