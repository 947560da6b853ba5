"""The recordings of the Free Spoken Digit Dataset, from its folder or zip file: people saying digits, as wav files."""

import io
import re
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince._support.regular_files import Unreadable, read_regular
from rince._support.zip_files import opened_zip
from rince.errors import MissingFile, UsageError

RATE = 8000
LARGEST = 100_000_000  # bytes of a recording, which is a few thousand
NAME = re.compile(r"(\d)_([^_/]+)_(\d+)\.wav$")  # digit_speaker_take.wav


class Recordings(NamedTuple):
    """Samples (N, length) in [-1, 1], the digit said, who says it, and for the how-manieth time."""

    samples: NDArray[np.float32]
    digit: NDArray[np.int64]
    speaker: NDArray[np.str_]
    take: NDArray[np.int64]


def read_recordings(source: str | Path, seconds: float = 0.6) -> Recordings:
    """All recordings ordered by name, cut or padded with silence to ``seconds``."""
    found = []
    for name, content in sorted(_contents(Path(source))):
        if match := NAME.search(name):
            samples = _samples(content, name, round(seconds * RATE))
            found.append((samples, int(match[1]), match[2], int(match[3])))
    if not found:
        raise UsageError(f"{source} holds no recordings named digit_speaker_take.wav, such as 7_jackson_32.wav")
    sounds, digits, speakers, takes = zip(*found, strict=True)
    return Recordings(np.stack(sounds), np.array(digits), np.array(speakers), np.array(takes))


def _contents(source: Path) -> Iterator[tuple[str, bytes]]:
    if source.is_dir():
        for path in source.rglob("*.wav"):
            if path.is_file():
                yield path.name, _content(path)
    elif source.is_file():
        with opened_zip(source) as archive:
            for name in archive.namelist():
                if name.endswith(".wav"):
                    yield name.rsplit("/", 1)[-1], archive.read(name)
    else:
        raise MissingFile(f"there are no spoken digits at {source}: give the folder or zip file of the data set")


def _content(path: Path) -> bytes:
    try:
        return read_regular(path, LARGEST)
    except Unreadable as error:
        raise UsageError(f"{path} is no recording: {error}") from error


def _samples(content: bytes, name: str, length: int) -> NDArray[np.float32]:
    """16-bit mono samples in [-1, 1], cut or padded to ``length``."""
    try:
        with wave.open(io.BytesIO(content)) as file:
            if (file.getnchannels(), file.getsampwidth(), file.getframerate()) != (1, 2, RATE):
                raise UsageError(f"{name} must be 16-bit mono at {RATE} Hz")
            raw = file.readframes(length)
    except UsageError:
        raise
    except Exception as error:  # there is no end to what a damaged file provokes
        raise UsageError(f"{name} is not a readable wav file: {str(error) or type(error).__name__}") from error
    samples = np.frombuffer(raw, dtype="<i2").astype(np.float32) / 32768
    return np.pad(samples, (0, length - len(samples)))
