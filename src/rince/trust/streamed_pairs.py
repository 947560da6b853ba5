"""Pairs streamed from arrays, tables, texts or WebDataset tars into ``rince train``."""

import functools
import hashlib
import itertools
import re
import zlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.utils.data import DataLoader

from rince.audit.encode.encoders import Encoder, encoder_for, pixels
from rince.audit.encode.run import decoded
from rince.data.module import DataModule, Split
from rince.errors import UsageError
from rince.pairs.files import file_system, is_url
from rince.pairs.raw import Kind, Raw
from rince.pairs.shards import FileShard
from rince.trust.stream import PairedFiles
from rince.views.views import PairBatch

Samples = Sequence[dict[str, Any]]


class StreamedPairs(DataModule):
    """Two columns of files of any format, read in a shuffled order and never held in memory as a whole.

    Columns are named as for ``rince audit``. Numbers are used as they are; pictures become bytes (3, size, size) and
    texts counts of hashed words, unless an encoder is named.

    Example:
        >>> np.save("a.npy", np.random.default_rng(0).normal(size=(60, 8)))
        >>> np.save("b.npy", np.random.default_rng(1).normal(size=(60, 6)))
        >>> data = rince.trust.StreamedPairs("a.npy", "b.npy", batch_size=10)
        >>> next(iter(data.pair_batches("train"))).b.shape
        torch.Size([60, 6])
    """

    def __init__(
        self,
        a: str,
        b: str | None = None,
        ids: str | None = None,
        test_a: str | None = None,
        test_b: str | None = None,
        batch_size: int = 256,
        shuffle: int = 10_000,
        workers: int = 0,
        image_size: int = 64,
        words: int = 4096,
        encoder_a: str | None = None,
        encoder_b: str | None = None,
    ):
        """
        Args:
            a: First column, as for rince audit, or one folder of clip-retrieval or DataComp.
            b: Second column.
            ids: Column with the ids of the pairs. Default: keys of tars and uids of DataComp, otherwise row numbers.
            test_a: First column of the test pairs, for rince evaluate.
            test_b: Second column of the test pairs.
            batch_size: Pairs in a batch of all processes together.
            shuffle: Pairs in the shuffle buffer of each worker; 0 reads the pairs in order.
            workers: Processes that read and decode, for each training process; 0 for none.
            image_size: Side of the pictures in pixels.
            words: Number of counts that the words of a text are hashed into.
            encoder_a: Encoder of raw items, as for rince audit --encoder-a. Default: none.
            encoder_b: Encoder of raw items, as for rince audit --encoder-b. Default: none.

        Raises:
            UsageError: batch_size is below 2.
        """
        super().__init__()
        if batch_size < 2:
            raise UsageError(f"batch_size must be at least 2, got {batch_size}")
        self.columns = {"train": (a, b), "test": (test_a, test_b)}
        self.ids, self.batch_size, self.shuffle, self.workers = ids, batch_size, shuffle, workers
        self.image_size, self.words, self.specs = image_size, words, (encoder_a, encoder_b)
        self._streams: dict[str, PairedFiles] = {}

    def stream(self, split: Split) -> PairedFiles:
        """The pairs of a part in their order."""
        if split not in self._streams:
            a, b = self.columns.get(split, (None, None))
            if a is None:
                raise UsageError(f"no {split} pairs: set data.{split}_a and data.{split}_b")
            self._streams[split] = PairedFiles(a, b, ids=self.ids if split == "train" else None, shuffle=0)
        return self._streams[split]

    @property
    def training_pairs(self) -> int:
        return self.stream("train").pairs

    def pair_names(self) -> Sequence[Any] | None:
        names = self.stream("train").names()
        return None if names is None else names.tolist()

    def fingerprint(self) -> str:
        """Hash of the names and sizes of the files."""
        code = hashlib.blake2b(digest_size=16)
        for shard in self.stream("train").shards:
            for source in (shard.a, shard.b):
                for file, start, stop in source.segments:
                    size = file_system(file)[0].size(file_system(file)[1]) if is_url(file) else file.stat().st_size
                    code.update(f"{file.name}:{source.column} {size} {start} {stop}\n".encode())
        return code.hexdigest()

    def noisy_batches(self, ids: Tensor) -> Iterator[PairBatch]:
        raise UsageError(
            "weights of streamed pairs are read from a table: run rince audit and give its folder to --trust"
        )

    def labeled_batches(self, split: Split) -> Iterator[PairBatch]:
        return self.pair_batches(split)

    def pair_batches(self, split: Split, noisy: bool = False) -> Iterator[PairBatch]:
        stream = self.stream(split)
        stream.resume(epoch=0)
        yield from DataLoader(stream, batch_size=256, collate_fn=self.collate(stream))

    def train_dataloader(self) -> "StreamLoader":
        trainer = self.trainer
        assert trainer is not None
        a, b = self.columns["train"]
        assert a is not None
        rank, processes = trainer.global_rank, trainer.world_size
        if self.batch_size % processes:
            raise UsageError(
                f"batch_size counts all processes and must be a multiple of their number, {processes}, got "
                f"{self.batch_size}"
            )
        if self.among is not None:
            self.noisy_batches(self.among)
        stream = PairedFiles(a, b, ids=self.ids, shuffle=self.shuffle, seed=self.seed, rank=rank, world_size=processes)
        seen = trainer.lightning_module.batches_seen
        batch = self.collate(stream, self.weights)
        limit = getattr(trainer, "limit_train_batches", 1.0)
        return StreamLoader(stream, self.batch_size // processes, self.workers, batch, seen, limit)

    def collate(self, stream: PairedFiles, weights: Tensor | None = None) -> Callable[[Samples], PairBatch]:
        """Function that collates samples of a stream into a batch."""
        a, b = (
            Items(stream.shards[0], side, spec, self.image_size, self.words)
            for side, spec in zip("ab", self.specs, strict=True)
        )
        return functools.partial(_batch, a, b, weights)


class StreamLoader:
    """Batches of a stream: the same number in every process; a resumed run continues with the next batch."""

    def __init__(
        self,
        stream: PairedFiles,
        batch_size: int,
        workers: int,
        collate: Callable[[Samples], PairBatch],
        seen: Callable[[], int],
        limit: int | float,
    ):
        self.stream, self.batch_size, self.workers, self.collate = stream, batch_size, workers, collate
        self.seen, self.limit = seen, limit
        if not len(self):
            raise UsageError(
                f"batch_size is too large: {stream.pairs:,} pairs give no batch to {stream.world_size} processes with "
                f"{max(1, workers)} workers each"
            )

    def __len__(self) -> int:
        return sum(rows // self.batch_size for rows in self.stream.rows_of_workers(max(1, self.workers)))

    @property
    def in_epoch(self) -> int:
        """Number of batches that the trainer uses."""
        share = self.limit if isinstance(self.limit, int) else int(len(self) * self.limit)
        return max(1, min(len(self), share))

    def __iter__(self) -> Iterator[PairBatch]:
        epoch, first = divmod(self.seen(), self.in_epoch)
        self.stream.resume(epoch, first, self.batch_size)
        loader = DataLoader(
            self.stream,
            batch_size=self.batch_size,
            num_workers=self.workers,
            collate_fn=self.collate,
            drop_last=True,
            multiprocessing_context="forkserver" if self.workers else None,
        )
        yield from itertools.islice(loader, self.in_epoch - first)


class Items:
    """Converts the items of one side to a tensor.

    Args:
        shard: A shard of the stream.
        side: "a" or "b".
        spec: Encoder; None for pixels and counts of words.
        image_size, words: As for ``StreamedPairs``.
    """

    def __init__(self, shard: FileShard, side: str, spec: str | None, image_size: int, words: int):
        raw = shard.items(side)
        self.kind: Kind | None = None if raw is None else raw.kind  # None for rows of numbers
        self.name = str(shard.a if side == "a" else shard.b)
        self.spec, self.image_size, self.words = spec, image_size, words
        self._encoder: Encoder | None = None
        if self.kind is None and spec is not None:
            raise UsageError(f"{self.name} holds numbers, which need no encoder: leave out {spec}")
        if self.kind is not None and spec is not None and encoder_for(self.kind, spec).learns:
            raise UsageError(f"the encoder {spec} learns from all items: name a trained one, or leave it out")
        if self.kind in ("sounds", "videos") and spec is None:
            raise UsageError(f"{self.name} holds {self.kind}, which need an encoder: name module:function")

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"_encoder": None}  # every worker loads its own

    def __call__(self, items: list[Any]) -> Tensor:
        if self.kind is None:
            return torch.from_numpy(np.stack([np.asarray(item, dtype=np.float32) for item in items]))
        contents, reasons = decoded(Raw(self.kind, items, self.name), range(len(items)))
        if any(item is None for item in contents):
            why = reasons[0] if reasons else "an item is missing"
            raise UsageError(f"{self.name} cannot be trained on: {why}; leave such pairs out with rince clean")
        if self.spec is not None:
            self._encoder = self._encoder or encoder_for(self.kind, self.spec)
            return torch.from_numpy(self._encoder.encode(contents))
        if self.kind == "pictures":
            return pixels(contents, self.image_size)
        return torch.from_numpy(np.stack([word_counts(text, self.words) for text in contents]))


def word_counts(text: str, width: int) -> NDArray[np.float32]:
    """Counts of the hashed words and word pairs of a text, scaled to length one."""
    counts = np.zeros(width, dtype=np.float32)
    words = re.findall(r"\w+", text.lower())
    for token in itertools.chain(words, map(" ".join, itertools.pairwise(words))):
        counts[zlib.crc32(token.encode("utf-8", "surrogatepass")) % width] += 1
    return counts / max(1.0, float(np.linalg.norm(counts)))


def _batch(a: Items, b: Items, weights: Tensor | None, samples: Samples) -> PairBatch:
    ids = torch.tensor([sample["row"] for sample in samples])
    sides = [make([sample[side] for sample in samples]) for side, make in (("a", a), ("b", b))]
    labels = torch.full((len(samples),), -1)
    return PairBatch(sides[0], sides[1], labels, ids, weights=None if weights is None else weights[ids])
