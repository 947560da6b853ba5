"""Pairs in memory, batch by batch, optionally with wrong pairs."""

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rince._support.fingerprints import equal_rows, of_tensors
from rince.data.batches import SeededBatches
from rince.data.module import DataModule, Split
from rince.errors import UsageError
from rince.noise.pairs import WrongPairs, wrong_pairs
from rince.views.batch import PairBatch


class Part(NamedTuple):
    """Items that belong together row by row.

    Attributes:
        a: The items of the first side.
        b: Their partners.
        labels: The class of each pair, -1 where unknown.

    Example:
        >>> part = rince.data.pairs.Part(torch.randn(8, 40), torch.randn(8, 24), torch.full((8,), -1))
    """

    a: Tensor
    b: Tensor
    labels: Tensor


class Pairs(DataModule):
    """Pairs in memory. A subclass returns the parts "train" and "test" from ``read``.

    Example:
        >>> from rince.data.pairs import Part
        >>> class Mine(rince.data.Pairs):
        ...     def read(self):
        ...         a, b, labels = torch.randn(60, 8), torch.randn(60, 6), torch.full((60,), -1)
        ...         return {"train": Part(a[:50], b[:50], labels[:50]), "test": Part(a[50:], b[50:], labels[50:])}
        >>> data = Mine(batch_size=10, wrong_pairs=0.2)
        >>> data.setup()
        >>> int(data.noise_record()["partner_hit"].sum())
        10
    """

    def __init__(self, batch_size: int = 256, wrong_pairs: float = 0.0, wrong_pairs_seed: int = 0):
        """
        Args:
            batch_size: Pairs in a batch of all processes together.
            wrong_pairs: Share of training pairs in which ``b`` belongs to another pair.
            wrong_pairs_seed: Seed that chooses these pairs, and whose ``b`` they get.

        Raises:
            UsageError: If wrong_pairs does not lie in [0, 1].
        """
        super().__init__()
        if not 0 <= wrong_pairs <= 1:
            raise UsageError(f"wrong_pairs must lie in [0, 1], got {wrong_pairs}")
        self.batch_size = batch_size
        self.wrong_pairs, self.wrong_pairs_seed = wrong_pairs, wrong_pairs_seed
        self.mispaired: WrongPairs | None = None
        self._parts: dict[str, Part] = {}

    def read(self) -> dict[str, Part]:
        """The right pairs of the parts "train", "test" and, where there is one, "validation"."""
        raise NotImplementedError

    def setup(self, stage: str | None = None) -> None:
        if self._parts:
            return
        self._parts = self.read()
        train = self._parts["train"]
        if self.wrong_pairs:
            groups = self.groups(train)
            keys = None if groups is None else groups.numpy()
            self.mispaired = wrong_pairs(len(train.labels), self.wrong_pairs, self.wrong_pairs_seed, keys)

    def groups(self, train: Part) -> Tensor | None:
        """Within these a partner would be as right as the own one, so a wrong pair is never made of one group."""
        return None

    @property
    def classes(self) -> int:
        self.setup()
        return max((int(part.labels.max()) for part in self._parts.values() if len(part.labels)), default=-1) + 1

    def split(self, split: Split) -> Part:
        """The right pairs of a part."""
        self.setup()
        if split not in self._parts:
            raise UsageError(f"there is no part '{split}' of {type(self).__name__}, only {', '.join(self._parts)}")
        return self._parts[split]

    def fingerprint(self) -> str:
        return of_tensors(self.split("train"))

    def pair_batches(self, split: Split, noisy: bool = False, batch_size: int = 256) -> Iterator[PairBatch]:
        """A part in order, batch by batch: the right pairs or, ``noisy``, those that training sees."""
        part = self.split(split)
        for ids in torch.arange(len(part.labels)).split(batch_size):
            yield self._batch(part, ids, noisy and split == "train")

    def labelled_batches(self, split: Split) -> Iterator[PairBatch]:
        return self.pair_batches(split)

    def noise_record(self) -> dict[str, Any]:
        """What the noise hit, as arrays to be saved with the run."""
        self.setup()
        if self.mispaired is None:
            return {}
        index = self.mispaired.partner
        digest = hashlib.sha256(index.tobytes()).hexdigest()
        return {"partner": index, "partner_hit": self.mispaired.hit, "partner_sha256": np.array(digest)}

    @property
    def training_pairs(self) -> int:
        return len(self.split("train").labels)

    def equal_pairs(self) -> NDArray[np.int64] | None:
        part = self.split("train")
        b = part.b if self.mispaired is None else part.b[torch.from_numpy(self.mispaired.partner)]
        return equal_rows(part.a, b)

    def noisy_batches(self, ids: Tensor, batch_size: int = 256) -> Iterator[PairBatch]:
        part = self.split("train")
        for chosen in ids.split(batch_size):
            yield self._batch(part, chosen, noisy=True)

    def train_dataloader(self) -> "PairLoader":
        trainer = self.trainer
        assert trainer is not None
        batches = SeededBatches.of_trainer(trainer, self.training_pairs, self.batch_size, self.seed, self.among)
        return PairLoader(self, batches)

    def _batch(self, part: Part, ids: Tensor, noisy: bool) -> PairBatch:
        partners = ids if self.mispaired is None or not noisy else torch.from_numpy(self.mispaired.partner)[ids]
        return PairBatch(part.a[ids], part.b[partners], part.labels[ids], ids)


class PairLoader:
    """Indexes whole batches out of tensors: for pairs in memory there is nothing for workers to do."""

    def __init__(self, pairs: Pairs, batches: SeededBatches):
        self.pairs, self.batches = pairs, batches

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[PairBatch]:
        part = self.pairs.split("train")
        for chosen in self.batches:
            ids = torch.tensor(chosen)
            yield self.pairs._batch(part, ids, noisy=True)._replace(weights=self.pairs.weights_of(ids))
