"""Spoken digits paired with images of handwritten digits."""

import functools
import io
import re
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rince._support.optional_imports import require
from rince._support.regular_files import Unreadable, read_regular
from rince._support.step_seeds import generator
from rince._support.zip_files import opened_zip
from rince.data.pairs import Pairs, Part
from rince.errors import MissingFile, UsageError

RATE = 8000
MAX_BYTES = 100_000_000  # of a recording
NAME = re.compile(r"(\d)_([^_/]+)_(\d+)\.wav$")  # digit_speaker_take.wav


class Recordings(NamedTuple):
    """(n, length) samples in [-1, 1], digits, speakers and takes."""

    samples: NDArray[np.float32]
    digit: NDArray[np.int64]
    speaker: NDArray[np.str_]
    take: NDArray[np.int64]


def read_recordings(source: str | Path, seconds: float = 0.6) -> Recordings:
    """All recordings in the order of their names, cut or padded with silence to ``seconds``."""
    recordings = []
    for name, content in sorted(_contents(Path(source))):
        if match := NAME.search(name):
            samples = _samples(content, name, round(seconds * RATE))
            recordings.append((samples, int(match[1]), match[2], int(match[3])))
    if not recordings:
        raise UsageError(f"{source} has no recordings named digit_speaker_take.wav, such as 7_jackson_32.wav")
    sounds, digits, speakers, takes = zip(*recordings, strict=True)
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
        raise MissingFile(f"{source} does not exist: set source to the folder or zip file of the recordings")


def _content(path: Path) -> bytes:
    try:
        return read_regular(path, MAX_BYTES)
    except Unreadable as error:
        raise UsageError(f"{path} cannot be read: {error}") from error


def _samples(content: bytes, name: str, length: int) -> NDArray[np.float32]:
    """16-bit mono samples in [-1, 1], cut or padded to ``length``."""
    try:
        with wave.open(io.BytesIO(content)) as file:
            if (file.getnchannels(), file.getsampwidth(), file.getframerate()) != (1, 2, RATE):
                raise UsageError(f"{name} must be 16-bit mono at {RATE} Hz")
            raw = file.readframes(length)
    except UsageError:
        raise
    except Exception as error:  # damaged files raise many types
        raise UsageError(f"{name} is not a valid wav file: {str(error) or type(error).__name__}") from error
    samples = np.frombuffer(raw, dtype="<i2").astype(np.float32) / 32768
    return np.pad(samples, (0, length - len(samples)))


TEST_TAKES = range(5)  # the official test split
VALIDATION_TAKES = range(5, 10)
Parting = Literal["takes", "speaker", "random"]


class SpokenDigits(Pairs):
    """Images of digits, uint8 (n, 1, 8, 8), paired with recordings of the same digits at 8 kHz.

    Each recording is paired with one image of its digit, drawn by ``split_seed``; the splits share no images. A
    training image is used about twice, since there are fewer images than recordings. Mismatched pairs are always of
    different digits. Further options are those of :class:`rince.data.Pairs`.

    Example:
        >>> data = rince.data.SpokenDigits("data/fsdd.zip", wrong_pairs=0.4)
    """

    class_names = tuple("0123456789")
    _names: list[str]

    def __init__(
        self,
        source: str = "data/fsdd.zip",
        parting: Parting = "takes",
        split_seed: int = 0,
        seconds: float = 0.6,
        batch_size: int = 128,
        **options: Any,
    ):
        """
        Args:
            source: Folder or zip file of the recordings, named digit_speaker_take.wav.
            parting: Split by "takes" as published (0 to 4 test, 5 to 9 validation), by "speaker" (the last two by name
                for validation and test), or "random" (a tenth each).
            split_seed: Seed of the assignment of images, and of the random split.
            seconds: Length of the recordings, which are cut or padded.
            batch_size: Batch size over all processes.

        Raises:
            UsageError: If the parting is unknown.
        """
        super().__init__(batch_size, **options)
        if parting not in ("takes", "speaker", "random"):
            raise UsageError(f"parting must be takes, speaker or random, got {parting!r}")
        self.source, self.parting, self.split_seed, self.seconds = source, parting, split_seed, seconds

    def read(self) -> dict[str, Part]:
        sounds = _read_once(self.source, self.seconds, _stamp(self.source))
        digits = require("sklearn.datasets", "train").load_digits()
        images = (torch.from_numpy(digits.images) * (255 / 16)).round().to(torch.uint8)[:, None]
        of_image = _image_parts(digits.target, self.split_seed)
        of_sound = _sound_parts(sounds, self.parting, self.split_seed)
        parts = {}
        for i, name in enumerate(("train", "validation", "test")):
            chosen = np.flatnonzero(of_sound == i)
            if not len(chosen):
                raise UsageError(
                    f"no recording of {self.source} is in the {name} split by {self.parting}: choose another parting"
                )
            supply = np.flatnonzero(of_image == i)
            image = supply[assign_images(sounds.digit[chosen], digits.target[supply], self.split_seed + i)]
            labels = torch.from_numpy(sounds.digit[chosen]).long()
            parts[name] = Part(images[image], torch.from_numpy(sounds.samples[chosen]), labels)
            if name == "train":
                self._names = [f"{sounds.digit[i]}_{sounds.speaker[i]}_{sounds.take[i]}" for i in chosen]
        return parts

    def pair_names(self) -> list[str]:
        """Recordings of the pairs, as digit_speaker_take."""
        self.setup()
        return self._names

    def groups(self, train: Part) -> Tensor:
        return train.labels


@functools.lru_cache(maxsize=1)
def _read_once(source: str, seconds: float, stamp: int) -> Recordings:
    """Recordings, cached for several runs in one process."""
    return read_recordings(source, seconds)


def _stamp(source: str) -> int:
    return Path(source).stat().st_mtime_ns if Path(source).exists() else 0


def _sound_parts(sounds: Recordings, parting: Parting, seed: int) -> NDArray[np.int64]:
    """0 for training, 1 for validation, 2 for tests."""
    if parting == "takes":
        return np.where(np.isin(sounds.take, TEST_TAKES), 2, np.where(np.isin(sounds.take, VALIDATION_TAKES), 1, 0))
    if parting == "speaker":
        names, speaker = np.unique(sounds.speaker, return_inverse=True)
        return np.clip(speaker - (len(names) - 3), 0, 2)
    position = torch.randperm(len(sounds.digit), generator=generator(seed, 70)).argsort().numpy()
    return np.where(position * 10 < len(position), 2, np.where(position * 10 < 2 * len(position), 1, 0))


def _image_parts(digit: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Split of every image: of each digit a fifth for tests (2), a fifth for validation (1)."""
    part = np.zeros(len(digit), dtype=np.int64)
    for value in range(10):
        rows = np.random.default_rng((seed, value)).permutation(np.flatnonzero(digit == value))
        fifth = len(rows) // 5
        part[rows[:fifth]], part[rows[fifth : 2 * fifth]] = 2, 1
    return part


def assign_images(digits: NDArray[np.int64], supply: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """Index of an image of the right digit for every recording, using each image equally often."""
    random = np.random.default_rng(seed)
    partner = np.empty(len(digits), dtype=np.int64)
    for value in range(10):
        rows, images = np.flatnonzero(digits == value), np.flatnonzero(supply == value)
        rounds = [random.permutation(images) for _ in range(-(-len(rows) // len(images)))]
        partner[rows] = np.concatenate([*rounds, images[:0]])[: len(rows)]
    return partner
