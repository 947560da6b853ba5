"""Images in one folder per class, such as ImageNet, decoded and cropped by the workers of the loader."""

import math
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset, Subset

from rince._support.fingerprints import of_lines
from rince._support.optional_imports import require
from rince._support.step_seeds import Draws, generator
from rince.data.images import PairWeights, SameLabel, Weights, check_pairing
from rince.data.module import DataModule, SeededBatches, Split
from rince.errors import MissingFile, UsageError
from rince.noise.labels import LabelFlips, NoisyLabels
from rince.views.views import ImageBatch

ENDINGS = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}


class _WithStep:
    """Batches of (item, step, random number), from which workers draw crops and partners."""

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
    """A number that was drawn before."""

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
        """An item of the same label, or the next one that can be decoded."""
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


class _Centers(Dataset[Any]):
    def __init__(self, paths: list[Path], size: int, share: float, strict: bool):
        self.paths, self.size, self.share, self.strict = paths, size, share, strict

    def __len__(self) -> int:
        return len(self.paths)

    def __getitem__(self, item: int) -> tuple[Tensor, int]:
        image, shown = _decode(self.paths, item, self.strict)
        side = min(image.width, image.height) * self.share
        left, top = (image.width - side) / 2, (image.height - side) / 2
        box = (left, top, left + side, top + side)
        return _pixels(image.resize((self.size, self.size), resample=2, box=box)), shown


class CenterCrops:
    """Batches of images cropped at the center, decoded by workers while they are read."""

    def __init__(self, images: _Centers, labels: Tensor, ids: list[int], workers: int, batch: int = 64):
        self.labels, self.ids, self.batch, self.images = labels, torch.tensor(ids), batch, images
        self.loader = DataLoader(self.images, batch_size=batch, num_workers=workers)

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[ImageBatch]:
        for images, shown in self.loader:
            yield ImageBatch(images, self.labels[shown], self.ids[shown])


def _decode(paths: list[Path], item: int, strict: bool, among: Sequence[int] | None = None) -> tuple[Any, int]:
    """The image, or the next one (``among`` these) that can be decoded, and its index."""
    from PIL import Image

    candidates = range(len(paths)) if among is None else among
    start = bisect_left(candidates, item)
    for offset in range(len(candidates)):
        shown = candidates[(start + offset) % len(candidates)]
        path = paths[shown]
        try:
            with Image.open(path) as image:
                return image.convert("RGB"), shown
        except Exception as error:  # Pillow raises many types on damaged files
            if strict:
                raise UsageError(f"{path} cannot be decoded as an image ({error})") from error
            warnings.warn(f"{path} cannot be decoded as an image and is replaced by the next one")
    raise UsageError(f"none of the {len(candidates)} images can be decoded, the first is {paths[candidates[0]]}")


def _pixels(image: Any) -> Tensor:
    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1)


def _collate(items: list[tuple[Tensor, Tensor, int, int, int]], weights: Weights) -> ImageBatch:
    first, second, labels, shown, others = zip(*items, strict=True)
    ids = torch.tensor(shown)
    pair_weights = weights(ids, torch.tensor(others))
    return ImageBatch(torch.stack(first), torch.tensor(labels), ids, torch.stack(second), True, pair_weights)


class ImageFolder(DataModule):
    """Images in ``root/train/CLASS/*.jpg`` and ``root/val/CLASS/*.jpg`` (or test), the layout of ImageNet.

    Workers decode an image and resize two random crops to ``size``; the other augmentations are computed on batches on
    the device of the model. An image that cannot be decoded is replaced by the next one, with a warning.

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
            UsageError: If the size is below 1, workers below 0, or crop or ratio no range of areas or ratios.
        """
        super().__init__()
        if size < 1 or workers < 0:
            raise UsageError(f"size must be at least 1 and workers at least 0, got {size} and {workers}")
        if not 0 < crop[0] <= crop[1] <= 1:
            raise UsageError(f"crop must be two areas above 0 and up to 1, the smaller first, got {tuple(crop)}")
        if not 0 < ratio[0] <= ratio[1] < math.inf:
            raise UsageError(f"ratio must be two ratios above 0, the smaller first, got {tuple(ratio)}")
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
        self.class_names, paths, labels = list_images(self.root / "train")
        self._lists["train"] = paths, labels
        for name in ("val", "test"):
            if (self.root / name).is_dir():
                names, paths, labels = list_images(self.root / name)
                if names != self.class_names:
                    odd = sorted(set(names) ^ set(self.class_names))
                    raise UsageError(
                        f"{self.root / name} and train must have the same classes: {odd[0]} is in one of them only"
                    )
                self._lists["test"] = paths, labels
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
        self.setup()
        return of_lines(str(path.relative_to(self.root)) for path in self._lists["train"][0])

    def split(self, split: Split) -> tuple[Tensor, Tensor]:
        """Center crops of all images of a split in memory, and their clean labels."""
        self.setup()
        if split not in self._lists:
            raise UsageError(f"there is no split '{split}' in {self.root}")
        paths, labels = self._lists[split]
        loader = DataLoader(self._centers(paths), batch_size=64, num_workers=self.workers)
        images, shown = zip(*loader, strict=True)
        return torch.cat(images), labels[torch.cat(shown)]

    def labeled_batches(self, split: Split) -> Iterator[ImageBatch]:
        """Center crops of a split in order, decoded as they are read."""
        return iter(self.center_crops(split))

    def test_dataloader(self) -> "CenterCrops":
        """Center crops of the test split, distributed over the ranks."""
        trainer = self.trainer
        return self.center_crops("test", *((trainer.global_rank, trainer.world_size) if trainer else (0, 1)))

    def center_crops(self, split: Split, rank: int = 0, processes: int = 1) -> "CenterCrops":
        """Center crops of every ``processes``-th image of a split, with clean labels."""
        self.setup()
        if split not in self._lists:
            raise UsageError(f"there is no split '{split}' in {self.root}, only {', '.join(self._lists)}")
        paths, labels = self._lists[split]
        mine = list(range(rank, len(paths), processes))
        return CenterCrops(self._centers([paths[i] for i in mine]), labels[mine], mine, self.workers)

    def _centers(self, paths: list[Path]) -> _Centers:
        return _Centers(
            paths, self.size, 0.875 if self.test_resize is None else self.size / self.test_resize, self.strict
        )

    @property
    def training_pairs(self) -> int:
        self.setup()
        return len(self._lists["train"][0])

    def pair_names(self) -> Sequence[str]:
        """Paths relative to ``root/train``."""
        self.setup()
        return [path.relative_to(self.root / "train").as_posix() for path in self._lists["train"][0]]

    def noisy_batches(self, ids: Tensor) -> Iterator[ImageBatch]:
        self.setup()
        paths, labels = self._lists["train"]
        labels = labels if self.noisy is None else self.noisy.labels
        centers = Subset(self._centers(paths), ids.tolist())
        loader = DataLoader(centers, batch_size=64, num_workers=self.workers)
        for chosen, (images, _) in zip(ids.split(64), loader, strict=True):
            yield ImageBatch(images, labels[chosen], chosen)

    def train_dataloader(self) -> DataLoader[Any]:
        trainer = self.trainer
        assert trainer is not None
        self.setup()
        paths, labels = self._lists["train"]
        labels = labels if self.noisy is None else self.noisy.labels
        check_pairing(self)
        batches = SeededBatches.of_trainer(trainer, len(paths), self.batch_size, self.seed, self.among)
        partner = SameLabel(labels, self.among) if self.pairing == "label" else None
        among = None if self.among is None else self.among.tolist()
        crops = _Crops(paths, labels, partner, self.size, self.crop, self.ratio, self.seed, self.strict, among)
        return DataLoader(
            crops,
            batch_sampler=_WithStep(batches),
            num_workers=self.workers,
            collate_fn=partial(_collate, weights=PairWeights(self)),
            pin_memory=torch.cuda.is_available(),
            persistent_workers=False,  # new workers read the current step
        )


def list_images(folder: Path) -> tuple[tuple[str, ...], list[Path], Tensor]:
    """Class names, files and labels of a folder with one folder per class."""
    if not folder.is_dir():
        raise MissingFile(f"there is no folder {folder}: images must be in {folder}/CLASS/")
    names = sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not names:
        raise UsageError(f"{folder} has no class folders: images must be in {folder}/CLASS/")
    paths, labels = [], []
    for label, name in enumerate(names):
        paths_of_class = (path for path in (folder / name).rglob("*") if path.suffix.lower() in ENDINGS)
        found = sorted(path for path in paths_of_class if path.is_file())
        if not found:
            raise UsageError(f"the class folder {folder / name} has no images: add some or remove it")
        paths += found
        labels += [label] * len(found)
    return tuple(names), paths, torch.tensor(labels)
