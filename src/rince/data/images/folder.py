"""Images in one folder per class, decoded and cropped by the loader's workers: ImageNet, or your own."""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Subset

from rince._support.command_options import check_workers
from rince._support.fingerprints import of_lines
from rince._support.optional_imports import require
from rince.data.batches import SeededBatches
from rince.data.images.crops import CentreCrops, _Centres, _collate, _Crops, _WithStep
from rince.data.images.in_memory import PairTrust, SameLabel, check_pairing
from rince.data.module import DataModule, Split
from rince.errors import MissingFile, UsageError
from rince.noise.labels import LabelFlips, NoisyLabels
from rince.views.batch import ImageBatch

LARGEST = 16_384  # pixels of a side; a slip of the finger would fill the memory
ENDINGS = {".jpg", ".jpeg", ".png", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}


class ImageFolder(DataModule):
    """``root/train/CLASS/*.jpg`` and ``root/val/CLASS/*.jpg`` (or test). ImageNet is laid out like this.

    Workers decode an image, take two random crops and resize them to ``size``; colours, blur and the rest are computed
    for whole batches on the model's device. An image that does not decode is replaced by another one, and counted.

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
    ):
        """
        Args:
            root: Folder with the folders train and val (or test).
            size: Height and width of the crops.
            batch_size: Images in a batch of all processes together.
            crop: Smallest and largest area of a crop, as a share of the image.
            ratio: Smallest and largest ratio of width to height of a crop.
            noise: Wrong labels for training; evaluation always uses the right labels.
            workers: Processes that decode, for each training process.
            strict: Stop at an image that does not decode instead of replacing it.

        Raises:
            UsageError: If the size is below 1, workers below 0, or crop or ratio no range of areas or ratios.
        """
        super().__init__()
        if not 1 <= size <= LARGEST:
            raise UsageError(f"size must be from 1 to {LARGEST} pixels, got {size}")
        check_workers(workers)
        if not 0 < crop[0] <= crop[1] <= 1:
            raise UsageError(f"crop must be two areas above 0 and up to 1, the smaller first, got {tuple(crop)}")
        if not 0.001 <= ratio[0] <= ratio[1] <= 1000:
            raise UsageError(f"ratio must be two ratios from 0.001 to 1000, the smaller first, got {tuple(ratio)}")
        self.root, self.size, self.batch_size, self.crop, self.ratio = Path(root), size, batch_size, crop, ratio
        self.noise, self.workers, self.strict = noise, workers, strict
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
                        f"{self.root / name} and train have other classes: {odd[0]} is in one of them only"
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
        """All images of a part, cropped at the centre and resized, with right labels; they must fit into memory."""
        self.setup()
        if split not in self._lists:
            raise UsageError(f"there is no part '{split}' in {self.root}")
        paths, labels = self._lists[split]
        loader = DataLoader(_Centres(paths, self.size, self.strict), batch_size=64, num_workers=self.workers)
        images, shown = zip(*loader, strict=True)
        return torch.cat(images), labels[torch.cat(shown)]

    def labelled_batches(self, split: Split) -> Iterator[ImageBatch]:
        """A part in order, decoded as it is read: it need not fit into memory."""
        return iter(self.centre_crops(split))

    def test_dataloader(self) -> "CentreCrops":
        """The test part; with several processes every one gets its own share of it."""
        trainer = self.trainer
        return self.centre_crops("test", *((trainer.global_rank, trainer.world_size) if trainer else (0, 1)))

    def centre_crops(self, split: Split, rank: int = 0, processes: int = 1) -> "CentreCrops":
        """Every ``processes``-th image of a part, cropped at the centre, with its right label."""
        self.setup()
        if split not in self._lists:
            raise UsageError(f"there is no part '{split}' in {self.root}, only {', '.join(self._lists)}")
        paths, labels = self._lists[split]
        mine = list(range(rank, len(paths), processes))
        return CentreCrops([paths[i] for i in mine], labels[mine], mine, self.size, self.workers, self.strict)

    @property
    def training_pairs(self) -> int:
        self.setup()
        return len(self._lists["train"][0])

    def pair_names(self) -> Sequence[str]:
        """The files, seen from ``root/train``."""
        self.setup()
        return [path.relative_to(self.root / "train").as_posix() for path in self._lists["train"][0]]

    def noisy_batches(self, ids: Tensor) -> Iterator[ImageBatch]:
        self.setup()
        paths, labels = self._lists["train"]
        labels = labels if self.noisy is None else self.noisy.labels
        centres = Subset(_Centres(paths, self.size, self.strict), ids.tolist())
        loader = DataLoader(centres, batch_size=64, num_workers=self.workers)
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
            collate_fn=partial(_collate, weights=PairTrust(self)),
            pin_memory=torch.cuda.is_available(),
            persistent_workers=False,  # new workers read where training stands
        )


def list_images(folder: Path) -> tuple[tuple[str, ...], list[Path], Tensor]:
    """Class names, files and labels of a folder with one folder per class."""
    if not folder.is_dir():
        raise MissingFile(f"there is no folder {folder}: images belong into {folder}/CLASS/")
    names = sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not names:
        raise UsageError(f"{folder} has no class folders: images belong into {folder}/CLASS/")
    paths, labels = [], []
    for label, name in enumerate(names):
        # Regular files alone: a pipe or a device would be waited for, or read without end.
        paths_of_class = (path for path in (folder / name).rglob("*") if path.suffix.lower() in ENDINGS)
        found = sorted(path for path in paths_of_class if path.is_file())
        if not found:
            raise UsageError(f"the class folder {folder / name} holds no images: fill it or remove it")
        paths += found
        labels += [label] * len(found)
    return tuple(names), paths, torch.tensor(labels)
