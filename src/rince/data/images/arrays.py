"""Your own images as arrays in an .npz file."""

import tokenize
import zipfile
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from rince._support.zip_files import check_zip
from rince.data.images.in_memory import Images
from rince.data.module import class_numbers
from rince.errors import MissingFile, UsageError
from rince.noise.labels import LabelFlips


class Arrays(Images):
    """A file with ``images`` (n, height, width[, channels], bytes) and, where known, ``labels`` (n,).

    ``test_images`` and ``test_labels`` are the test part; without them every tenth image is.

    Example:
        >>> images = np.random.default_rng(0).integers(256, size=(50, 8, 8, 3), dtype=np.uint8)
        >>> np.savez("mine.npz", images=images, labels=np.arange(50) % 5)
        >>> rince.data.Arrays("mine.npz").split("test")[0].shape
        torch.Size([5, 3, 8, 8])
    """

    def __init__(
        self,
        path: str,
        batch_size: int = 256,
        noise: LabelFlips | None = None,
        limit: int | None = None,
        wrong_pairs: float = 0.0,
        wrong_pairs_seed: int = 0,
    ):
        """
        Args:
            path: The .npz file.
            batch_size: Images in a batch of all processes together.
            noise: Wrong labels for training; evaluation always uses the right labels.
            limit: Train only on this number of images, the first ones.
            wrong_pairs: Share of images whose second view shows another image.
            wrong_pairs_seed: Seed that chooses these images, and whose view they get.
        """
        super().__init__(batch_size, noise, limit, wrong_pairs, wrong_pairs_seed)
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
                f"{name} in {self.path} must be bytes (n, height, width[, channels]), got {images.dtype} {images.shape}"
            )
        check_rows(images, name, self.path)
        images = images[..., None] if images.ndim == 3 else images
        given = arrays.get(f"{prefix}labels", np.full(len(images), -1))
        labels = class_numbers(given, len(images), f"{prefix}labels in {self.path}")
        pixels = torch.from_numpy(np.ascontiguousarray(images.transpose(0, 3, 1, 2)))
        return pixels, labels


READERS = (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error, AttributeError)
MOST_ARRAYS = 1000  # of which at most seven are looked for
BROKEN = (*READERS, SyntaxError, tokenize.TokenError)  # the last two are numpy's for a header


def read_npz(path: Path) -> dict[str, np.ndarray]:
    """All arrays of a file, read without running anything in it."""
    if not path.is_file():
        raise MissingFile(f"there is no {path}: give the .npz file as path")
    check_zip(path)
    try:
        with np.load(path, allow_pickle=False) as file:
            if len(file.files) > MOST_ARRAYS:
                raise UsageError(
                    f"{path} must hold at most {MOST_ARRAYS} arrays, got {len(file.files):,}: save those of the data "
                    "in a file of their own"
                )
            return {name: file[name] for name in file.files}
    except UsageError:
        raise
    except BROKEN as error:
        raise UsageError(f"{path} is no whole .npz file of plain arrays ({type(error).__name__})") from error


def array_of(arrays: dict[str, np.ndarray], name: str, path: Path) -> np.ndarray:
    """The array of this name; where there is none, the sentence lists a few of those there are."""
    if name not in arrays:
        there = ", ".join([*arrays][:20]) + (", ..." if len(arrays) > 20 else "")
        raise UsageError(f"{path} has no array '{name}', only {there or 'nothing'}")
    if not isinstance(arrays[name], np.ndarray):  # numpy hands out the bytes of what is none
        raise UsageError(f"'{name}' in {path} is no array: write the file with numpy.savez")
    return arrays[name]


def check_rows(array: np.ndarray, name: str, path: Path) -> None:
    """Refuse too few items, a single one having no other to be told from, and items that hold nothing."""
    least = 1 if name.startswith("test_") else 2
    if len(array) < least:
        raise UsageError(f"{name} in {path} must hold at least {least} items, got {len(array)}")
    if not array[0].size:
        raise UsageError(f"{name} in {path} holds items without any values, of shape {array.shape[1:]}")
