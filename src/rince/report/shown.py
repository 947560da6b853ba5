"""What the gallery shows of a pair: a text, or a small picture inside the page."""

import base64
import io
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rince.extras import require

LONGEST_TEXT = 600
THUMBNAIL = 160


class Texts:
    """One text a pair."""

    def __init__(self, texts: Sequence[Any] | NDArray[Any]):
        self.texts = texts

    def __len__(self) -> int:
        return len(self.texts)

    def item(self, index: int) -> dict[str, str]:
        text = str(self.texts[index])
        return {"text": text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + " …"}


class Arrays:
    """Images as an array (pairs, height, width) or (pairs, height, width, 3): bytes, or numbers in [0, 1]."""

    def __init__(self, images: NDArray[Any]):
        if images.ndim not in (3, 4) or (images.ndim == 4 and images.shape[3] not in (1, 3)):
            raise ValueError(f"images must be (pairs, height, width) or (pairs, height, width, 3), got {images.shape}")
        self.images = images

    def __len__(self) -> int:
        return len(self.images)

    def item(self, index: int) -> dict[str, str]:
        image = np.asarray(self.images[index])
        if image.dtype != np.uint8:
            image = (np.clip(image, 0, 1) * 255).round().astype(np.uint8)
        while min(image.shape[:2]) < 48:  # whole multiples keep small images crisp
            image = image.repeat(2, 0).repeat(2, 1)
        return {"image": "data:image/png;base64," + base64.b64encode(png(image)).decode()}


class Files:
    """One image file a pair; a file that cannot be read is named instead of shown."""

    def __init__(self, paths: Sequence[str | Path]):
        self.paths = paths

    def __len__(self) -> int:
        return len(self.paths)

    def item(self, index: int) -> dict[str, str]:
        path = Path(self.paths[index])
        pillow = require("PIL.Image", "audit")
        try:
            with pillow.open(path) as image:
                image.draft("RGB", (2 * THUMBNAIL, 2 * THUMBNAIL))
                image.thumbnail((THUMBNAIL, THUMBNAIL))
                buffer = io.BytesIO()
                image.convert("RGB").save(buffer, "JPEG", quality=80)
        except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError):
            return {"text": f"{path.name} cannot be read"}
        return {"image": "data:image/jpeg;base64," + base64.b64encode(buffer.getvalue()).decode()}


def shown(what: Any, n: int, name: str) -> Texts | Arrays | Files | None:
    """What a user gave to show, one a pair: texts, image arrays, or nothing."""
    if what is None:
        return None
    if not isinstance(what, (Texts, Arrays, Files)):
        array = what if isinstance(what, np.ndarray) else None
        what = Arrays(array) if array is not None and array.ndim > 1 else Texts(what)
    if len(what) != n:
        raise ValueError(f"{name} must have one item a pair: expected {n:,}, got {len(what):,}")
    return what


def png(image: NDArray[np.uint8]) -> bytes:
    """A grey (height, width) or colour (height, width, 3) image as a PNG file."""
    height, width = image.shape[:2]
    colour = 2 if image.ndim == 3 and image.shape[2] == 3 else 0
    rows = np.ascontiguousarray(image).reshape(height, -1)
    raw = np.hstack([np.zeros((height, 1), np.uint8), rows]).tobytes()  # each line starts with its filter: none

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    body = chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body
