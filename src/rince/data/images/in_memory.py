"""Images in memory, batch by batch, optionally with noise in labels or pairs."""

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rince._support.fingerprints import equal_rows, of_tensors
from rince._support.step_seeds import Draws, generator
from rince.data.batches import SeededBatches
from rince.data.module import DataModule, Split
from rince.errors import UsageError
from rince.noise.labels import LabelFlips, NoisyLabels
from rince.noise.pairs import WrongPairs, wrong_pairs
from rince.views.batch import ImageBatch

Partner = Callable[[Tensor, Draws], Tensor]
"""From the numbers of items to those of the items that give their second views."""
Weights = Callable[[Tensor, Tensor], Tensor | None]
"""From the numbers of items and of those that give their second views to how far each pair is to be trusted."""


class Images(DataModule):
    """Images in memory. A subclass returns the parts "train" and "test" from ``read``.

    Example:
        >>> class Squares(rince.data.Images):
        ...     def read(self):
        ...         images = torch.randint(256, (60, 1, 8, 8), dtype=torch.uint8)
        ...         labels = torch.arange(60) % 3
        ...         return {"train": (images[:50], labels[:50]), "test": (images[50:], labels[50:])}
        >>> data = Squares(batch_size=10, wrong_pairs=0.2)
        >>> data.setup()
        >>> data.classes, int(data.noise_record()["partner_hit"].sum())
        (3, 10)
    """

    def __init__(
        self,
        batch_size: int = 256,
        noise: LabelFlips | None = None,
        limit: int | None = None,
        wrong_pairs: float = 0.0,
        wrong_pairs_seed: int = 0,
    ):
        """
        Args:
            batch_size: Images in a batch of all processes together.
            noise: Wrong labels for training; evaluation always uses the right labels.
            limit: Train only on this number of images, the first ones.
            wrong_pairs: Share of images whose second view shows another image.
            wrong_pairs_seed: Seed that chooses these images, and whose view they get.

        Raises:
            UsageError: If the limit is below 1.
        """
        super().__init__()
        if limit is not None and limit < 1:
            raise UsageError(f"limit must be at least 1 image, got {limit}")
        self.batch_size, self.noise, self.limit = batch_size, noise, limit
        self.wrong_pairs, self.wrong_pairs_seed = wrong_pairs, wrong_pairs_seed
        self.mispaired: WrongPairs | None = None
        self.noisy: NoisyLabels | None = None
        self._splits: dict[str, tuple[Tensor, Tensor]] = {}

    def read(self) -> dict[str, tuple[Tensor, Tensor]]:
        """Bytes (n, channels, height, width) and labels of the parts "train" and "test"."""
        raise NotImplementedError

    def setup(self, stage: str | None = None) -> None:
        if self._splits:
            return
        self._splits = self.read()
        if self.limit is not None:
            self._splits["train"] = tuple(part[: self.limit] for part in self._splits["train"])  # type: ignore[assignment]
        if self.noise is not None:
            self.noisy = self.noise(self._splits["train"][1])
        if self.wrong_pairs:
            self.mispaired = wrong_pairs(len(self._splits["train"][0]), self.wrong_pairs, self.wrong_pairs_seed)

    @property
    def classes(self) -> int:
        self.setup()
        return max((int(labels.max()) for _, labels in self._splits.values() if len(labels)), default=-1) + 1

    def split(self, split: Split) -> tuple[Tensor, Tensor]:
        """All images of a part and their right labels."""
        self.setup()
        if split not in self._splits:
            raise UsageError(f"there is no part '{split}' of {type(self).__name__}, only {', '.join(self._splits)}")
        return self._splits[split]

    def labelled_batches(self, split: Split) -> Iterator[ImageBatch]:
        return batches_of(*self.split(split))

    def noise_record(self) -> dict[str, Any]:
        """What the noise hit, as arrays to be saved with the run."""
        record = {} if self.noisy is None else self.noisy.record()
        if self.mispaired is not None:
            index = self.mispaired.partner
            digest = hashlib.sha256(index.tobytes()).hexdigest()
            record |= {"partner": index, "partner_hit": self.mispaired.hit, "partner_sha256": np.array(digest)}
        return record

    def fingerprint(self) -> str:
        return of_tensors(self.split("train"))

    @property
    def training_pairs(self) -> int:
        return len(self.split("train")[0])

    def equal_pairs(self) -> NDArray[np.int64] | None:
        """Equal images with equal partners; where labels make the pairs, equal images, whatever their labels."""
        images = self.split("train")[0]
        partner = None if self.mispaired is None else torch.from_numpy(self.mispaired.partner)
        return equal_rows(images) if partner is None else equal_rows(images, images[partner])

    def noisy_batches(self, ids: Tensor, batch_size: int = 250) -> Iterator[ImageBatch]:
        images, labels = self.split("train")
        labels = labels if self.noisy is None else self.noisy.labels
        index = None if self.mispaired is None else torch.from_numpy(self.mispaired.partner)
        for chosen in ids.split(batch_size):
            partners = None if index is None else images[index[chosen]]
            yield ImageBatch(images[chosen], labels[chosen], chosen, partners)

    def train_dataloader(self) -> "ImageLoader":
        trainer = self.trainer
        assert trainer is not None
        images, labels = self.split("train")
        labels = labels if self.noisy is None else self.noisy.labels
        check_pairing(self)
        batches = SeededBatches.of_trainer(trainer, len(images), self.batch_size, self.seed, self.among)
        partner: Partner | None = SameLabel(labels, self.among) if self.pairing == "label" else None
        if self.mispaired is not None:
            if partner is not None:
                raise UsageError(
                    "wrong_pairs is for methods that pair an image with itself; SupCon takes wrong labels (data.noise)"
                )
            index = torch.from_numpy(self.mispaired.partner)
            partner = lambda ids, draw: index[ids]  # noqa: E731
        return ImageLoader(images, labels, batches, partner, PairTrust(self))


def batches_of(images: Tensor, labels: Tensor, size: int = 250) -> Iterator[ImageBatch]:
    """Images in memory in their order, batch by batch."""
    for ids in torch.arange(len(images)).split(size):
        yield ImageBatch(images[ids], labels[ids], ids)


class ImageLoader:
    """Indexes whole batches out of a tensor: for images in memory there is nothing for workers to do."""

    def __init__(
        self,
        images: Tensor,
        labels: Tensor,
        batches: SeededBatches,
        partner: Partner | None = None,
        weights: Weights | None = None,
    ):
        self.images, self.labels, self.batches, self.partner, self.weights = images, labels, batches, partner, weights

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[ImageBatch]:
        for step, chosen in enumerate(self.batches, start=self.batches.seen()):
            ids = torch.tensor(chosen)
            partners, others = None, ids
            if self.partner is not None:
                draw = Draws(generator(self.batches.seed, step, 2), len(ids), self.batches.rank, self.batches.processes)
                others = self.partner(ids, draw)
                partners = self.images[others]
            trust = None if self.weights is None else self.weights(ids, others)
            yield ImageBatch(self.images[ids], self.labels[ids], ids, partners, weights=trust)


def check_pairing(data: DataModule) -> None:
    """Refuse pairs by label where there are no labels to pair by."""
    if data.pairing == "label" and data.classes < 2:
        raise UsageError(
            f"{type(data).__name__} has labels of {data.classes} classes, and pairs by label need 2 or more: give "
            "labels, or take a method that pairs an item with itself, such as SimCLR"
        )


class SameLabel:
    """For every item another one with the same label, drawn anew each time.

    An item is its own partner where it is the only one of its label, and where its label is unknown (-1). With
    ``among``, only items of these numbers are partners of one another.
    """

    def __init__(self, labels: Tensor, among: Tensor | None = None):
        if among is not None:
            labels = torch.full_like(labels, -1).index_copy(0, among, labels[among])
        own = labels.clamp_min(0).amax() + 1 + torch.arange(len(labels))
        labels = torch.where(labels < 0, own, labels)
        self.order = labels.argsort(stable=True)
        self.place = self.order.argsort()
        count = labels.bincount()
        self.first, self.count = (count.cumsum(0) - count)[labels], count[labels]

    def __call__(self, ids: Tensor, draw: Draws) -> Tensor:
        others = (self.count[ids] - 1).clamp_min(1)
        step = 1 + (draw.uniform() * others).long().clamp(max=others - 1)
        within = (self.place[ids] - self.first[ids] + step) % self.count[ids]
        return self.order[self.first[ids] + within]


class PairTrust:
    """How far pairs are to be trusted, from the numbers of their items: by their own trust, or by that of both labels.

    Two items of one label belong together if both labels are right; an item always belongs with itself.
    """

    def __init__(self, data: DataModule):
        self.trust, self.by_label = data.trust, data.pairing == "label"

    def __call__(self, ids: Tensor, partners: Tensor) -> Tensor | None:
        if self.trust is None:
            return None
        own = self.trust[ids]
        return torch.where(ids == partners, 1.0, own * self.trust[partners]) if self.by_label else own
