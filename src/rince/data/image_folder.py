"""Images in one folder per class, such as ImageNet, decoded and cropped by the workers of the loader."""

import math
import warnings
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from rince._support.fingerprints import of_lines
from rince._support.image_operations import check_crop
from rince._support.optional_imports import require
from rince._support.step_seeds import Draws, generator
from rince.data.images import PairWeights, SameLabel, Weights, check_pairing
from rince.data.module import DataModule, SeededBatches, Split, StepBatches, list_class_folders
from rince.errors import UsageError
from rince.noise.labels import LabelFlips, NoisyLabels
from rince.views.views import ImageBatch

ENDINGS = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}


class _Crops(Dataset[Any]):
    """Two random crops of an image, or one crop each of an image and its partner; keys are (index, partner, step)."""

    def __init__(self, data: "ImageFolder", labels: Tensor):
        self.paths, self.labels, self.strict, self.seed = data.paths("train"), labels, data.strict, data.seed
        self.size, self.crop, self.ratio, self.by_label = data.size, data.crop, data.ratio, data.pairing == "label"
        self.inside = torch.ones(len(self.paths), dtype=torch.bool)
        if data.among is not None:
            self.inside = torch.zeros_like(self.inside).index_fill(0, data.among, True)

    def __getitem__(self, key: tuple[int, int, int]) -> tuple[Tensor, Tensor, int, int, int]:
        item, partner, step = key
        random = np.random.default_rng((self.seed, step, item))
        first, index = self._decode(item)
        second, partner_index = (first, index) if partner == item else self._decode(partner)
        views = [self._crop(image, random) for image in (first, second)]
        return views[0], views[1], int(self.labels[index]), index, partner_index

    def _decode(self, item: int) -> tuple[Any, int]:
        def candidates() -> list[int]:
            chosen = self.inside & (self.labels == self.labels[item]) if self.by_label else self.inside
            return chosen.nonzero()[:, 0].tolist()

        return _decode(self.paths, item, self.strict, candidates)

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


class _Centers(Dataset[Any]):
    def __init__(self, paths: list[Path], size: int, share: float, strict: bool):
        self.paths, self.size, self.share, self.strict = paths, size, share, strict

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, item: int) -> tuple[Tensor, int]:
        image, index = _decode(self.paths, item, self.strict, lambda: range(len(self)))
        side = min(image.width, image.height) * self.share
        left, top = (image.width - side) / 2, (image.height - side) / 2
        box = (left, top, left + side, top + side)
        return _pixels(image.resize((self.size, self.size), resample=2, box=box)), index


class CenterCrops:
    """Batches of images cropped at the center, decoded by workers while they are read."""

    def __init__(self, images: _Centers, labels: Tensor, ids: Tensor, workers: int):
        self.labels, self.ids = labels, ids
        self.loader = DataLoader(images, batch_size=64, num_workers=workers)

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[ImageBatch]:
        for images, indices in self.loader:
            yield ImageBatch(images, self.labels[indices], self.ids[indices])


def _decode(paths: list[Path], item: int, strict: bool, candidates: Callable[[], Sequence[int]]) -> tuple[Any, int]:
    """Decoded image and its index: ``item``, or the next candidate that can be decoded."""
    from PIL import Image

    def in_turn() -> Iterator[int]:
        yield item
        replacements = candidates()
        start = bisect_right(replacements, item)
        yield from chain(replacements[start:], replacements[:start])

    for index in in_turn():
        path = paths[index]
        try:
            with Image.open(path) as image:
                return image.convert("RGB"), index
        except Exception as error:  # Pillow raises many types on damaged files
            if strict:
                raise UsageError(f"{path} cannot be decoded as an image ({error})") from error
            warnings.warn(f"{path} cannot be decoded as an image and is replaced by the next one")
    raise UsageError(f"{paths[item]} and the images that could replace it cannot be decoded")


def _pixels(image: Any) -> Tensor:
    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)


def _collate(items: list[tuple[Tensor, Tensor, int, int, int]], weights: Weights) -> ImageBatch:
    first, second, labels, indices, partners = zip(*items, strict=True)
    ids = torch.tensor(indices)
    pair_weights = weights(ids, torch.tensor(partners))
    return ImageBatch(torch.stack(first), torch.tensor(labels), ids, torch.stack(second), True, pair_weights)


class ImageFolder(DataModule):
    """Images in ``root/train/CLASS/*.jpg`` and ``root/val/CLASS/*.jpg`` (or test), the layout of ImageNet.

    Workers decode an image and resize two random crops to ``size``; the other augmentations are computed on batches on
    the device of the model. An image that cannot be decoded is replaced by the next one, with a warning. Orientation in
    EXIF data is ignored, as in torchvision.

    Example:
        >>> from PIL import Image
        >>> from pathlib import Path
        >>> for path in ("train/cat", "train/dog", "val/cat", "val/dog"):
        ...     Path("pictures", path).mkdir(parents=True)
        ...     Image.new("RGB", (40, 30)).save(Path("pictures", path, "1.png"))
        >>> data = rince.data.ImageFolder("pictures", size=16, workers=0)
        >>> data.setup()
        >>> data.class_names, data.split("test")[0].shape
        (('cat', 'dog'), torch.Size([2, 3, 16, 16]))
    """

    sharded_tests = True

    def __init__(
        self,
        root: str,
        size: int = 224,
        batch_size: int = 256,
        crop: tuple[float, float] = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        noise: LabelFlips | None = None,
        workers: int = 4,
        strict: bool = False,
        test_resize: int | None = None,
    ):
        """
        Args:
            root: Folder with the folders train and val (or test).
            size: Height and width of the crops.
            batch_size: Batch size over all processes.
            crop: Smallest and largest area of a crop, as a share of the image.
            ratio: Smallest and largest ratio of width to height of a crop.
            noise: Label noise for training; evaluation uses the clean labels.
            workers: Loader workers per training process.
            strict: Raise an error for an image that cannot be decoded.
            test_resize: Pixels that the shorter side is resized to before evaluation crops ``size`` pixels at the
                center. Default: size / 0.875, such as 256 for 224.

        Raises:
            UsageError: If crop or ratio is not a range, or test_resize is below size.
        """
        super().__init__()
        check_crop(crop, ratio)
        self.root, self.size, self.batch_size, self.crop, self.ratio = Path(root), size, batch_size, crop, ratio
        if test_resize is not None and test_resize < size:
            raise UsageError(f"test_resize must be at least size, {size}, got {test_resize}")
        self.noise, self.workers, self.strict, self.test_resize = noise, workers, strict, test_resize
        self.noisy: NoisyLabels | None = None
        self._lists: dict[str, tuple[list[Path], Tensor]] = {}

    def setup(self, stage: str | None = None) -> None:
        if self._lists:
            return
        require("PIL.Image", "train")
        self.class_names, paths, labels = list_class_folders(self.root / "train", ENDINGS, "images")
        if not self.class_names:
            raise UsageError(f"{self.root / 'train'} has no class folders: images must be in {self.root}/train/CLASS/")
        self._lists["train"] = paths, torch.tensor(labels)
        for name in ("val", "test"):
            if (self.root / name).is_dir():
                _, paths, labels = list_class_folders(self.root / name, ENDINGS, "images", self.class_names)
                self._lists["test"] = paths, torch.tensor(labels)
                break
        if self.noise is not None:
            self.noisy = self.noise(self._lists["train"][1])

    @property
    def classes(self) -> int:
        self.setup()
        return len(self.class_names)

    def noise_record(self) -> dict[str, Any]:
        return {} if self.noisy is None else self.noisy.record()

    def fingerprint(self) -> str:
        return of_lines(str(path.relative_to(self.root)) for path in self.paths("train"))

    def paths(self, split: Split) -> list[Path]:
        """Files of a split."""
        self.setup()
        if split not in self._lists:
            raise UsageError(f"{self.root} has no split '{split}', only {', '.join(self._lists)}")
        return self._lists[split][0]

    def split(self, split: Split) -> tuple[Tensor, Tensor]:
        """Center crops of all images of a split in memory, and their clean labels."""
        batches = list(self.center_crops(split))
        return torch.cat([batch.images for batch in batches]), torch.cat([batch.labels for batch in batches])

    def labeled_batches(self, split: Split) -> Iterator[ImageBatch]:
        """Center crops of a split in order, decoded as they are read."""
        return iter(self.center_crops(split))

    def test_dataloader(self) -> "CenterCrops":
        """Center crops of the test split, distributed over the ranks."""
        trainer = self.trainer
        return self.center_crops("test", *((trainer.global_rank, trainer.world_size) if trainer else (0, 1)))

    def center_crops(self, split: Split, rank: int = 0, processes: int = 1) -> "CenterCrops":
        """Center crops of every ``processes``-th image of a split, with clean labels."""
        ids = torch.arange(rank, len(self.paths(split)), processes)
        return self._center_crops(split, ids, self._lists[split][1])

    def _center_crops(self, split: Split, ids: Tensor, labels: Tensor) -> "CenterCrops":
        paths, share = self.paths(split), 0.875 if self.test_resize is None else self.size / self.test_resize
        images = _Centers([paths[i] for i in ids.tolist()], self.size, share, self.strict)
        return CenterCrops(images, labels[ids], ids, self.workers)

    @property
    def training_pairs(self) -> int:
        return len(self.paths("train"))

    def pair_names(self) -> Sequence[str]:
        """Paths relative to ``root/train``."""
        return [path.relative_to(self.root / "train").as_posix() for path in self.paths("train")]

    @property
    def _training_labels(self) -> Tensor:
        self.setup()
        return self._lists["train"][1] if self.noisy is None else self.noisy.labels

    def noisy_batches(self, ids: Tensor) -> Iterator[ImageBatch]:
        labels = self._training_labels
        for chosen, batch in zip(ids.split(64), self._center_crops("train", ids, labels), strict=True):
            yield batch._replace(ids=chosen, labels=labels[chosen])  # including replaced images

    def train_dataloader(self) -> DataLoader[Any]:
        trainer, labels = self.trainer, self._training_labels
        assert trainer is not None
        check_pairing(self)
        batches = SeededBatches.of_trainer(trainer, len(labels), self.batch_size, self.seed, self.among)
        by_label = SameLabel(labels, self.among) if self.pairing == "label" else None

        def keys(chosen: list[int], step: int) -> list[tuple[int, int, int]]:
            partners = chosen
            if by_label is not None:
                draw = Draws(generator(self.seed, step, 2), len(chosen), batches.rank, batches.processes)
                partners = by_label(torch.tensor(chosen), draw).tolist()
            return [(item, partner, step) for item, partner in zip(chosen, partners, strict=True)]

        return DataLoader(
            _Crops(self, labels),
            batch_sampler=StepBatches(batches, keys),
            num_workers=self.workers,
            collate_fn=partial(_collate, weights=PairWeights(self)),
            pin_memory=torch.cuda.is_available(),
            persistent_workers=False,  # new workers read the current step
        )
