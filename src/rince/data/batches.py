"""Which items a batch holds: an order that depends on the seed and the epoch alone, on any number of processes."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Sampler

from rince._support.step_seeds import generator
from rince.errors import UsageError


class SeededBatches(Sampler[list[int]]):
    """Batches of ``batch_size`` items over all processes, of which this process gets its consecutive part.

    ``seen`` tells how many batches training has behind it; iteration goes on from there to the end of that epoch. So a
    resumed run continues in the middle of an epoch with the very next batch. The last, smaller batch is left out, or
    kept (``keep_last``) if it holds at least two items for every process.
    ``limit`` is the trainer's ``limit_train_batches``: the number of batches that make an epoch, or a share of all.
    ``among`` are the numbers of the items to draw from, where these are not all.
    """

    def __init__(
        self,
        items: int,
        batch_size: int,
        seed: int,
        seen: Callable[[], int],
        rank: int = 0,
        processes: int = 1,
        limit: int | float = 1.0,
        among: Tensor | None = None,
        keep_last: bool = False,
    ):
        items = items if among is None else len(among)
        if batch_size < 2:
            raise UsageError(
                f"batch_size must be at least 2, got {batch_size}: a pair needs another one to differ from"
            )
        if batch_size > items:
            raise UsageError(f"batch_size must be at most the number of items, {items}, got {batch_size}")
        if batch_size % processes:
            raise UsageError(
                f"batch_size counts all processes and must be a multiple of their number, {processes}, got {batch_size}"
            )
        self.items, self.batch_size, self.seed, self.seen = items, batch_size, seed, seen
        self.rank, self.processes, self.limit, self.among = rank, processes, limit, among
        self.keep_last = keep_last and items % batch_size >= 2 * processes

    @classmethod
    def of_trainer(
        cls,
        trainer: Any,
        items: int,
        batch_size: int,
        seed: int,
        among: Tensor | None = None,
        keep_last: bool = False,
    ) -> "SeededBatches":
        """For the training that is under way."""
        seen = trainer.lightning_module.batches_seen
        limit = getattr(trainer, "limit_train_batches", 1.0)
        return cls(items, batch_size, seed, seen, trainer.global_rank, trainer.world_size, limit, among, keep_last)

    def __len__(self) -> int:
        """All batches there are; the trainer takes its limit of them by itself."""
        return self.items // self.batch_size + self.keep_last

    @property
    def in_epoch(self) -> int:
        """How many of them the trainer takes, at least one."""
        share = self.limit if isinstance(self.limit, int) else int(len(self) * self.limit)
        return max(1, min(len(self), share))

    def __iter__(self) -> Iterator[list[int]]:
        epoch, first = divmod(self.seen(), self.in_epoch)
        order = torch.randperm(self.items, generator=generator(self.seed, epoch, 1))
        order = order if self.among is None else self.among[order]
        for batch in range(first, self.in_epoch):
            share = min(self.batch_size, self.items - batch * self.batch_size) // self.processes
            start = batch * self.batch_size + self.rank * share
            yield order[start : start + share].tolist()
