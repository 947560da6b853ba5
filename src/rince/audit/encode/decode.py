"""Items as encoders want them: texts, RGB images of Pillow, mono sounds at 16 kHz; only regular files are opened."""

import io
import wave
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rince._support.optional_imports import require
from rince._support.regular_files import Unreadable, read_regular
from rince.audit.input.raw import Raw

RATE = 16_000
HIGHEST_RATE = 200_000  # samples a second that a sound may have
SECONDS = 30  # of a sound that are heard
LARGEST = 200_000_000  # bytes of a media file
LARGEST_SIDE = 512  # of a decoded picture, which encoders make smaller still


def decode(raw: Raw, index: int) -> Any:
    """The item of a pair, decoded; None where there is none.

    Raises:
        Unreadable: It cannot be read as what it should be.
    """
    item = raw.items[index]
    if item is None or raw.kind == "texts":
        return item
    name = item.name if isinstance(item, Path) else f"item {index}"
    if raw.kind == "videos":
        if not isinstance(item, Path):
            raise Unreadable(f"{name} is a video inside of a table: store it as a file")
        return item
    content = read_regular(item, LARGEST, raw.root) if isinstance(item, Path) else item
    return picture(content, name) if raw.kind == "pictures" else sound(content, name)


def picture(content: bytes, name: str) -> Any:
    pillow = require("PIL.Image", "audit")
    try:
        with pillow.open(io.BytesIO(content)) as image:
            image.draft("RGB", (LARGEST_SIDE, LARGEST_SIDE))
            image.thumbnail((LARGEST_SIDE, LARGEST_SIDE))
            return image.convert("RGB")
    except Exception as error:  # there is no end to what a damaged file provokes
        raise Unreadable(f"{name} cannot be read as a picture") from error


def sound(content: bytes, name: str) -> NDArray[np.float32]:
    """Mono samples in [-1, 1] at 16 kHz, at most 30 seconds."""
    try:
        samples = _wav(content) if content[:4] == b"RIFF" else None
    except Unreadable as error:
        raise Unreadable(f"{name} {error}") from error
    except Exception:  # not of whole numbers, or damaged: FFmpeg may know it
        samples = None
    samples = _decoded(content, name) if samples is None else samples
    if not len(samples):
        raise Unreadable(f"{name} holds no sound")
    return samples


def _wav(content: bytes) -> NDArray[np.float32]:
    """A file of whole numbers (8, 16, 24 or 32 bits), read without further packages."""
    with wave.open(io.BytesIO(content)) as file:
        rate, channels, width = file.getframerate(), file.getnchannels(), file.getsampwidth()
        if rate > HIGHEST_RATE:  # the filter of a change of rate is as long as the rate
            raise Unreadable(f"has {rate} samples a second, and may have {HIGHEST_RATE} at most")
        data = file.readframes(SECONDS * rate)
    data = data[: len(data) // (width * channels) * width * channels]
    if width == 1:
        values = np.frombuffer(data, np.uint8).astype(np.float32) - 128
    elif width == 3:
        wide = np.zeros((len(data) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        values, width = wide.view("<i4")[:, 0].astype(np.float32), 4
    else:
        values = np.frombuffer(data, f"<i{width}").astype(np.float32)
    mono = (values / 2 ** (8 * width - 1)).reshape(-1, channels).mean(1)
    if rate == RATE or not len(mono):
        return mono
    signal, shared = require("scipy.signal", "audit"), int(np.gcd(rate, RATE))
    return signal.resample_poly(mono, RATE // shared, rate // shared).astype(np.float32)


def _decoded(content: bytes, name: str) -> NDArray[np.float32]:
    """Any other sound, through FFmpeg."""
    av = require("av", "video")
    blocks: list[NDArray[np.float32]] = []
    try:
        with av.open(io.BytesIO(content)) as container:
            if not container.streams.audio:
                raise Unreadable(f"{name} holds no sound")
            resampler = av.AudioResampler(format="flt", layout="mono", rate=RATE)
            for frame in container.decode(container.streams.audio[0]):
                blocks += [part.to_ndarray()[0] for part in resampler.resample(frame)]
                if sum(map(len, blocks)) > SECONDS * RATE:
                    break
    except Unreadable:
        raise
    except Exception as error:
        raise Unreadable(f"{name} cannot be read as a sound") from error
    return np.concatenate([*blocks, np.empty(0, np.float32)])[: SECONDS * RATE].astype(np.float32)
