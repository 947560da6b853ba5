"""Features of CIFAR-10 under a fixed stem, on which a small network trains in a minute, and views of them."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rince._support.atomic_files import written_whole
from rince._support.progress import track
from rince.data import Images
from rince.encoders import PatchStem
from rince.errors import UsageError
from rince.noise import LabelFlips
from rince.views import Draws, Views

STEM_IMAGES = 10_000  # fewest images to fit the stem to
HELD_OUT_IMAGES = 5_000  # images of the validation split, and of the test split


class StemFeatures(Images):
    """Features (n, 2, width) of images and their mirror images under a :class:`PatchStem`, cached in a file.

    Training uses the first ``train`` images of the training split of ``source``, the split "validation" its last 5,000,
    the split "test" the first 5,000 of its test split.
    """

    def __init__(
        self,
        source: Images,
        cache: str = "stem.npz",
        train: int = 10_000,
        batch_size: int = 256,
        noise: LabelFlips | None = None,
    ):
        """
        Args:
            source: Data set of the images.
            cache: File of the features.
            train: Number of training images.
            batch_size: Batch size over all processes.
            noise: Label noise for training.
        """
        super().__init__(batch_size, noise)
        self.source, self.cache, self.train_images = source, Path(cache), train

    def read(self) -> dict[str, tuple[Tensor, Tensor]]:
        parts = ("train", "validation", "test")
        with np.load(self._cached(), allow_pickle=False) as file:
            if len(file["train"]) < self.train_images:
                raise UsageError(
                    f"{self.cache} holds {len(file['train'])} images, not {self.train_images}: choose another cache"
                )
            splits = {part: (torch.from_numpy(file[part]), torch.from_numpy(file[f"{part}_labels"])) for part in parts}
        images, labels = splits["train"]
        return splits | {"train": (images[: self.train_images], labels[: self.train_images])}

    def _cached(self) -> Path:
        if not self.cache.exists():
            images, labels = self.source.split("train")
            test, test_labels = self.source.split("test")
            n, held_out = max(STEM_IMAGES, self.train_images), HELD_OUT_IMAGES
            if n + held_out > len(images):
                raise UsageError(
                    f"train must leave {held_out:,} of the {len(images)} images for validation, got {self.train_images}"
                )
            stem = PatchStem(channels=images.shape[1]).fit(images[:n])
            arrays = {}
            for name, x, y in (
                ("train", images[:n], labels[:n]),
                ("validation", images[-held_out:], labels[-held_out:]),
                ("test", test[:held_out], test_labels[:held_out]),
            ):
                arrays[name], arrays[f"{name}_labels"] = _both_ways(stem, x, name), y.numpy()
            with written_whole(self.cache) as path, open(path, "wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
        return self.cache


def _both_ways(stem: PatchStem, images: Tensor, name: str) -> np.ndarray:
    parts = track(images.split(250), f"stem, {name}", total=-(-len(images) // 250))
    return torch.cat([torch.stack([stem(part), stem(part.flip(3))], 1) for part in parts]).numpy()


class MirrorViews(Views):
    """A view is an image or its mirror image, with equal chance; for features (n, 2, width) of both."""

    def forward(
        self, images: Tensor, draw: Draws, partners: Tensor | None = None, cropped: bool = False
    ) -> tuple[Tensor, Tensor]:
        return self._pick(images, draw), self._pick(images if partners is None else partners, draw)

    def plain(self, images: Tensor) -> Tensor:
        """The features of the images that are not mirrored."""
        return images[:, 0]

    def _pick(self, images: Tensor, draw: Draws) -> Tensor:
        side = draw.chance(0.5).long().to(images.device)
        return images[torch.arange(len(images), device=images.device), side]
