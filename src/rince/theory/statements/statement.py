"""A statement, and how many random cases contradict it."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Statement:
    """A claim about every case of some kind, and a way to try it.

    Args:
        topic: what it is about, in a word or two.
        text: the claim.
        holds: whether it is true; a false one is there to show that the cases could tell.
        contradicted: draws that many random cases from a seed, and says for each whether it contradicts the claim.

    Example:
        >>> wrong = lambda cases, seed: torch.arange(cases) ** 2 < 0
        >>> Statement("numbers", "squares are not negative", True, wrong).violations(cases=100)
        0
    """

    topic: str
    text: str
    holds: bool
    contradicted: Callable[[int, int], Tensor]

    def violations(self, cases: int = 5000, seed: int = 0) -> int:
        """How many of ``cases`` random cases contradict the claim."""
        found = self.contradicted(cases, seed)
        if found.shape != (cases,):
            raise RuntimeError(f"{self.text}: {cases} cases were asked for, got answers of shape {tuple(found.shape)}")
        return int(found.sum())


def in_groups(
    check: Callable[[np.random.Generator, int, int], Tensor], numbers: list[int]
) -> Callable[[int, int], Tensor]:
    """Share the cases out among several numbers of negatives, since those of a group have to be of equal shape.

    Args:
        check: from a source of random numbers, the number of cases and the number of negatives.
        numbers: numbers of negatives.

    Returns:
        What a :class:`Statement` asks for.
    """

    def contradicted(cases: int, seed: int) -> Tensor:
        rng = np.random.default_rng(seed)
        shares = [len(part) for part in np.array_split(np.arange(cases), len(numbers))]
        return torch.cat([check(rng, share, number) for share, number in zip(shares, numbers, strict=True)])

    return contradicted


def differ(first: Tensor, second: Tensor, tolerance: float = 1e-9) -> Tensor:
    """Where two results are not the same but for rounding."""
    return (first - second).abs() > tolerance * (1 + torch.maximum(first.abs(), second.abs()))


def exceeds(first: Tensor, second: Tensor, tolerance: float = 1e-9) -> Tensor:
    """Where the first is larger than the second by more than rounding."""
    return first - second > tolerance * (1 + torch.maximum(first.abs(), second.abs()))
