"""The contract of a data set: what training, fine-tuning, evaluation and the audit ask of it."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from lightning.pytorch import LightningDataModule
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.utils.data import DataLoader

from rince.errors import UsageError
from rince.views.batch import ClipBatch, ImageBatch, PairBatch

Pairing = Literal["self", "label"]
Split = Literal["train", "validation", "test"]
MOST_CLASSES = 1_000_000  # a layer, or a count, has a place for every one
Labelled = ImageBatch | PairBatch | ClipBatch


class DataModule(LightningDataModule):
    """Base class of all data sets of rince, and of yours.

    A subclass has to define ``train_dataloader()``. Its batches are of a type that the method accepts: ``ImageBatch``,
    ``PairBatch``, ``ClipBatch`` (``rince.views``), or a batch of PyG. ``rince.data.batches.SeededBatches`` says which
    items a batch holds, so that a killed run resumes with the very next one. Everything else has a default:

    - ``classes`` for the online probe and for fine-tuning, 0 where there are no labels;
    - ``labelled_batches`` for ``rince evaluate`` and ``rince finetune``;
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
        trust: Set by the run: how far each training pair is to be trusted, from 0 to 1; None for all alike.
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
    trust: Tensor | None = None
    among: Tensor | None = None

    @property
    def training_pairs(self) -> int:
        """How many pairs there are to train on. The ``ids`` of a batch are their numbers, from 0."""
        raise UsageError(
            f"{type(self).__name__} does not say how many training pairs it has, so they cannot be given a trust each: "
            "it needs a property training_pairs"
        )

    def pair_names(self) -> Sequence[Any] | None:
        """What a table calls the training pairs, in their order; None where their numbers are their names."""
        return None

    def equal_pairs(self) -> NDArray[np.int64] | None:
        """For every training pair the number of the first one that is the same; None where no two are known to be.

        ``--trust auto`` keeps such pairs together: a model that has learned a pair may not judge its copy.
        """
        return None

    def weights_of(self, ids: Tensor) -> Tensor | None:
        """The trust in the training pairs of these numbers; None where all are trusted alike."""
        return None if self.trust is None else self.trust[ids]

    def noisy_batches(self, ids: Tensor) -> Iterable[Any]:
        """The training pairs of these numbers as training sees them, noise and all, but with nothing random.

        By default those of ``pair_batches("train", noisy=True)``, of which the others are left out.
        """
        wanted = torch.zeros(self.training_pairs, dtype=torch.bool)
        wanted[ids] = True
        return _only(self.pair_batches("train", noisy=True), wanted)

    @property
    def classes(self) -> int:
        """How many classes there are; 0 where there are no labels."""
        return 0

    def noise_record(self) -> dict[str, Any]:
        """What noise on purpose hit, as arrays to be saved with the run. Wrong pairs are ``partner_hit``, by number."""
        return {}

    def fingerprint(self) -> str:
        """A short text that differs where the training data differ, so that a run is not resumed with others.

        Empty, the default, where nothing is known.
        """
        return ""

    def check_views(self, views: nn.Module) -> None:
        """Refuse views that do not fit these data, with a ``UsageError``."""

    def labelled_batches(self, split: Split) -> Iterable[Labelled]:
        """A part in order, batch by batch, with right labels, -1 where unknown."""
        raise UsageError(f"{type(self).__name__} gives nothing to evaluate: it needs a method labelled_batches(part)")

    def pair_batches(self, split: Split, noisy: bool = False) -> Iterable[PairBatch]:
        """A part in order: the right pairs or, ``noisy``, those that training sees."""
        raise UsageError(
            f"{type(self).__name__} gives no pairs to evaluate: it needs a method pair_batches(part, noisy=False)"
        )

    def test_dataloader(self) -> Any:
        """The test part with its labels."""
        return DataLoader(list(self.labelled_batches("test")), batch_size=None)  # type: ignore[arg-type]


def _only(batches: Iterable[PairBatch], wanted: Tensor) -> Iterator[PairBatch]:
    for batch in batches:
        chosen = wanted[batch.ids]
        if chosen.any():
            yield batch._replace(
                a=batch.a[chosen], b=batch.b[chosen], labels=batch.labels[chosen], ids=batch.ids[chosen]
            )


def class_numbers(labels: Any, count: int, what: str) -> Tensor:
    """Labels as a file holds them, checked: the number of a class each, or -1 for none.

    Args:
        labels: One whole number per item.
        count: How many items there are.
        what: What to call the labels where they are wrong.

    Raises:
        UsageError: If they are no such numbers.
    """
    labels = np.asarray(labels)
    if labels.shape != (count,) or not np.issubdtype(labels.dtype, np.integer):
        raise UsageError(f"{what} must be {count} whole numbers, got {labels.dtype} {labels.shape}")
    for extreme in (labels.min(), labels.max()) if count else ():
        if not -1 <= int(extreme) < MOST_CLASSES:
            raise UsageError(
                f"{what} must be numbers of classes below {MOST_CLASSES}, or -1 for none, got {extreme}: number the "
                "classes 0, 1, ..."
            )
    return torch.from_numpy(labels.astype(np.int64))
