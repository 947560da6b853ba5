"""Random numbers as a function of the training step, so that a resumed run draws the same numbers."""

import random

import numpy as np
import torch


def generator(*key: int) -> torch.Generator:
    """A generator on the CPU that depends only on ``key``: (seed, ..., a positive number for its purpose)."""
    return torch.Generator().manual_seed(number(*key))


def number(*key: int) -> int:
    """63 well mixed bits from a few small integers; trailing zeros are ignored."""
    return int(np.random.SeedSequence(key).generate_state(1, np.uint64)[0]) >> 1


def seed_globally(value: int, device: torch.device) -> None:
    """Seed the global generators of torch, on the CPU and on ``device``, of numpy and of Python.

    ``torch.manual_seed`` also appends a stack trace for every missing kind of device to a list that is never emptied,
    which leaks memory if it is called in every step.
    """
    random.seed(value)
    np.random.seed(value % 2**32)  # noqa: NPY002 (third-party transforms use it)
    torch.default_generator.manual_seed(value)
    if device.type == "cuda":
        torch.cuda.manual_seed(value)
    elif device.type == "mps":
        torch.mps.manual_seed(value)


class Draws:
    """Random numbers for the items of this process: a slice of those for the global batch.

    An item gets the same numbers on any number of processes. They are drawn on the CPU for the same reason.

    Args:
        generator: Source of the numbers.
        items: Number of items of this process.
        rank: Rank of this process.
        processes: Number of processes that share the batch.

    Example:
        >>> draw = rince.views.Draws(torch.Generator().manual_seed(0), items=3)
        >>> draw.uniform().shape, draw.chance(0.5).dtype, draw.uniform(shape=(4, 2)).shape
        (torch.Size([3]), torch.bool, torch.Size([3, 4, 2]))
    """

    def __init__(self, generator: torch.Generator, items: int, rank: int = 0, processes: int = 1):
        self.generator, self.items, self.rank, self.processes = generator, items, rank, processes

    def uniform(self, low: float = 0.0, high: float = 1.0, shape: tuple[int, ...] = ()) -> torch.Tensor:
        """(items, *shape) numbers in [low, high)."""
        numbers = torch.rand((self.items * self.processes, *shape), generator=self.generator)
        return numbers[self.rank * self.items :][: self.items] * (high - low) + low

    def chance(self, probability: float) -> torch.Tensor:
        """(items,) booleans, True with the given probability."""
        return self.uniform() < probability

    def orders(self, length: int) -> torch.Tensor:
        """(items, length): a random order of 0 .. length - 1 for every item."""
        return self.uniform(shape=(length,)).argsort(1)
