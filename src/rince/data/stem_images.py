"""Images as the features of a fixed stem, computed once: what is left to train fits a CPU."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from rince.data.images import Images
from rince.encoders.patch_stem import PatchStem
from rince.files import written_whole
from rince.noise.labels import LabelFlips
from rince.progress import track
from rince.seeds import Draws


class StemFeatures(Images):
    """Features (n, 2, width) of every image and its mirror image, under :class:`PatchStem`, kept in ``cache``.

    ``source`` gives the images. The first ``train`` of its training part are learnt from, the last 5,000 are the part
    "validation", and "test" are the first 5,000 of the test part.
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
            cache: File that keeps the features.
            train: How many images are learnt from.
            batch_size: Images in a batch, counted over all processes.
            noise: Wrong labels for training.
        """
        super().__init__(batch_size, noise)
        self.source, self.cache, self.train_images = source, Path(cache), train

    def read(self) -> dict[str, tuple[Tensor, Tensor]]:
        with np.load(self._cached(), allow_pickle=False) as file:
            if len(file["train"]) != self.train_images:
                raise ValueError(
                    f"{self.cache} holds {len(file['train'])} images, not {self.train_images}: give another cache"
                )
            parts = ("train", "validation", "test")
            return {part: (torch.from_numpy(file[part]), torch.from_numpy(file[f"{part}_labels"])) for part in parts}

    def _cached(self) -> Path:
        if not self.cache.exists():
            images, labels = self.source.split("train")
            test, test_labels = self.source.split("test")
            n = self.train_images
            if n + 5000 > len(images):
                raise ValueError(f"train must leave 5,000 of the {len(images)} images for validation, got {n}")
            stem = PatchStem(channels=images.shape[1]).fit(images[:n])
            arrays = {}
            for name, x, y in (
                ("train", images[:n], labels[:n]),
                ("validation", images[-5000:], labels[-5000:]),
                ("test", test[:5000], test_labels[:5000]),
            ):
                arrays[name], arrays[f"{name}_labels"] = _both_ways(stem, x, name), y.numpy()
            with written_whole(self.cache) as path, open(path, "wb") as file:
                np.savez(file, **arrays)
        return self.cache


def _both_ways(stem: PatchStem, images: Tensor, name: str) -> np.ndarray:
    parts = track(images.split(250), f"stem, {name}", total=-(-len(images) // 250))
    return torch.cat([torch.stack([stem(part), stem(part.flip(3))], 1) for part in parts]).numpy()


class MirrorViews(nn.Module):
    """A view is an image or its mirror image, with equal chance; for features (n, 2, width) of both."""

    def forward(
        self, images: Tensor, draw: Draws, partners: Tensor | None = None, cropped: bool = False
    ) -> tuple[Tensor, Tensor]:
        return self._pick(images, draw), self._pick(images if partners is None else partners, draw)

    def plain(self, images: Tensor) -> Tensor:
        return images[:, 0]

    def _pick(self, images: Tensor, draw: Draws) -> Tensor:
        side = draw.chance(0.5).long().to(images.device)
        return images[torch.arange(len(images), device=images.device), side]
