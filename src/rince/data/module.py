"""Base class of data sets, and the sampler that decides which items each batch holds."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from lightning.pytorch import LightningDataModule
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, Sampler

from rince._support.step_seeds import generator
from rince.errors import UsageError
from rince.views.views import ClipBatch, ImageBatch, PairBatch

Pairing = Literal["self", "label"]
Split = Literal["train", "validation", "test"]
MAX_CLASSES = 1_000_000  # a layer, or a count, has a place for every one
Labeled = ImageBatch | PairBatch | ClipBatch


class DataModule(LightningDataModule):
    """Base class of all data sets of rince, and of yours.

    A subclass has to define ``train_dataloader()``. Its batches are of a type that the method accepts: ``ImageBatch``,
    ``PairBatch``, ``ClipBatch`` (``rince.views``), or a batch of PyG. ``rince.data.module.SeededBatches`` says which
    items a batch holds, so that a killed run resumes with the very next one. Everything else has a default:

    - ``classes`` for the online probe and for fine-tuning, 0 where there are no labels;
    - ``labeled_batches`` for ``rince evaluate`` and ``rince finetune``;
    - ``pair_batches`` for ``rince evaluate`` of two towers;
    - ``fingerprint`` so that a run resumes with the same data only;
    - ``noise_record`` if it makes noise on purpose, ``check_views`` if it can tell views that do not fit;
    - ``training_pairs`` and, where pairs have names, ``pair_names`` for ``--trust TABLE``; ``noisy_batches`` and, where
      pairs may come up twice, ``equal_pairs`` too for ``--trust auto``. A loader then passes ``weights_of(ids)`` with
      its batches and learns from ``among`` only.

    Attributes:
        seed: Set by the run; the order of the items depends on it.
        pairing: Set by the method: a positive is another view of the item itself, or another item of its label.
        sharded_tests: Whether ``test_dataloader`` gives every process its own share, or all of them everything.
        folder: Set by the run: its folder, for notes that belong to it.
        class_names: Names of the classes, where they have any.
        weights: Set by the run: weight of each training pair in [0, 1]; None for all alike.
        among: Set by the run: the numbers of the training pairs to learn from; None for all of them.

    Example:
        >>> class Mine(rince.data.DataModule):
        ...     def train_dataloader(self):
        ...         batch = rince.views.PairBatch(torch.randn(8, 4), torch.randn(8, 4), torch.zeros(8), torch.arange(8))
        ...         return [batch] * 10
        >>> Mine().classes
        0
    """

    seed: int = 0
    pairing: Pairing = "self"
    sharded_tests: bool = False
    folder: Path | None = None
    class_names: tuple[str, ...] = ()
    weights: Tensor | None = None
    among: Tensor | None = None

    @property
    def training_pairs(self) -> int:
        """How many pairs there are to train on. The ``ids`` of a batch are their numbers, from 0."""
        raise UsageError(
            f"{type(self).__name__} does not say how many training pairs it has, so they cannot be weighted: "
            "define the property training_pairs"
        )

    def pair_names(self) -> Sequence[Any] | None:
        """Names of the training pairs in order, as used in tables; None if they are named by index."""
        return None

    def equal_pairs(self) -> NDArray[np.int64] | None:
        """Index of the first equal pair, for every training pair; None if no duplicates are known.

        ``--trust auto`` keeps duplicates in one fold, so that no model scores a copy of a pair it was trained on.
        """
        return None

    def weights_of(self, ids: Tensor) -> Tensor | None:
        """Weights of the training pairs of these indices; None if all weigh the same."""
        return None if self.weights is None else self.weights[ids]

    def noisy_batches(self, ids: Tensor) -> Iterable[Any]:
        """The training pairs of these indices as training sees them, including noise, without random augmentation.

        Default: the matching items of ``pair_batches("train", noisy=True)``.
        """
        wanted = torch.zeros(self.training_pairs, dtype=torch.bool)
        wanted[ids] = True
        return _only(self.pair_batches("train", noisy=True), wanted)

    @property
    def classes(self) -> int:
        """Number of classes; 0 without labels."""
        return 0

    def noise_record(self) -> dict[str, Any]:
        """Arrays that record injected noise, saved with the run. ``partner_hit`` marks mismatched pairs."""
        return {}

    def fingerprint(self) -> str:
        """Hash of the training data, so that a run is only resumed with the same data. Default: empty, not checked."""
        return ""

    def check_views(self, views: nn.Module) -> None:
        """Raise a ``UsageError`` if the views do not fit these data."""

    def labeled_batches(self, split: Split) -> Iterable[Labeled]:
        """Batches of a split in order, with clean labels (-1 if unknown)."""
        raise UsageError(f"{type(self).__name__} gives nothing to evaluate: it needs a method labeled_batches(part)")

    def pair_batches(self, split: Split, noisy: bool = False) -> Iterable[PairBatch]:
        """Batches of a split in order: clean pairs or, if ``noisy``, those used for training."""
        raise UsageError(
            f"{type(self).__name__} gives no pairs to evaluate: it needs a method pair_batches(part, noisy=False)"
        )

    def test_dataloader(self) -> Any:
        """The test split with its labels."""
        return DataLoader(list(self.labeled_batches("test")), batch_size=None)  # type: ignore[arg-type]


def _only(batches: Iterable[PairBatch], wanted: Tensor) -> Iterator[PairBatch]:
    for batch in batches:
        chosen = wanted[batch.ids]
        if chosen.any():
            yield batch._replace(
                a=batch.a[chosen], b=batch.b[chosen], labels=batch.labels[chosen], ids=batch.ids[chosen]
            )


def class_numbers(labels: Any, count: int, what: str) -> Tensor:
    """Validated labels of a file: a class index each, or -1 for none.

    Args:
        labels: One integer per item.
        count: How many items there are.
        what: What to call the labels where they are wrong.

    Raises:
        UsageError: If they are no such numbers.
    """
    labels = np.asarray(labels)
    if labels.shape != (count,) or not np.issubdtype(labels.dtype, np.integer):
        raise UsageError(f"{what} must be {count} whole numbers, got {labels.dtype} {labels.shape}")
    for extreme in (labels.min(), labels.max()) if count else ():
        if not -1 <= int(extreme) < MAX_CLASSES:
            raise UsageError(
                f"{what} must be numbers of classes below {MAX_CLASSES}, or -1 for none, got {extreme}: number the "
                "classes 0, 1, ..."
            )
    return torch.from_numpy(labels.astype(np.int64))


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
