"""CIFAR-10, from its original archive or the folder it unpacks to."""

import hashlib
import io
import pickle
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from rince.data.download import fetch
from rince.data.images.in_memory import Images
from rince.errors import MissingFile, UsageError
from rince.noise.labels import LabelFlips

ARCHIVE = "cifar-10-python.tar.gz"
ADDRESS = f"https://www.cs.toronto.edu/~kriz/{ARCHIVE}"
MD5 = "c58f30108f718f92721af3b95e74349a"
FOLDER = "cifar-10-batches-py"
TRAIN, TEST = [f"data_batch_{i}" for i in range(1, 6)], ["test_batch"]


class CIFAR10(Images):
    """60,000 colour images of 32 x 32 pixels in ten classes, 10,000 of them for tests.

    Nothing is read or downloaded before training or ``split`` needs it. Reading the archive runs no code in it.

    Example:
        >>> data = rince.data.CIFAR10(root="data", noise=rince.noise.PaperFlips(eta=0.4), validation=5000)
    """

    class_names = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")

    def __init__(
        self,
        root: str = "data",
        batch_size: int = 256,
        noise: LabelFlips | None = None,
        limit: int | None = None,
        wrong_pairs: float = 0.0,
        wrong_pairs_seed: int = 0,
        validation: int = 0,
        download: bool = False,
    ):
        """
        Args:
            root: Folder with cifar-10-python.tar.gz or cifar-10-batches-py.
            batch_size: Images in a batch of all processes together.
            noise: Wrong labels for training; evaluation always uses the right labels.
            limit: Train only on this number of images, the first ones.
            wrong_pairs: Share of images whose second view shows another image.
            wrong_pairs_seed: Seed that chooses these images, and whose view they get.
            validation: How many of the last training images are set aside as the part "validation".
            download: Download the archive (170 MB) if it is missing.

        Raises:
            UsageError: If validation leaves no image to train on.
        """
        super().__init__(batch_size, noise, limit, wrong_pairs, wrong_pairs_seed)
        if not 0 <= validation < 50_000:
            raise UsageError(f"validation must leave some of the 50,000 training images, got {validation}")
        self.root, self.validation, self.download = Path(root), validation, download

    def prepare_data(self) -> None:
        if self.download and not (self.root / FOLDER).is_dir() and not (self.root / ARCHIVE).exists():
            fetch(ADDRESS, self.root / ARCHIVE, MD5)

    def read(self) -> dict[str, tuple[Tensor, Tensor]]:
        open_batch = self._source()
        images, labels = _joined(open_batch, TRAIN)
        parts = {"train": (images, labels), "test": _joined(open_batch, TEST)}
        if self.validation:
            cut = len(images) - self.validation
            parts |= {"train": (images[:cut], labels[:cut]), "validation": (images[cut:], labels[cut:])}
        return parts

    def _source(self) -> Callable[[str], bytes]:
        folder, archive = self.root / FOLDER, self.root / ARCHIVE
        if folder.is_dir():
            return lambda name: _bytes_of(folder / name)
        if archive.exists():
            members = _members(archive)
            return lambda name: members[name]
        raise MissingFile(
            f"there is neither {ARCHIVE} nor {FOLDER} in {self.root}: give the folder that has one of them as root, "
            "or turn on download (170 MB)"
        )


def _bytes_of(path: Path) -> bytes:
    if not path.exists():
        raise MissingFile(f"{path} is missing: CIFAR-10 has {', '.join(TRAIN + TEST)}")
    return path.read_bytes()


def _members(archive: Path) -> dict[str, bytes]:
    """The batches of the archive, read into memory; nothing is unpacked to disk."""
    digest = hashlib.md5(archive.read_bytes(), usedforsecurity=False).hexdigest()
    if digest != MD5:
        raise UsageError(
            f"{archive} is damaged or not the original (md5 {digest}, expected {MD5}): delete it and fetch it again"
        )
    try:
        with tarfile.open(archive) as tar:
            files = {Path(m.name).name: tar.extractfile(m) for m in tar if m.isfile()}
            return {name: files[name].read() for name in TRAIN + TEST}  # type: ignore[union-attr]
    except (tarfile.TarError, EOFError, zlib.error, KeyError) as error:
        why = " ".join(str(error).split())
        raise UsageError(f"{archive} cannot be read ({why}): delete it and fetch it again") from error


def _joined(open_batch: Callable[[str], bytes], names: list[str]) -> tuple[Tensor, Tensor]:
    parts = [_batch(open_batch(name), name) for name in names]
    return torch.cat([images for images, _ in parts]), torch.cat([labels for _, labels in parts])


def _batch(content: bytes, name: str) -> tuple[Tensor, Tensor]:
    batch = load_harmless(content, name)
    try:
        pixels, labels = np.asarray(batch[b"data"]), np.asarray(batch[b"labels"], dtype=np.int64)
        images = torch.from_numpy(pixels.reshape(-1, 3, 32, 32).copy())
    except (KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{name} is no batch of CIFAR-10: {error!r}") from error
    if (
        images.dtype != torch.uint8
        or labels.shape != (len(images),)
        or (len(labels) and not 0 <= labels.min() <= labels.max() < 10)
    ):
        raise UsageError(f"{name} is no batch of CIFAR-10: {images.dtype} pixels, {labels.shape} labels")
    return images, torch.from_numpy(labels)


class _Harmless(pickle.Unpickler):
    """Numbers, bytes, lists, dictionaries and numpy arrays. Anything else could run code, and is refused."""

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
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which has no business in a data file")
        return super().find_class(module, name)


def load_harmless(content: bytes, name: str) -> Any:
    """Unpickle without ever running what the file says."""
    try:
        return _Harmless(io.BytesIO(content), encoding="bytes").load()
    except pickle.UnpicklingError as error:
        raise UsageError(f"{name} was refused: {error}") from error
    except (EOFError, ValueError, IndexError, KeyError, TypeError, AttributeError, MemoryError, OverflowError) as error:
        raise UsageError(f"{name} is cut off or damaged ({type(error).__name__})") from error
