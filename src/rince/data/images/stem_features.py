"""Images as features of a fixed stem, computed once, so that training is quick on a CPU."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rince._support.atomic_files import written_whole
from rince._support.progress import track
from rince.data.images.in_memory import Images
from rince.encoders.patch_stem import PatchStem
from rince.errors import UsageError
from rince.noise.labels import LabelFlips

STEM_IMAGES = 10_000  # images that the stem is fitted to and cached for, whatever part of them is learnt from


class StemFeatures(Images):
    """Features (n, 2, width) of every image and its mirror image, under :class:`PatchStem`, kept in ``cache``.

    ``source`` gives the images. The first ``train`` images of its training part are used for training, and the last
    5,000 are the part "validation". The part "test" is the first 5,000 of its test part.

    Example:
        >>> data = rince.data.StemFeatures(rince.data.CIFAR10(root="data"), cache="stem.npz", train=10_000)
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
            source: The images.
            cache: File that stores the features.
            train: Number of training images.
            batch_size: Images in a batch of all processes together.
            noise: Wrong labels for training.
        """
        super().__init__(batch_size, noise)
        self.source, self.cache, self.train_images = source, Path(cache), train

    def read(self) -> dict[str, tuple[Tensor, Tensor]]:
        parts = ("train", "validation", "test")
        with np.load(self._cached(), allow_pickle=False) as file:
            if len(file["train"]) < self.train_images:
                raise UsageError(
                    f"{self.cache} holds {len(file['train'])} images, not {self.train_images}: give another cache"
                )
            found = {part: (torch.from_numpy(file[part]), torch.from_numpy(file[f"{part}_labels"])) for part in parts}
        images, labels = found["train"]
        return found | {"train": (images[: self.train_images], labels[: self.train_images])}

    def _cached(self) -> Path:
        if not self.cache.exists():
            images, labels = self.source.split("train")
            test, test_labels = self.source.split("test")
            if max(STEM_IMAGES, self.train_images) + 5000 > len(images):
                raise UsageError(
                    f"train must leave 5,000 of the {len(images)} images for validation, got {self.train_images}"
                )
            n = max(STEM_IMAGES, self.train_images)
            stem = PatchStem(channels=images.shape[1]).fit(images[:n])
            arrays = {}
            for name, x, y in (
                ("train", images[:n], labels[:n]),
                ("validation", images[-5000:], labels[-5000:]),
                ("test", test[:5000], test_labels[:5000]),
            ):
                arrays[name], arrays[f"{name}_labels"] = _both_ways(stem, x, name), y.numpy()
            with written_whole(self.cache) as path, open(path, "wb") as file:
                np.savez(file, **arrays)  # type: ignore[arg-type]
        return self.cache


def _both_ways(stem: PatchStem, images: Tensor, name: str) -> np.ndarray:
    parts = track(images.split(250), f"stem, {name}", total=-(-len(images) // 250))
    return torch.cat([torch.stack([stem(part), stem(part.flip(3))], 1) for part in parts]).numpy()
