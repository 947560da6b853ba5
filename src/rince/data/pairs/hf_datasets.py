"""Pairs from a data set of Hugging Face ``datasets``: two columns of images, arrays or numbers."""

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rince._support.optional_imports import peer
from rince.data.fetching import may_fetch
from rince.data.module import class_numbers
from rince.data.pairs.in_memory import Pairs, Part
from rince.errors import UsageError

# Kinds of files; datasets knows others that are unpickled.
KINDS = {".parquet": "parquet", ".json": "json", ".jsonl": "json", ".csv": "csv", ".arrow": "arrow"}


class HuggingFacePairs(Pairs):
    """Two columns of a data set that belong together row by row, read into memory.

    ``path`` is a folder written by ``save_to_disk``, a file (.parquet, .json, .csv, .arrow) or a name on the Hub.
    Columns hold images of one size, arrays or lists of numbers of one shape, or numbers. Texts have to be embedded
    first, or trained on with ``rince.integrations.sentence_transformers``.

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
        batch_size: int = 256,
        wrong_pairs: float = 0.0,
        wrong_pairs_seed: int = 0,
    ):
        """
        Args:
            path: The data set.
            a: The column of the first side.
            b: The column of the second side.
            label: The column with the class of a pair, if there is one.
            train: The part to train on.
            test: The part to evaluate on; where the data set has none of that name, every tenth pair.
            batch_size: Pairs in a batch of all processes together.
            wrong_pairs: Share of training pairs to be made wrong on purpose.
            wrong_pairs_seed: Seed that chooses these pairs, and whose ``b`` they get.
        """
        super().__init__(batch_size, wrong_pairs, wrong_pairs_seed)
        self.path, self.a, self.b, self.label = path, a, b, label
        self.train_part, self.test_part = train, test
        self._may_fetch = may_fetch.get()

    def read(self) -> dict[str, Part]:
        parts = self._load()
        if self.train_part not in parts:
            raise UsageError(f"{self.path} has no part '{self.train_part}', only {', '.join(parts)}: set data.train")
        train = self._part(parts[self.train_part])
        if self.test_part in parts:
            return {"train": train, "test": self._part(parts[self.test_part])}
        is_test = torch.arange(len(train.labels)) % 10 == 9
        return {"train": Part(*(x[~is_test] for x in train)), "test": Part(*(x[is_test] for x in train))}

    def _load(self) -> dict[str, Any]:
        place = Path(self.path)
        if place.is_file() and place.suffix not in KINDS:
            raise UsageError(f"{self.path} must be a file of one of the kinds {', '.join(KINDS)}, or a folder")
        is_saved = place.is_dir() and any((place / name).exists() for name in ("dataset_dict.json", "state.json"))
        if not (is_saved or place.is_file() or self._may_fetch):
            raise UsageError(f"{self.path} is no data set here, and is fetched only if you add --trust-config")
        library: Any = peer("datasets", "datasets")
        try:
            if is_saved:
                found = library.load_from_disk(str(place))
            elif place.is_file():
                found = library.load_dataset(KINDS[place.suffix], data_files=str(place))
            else:
                found = library.load_dataset(self.path)
        except (OSError, ValueError) as error:
            reason = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise UsageError(f"{self.path} cannot be read as a data set: {reason}") from error
        return dict(found) if hasattr(found, "keys") else {self.train_part: found}

    def _part(self, rows: Any) -> Part:
        a, b = self._column(rows, self.a), self._column(rows, self.b)
        labels = torch.full((len(rows),), -1)
        if self.label is not None:
            given = self._column(rows, self.label)
            if given.dim() != 2 or given.shape[1] != 1 or bool((given != given.round()).any()):
                raise UsageError(f"column '{self.label}' of {self.path} must hold whole numbers to be labels")
            labels = class_numbers(given[:, 0].long(), len(rows), f"column '{self.label}' of {self.path}")
        return Part(a, b, labels)

    def _column(self, rows: Any, name: str) -> Tensor:
        if name not in rows.column_names:
            raise UsageError(f"{self.path} has no column '{name}', only {', '.join(rows.column_names)}")
        items = [np.asarray(value) for value in rows[name]]
        if not items:
            raise UsageError(f"{self.path} has no rows")
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
        if values.dtype == np.uint8:  # pictures, as image recipes want them: channels first
            values = values[:, None] if values.ndim == 3 else values
            if values.ndim == 4 and values.shape[-1] in (1, 3, 4):
                values = values.transpose(0, 3, 1, 2)
            return torch.from_numpy(np.ascontiguousarray(values))
        return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))
