"""Images of a folder, decoded and cropped by the workers of a loader."""

import math
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from rince._support.step_seeds import Draws, generator
from rince.data.batches import SeededBatches
from rince.data.images.in_memory import Weights
from rince.errors import UsageError
from rince.views.batch import ImageBatch

ENDINGS = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}


class _WithStep:
    """The same batches, every item with the number of its batch, from which a worker draws its crop."""

    def __init__(self, batches: SeededBatches):
        self.batches = batches

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Any:
        own = self.batches
        for step, chosen in enumerate(own, start=own.seen()):
            draw = Draws(generator(own.seed, step, 2), len(chosen), own.rank, own.processes)
            yield [(item, step, float(u)) for item, u in zip(chosen, draw.uniform(), strict=True)]


class _Fixed(Draws):
    """A draw that was made elsewhere."""

    def __init__(self, value: float):
        self.value = value

    def uniform(self, low: float = 0.0, high: float = 1.0, shape: tuple[int, ...] = ()) -> Tensor:
        return torch.tensor([self.value])


class _Crops(Dataset[Any]):
    def __init__(
        self,
        paths: list[Path],
        labels: Tensor,
        partner: Callable[[Tensor, Draws], Tensor] | None,
        size: int,
        crop: tuple[float, float],
        ratio: tuple[float, float],
        seed: int,
        strict: bool,
        among: list[int] | None = None,
    ):
        self.paths, self.labels, self.partner, self.strict = paths, labels, partner, strict
        self.size, self.crop, self.ratio, self.seed = size, crop, ratio, seed
        self.among: Sequence[int] = range(len(paths)) if among is None else sorted(among)
        self.inside = torch.zeros(len(paths), dtype=torch.bool)
        self.inside[list(self.among)] = True

    def __getitem__(self, key: tuple[int, int, float]) -> tuple[Tensor, Tensor, int, int, int]:
        item, step, u = key
        random = np.random.default_rng((self.seed, step, item))
        first, shown = _decode(self.paths, item, self.strict, self.among)
        second, other = (first, shown) if self.partner is None else self._of_same_label(shown, u, first)
        views = [self._crop(image, random) for image in (first, second)]
        return views[0], views[1], int(self.labels[shown]), shown, other

    def _of_same_label(self, item: int, u: float, image: Any) -> tuple[Any, int]:
        """The partner of the item that is shown, or the next one of its label that decodes; at worst itself."""
        assert self.partner is not None
        other = int(self.partner(torch.tensor([item]), _Fixed(u)))
        if other == item:
            return image, item
        same = ((self.labels == self.labels[item]) & self.inside).nonzero()[:, 0].tolist()
        return _decode(self.paths, other, self.strict, same)

    def _crop(self, image: Any, random: np.random.Generator) -> Tensor:
        box = crop_box(random, image.width, image.height, self.crop, self.ratio)
        return _pixels(image.resize((self.size, self.size), resample=2, box=box))


def crop_box(
    random: np.random.Generator, width: int, height: int, scale: tuple[float, float], ratio: tuple[float, float]
) -> tuple[int, int, int, int]:
    """Left, top, right and bottom of a random crop, drawn as in ``image_operations.random_boxes``."""
    for _ in range(10):
        area = width * height * random.uniform(*scale)
        aspect = math.exp(random.uniform(math.log(ratio[0]), math.log(ratio[1])))
        w, h = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
        if 0 < w <= width and 0 < h <= height:
            left, top = int(random.integers(width - w + 1)), int(random.integers(height - h + 1))
            return left, top, left + w, top + h
    aspect = min(max(width / height, ratio[0]), ratio[1])
    w, h = max(1, min(width, round(height * aspect))), max(1, min(height, round(width / aspect)))
    left, top = (width - w) // 2, (height - h) // 2
    return left, top, left + w, top + h


class _Centres(Dataset[Any]):
    def __init__(self, paths: list[Path], size: int, strict: bool):
        self.paths, self.size, self.strict = paths, size, strict

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, item: int) -> tuple[Tensor, int]:
        image, shown = _decode(self.paths, item, self.strict)
        side = min(image.width, image.height) * 0.875  # the middle of what a short side of size / 0.875 would show
        left, top = (image.width - side) / 2, (image.height - side) / 2
        box = (left, top, left + side, top + side)
        return _pixels(image.resize((self.size, self.size), resample=2, box=box)), shown


class CentreCrops:
    """Batches of images cropped at the centre, decoded by workers while they are read."""

    def __init__(
        self, paths: list[Path], labels: Tensor, ids: list[int], size: int, workers: int, strict: bool, batch: int = 64
    ):
        self.labels, self.ids, self.batch = labels, torch.tensor(ids), batch
        self.images = _Centres(paths, size, strict)
        self.loader = DataLoader(self.images, batch_size=batch, num_workers=workers)

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[ImageBatch]:
        for images, shown in self.loader:
            yield ImageBatch(images, self.labels[shown], self.ids[shown])


def _decode(paths: list[Path], item: int, strict: bool, among: Sequence[int] | None = None) -> tuple[Any, int]:
    """The image, or the next one (``among`` some, in order) that decodes; and which one it is."""
    from PIL import Image

    candidates = range(len(paths)) if among is None else among
    start = bisect_left(candidates, item)
    for offset in range(len(candidates)):
        shown = candidates[(start + offset) % len(candidates)]
        path = paths[shown]
        try:
            with Image.open(path) as image:
                return image.convert("RGB"), shown
        except Exception as error:  # there is no end to what a damaged file provokes
            if strict:
                raise UsageError(f"{path} does not decode as an image ({error})") from error
            warnings.warn(f"{path} does not decode as an image and is replaced by the next one")
    raise UsageError(f"none of the {len(candidates)} images decodes, the first being {paths[candidates[0]]}")


def _pixels(image: Any) -> Tensor:
    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)


def _collate(items: list[tuple[Tensor, Tensor, int, int, int]], weights: Weights) -> ImageBatch:
    first, second, labels, shown, others = zip(*items, strict=True)
    ids = torch.tensor(shown)
    trust = weights(ids, torch.tensor(others))
    return ImageBatch(torch.stack(first), torch.tensor(labels), ids, torch.stack(second), True, trust)
