"""Items of a pair on the page: a text, a small image, a short audio clip or video, all stored inside the page.

Files are named by data, so only regular files are opened, and audio or video is put into the page only if its first
bytes say so: a link called ``a.wav`` that leads to a private file shows its name and nothing else.
"""

import base64
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

from rince._support.optional_imports import require
from rince._support.regular_files import Unreadable, natural, read_regular
from rince.errors import UsageError, WrongType

THUMBNAIL = 160
MAX_TEXT = 600
MAX_MEDIA_BYTES = 1_000_000  # of one audio or video file
MAX_IMAGE_BYTES = 50_000_000  # of an image file, before it is made small
MAX_SIDE_BYTES = 20_000_000  # of the images, audio and videos of one side of all pairs
PICTURES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
SOUNDS = {".flac": "audio/flac", ".mp3": "audio/mpeg", ".ogg": "audio/ogg", ".wav": "audio/wav"}
VIDEOS = {".mp4": "video/mp4", ".webm": "video/webm"}
MEDIA = (*PICTURES, *SOUNDS, *VIDEOS)

GalleryItem = dict[str, str] | None
"""``{"text": ...}``, ``{"image": URI}``, or ``{"audio" or "video": URI, "name": ...}``; None shows nothing."""


# --- media files ------------------------------------------------------------------------------------------------------


def kind_of_name(name: str) -> str | None:
    """``"pictures"``, ``"sounds"`` or ``"videos"`` by the suffix of a file name, or None."""
    suffix = Path(name).suffix.lower()
    kinds = {"pictures": PICTURES, "sounds": SOUNDS, "videos": VIDEOS}
    return next((kind for kind, suffixes in kinds.items() if suffix in suffixes), None)


def media_type(content: bytes) -> str | None:
    """MIME type of audio or video by its first bytes, such as ``audio/wav``, or None if it is neither."""
    head = content[:16]
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        return "audio/wav"
    if head[:4] == b"fLaC":
        return "audio/flac"
    if head[:4] == b"OggS":
        return "audio/ogg"
    if head[:3] == b"ID3" or (len(head) > 1 and head[0] == 0xFF and head[1] & 0xE6 == 0xE2):  # an MP3 frame
        return "audio/mpeg"
    if head[4:8] == b"ftyp":
        return "video/mp4"
    return "video/webm" if head[:4] == b"\x1a\x45\xdf\xa3" else None


def file_item(path: Path, budget: int, root: Path | None = None) -> tuple[dict[str, str], int]:
    """The gallery item of a file, and how many of the ``budget`` bytes it takes.

    Args:
        path: The file, as named by the data or by the user.
        budget: Bytes that may still go into the page.
        root: Folder that must contain the file, links resolved; None if the user named the file itself.
    """
    limit = MAX_IMAGE_BYTES if kind_of_name(path.name) == "pictures" else MAX_MEDIA_BYTES
    try:
        return content_item(read_regular(path, limit, root), path.name, budget)
    except Unreadable as error:
        return {"text": path.name if "larger" in str(error) else str(error)}, 0


def content_item(content: bytes, name: str, budget: int) -> tuple[dict[str, str], int]:
    """The gallery item of the content of a media file, and how many bytes it takes."""
    kind = media_type(content)
    if kind is None:
        pillow = require("PIL.Image", "audit")
        try:
            with pillow.open(io.BytesIO(content)) as image:
                image.draft("RGB", (2 * THUMBNAIL, 2 * THUMBNAIL))
                item = thumbnail(image)
        except Exception:  # Pillow raises many types of errors on damaged files
            return {"text": f"{name} cannot be read"}, 0
        size = len(item["image"])
        return (item, size) if size <= budget else ({"text": name}, 0)
    if len(content) > min(MAX_MEDIA_BYTES, budget):
        return {"text": name}, 0
    return {kind.split("/")[0]: data_uri(kind, content), "name": name}, len(content)


def thumbnail(image: Any) -> dict[str, str]:
    """A small copy of a Pillow image."""
    image.thumbnail((THUMBNAIL, THUMBNAIL))
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, "JPEG", quality=80)
    return {"image": data_uri("image/jpeg", buffer.getvalue())}


def data_uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64," + base64.b64encode(content).decode()


# --- galleries: one item per pair -------------------------------------------------------------------------------------


class Texts:
    """One text per pair."""

    def __init__(self, texts: Sequence[Any] | NDArray[Any]):
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    def item(self, index: int) -> GalleryItem:
        return text_item(self.texts[index])

    def brief(self, index: int) -> str | None:
        """The whole text, or the name of the file: for tables, and for pairs whose media do not fit into the page."""
        return _as_text(self.texts[index])


class Arrays:
    """Images as one array of bytes, or of numbers that are scaled to [0, 1] if they lie outside.

    The shape is (pairs, height, width), with 1, 3 or 4 channels last or second.
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
        return image_item(np.asarray(self.images[index]))

    def brief(self, index: int) -> str | None:
        return None


class Files:
    """One media file per pair, or None. A file that cannot be read is named instead of shown.

    Args:
        paths: The files.
        remark: Note to the user on how the files were matched.
        root: Folder that must contain the files, links resolved: paths from a table or a folder may lead anywhere,
            and pages are passed on. None if the user named every file.
    """

    def __init__(self, paths: Sequence[str | Path | None], remark: str = "", root: Path | None = None):
        self.paths, self.remark, self.root = paths, remark, root
        self.budget = MAX_SIDE_BYTES

    @classmethod
    def from_folder(cls, folder: Path, ids: Any) -> "Files":
        """Files of a folder that are named like the ids, with or without suffix; if none match, all files in order."""
        files = sorted((file for file in folder.iterdir() if file.suffix.lower() in MEDIA), key=natural)
        if not files:
            raise UsageError(f"the folder {folder} has no media files ({', '.join(MEDIA)})")
        by_name: dict[str, Path] = {}
        for file in files:
            by_name.setdefault(file.stem, file)
        by_name |= {file.name: file for file in files}
        chosen = [] if ids is None else [None if name is None else by_name.get(str(name)) for name in ids]
        missing = [i for i, file in enumerate(chosen) if file is None]
        if ids is None or len(missing) == len(chosen):
            why = "" if ids is None else ", since none is named like an id"
            return cls(files, f"the files of {folder} were taken in the order of their names{why}", folder)
        if missing:
            first = f"row {missing[0]}" if ids[missing[0]] is None else ids[missing[0]]
            remark = f"{len(missing):,} of {len(chosen):,} pairs have no file in {folder}, the first is {first}"
            return cls(chosen, remark, folder)
        return cls(chosen, root=folder)

    def __len__(self) -> int:
        return len(self.paths)

    def item(self, index: int) -> GalleryItem:
        path = self.paths[index]
        if path is None:
            return None
        item, used = file_item(Path(path), self.budget, self.root)
        self.budget -= used
        return item

    def brief(self, index: int) -> str | None:
        path = self.paths[index]
        if path is None or self.root is None or not Path(path).is_relative_to(self.root):
            return None if path is None else Path(path).name
        return str(Path(path).relative_to(self.root))


class Contents:
    """One media file per pair as bytes, as in tables of Hugging Face datasets, or None."""

    def __init__(self, contents: Sequence[bytes | None], remark: str = ""):
        self.contents, self.remark = contents, remark
        self.budget = MAX_SIDE_BYTES

    def __len__(self) -> int:
        return len(self.contents)

    def item(self, index: int) -> GalleryItem:
        content = self.contents[index]
        if content is None:
            return None
        item, used = content_item(content, f"item {index}", self.budget)
        self.budget -= used
        return item

    def brief(self, index: int) -> str | None:
        return None


class Items:
    """A sequence of images (arrays, tensors, Pillow), media files, texts and numbers."""

    def __init__(self, items: Sequence[Any] | NDArray[Any], name: str):
        self.items = items
        self.budget = MAX_SIDE_BYTES
        typed = isinstance(items, np.ndarray) and items.dtype != object  # then all of them are texts or numbers
        for index, item in enumerate([] if typed else items):
            if not (_is_plain(item) or isinstance(item, os.PathLike) or _is_pillow(item) or _is_image(item)):
                shape = f" of shape {tuple(item.shape)}" if _is_array(item) else ""
                raise WrongType(
                    f"{name} must hold texts, numbers, images (arrays, tensors or Pillow images) or paths of files, "
                    f"got {type(item).__name__}{shape} for pair {index}"
                )

    def __len__(self) -> int:
        return len(self.items)

    def item(self, index: int) -> GalleryItem:
        item = self.items[index]
        if _is_pillow(item):
            return thumbnail(item.copy())
        if _is_array(item) and item.ndim > 1:
            return image_item(_as_numpy(item))
        if isinstance(item, os.PathLike) or (isinstance(item, str) and _is_media_file(item)):
            result, used = file_item(Path(item), self.budget)
            self.budget -= used
            return result
        return text_item(item)

    def brief(self, index: int) -> str | None:
        item = self.items[index]
        if isinstance(item, os.PathLike):
            return Path(item).name
        return _as_text(item) if _is_plain(item) else None


Gallery = Texts | Arrays | Files | Contents | Items


def gallery_of(items: Any, n: int, name: str) -> Gallery | None:
    """A gallery from user input: None, a gallery, an array or tensor of images, or a sequence for ``Items``."""
    if items is None:
        return None
    if _is_tensor(items):
        items = _as_numpy(items)
    if not isinstance(items, Gallery):
        if isinstance(items, (str, bytes, dict, set)) or not hasattr(items, "__len__"):
            raise WrongType(f"{name} must be a list or an array with one item per pair, got {type(items).__name__}")
        images = isinstance(items, np.ndarray) and items.ndim > 1
        items = Arrays(items) if images else Items(items if isinstance(items, np.ndarray) else list(items), name)
    if len(items) != n:
        raise UsageError(f"{name} must have one item per pair: expected {n:,}, got {len(items):,}")
    return items


# --- texts and arrays -------------------------------------------------------------------------------------------------


def text_item(value: Any) -> dict[str, str]:
    """A text, cut if it is long; a missing one is empty."""
    text = _as_text(value)
    return {"text": text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + " …"}


def _as_text(value: Any) -> str:
    return "" if _is_missing(value) else str(value)


def image_item(image: NDArray[Any]) -> dict[str, str]:
    """A gray or color image, channels last or first, as a small PNG."""
    if image.ndim == 3 and image.shape[2] not in (1, 3, 4):
        image = image.transpose(1, 2, 0)
    image = _as_bytes(_downsampled(image))
    while min(image.shape[:2]) < 48:  # whole multiples keep small images crisp
        image = image.repeat(2, 0).repeat(2, 1)
    return {"image": data_uri("image/png", png(image))}


def png(image: NDArray[np.uint8]) -> bytes:
    """A gray (height, width) or color (height, width, 3 or 4) image as a PNG file."""
    pixels = image[..., 0] if image.ndim == 3 and image.shape[2] == 1 else image
    file = io.BytesIO()
    require("PIL.Image", "audit").fromarray(np.ascontiguousarray(pixels)).save(file, "PNG")
    return file.getvalue()


def _downsampled(image: NDArray[Any]) -> NDArray[Any]:
    """The image averaged over squares if it is much larger than a thumbnail."""
    side = max(image.shape[:2]) // (2 * THUMBNAIL)
    if side < 2 or min(image.shape[:2]) < side:
        return image
    height, width = image.shape[0] // side, image.shape[1] // side
    squares = image[: height * side, : width * side].reshape(height, side, width, side, *image.shape[2:])
    means = squares.mean((1, 3))
    return means.round().astype(image.dtype) if image.dtype.kind in "iu" else means


def _as_bytes(image: NDArray[Any]) -> NDArray[np.uint8]:
    if image.dtype == np.uint8:
        return image
    if image.dtype.kind in "iu":
        return np.clip(image, 0, 255).astype(np.uint8)
    image = np.nan_to_num(image.astype(np.float32), posinf=0, neginf=0)
    low, high = float(image.min()), float(image.max())
    if low < -0.01 or high > 1.01:  # standardized, or from 0 to 255
        image = (image - low) / max(high - low, 1e-12)
    return (np.clip(image, 0, 1) * 255).round().astype(np.uint8)


def _is_tensor(item: Any) -> bool:
    torch = sys.modules.get("torch")  # imported already if the user has a tensor
    return torch is not None and isinstance(item, torch.Tensor)


def _is_pillow(item: Any) -> bool:
    pillow = sys.modules.get("PIL.Image")  # imported already if the user has such an image
    return pillow is not None and isinstance(item, pillow.Image)


def _is_array(item: Any) -> bool:
    return isinstance(item, np.ndarray) or _is_tensor(item)


def _as_numpy(x: Any) -> NDArray[Any]:
    if isinstance(x, np.ndarray):
        return x
    x = x.detach().cpu()
    array: NDArray[Any] = (x.float() if x.is_floating_point() else x).numpy()
    return array


def _is_missing(item: Any) -> bool:
    """None, NaN, or the missing value of pandas (recognized without importing it)."""
    return item is None or (isinstance(item, float) and math.isnan(item)) or type(item).__name__ == "NAType"


def _is_plain(item: Any) -> bool:
    scalar = _is_array(item) and item.ndim == 0
    return _is_missing(item) or scalar or isinstance(item, (str, np.generic, numbers.Number))


def _is_image(item: Any) -> bool:
    if not _is_array(item) or (isinstance(item, np.ndarray) and item.dtype.kind not in "fiub") or 0 in item.shape:
        return False
    return item.ndim == 2 or (item.ndim == 3 and bool({1, 3, 4} & {item.shape[0], item.shape[2]}))


def _is_media_file(text: str) -> bool:
    try:
        return text.lower().endswith(MEDIA) and Path(text).is_file()
    except (OSError, ValueError):  # too long, or with a NUL
        return False
