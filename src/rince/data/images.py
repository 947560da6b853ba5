"""Images in memory, batch by batch, with noise in their labels or pairs on demand."""

from collections.abc import Iterator
from typing import Any, Literal

import torch
from lightning.pytorch import LightningDataModule
from torch import Tensor

from rince.data.batches import SeededBatches
from rince.noise.labels import LabelFlips, NoisyLabels
from rince.seeds import Draws, generator
from rince.views.batch import ImageBatch

Split = Literal["train", "test"]


class Images(LightningDataModule):
    """What all image data sets share. A subclass fills ``train`` and ``test`` in ``read``.

    ``seed`` and ``pairing`` are set by the run: the seed of the order, and how the method wants its pairs made.
    """

    seed: int = 0
    pairing: Literal["self", "label"] = "self"
    class_names: tuple[str, ...] = ()

    def __init__(self, batch_size: int = 256, noise: LabelFlips | None = None, limit: int | None = None):
        """
        Args:
            batch_size: Images in a batch, counted over all processes.
            noise: Wrong labels for training; evaluation always sees the right ones.
            limit: Train on the first so many images only.
        """
        super().__init__()
        self.batch_size, self.noise, self.limit = batch_size, noise, limit
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

    @property
    def classes(self) -> int:
        self.setup()
        return int(max(labels.max() for _, labels in self._splits.values())) + 1

    def split(self, split: Split) -> tuple[Tensor, Tensor]:
        """All images of a part and their right labels."""
        self.setup()
        return self._splits[split]

    def noise_record(self) -> dict[str, Any]:
        """What the noise hit, as arrays to be saved with the run."""
        return {} if self.noisy is None else self.noisy.record()

    def train_dataloader(self) -> "ImageLoader":
        trainer = self.trainer
        assert trainer is not None
        images, labels = self.split("train")
        labels = labels if self.noisy is None else self.noisy.labels
        method: Any = trainer.lightning_module
        batches = SeededBatches(
            len(images), self.batch_size, self.seed, method.batches_seen, trainer.global_rank, trainer.world_size
        )
        return ImageLoader(images, labels, batches, self.pairing)


class ImageLoader:
    """Indexes whole batches out of a tensor: for images in memory there is nothing for workers to do."""

    def __init__(self, images: Tensor, labels: Tensor, batches: SeededBatches, pairing: str):
        self.images, self.labels, self.batches, self.pairing = images, labels, batches, pairing
        self.partners = SameLabel(labels) if pairing == "label" else None

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[ImageBatch]:
        step = self.batches.seen()
        for step, chosen in enumerate(self.batches, start=step):
            ids = torch.tensor(chosen)
            partners = None
            if self.partners is not None:
                draw = Draws(generator(self.batches.seed, step, 2), len(ids), self.batches.rank, self.batches.processes)
                partners = self.images[self.partners(ids, draw)]
            yield ImageBatch(self.images[ids], self.labels[ids], ids, partners)


class SameLabel:
    """For every item another one with the same label, drawn anew each time; itself where it is the only one."""

    def __init__(self, labels: Tensor):
        self.order = labels.argsort(stable=True)
        self.place = self.order.argsort()
        count = labels.bincount()
        self.first, self.count = (count.cumsum(0) - count)[labels], count[labels]

    def __call__(self, ids: Tensor, draw: Draws) -> Tensor:
        others = (self.count[ids] - 1).clamp_min(1)
        step = 1 + (draw.uniform() * others).long().clamp(max=others - 1)
        within = (self.place[ids] - self.first[ids] + step) % self.count[ids]
        return self.order[self.first[ids] + within]
