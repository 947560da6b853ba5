"""Pairs of files of any format as a stream for training: shuffled, weighted, divided among processes and workers."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch.utils.data import IterableDataset, get_worker_info

from rince.errors import UsageError
from rince.pairs.columns import number_batches, values
from rince.pairs.raw import raw_column
from rince.pairs.shards import file_shards
from rince.pairs.source import Source
from rince.trust.table import read_weights


class PairedFiles(IterableDataset[dict[str, Any]]):
    """Pairs from arrays, tables, texts or WebDataset tars, in a shuffled order that depends on seed and epoch only.

    Every process gets the same number of pairs. A sample is a dictionary with ``a`` and ``b`` (a row of numbers, a
    text, bytes of a media file, or its path), ``row`` and ``weight``.

    Args:
        a, b: The two columns as for ``rince audit``, or one folder of clip-retrieval or DataComp.
        ids: Column of ids. Default: keys of tars and uids of DataComp, otherwise row numbers.
        weights: Weights of the pairs, as for ``--trust``: an audit, or a table. Default: 1 for all pairs.
        shuffle: Number of pairs in the shuffle buffer; 0 reads them in order. Default: 1000.
        seed: Seed of the order.
        rank, world_size: Number of this process, and of all processes. Default: 0 of 1.
        chunk: Maximum number of pairs that are read at once. Default: 4096.

    Raises:
        UsageError: The two sides have different numbers of rows, or ``rank`` is not below ``world_size``.

    Example:
        >>> np.save("a.npy", np.eye(60, 4))
        >>> np.save("b.npy", np.eye(60, 4))
        >>> pairs = rince.trust.PairedFiles("a.npy", "b.npy", seed=1)
        >>> loader = torch.utils.data.DataLoader(pairs, batch_size=20)
        >>> [batch["a"].shape for batch in loader]
        [torch.Size([20, 4]), torch.Size([20, 4]), torch.Size([20, 4])]
    """

    def __init__(
        self,
        a: str,
        b: str | None = None,
        *,
        ids: str | None = None,
        weights: str | os.PathLike[str] | None = None,
        shuffle: int = 1000,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        chunk: int = 4096,
    ):
        if not 0 <= rank < world_size:
            raise UsageError(f"rank must be in [0, {world_size - 1}], got {rank}")
        self.shards = file_shards(a, b, ids=ids, rows=chunk, raw=True)
        self.starts = np.cumsum([0, *(shard.rows for shard in self.shards)])
        self.shuffle, self.seed, self.rank, self.world_size = shuffle, seed, rank, world_size
        self.epoch, self.consumed = 0, (0, 1)
        self.weights: NDArray[np.float32] | None = None
        if weights is not None:
            self.weights = read_weights(weights, self.pairs, self.names())  # type: ignore[arg-type]

    def names(self) -> NDArray[Any] | None:
        """Ids of all pairs in their order; None if they are named by row number."""
        columns = [shard.columns["ids"] for shard in self.shards if "ids" in shard.columns]
        return np.concatenate([values(column) for column in columns]) if columns else None

    @property
    def pairs(self) -> int:
        """Number of pairs of all processes."""
        return int(self.starts[-1])

    def __len__(self) -> int:
        """Number of pairs of this process and epoch."""
        return self.pairs // self.world_size

    def rows_of_workers(self, workers: int) -> list[int]:
        """Number of pairs of each worker, for a number of workers of this process."""
        return [len(self) * (k + 1) // workers - len(self) * k // workers for k in range(workers)]

    def resume(self, epoch: int, batches: int = 0, batch_size: int = 1) -> None:
        """Begin at an epoch, after as many batches of the loader; the number of its workers must be the same."""
        self.epoch, self.consumed = epoch, (batches, batch_size)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        worker = get_worker_info()
        batches, batch_size = self.consumed
        workers = 1 if worker is None else worker.num_workers
        # The loader takes batches from its workers in turn: the first worker begins where the last batch ended.
        number = ((0 if worker is None else worker.id) + batches) % workers
        skipped = -(-max(0, batches - number) // workers) * batch_size
        random = np.random.default_rng([self.seed, self.epoch, self.rank, number])
        for k, sample in enumerate(self._shuffled(self._rows(number, workers), random)):
            if k >= skipped:
                yield sample

    def _rows(self, number: int, workers: int) -> Iterator[dict[str, Any]]:
        """The pairs of one worker: a range of the shards in the order of this epoch."""
        order = np.arange(len(self.shards))
        if self.shuffle:
            np.random.default_rng([self.seed, self.epoch]).shuffle(order)
        ends = np.cumsum([0, *(self.shards[k].rows for k in order)])
        rows = self.rows_of_workers(workers)
        first = self.rank * len(self) + sum(rows[:number])
        last = first + rows[number]
        for position, k in enumerate(order.tolist()):
            start, stop = max(first, int(ends[position])), min(last, int(ends[position + 1]))
            if start < stop:
                offset = int(ends[position])
                yield from self._read(k, start - offset, stop - offset)

    def _read(self, k: int, start: int, stop: int) -> Iterator[dict[str, Any]]:
        shard = self.shards[k]
        a, b = (_items(source, start, stop) for source in (shard.a, shard.b))
        for row in range(stop - start):
            index = int(self.starts[k]) + start + row
            weight = 1.0 if self.weights is None else float(self.weights[index])
            yield {"a": a[row], "b": b[row], "row": index, "weight": weight}

    def _shuffled(self, samples: Iterator[dict[str, Any]], random: np.random.Generator) -> Iterator[dict[str, Any]]:
        buffer: list[dict[str, Any]] = []
        for sample in samples:
            if len(buffer) < self.shuffle:
                buffer.append(sample)
            elif self.shuffle:
                index = int(random.integers(len(buffer)))
                buffer[index], sample = sample, buffer[index]
                yield sample
            else:
                yield sample
        yield from (buffer[index] for index in random.permutation(len(buffer)).tolist())


def _items(source: Source, start: int, stop: int) -> Any:
    """Rows ``start`` to ``stop`` of a restricted source: raw items, or rows of numbers."""
    part: list[tuple[Path, int, int | None]] = []
    first = 0
    for file, begin, end in source.segments:
        assert end is not None
        low, high = max(start, first), min(stop, first + end - begin)
        if low < high:
            part.append((file, begin + low - first, begin + high - first))
        first += end - begin
    source = source._replace(part=tuple(part))
    raw = raw_column(source)
    return np.concatenate([*number_batches(source)]) if raw is None else raw.items
