"""Base class of data sets, and the batch sampler."""

from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from lightning.pytorch import LightningDataModule
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader, Sampler

from rince._support.fingerprints import of_tensors
from rince._support.step_seeds import generator
from rince.errors import MissingFile, UsageError
from rince.noise.pairs import WrongPairs, wrong_pairs
from rince.views.views import ClipBatch, ImageBatch, PairBatch

Pairing = Literal["self", "label"]
Split = Literal["train", "validation", "test"]
Labeled = ImageBatch | PairBatch | ClipBatch


class DataModule(LightningDataModule):
    """Base class of data sets.

    A subclass must define ``train_dataloader()``. Its batches are of a type that the method accepts: ``ImageBatch``,
    ``PairBatch``, ``ClipBatch`` (``rince.views``), or a PyG batch. Sample them with
    ``rince.data.module.SeededBatches``, so that an interrupted run resumes with the next batch. The other methods have
    defaults:

    - ``classes``, for the online probe and fine-tuning;
    - ``labeled_batches``, for ``rince evaluate`` and ``rince finetune``;
    - ``pair_batches``, for ``rince evaluate`` of two-tower models;
    - ``fingerprint``, to resume a run with the same data only;
    - ``noise_record``, if noise is added; ``check_views``, to reject views that do not fit;
    - ``training_pairs`` and, if pairs have names, ``pair_names``, for ``--trust TABLE``; also ``noisy_batches`` and, if
      there may be duplicates, ``equal_pairs``, for ``--trust auto``. The loader then passes ``weights_of(ids)`` with
      its batches and samples from ``among`` only.

    Attributes:
        seed: Seed of the order of the items; set by the run.
        pairing: "self" if positives are views of the same item, "label" if they share a label; set by the
            method.
        sharded_tests: Whether ``test_dataloader`` returns a different part of the test split on every rank.
        folder: Folder of the run; set by the run.
        class_names: Names of the classes, if any.
        weights: (training_pairs,) weights in [0, 1], or None for equal weights; set by the run.
        among: Indices of the training pairs to use, or None for all; set by the run.

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
        """Number of training pairs. The ``ids`` of a batch are indices of pairs."""
        raise UsageError(
            f"{type(self).__name__} has no property training_pairs, so its pairs cannot be weighted: define it"
        )

    def pair_names(self) -> Sequence[Any] | None:
        """Names of the training pairs in order, as used in tables. Default: None, pairs are named by index."""
        return None

    def equal_pairs(self) -> NDArray[np.int64] | None:
        """Index of the first equal pair for every training pair. Default: None, no duplicates.

        ``--trust auto`` keeps duplicates in one fold, so that no model scores a copy of a pair it was trained on.
        """
        return None

    def weights_of(self, ids: Tensor) -> Tensor | None:
        """Weights of the training pairs ``ids``; None for equal weights."""
        return None if self.weights is None else self.weights[ids]

    def noisy_batches(self, ids: Tensor) -> Iterable[Any]:
        """Training pairs ``ids`` including noise, without random augmentation.

        Default: the matching items of ``pair_batches("train", noisy=True)``.
        """
        mask = torch.zeros(self.training_pairs, dtype=torch.bool)
        mask[ids] = True
        return _only(self.pair_batches("train", noisy=True), mask)

    @property
    def classes(self) -> int:
        """Number of classes; 0 without labels."""
        return 0

    def noise_record(self) -> dict[str, Any]:
        """Arrays that record injected noise, saved with the run. ``partner_hit`` marks mismatched pairs."""
        return {}

    def fingerprint(self) -> str:
        """Hash of the training data, checked when a run is resumed. Default: empty, not checked."""
        return ""

    def check_views(self, views: nn.Module) -> None:
        """Raise a ``UsageError`` if the views do not fit these data."""

    def labeled_batches(self, split: Split) -> Iterable[Labeled]:
        """Batches of a split in order, with clean labels (-1 if unknown)."""
        raise UsageError(f"{type(self).__name__} cannot be evaluated: it has no method labeled_batches(split)")

    def pair_batches(self, split: Split, noisy: bool = False) -> Iterable[PairBatch]:
        """Batches of a split in order: clean pairs or, if ``noisy``, those used for training."""
        raise UsageError(f"{type(self).__name__} has no pairs: it has no method pair_batches(split, noisy=False)")

    def test_dataloader(self) -> Any:
        """The test split with its labels."""
        return DataLoader(list(self.labeled_batches("test")), batch_size=None)  # type: ignore[arg-type]


def _only(batches: Iterable[PairBatch], mask: Tensor) -> Iterator[PairBatch]:
    for batch in batches:
        chosen = mask[batch.ids]
        if chosen.any():
            yield batch._replace(
                a=batch.a[chosen], b=batch.b[chosen], labels=batch.labels[chosen], ids=batch.ids[chosen]
            )


class InMemory(DataModule):
    """Splits in memory: tuples of tensors with one row per item; the last tensor holds the labels."""

    def __init__(self, batch_size: int = 256, wrong_pairs: float = 0.0, wrong_pairs_seed: int = 0):
        super().__init__()
        self.batch_size, self.wrong_pairs, self.wrong_pairs_seed = batch_size, wrong_pairs, wrong_pairs_seed
        self.mispaired: WrongPairs | None = None
        self._splits: dict[str, Any] = {}

    def read(self) -> dict[str, Any]:
        """Splits by name."""
        raise NotImplementedError

    def setup(self, stage: str | None = None) -> None:
        if self._splits:
            return
        self._splits = self.read()
        self.add_noise()

    def add_noise(self) -> None:
        """Draw the noise of the training split."""
        if self.wrong_pairs:
            train = self._splits["train"]
            groups = self.groups(train)
            keys = None if groups is None else groups.numpy()
            self.mispaired = wrong_pairs(len(train[0]), self.wrong_pairs, self.wrong_pairs_seed, keys)

    def groups(self, train: Any) -> Tensor | None:
        """(pairs,) groups within which pairs are not mismatched, such as classes; None for no groups."""
        return None

    @property
    def classes(self) -> int:
        self.setup()
        return max((int(part[-1].max()) for part in self._splits.values() if len(part[-1])), default=-1) + 1

    def split(self, split: Split) -> Any:
        """Clean items of a split; the last tensor holds the labels."""
        self.setup()
        if split not in self._splits:
            raise UsageError(f"{type(self).__name__} has no split '{split}', only {', '.join(self._splits)}")
        return self._splits[split]

    def fingerprint(self) -> str:
        return of_tensors(self.split("train"))

    @property
    def training_pairs(self) -> int:
        return len(self.split("train")[0])

    @property
    def partners(self) -> Tensor | None:
        """(n,) indices of the items whose second side is used, if pairs are mismatched."""
        return None if self.mispaired is None else torch.from_numpy(self.mispaired.partner)

    def noise_record(self) -> dict[str, Any]:
        """Arrays that record which items the noise changed, saved with the run."""
        self.setup()
        return {} if self.mispaired is None else self.mispaired.record()


def class_numbers(labels: Any, count: int, what: str) -> Tensor:
    """Validated labels of a file: class indices, or -1 for none.

    Args:
        labels: One integer per item.
        count: Number of items.
        what: Name of the labels in errors.

    Raises:
        UsageError: If there are other values.
    """
    labels = np.asarray(labels)
    if labels.shape != (count,) or not np.issubdtype(labels.dtype, np.integer):
        raise UsageError(f"{what} must be {count} whole numbers, got {labels.dtype} {labels.shape}")
    if count and int(labels.min()) < -1:
        raise UsageError(f"{what} must be classes 0, 1, ..., or -1 for none, got {labels.min()}")
    return torch.from_numpy(labels.astype(np.int64))


def list_class_folders(
    folder: Path, endings: Container[str], items: str, classes: tuple[str, ...] | None = None
) -> tuple[tuple[str, ...], list[Path], list[int]]:
    """Class names, files and labels of ``folder/CLASS/**``.

    Args:
        folder: Folder with one folder per class.
        endings: Endings of the files, in lower case.
        items: Kind of the files, for errors.
        classes: Names of the classes of the training part. Default: None, this is the training part.

    Raises:
        MissingFile: If the folder does not exist.
        UsageError: If a class is empty, or the classes differ from those of training.
    """
    if not folder.is_dir():
        raise MissingFile(f"{folder} does not exist: {items} must be in {folder}/CLASS/")
    names = tuple(sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith(".")))
    paths: list[Path] = []
    labels: list[int] = []
    for label, name in enumerate(names):
        in_class = sorted(p for p in (folder / name).rglob("*") if p.suffix.lower() in endings and p.is_file())
        if not in_class:
            raise UsageError(f"the class folder {folder / name} has no {items}: add some or remove it")
        paths += in_class
        labels += [label] * len(in_class)
    if classes is not None and names != classes:
        differing = sorted(set(names) ^ set(classes))
        raise UsageError(f"{folder} and train must have the same classes: {differing[0]} is in one of them only")
    return names, paths, labels


class SeededBatches(Sampler[list[int]]):
    """Random batches of item indices, determined by the seed.

    A resumed run continues in the middle of an epoch with the next batch.

    Args:
        items: Number of items.
        batch_size: Batch size over all processes. Each process gets its consecutive part.
        seed: Seed of the order.
        seen: Returns the number of batches so far; iteration resumes there, until the end of the epoch.
        rank: Rank of this process.
        processes: Number of processes.
        limit: ``limit_train_batches`` of the trainer: number of batches per epoch, or a share of all.
        among: Indices of the items to sample from. Default: None, all.
        keep_last: Keep the last, smaller batch if it has at least two items per process. Default: False.
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
            raise UsageError(f"batch_size must be at least 2, got {batch_size}: a pair needs at least one negative")
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
        """Batches for the current training."""
        seen = trainer.lightning_module.batches_seen
        limit = getattr(trainer, "limit_train_batches", 1.0)
        return cls(items, batch_size, seed, seen, trainer.global_rank, trainer.world_size, limit, among, keep_last)

    def __len__(self) -> int:
        """Number of batches of all items; the trainer applies its limit."""
        return self.items // self.batch_size + self.keep_last

    @property
    def in_epoch(self) -> int:
        """Batches per epoch under the limit of the trainer, at least one."""
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


class StepBatches:
    """Keys for ``DataLoader`` workers, which derive all random numbers from them.

    Args:
        batches: Indices of each batch.
        keys: Called with the indices of a batch and its step; returns a key per item. Default: (index, step).
    """

    def __init__(self, batches: SeededBatches, keys: Callable[[list[int], int], list[Any]] | None = None):
        self.batches = batches
        self.keys = keys or (lambda chosen, step: [(item, step) for item in chosen])

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[list[Any]]:
        for step, chosen in enumerate(self.batches, start=self.batches.seen()):
            yield self.keys(chosen, step)


class SeededLoader:
    """Batches made in this process, by indexing tensors in memory.

    Args:
        batches: Indices of each batch.
        make: Called with the indices of a batch and its step; returns the batch.
    """

    def __init__(self, batches: SeededBatches, make: Callable[[Tensor, int], Any]):
        self.batches, self.make = batches, make

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        for step, chosen in enumerate(self.batches, start=self.batches.seen()):
            yield self.make(torch.tensor(chosen), step)
