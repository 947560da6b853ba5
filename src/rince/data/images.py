"""Images in memory: arrays, CIFAR-10, digits, and features of a fixed stem."""

import hashlib
import io
import pickle
import tarfile
import tokenize
import zipfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rince._support.fingerprints import equal_rows
from rince._support.optional_imports import require
from rince._support.step_seeds import Draws, generator
from rince._support.zip_files import check_zip
from rince.data.download import fetch
from rince.data.module import DataModule, InMemory, SeededBatches, SeededLoader, Split, class_numbers
from rince.errors import MissingFile, UsageError
from rince.noise.labels import LabelFlips, NoisyLabels
from rince.views.views import ImageBatch

__path__: list[str] = []  # until 0.4, rince._moved finds the submodules of version 0.2

Partner = Callable[[Tensor, Draws], Tensor]
"""Maps item indices to the indices of the items in their second views."""
Weights = Callable[[Tensor, Tensor], Tensor | None]
"""Maps indices of items and partners to pair weights."""


class Images(InMemory):
    """Images in memory. A subclass returns the splits "train" and "test" from ``read``.

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
            batch_size: Batch size over all processes.
            noise: Label noise for training; evaluation uses the clean labels.
            limit: Train on the first ``limit`` images only.
            wrong_pairs: Share of images with a second view of another image.
            wrong_pairs_seed: Seed of ``wrong_pairs``.
        """
        super().__init__(batch_size, wrong_pairs, wrong_pairs_seed)
        self.noise, self.limit = noise, limit
        self.noisy: NoisyLabels | None = None

    def read(self) -> dict[str, tuple[Tensor, Tensor]]:
        """(n, channels, height, width) uint8 images and (n,) labels of the splits "train" and "test"."""
        raise NotImplementedError

    def add_noise(self) -> None:
        images, labels = self._splits["train"]
        self._splits["train"] = images[: self.limit], labels[: self.limit]
        if self.noise is not None:
            self.noisy = self.noise(labels[: self.limit])
        super().add_noise()

    def labeled_batches(self, split: Split) -> Iterator[ImageBatch]:
        return batches_of(*self.split(split))

    def noise_record(self) -> dict[str, Any]:
        record = super().noise_record()
        return record if self.noisy is None else self.noisy.record() | record

    def equal_pairs(self) -> NDArray[np.int64] | None:
        """Index of the first pair with equal images; with pairs by label, of the first equal image."""
        images, _ = self.split("train")
        return equal_rows(images) if self.partners is None else equal_rows(images, images[self.partners])

    def noisy_batches(self, ids: Tensor, batch_size: int = 250) -> Iterator[ImageBatch]:
        images, labels = self.training_items()
        for chosen in ids.split(batch_size):
            partners = None if self.partners is None else images[self.partners[chosen]]
            yield ImageBatch(images[chosen], labels[chosen], chosen, partners)

    def training_items(self) -> tuple[Tensor, Tensor]:
        """Images and noisy labels of the training split."""
        images, labels = self.split("train")
        return images, labels if self.noisy is None else self.noisy.labels

    def train_dataloader(self) -> SeededLoader:
        images, labels = self.training_items()
        check_pairing(self)
        batches = SeededBatches.of_trainer(self.trainer, len(images), self.batch_size, self.seed, self.among)
        by_label = SameLabel(labels, self.among) if self.pairing == "label" else None
        if self.mispaired is not None and by_label is not None:
            raise UsageError(
                "wrong_pairs is for methods that pair an image with itself; SupCon takes wrong labels (data.noise)"
            )
        weights, mispaired = PairWeights(self), self.partners

        def batch(ids: Tensor, step: int) -> ImageBatch:
            partner_ids = ids if mispaired is None else mispaired[ids]
            if by_label is not None:
                partner_ids = by_label(
                    ids, Draws(generator(self.seed, step, 2), len(ids), batches.rank, batches.processes)
                )
            partners = None if by_label is None and mispaired is None else images[partner_ids]
            return ImageBatch(images[ids], labels[ids], ids, partners, weights=weights(ids, partner_ids))

        return SeededLoader(batches, batch)


def batches_of(images: Tensor, labels: Tensor, size: int = 250) -> Iterator[ImageBatch]:
    """Batches of images in order."""
    for ids in torch.arange(len(images)).split(size):
        yield ImageBatch(images[ids], labels[ids], ids)


def check_pairing(data: DataModule) -> None:
    """Reject pairs by label for data with fewer than two classes."""
    if data.pairing == "label" and data.classes < 2:
        raise UsageError(
            f"pairs by label need at least 2 classes, {type(data).__name__} has {data.classes}: provide labels, or use "
            "a method without labels, such as SimCLR"
        )


class SameLabel:
    """A random other item of the same label for every item.

    An item is its own partner if no other item has its label, or if its label is unknown (-1). With ``among``, partners
    are sampled from these indices only.
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
        num_others = (self.count[ids] - 1).clamp_min(1)
        step = 1 + (draw.uniform() * num_others).long().clamp(max=num_others - 1)
        within = (self.place[ids] - self.first[ids] + step) % self.count[ids]
        return self.order[self.first[ids] + within]


class PairWeights:
    """Weights of pairs: the items' weights or, with pairs by label, the product of both labels' weights.

    An item paired with itself has weight 1.
    """

    def __init__(self, data: DataModule):
        self.weights, self.by_label = data.weights, data.pairing == "label"

    def __call__(self, ids: Tensor, partners: Tensor) -> Tensor | None:
        if self.weights is None:
            return None
        own = self.weights[ids]
        return torch.where(ids == partners, 1.0, own * self.weights[partners]) if self.by_label else own


class Arrays(Images):
    """An .npz file with ``images`` (n, height, width[, channels]) in uint8 and, optionally, ``labels`` (n,).

    ``test_images`` and ``test_labels`` are the test split. Default: every tenth image. Further options are those of
    :class:`rince.data.Images`.

    Example:
        >>> images = np.random.default_rng(0).integers(256, size=(50, 8, 8, 3), dtype=np.uint8)
        >>> np.savez("mine.npz", images=images, labels=np.arange(50) % 5)
        >>> rince.data.Arrays("mine.npz").split("test")[0].shape
        torch.Size([5, 3, 8, 8])
    """

    def __init__(self, path: str, **options: Any):
        """
        Args:
            path: The .npz file.
        """
        super().__init__(**options)
        self.path = Path(path)

    def read(self) -> dict[str, tuple[Tensor, Tensor]]:
        arrays = read_npz(self.path)
        train = self._part(arrays, "")
        if "test_images" in arrays:
            return {"train": train, "test": self._part(arrays, "test_")}
        images, labels = train
        is_test = torch.arange(len(images)) % 10 == 9
        return {"train": (images[~is_test], labels[~is_test]), "test": (images[is_test], labels[is_test])}

    def _part(self, arrays: dict[str, np.ndarray], prefix: str) -> tuple[Tensor, Tensor]:
        name = f"{prefix}images"
        images = array_of(arrays, name, self.path)
        if images.dtype != np.uint8 or images.ndim not in (3, 4):
            raise UsageError(
                f"{name} in {self.path} must be uint8 (n, height, width[, channels]), got {images.dtype} {images.shape}"
            )
        images = images[..., None] if images.ndim == 3 else images
        raw_labels = arrays.get(f"{prefix}labels", np.full(len(images), -1))
        labels = class_numbers(raw_labels, len(images), f"{prefix}labels in {self.path}")
        pixels = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
        return pixels, labels


READERS = (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, AttributeError)
BROKEN = (*READERS, SyntaxError, tokenize.TokenError)  # numpy raises the last two for a bad header


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """All arrays of an .npz file. Pickled objects are rejected."""
    if not path.is_file():
        raise MissingFile(f"{path} does not exist")
    check_zip(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except BROKEN as error:
        raise UsageError(f"{path} is not a valid .npz file of plain arrays ({type(error).__name__})") from error


def array_of(arrays: dict[str, np.ndarray], name: str, path: Path) -> np.ndarray:
    """Array of this name. The error lists the arrays in the file."""
    if name not in arrays:
        names = ", ".join([*arrays][:20]) + (", ..." if len(arrays) > 20 else "")
        raise UsageError(f"{path} has no array '{name}', only {names or 'nothing'}")
    return arrays[name]


ARCHIVE = "cifar-10-python.tar.gz"
ADDRESS = f"https://www.cs.toronto.edu/~kriz/{ARCHIVE}"
MD5 = "c58f30108f718f92721af3b95e74349a"
FOLDER = "cifar-10-batches-py"
TRAIN, TEST = [f"data_batch_{i}" for i in range(1, 6)], ["test_batch"]


class CIFAR10(Images):
    """60,000 color images of 32 x 32 pixels in ten classes, 10,000 of them for tests.

    Data are read or downloaded when training or ``split`` needs them. Unpickling is restricted to arrays. Further
    options are those of :class:`rince.data.Images`.

    Example:
        >>> data = rince.data.CIFAR10(root="data", noise=rince.noise.PaperFlips(eta=0.4), validation=5000)
    """

    class_names = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

    def __init__(self, root: str = "data", validation: int = 0, download: bool = False, **options: Any):
        """
        Args:
            root: Folder with cifar-10-python.tar.gz or cifar-10-batches-py.
            validation: Number of training images, the last ones, for the split "validation".
            download: Download the archive (170 MB) if it is missing.

        Raises:
            UsageError: If validation leaves no training images.
        """
        super().__init__(**options)
        if not 0 <= validation < 50_000:
            raise UsageError(f"validation must be in [0, 50000), got {validation}")
        self.root, self.validation, self.download = Path(root), validation, download

    def prepare_data(self) -> None:
        if self.download and not (self.root / FOLDER).is_dir() and not (self.root / ARCHIVE).exists():
            fetch(ADDRESS, self.root / ARCHIVE, MD5)

    def read(self) -> dict[str, tuple[Tensor, Tensor]]:
        files = self._files()
        images, labels = _joined(files, TRAIN)
        parts = {"train": (images, labels), "test": _joined(files, TEST)}
        if self.validation:
            cut = len(images) - self.validation
            parts |= {"train": (images[:cut], labels[:cut]), "validation": (images[cut:], labels[cut:])}
        return parts

    def _files(self) -> dict[str, bytes]:
        folder, archive = self.root / FOLDER, self.root / ARCHIVE
        if folder.is_dir():
            missing = [name for name in TRAIN + TEST if not (folder / name).exists()]
            if missing:
                raise MissingFile(f"{folder / missing[0]} is missing: CIFAR-10 has {', '.join(TRAIN + TEST)}")
            return {name: (folder / name).read_bytes() for name in TRAIN + TEST}
        if archive.exists():
            return _members(archive)
        raise MissingFile(
            f"{self.root} has neither {ARCHIVE} nor {FOLDER}: set root to their folder, or download to true (170 MB)"
        )


def _members(archive: Path) -> dict[str, bytes]:
    """Batches of the archive, read into memory."""
    digest = hashlib.md5(archive.read_bytes(), usedforsecurity=False).hexdigest()
    if digest != MD5:
        raise UsageError(
            f"{archive} is damaged or not the original (md5 {digest}, expected {MD5}): delete it and download it again"
        )
    try:
        with tarfile.open(archive) as tar:
            files = {Path(m.name).name: tar.extractfile(m) for m in tar if m.isfile()}
            return {name: files[name].read() for name in TRAIN + TEST}  # type: ignore[union-attr]
    except (tarfile.TarError, EOFError, zlib.error, KeyError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"{archive} cannot be read ({reason}): delete it and download it again") from error


def _joined(files: dict[str, bytes], names: list[str]) -> tuple[Tensor, Tensor]:
    images, labels = zip(*(_batch(files[name], name) for name in names), strict=True)
    return torch.cat(images), torch.cat(labels)


def _batch(content: bytes, name: str) -> tuple[Tensor, Tensor]:
    batch = load_harmless(content, name)
    try:
        pixels, labels = np.asarray(batch[b"data"]), np.asarray(batch[b"labels"], dtype=np.int64)
        images = torch.from_numpy(pixels.reshape(-1, 3, 32, 32).copy())
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{name} is not a batch of CIFAR-10: {error!r}") from error
    return images, torch.from_numpy(labels)


class _Harmless(pickle.Unpickler):
    """Unpickler of numbers, bytes, lists, dictionaries and numpy arrays only."""

    ALLOWED: ClassVar = {
        ("numpy.core.multiarray", "_reconstruct"),
        ("numpy._core.multiarray", "_reconstruct"),
        ("numpy", "ndarray"),
        ("numpy", "dtype"),
        ("_codecs", "encode"),
        ("numpy._core.numeric", "_frombuffer"),
        ("numpy.core.numeric", "_frombuffer"),
    }

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in self.ALLOWED:
            raise pickle.UnpicklingError(f"it contains {module}.{name}, which is not allowed in a data file")
        return super().find_class(module, name)


def load_harmless(content: bytes, name: str) -> Any:
    """Unpickle plain data without running code."""
    try:
        return _Harmless(io.BytesIO(content), encoding="bytes").load()
    except pickle.UnpicklingError as error:
        raise UsageError(f"{name} was rejected: {error}") from error
    except Exception as error:  # damaged files raise many types
        raise UsageError(f"{name} is cut off or damaged ({type(error).__name__})") from error


class DigitImages(Images):
    """scikit-learn's 8 x 8 digits in a fixed random split: 1,397 images for training, 400 for tests.

    Example:
        >>> data = rince.data.DigitImages(batch_size=128)
        >>> images, labels = data.split("train")
        >>> images.shape, images.dtype
        (torch.Size([1397, 1, 8, 8]), torch.uint8)
    """

    class_names = tuple("0123456789")

    def read(self) -> dict[str, tuple[Tensor, Tensor]]:
        digits = require("sklearn.datasets", "train").load_digits()
        images = (torch.from_numpy(digits.images) * (255 / 16)).round().to(torch.uint8)[:, None]
        labels = torch.from_numpy(digits.target).long()
        order = torch.randperm(len(images), generator=generator(1797))
        train, test = order[400:], order[:400]
        return {"train": (images[train], labels[train]), "test": (images[test], labels[test])}
