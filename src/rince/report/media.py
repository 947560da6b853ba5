"""Media files inside a page: small pictures, and short sounds and videos as they are."""

import base64
import io
from pathlib import Path
from typing import Any

from rince._support.optional_imports import require

THUMBNAIL = 160
LARGEST = 1_000_000  # bytes of a sound or a video that is put into the page
PICTURES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
SOUNDS = {".flac": "audio/flac", ".mp3": "audio/mpeg", ".ogg": "audio/ogg", ".wav": "audio/wav"}
VIDEOS = {".mp4": "video/mp4", ".webm": "video/webm"}
MEDIA = (*PICTURES, *SOUNDS, *VIDEOS)


def element(path: Path, room: int) -> tuple[dict[str, str], int]:
    """What the page shows for a file, and how many of the ``room`` bytes left for sounds and videos it takes."""
    kind = path.suffix.lower()
    sort = "audio" if kind in SOUNDS else "video" if kind in VIDEOS else "image"
    try:
        if sort == "image":
            return picture(path), 0
        size = path.stat().st_size
        if size > min(LARGEST, room):
            return {"text": path.name}, 0
        return {sort: data_uri((SOUNDS | VIDEOS)[kind], path.read_bytes()), "name": path.name}, size
    except OSError:
        return {"text": f"{path.name} cannot be read"}, 0


def picture(path: Path) -> dict[str, str]:
    pillow = require("PIL.Image", "audit")
    try:
        with pillow.open(path) as image:
            image.draft("RGB", (2 * THUMBNAIL, 2 * THUMBNAIL))
            return thumbnail(image)
    except (OSError, ValueError, SyntaxError, pillow.DecompressionBombError):
        return {"text": f"{path.name} cannot be read"}


def thumbnail(image: Any) -> dict[str, str]:
    """A Pillow image, small."""
    image.thumbnail((THUMBNAIL, THUMBNAIL))
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, "JPEG", quality=80)
    return {"image": data_uri("image/jpeg", buffer.getvalue())}


def data_uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64," + base64.b64encode(content).decode()
