"""Pairs of two modalities in memory: arrays and Hugging Face data sets."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rince._support.fingerprints import equal_rows
from rince._support.optional_imports import import_library
from rince.data.images import array_of, read_npz
from rince.data.module import InMemory, SeededBatches, SeededLoader, Split, class_numbers
from rince.errors import UsageError
from rince.views.views import PairBatch

__path__: list[str] = []  # until 0.4, rince._moved finds the submodules of version 0.2


class Part(NamedTuple):
    """Pairs of one split.

    Attributes:
        a: (pairs, ...) items of the first side.
        b: (pairs, ...) items of the second side.
        labels: (pairs,) classes, -1 if unknown.

    Example:
        >>> part = rince.data.pairs.Part(torch.randn(8, 40), torch.randn(8, 24), torch.full((8,), -1))
    """

    a: Tensor
    b: Tensor
    labels: Tensor


class Pairs(InMemory):
    """Pairs in memory. A subclass returns the splits "train" and "test" from ``read``.

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
            batch_size: Batch size over all processes.
            wrong_pairs: Share of training pairs to mismatch.
            wrong_pairs_seed: Seed of ``wrong_pairs``.
        """
        super().__init__(batch_size, wrong_pairs, wrong_pairs_seed)

    def read(self) -> dict[str, Part]:
        """Clean pairs of the splits "train", "test" and, optionally, "validation"."""
        raise NotImplementedError

    def pair_batches(self, split: Split, noisy: bool = False, batch_size: int = 256) -> Iterator[PairBatch]:
        """Batches of a split in order: clean pairs or, if ``noisy``, those used for training."""
        part = self.split(split)
        for ids in torch.arange(len(part.labels)).split(batch_size):
            yield self._batch(part, ids, noisy and split == "train")

    def labeled_batches(self, split: Split) -> Iterator[PairBatch]:
        return self.pair_batches(split)

    def equal_pairs(self) -> NDArray[np.int64] | None:
        part = self.split("train")
        return equal_rows(part.a, part.b if self.partners is None else part.b[self.partners])

    def noisy_batches(self, ids: Tensor, batch_size: int = 256) -> Iterator[PairBatch]:
        part = self.split("train")
        for chosen in ids.split(batch_size):
            yield self._batch(part, chosen, noisy=True)

    def train_dataloader(self) -> SeededLoader:
        part = self.split("train")
        batches = SeededBatches.of_trainer(self.trainer, len(part.labels), self.batch_size, self.seed, self.among)
        return SeededLoader(
            batches, lambda ids, step: self._batch(part, ids, noisy=True)._replace(weights=self.weights_of(ids))
        )

    def _batch(self, part: Part, ids: Tensor, noisy: bool) -> PairBatch:
        partners = self.partners[ids] if noisy and self.partners is not None else ids
        return PairBatch(part.a[ids], part.b[partners], part.labels[ids], ids)


class PairedArrays(Pairs):
    """An .npz file with arrays ``a`` and ``b``, one row per pair, and, optionally, ``labels`` (n,).

    uint8 arrays are images; other numbers become float32. ``test_a``, ``test_b`` and ``test_labels`` are the test
    split. Default: every tenth pair. ``ids`` (n,) are optional names of the pairs. Further options are those of
    :class:`rince.data.Pairs`.

    Example:
        >>> random = np.random.default_rng(0)
        >>> np.savez("pairs.npz", a=random.normal(size=(100, 40)), b=random.normal(size=(100, 24)))
        >>> data = rince.data.PairedArrays("pairs.npz", batch_size=32, wrong_pairs=0.2)
        >>> data.split("test").b.shape
        torch.Size([10, 24])
    """

    _names: np.ndarray

    def __init__(self, path: str, **options: Any):
        """
        Args:
            path: The .npz file.
        """
        super().__init__(**options)
        self.path = Path(path)

    def read(self) -> dict[str, Part]:
        arrays = read_npz(self.path)
        pairs = self._part(arrays, "")
        self._names = np.asarray(arrays.get("ids", np.arange(len(pairs.labels))))
        if self._names.shape != (len(pairs.labels),):
            raise UsageError(f"ids in {self.path} must be {len(pairs.labels)} names, got shape {self._names.shape}")
        if "test_a" in arrays:
            return {"train": pairs, "test": self._part(arrays, "test_")}
        is_test = torch.arange(len(pairs.labels)) % 10 == 9
        self._names = self._names[~is_test.numpy()]
        return {"train": Part(*(x[~is_test] for x in pairs)), "test": Part(*(x[is_test] for x in pairs))}

    def pair_names(self) -> Sequence[Any]:
        """The array ``ids`` of the file, or row numbers."""
        self.setup()
        return self._names.tolist()

    def _part(self, arrays: dict[str, np.ndarray], prefix: str) -> Part:
        a, b = (self._side(arrays, f"{prefix}{side}") for side in "ab")
        if len(a) != len(b):
            raise UsageError(
                f"{prefix}a and {prefix}b in {self.path} must have one row per pair, got {len(a)} and {len(b)} rows"
            )
        labels = arrays.get(f"{prefix}labels", np.full(len(a), -1))
        return Part(a, b, class_numbers(labels, len(a), f"{prefix}labels in {self.path}"))

    def _side(self, arrays: dict[str, np.ndarray], name: str) -> Tensor:
        values = array_of(arrays, name, self.path)
        if values.dtype.kind not in "fiub" or values.ndim < 2:
            raise UsageError(
                f"{name} in {self.path} must hold numbers, one row per pair, got {values.dtype} {values.shape}"
            )
        if values.dtype != np.uint8:
            with np.errstate(over="ignore"):
                values = values.astype(np.float32)
            if not np.isfinite(values).all():
                raise UsageError(f"{name} in {self.path} has non-finite values: drop those pairs")
        return torch.from_numpy(np.ascontiguousarray(values))


# Formats that the datasets library reads without unpickling.
KINDS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".csv": "csv", ".arrow": "arrow"}


class HuggingFacePairs(Pairs):
    """Two columns of a Hugging Face data set in memory.

    ``path`` is a folder written by ``save_to_disk``, a file (.parquet, .json, .csv, .arrow) or a name on the Hub.
    Columns hold images of one size, arrays of one shape, or numbers. Embed texts first, or train on them with
    ``rince.integrations.sentence_transformers``. Further options are those of :class:`rince.data.Pairs`.

    Example:
        >>> data = rince.data.HuggingFacePairs("pairs.parquet", a="image_embedding", b="text_embedding")
    """

    def __init__(
        self,
        path: str,
        a: str,
        b: str,
        label: str | None = None,
        train: str = "train",
        test: str = "test",
        **options: Any,
    ):
        """
        Args:
            path: Path or name of the data set.
            a: Column of the first side.
            b: Column of the second side.
            label: Column of integer class labels. Default: None, no labels.
            train: Split to train on.
            test: Split to evaluate on; every tenth training pair if the data set does not have it.
        """
        super().__init__(**options)
        self.path, self.a, self.b, self.label = path, a, b, label
        self.train_part, self.test_part = train, test

    def read(self) -> dict[str, Part]:
        parts = self._load()
        if self.train_part not in parts:
            raise UsageError(f"{self.path} has no split '{self.train_part}', only {', '.join(parts)}: set data.train")
        train = self._part(parts[self.train_part])
        if self.test_part in parts:
            return {"train": train, "test": self._part(parts[self.test_part])}
        is_test = torch.arange(len(train.labels)) % 10 == 9
        return {"train": Part(*(x[~is_test] for x in train)), "test": Part(*(x[is_test] for x in train))}

    def _load(self) -> dict[str, Any]:
        path = Path(self.path)
        if path.is_file() and path.suffix not in KINDS:
            raise UsageError(f"{self.path} must be a folder or one of {', '.join(KINDS)}")
        is_saved = path.is_dir() and any((path / name).exists() for name in ("dataset_dict.json", "state.json"))
        library: Any = import_library("datasets", "datasets")
        try:
            if is_saved:
                loaded = library.load_from_disk(str(path))
            elif path.is_file():
                loaded = library.load_dataset(KINDS[path.suffix], data_files=str(path))
            else:
                loaded = library.load_dataset(self.path)
        except (OSError, ValueError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UsageError(f"{self.path} cannot be read as a data set: {reason}") from error
        return dict(loaded) if hasattr(loaded, "keys") else {self.train_part: loaded}

    def _part(self, rows: Any) -> Part:
        a, b = self._column(rows, self.a), self._column(rows, self.b)
        labels = torch.full((len(rows),), -1)
        if self.label is not None:
            raw_labels = self._column(rows, self.label)
            if raw_labels.dim() != 2 or raw_labels.shape[1] != 1 or bool((raw_labels != raw_labels.round()).any()):
                raise UsageError(f"column '{self.label}' of {self.path} must hold whole numbers to be labels")
            labels = class_numbers(raw_labels[:, 0].long(), len(rows), f"column '{self.label}' of {self.path}")
        return Part(a, b, labels)

    def _column(self, rows: Any, name: str) -> Tensor:
        if name not in rows.column_names:
            raise UsageError(f"{self.path} has no column '{name}', only {', '.join(rows.column_names)}")
        items = [np.asarray(value) for value in rows[name]]
        if items[0].dtype.kind not in "fiub":
            raise UsageError(
                f"column '{name}' of {self.path} holds {items[0].dtype}, not numbers or images: embed it first, or "
                "train on texts with rince.integrations.sentence_transformers"
            )
        shapes = {item.shape for item in items}
        if len(shapes) > 1:
            raise UsageError(f"column '{name}' of {self.path} holds items of {len(shapes)} shapes: resize them first")
        values = np.stack(items)
        if values.ndim == 1:
            values = values[:, None]
        if values.dtype == np.uint8:  # images: channels first
            values = values[:, None] if values.ndim == 3 else values
            if values.ndim == 4 and values.shape[-1] in (1, 3, 4):
                values = values.transpose(0, 3, 1, 2)
            return torch.from_numpy(np.ascontiguousarray(values))
        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
