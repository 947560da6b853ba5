"""The gallery: what the page shows of a pair, a text, a small picture, a short sound or video, all inside the page."""

import io
import math
import numbers
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from rince._support.optional_imports import require
from rince.errors import UsageError, WrongType
from rince.report.media import MEDIA, THUMBNAIL, content_element, data_uri, element, thumbnail

LONGEST_TEXT = 600
ROOM = 20_000_000  # bytes of pictures, sounds and videos of one side of all pairs

GalleryItem = dict[str, str] | None


class Texts:
    """One text per pair."""

    def __init__(self, texts: Sequence[Any] | NDArray[Any]):
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    def item(self, index: int) -> GalleryItem:
        return as_text(self.texts[index])

    def brief(self, index: int) -> str | None:
        """A few words for a pair whose media the page has no room for."""
        return as_text(self.texts[index])["text"]


class Arrays:
    """Images as an array: bytes, or numbers in [0, 1], which are stretched to it where they lie outside.

    Shapes are (pairs, height, width), or with 1, 3 or 4 channels at the end or, else, after the pairs.
    """

    def __init__(self, images: NDArray[Any]):
        if images.ndim not in (3, 4) or (images.ndim == 4 and not {1, 3, 4} & {images.shape[1], images.shape[3]}):
            raise UsageError(
                "images must be (pairs, height, width), (pairs, height, width, 3) or (pairs, 3, height, width), "
                f"got {images.shape}"
            )
        if images.dtype.kind not in "fiub" or not images.size:
            raise UsageError(f"images must be numbers, got {images.dtype} of shape {images.shape}")
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def item(self, index: int) -> GalleryItem:
        return as_picture(np.asarray(self.images[index]))

    def brief(self, index: int) -> str | None:
        return None


class Files:
    """One media file per pair, or None; a file that cannot be read is named instead of shown.

    Args:
        paths: The files.
        remark: What a reader should know about how the files were found.
        root: The folder that the files must lie below, symbolic links followed: paths out of a table or a folder may
            lead anywhere, and a page is made to be passed on. None if the user named every file.
    """

    def __init__(self, paths: Sequence[str | Path | None], remark: str = "", root: Path | None = None):
        self.paths, self.remark, self.root = paths, remark, root
        self.room = ROOM

    def __len__(self) -> int:
        return len(self.paths)

    def item(self, index: int) -> GalleryItem:
        path = self.paths[index]
        if path is None:
            return None
        found, used = element(Path(path), self.room, self.root)
        self.room -= used
        return found

    def brief(self, index: int) -> str | None:
        path = self.paths[index]
        return None if path is None else Path(path).name


class Contents:
    """One media file per pair as bytes, such as those in tables of Hugging Face datasets; None where there is none."""

    def __init__(self, contents: Sequence[bytes | None], remark: str = ""):
        self.contents, self.remark = contents, remark
        self.room = ROOM

    def __len__(self) -> int:
        return len(self.contents)

    def item(self, index: int) -> GalleryItem:
        content = self.contents[index]
        if content is None:
            return None
        found, used = content_element(content, f"item {index}", self.room)
        self.room -= used
        return found

    def brief(self, index: int) -> str | None:
        return None


class Items:
    """Anything, item by item: pictures as arrays, tensors or of Pillow, media files, texts and numbers."""

    def __init__(self, items: Sequence[Any] | NDArray[Any], name: str):
        self.items = items
        self.room = ROOM
        typed = isinstance(items, np.ndarray) and items.dtype != object  # then all of them are texts or numbers
        for index, item in enumerate([] if typed else items):
            if not (is_plain(item) or isinstance(item, os.PathLike) or is_pillow(item) or is_image(item)):
                shape = f" of shape {tuple(item.shape)}" if isinstance(item, (np.ndarray, Tensor)) else ""
                raise WrongType(
                    f"{name} must hold texts, numbers, images (arrays, tensors or of Pillow) or paths of files, got "
                    f"{type(item).__name__}{shape} for pair {index}"
                )

    def __len__(self) -> int:
        return len(self.items)

    def item(self, index: int) -> GalleryItem:
        item = self.items[index]
        if is_pillow(item):
            return thumbnail(item.copy())
        if isinstance(item, (np.ndarray, Tensor)) and item.ndim > 1:
            return as_picture(as_numpy(item))
        if isinstance(item, os.PathLike) or (isinstance(item, str) and is_media_file(item)):
            found, used = element(Path(item), self.room)
            self.room -= used
            return found
        return as_text(item)

    def brief(self, index: int) -> str | None:
        item = self.items[index]
        if isinstance(item, os.PathLike):
            return Path(item).name
        return as_text(item)["text"] if is_plain(item) else None


Show = Texts | Arrays | Files | Contents | Items


def gallery_of(what: Any, n: int, name: str) -> Show | None:
    """What a user gave to show, one per pair: see ``Items``, or an array or tensor of images, or nothing."""
    if what is None:
        return None
    if isinstance(what, Tensor):
        what = as_numpy(what)
    if not isinstance(what, (Texts, Arrays, Files, Contents, Items)):
        if isinstance(what, (str, bytes, dict, set)) or not hasattr(what, "__len__"):
            raise WrongType(f"{name} must be a list or an array with one item per pair, got {type(what).__name__}")
        many = isinstance(what, np.ndarray) and what.ndim > 1
        what = Arrays(what) if many else Items(what if isinstance(what, np.ndarray) else list(what), name)
    if len(what) != n:
        raise UsageError(f"{name} must have one item per pair: expected {n:,}, got {len(what):,}")
    return what


def as_numpy(x: NDArray[Any] | Tensor) -> NDArray[Any]:
    if not isinstance(x, Tensor):
        return x
    x = x.detach().cpu()
    return (x.float() if x.is_floating_point() else x).numpy()


def as_text(value: Any) -> dict[str, str]:
    """A text, cut where it is long; a missing one is empty."""
    text = "" if is_missing(value) else str(value)
    return {"text": text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + " …"}


def is_missing(item: Any) -> bool:
    """None, NaN, or the missing value of pandas, which need not be installed to be recognised."""
    return item is None or (isinstance(item, float) and math.isnan(item)) or type(item).__name__ == "NAType"


def is_plain(item: Any) -> bool:
    scalar = isinstance(item, (np.ndarray, Tensor)) and item.ndim == 0
    return is_missing(item) or scalar or isinstance(item, (str, np.generic, numbers.Number))


def is_pillow(item: Any) -> bool:
    pillow = sys.modules.get("PIL.Image")  # whoever has such an image has imported it
    return pillow is not None and isinstance(item, pillow.Image)


def is_image(item: Any) -> bool:
    if not isinstance(item, (np.ndarray, Tensor)) or (isinstance(item, np.ndarray) and item.dtype.kind not in "fiub"):
        return False
    if 0 in item.shape:
        return False
    return item.ndim == 2 or (item.ndim == 3 and bool({1, 3, 4} & {item.shape[0], item.shape[2]}))


def is_media_file(text: str) -> bool:
    try:
        return text.lower().endswith(MEDIA) and Path(text).is_file()
    except (OSError, ValueError):  # no text that could be a path
        return False


def as_picture(image: NDArray[Any]) -> dict[str, str]:
    """A grey or colour image, channels last or first, as a PNG of a size to look at."""
    if image.ndim == 3 and image.shape[2] not in (1, 3, 4):
        image = image.transpose(1, 2, 0)
    image = _bytes(_smaller(image))
    while min(image.shape[:2]) < 48:  # whole multiples keep small images crisp
        image = image.repeat(2, 0).repeat(2, 1)
    return {"image": data_uri("image/png", png(image))}


def _smaller(image: NDArray[Any]) -> NDArray[Any]:
    """Averaged over squares, if it is much larger than what is shown of it."""
    side = max(image.shape[:2]) // (2 * THUMBNAIL)
    if side < 2 or min(image.shape[:2]) < side:
        return image
    height, width = image.shape[0] // side, image.shape[1] // side
    squares = image[: height * side, : width * side].reshape(height, side, width, side, *image.shape[2:])
    means = squares.mean((1, 3))
    return means.round().astype(image.dtype) if image.dtype.kind in "iu" else means


def _bytes(image: NDArray[Any]) -> NDArray[np.uint8]:
    if image.dtype == np.uint8:
        return image
    if image.dtype.kind in "iu":
        return np.clip(image, 0, 255).astype(np.uint8)
    image = np.nan_to_num(image.astype(np.float32), posinf=0, neginf=0)
    low, high = float(image.min()), float(image.max())
    if low < -0.01 or high > 1.01:  # standardised, or from 0 to 255
        image = (image - low) / max(high - low, 1e-12)
    return (np.clip(image, 0, 1) * 255).round().astype(np.uint8)


def png(image: NDArray[np.uint8]) -> bytes:
    """A grey (height, width) or colour (height, width, 3 or 4) image as a PNG file."""
    pixels = image[..., 0] if image.ndim == 3 and image.shape[2] == 1 else image
    file = io.BytesIO()
    require("PIL.Image", "audit").fromarray(np.ascontiguousarray(pixels)).save(file, "PNG")
    return file.getvalue()
