"""Media files inside a page: small pictures, and short sounds and videos as they are.

Files are named by data, so only regular ones are opened, and a sound or a video is put into the page only if its first
bytes say that it is one: a link called ``a.wav`` that leads to a private file shows its name and nothing else.
"""

import base64
import io
from pathlib import Path
from typing import Any

from rince._support.optional_imports import require
from rince._support.regular_files import Unreadable, read_regular

THUMBNAIL = 160
LARGEST = 1_000_000  # bytes of a sound or a video that is put into the page
LARGEST_PICTURE = 50_000_000  # bytes of a picture that is made small for the page
PICTURES = (".bmp", ".gif", ".jpeg", ".jpg", ".png", ".tif", ".tiff", ".webp")
SOUNDS = {".flac": "audio/flac", ".mp3": "audio/mpeg", ".ogg": "audio/ogg", ".wav": "audio/wav"}
VIDEOS = {".mp4": "video/mp4", ".webm": "video/webm"}
MEDIA = (*PICTURES, *SOUNDS, *VIDEOS)

Element = dict[str, str]


def kind_of_name(name: str) -> str | None:
    """``"pictures"``, ``"sounds"`` or ``"videos"`` by the ending of a file's name, or None."""
    ending = Path(name).suffix.lower()
    kinds = {"pictures": PICTURES, "sounds": SOUNDS, "videos": VIDEOS}
    return next((kind for kind, endings in kinds.items() if ending in endings), None)


def media_type(content: bytes) -> str | None:
    """The type of a sound or video by its first bytes, such as ``audio/wav``, or None if it is neither."""
    head = content[:16]
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        return "audio/wav"
    if head[:4] == b"fLaC":
        return "audio/flac"
    if head[:4] == b"OggS":
        return "audio/ogg"
    if head[:3] == b"ID3" or (len(head) > 1 and head[0] == 0xFF and head[1] & 0xE6 == 0xE2):  # a frame of layer III
        return "audio/mpeg"
    if head[4:8] == b"ftyp":
        return "video/mp4"
    return "video/webm" if head[:4] == b"\x1a\x45\xdf\xa3" else None


def element(path: Path, room: int, root: Path | None = None) -> tuple[Element, int]:
    """What the page shows for a file, and how many of the ``room`` bytes left it takes.

    Args:
        path: The file, as data or a user named it.
        room: Bytes that may still go into the page.
        root: The folder the file must lie below, links followed; None if a user named the file itself.
    """
    try:
        if kind_of_name(path.name) == "pictures":
            return content_element(read_regular(path, LARGEST_PICTURE, root), path.name, room)
        if not path.exists():
            return {"text": f"{path.name} cannot be read"}, 0
        return content_element(read_regular(path, LARGEST, root), path.name, room)
    except Unreadable as error:
        if "larger" in str(error):
            return {"text": path.name}, 0
        return {"text": str(error)}, 0


def content_element(content: bytes, name: str, room: int) -> tuple[Element, int]:
    """What the page shows for the content of a media file, and how many bytes it takes."""
    kind = media_type(content)
    if kind is None:
        shown = picture(content, name)
        used = len(shown.get("image", ""))
        return (shown, used) if used <= room else ({"text": name}, 0)
    if len(content) > min(LARGEST, room):
        return {"text": name}, 0
    return {kind.split("/")[0]: data_uri(kind, content), "name": name}, len(content)


def picture(content: bytes, name: str) -> Element:
    pillow = require("PIL.Image", "audit")
    try:
        with pillow.open(io.BytesIO(content)) as image:
            image.draft("RGB", (2 * THUMBNAIL, 2 * THUMBNAIL))
            return thumbnail(image)
    except Exception:  # there is no end to what a damaged file provokes
        return {"text": f"{name} cannot be read"}


def thumbnail(image: Any) -> Element:
    """A Pillow image, small."""
    image.thumbnail((THUMBNAIL, THUMBNAIL))
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, "JPEG", quality=80)
    return {"image": data_uri("image/jpeg", buffer.getvalue())}


def data_uri(kind: str, content: bytes) -> str:
    return f"data:{kind};base64," + base64.b64encode(content).decode()
