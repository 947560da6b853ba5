"""Spoken digits (the Free Spoken Digit Dataset) paired with images of the digit: sound and vision in the small.

``SpokenDigits`` is the data set that ``rince train`` learns from; ``spoken_digit_pairs`` gives flat features for the
audit, which needs no training on images and sounds themselves.
"""

import functools
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rince._support.optional_imports import require
from rince._support.step_seeds import generator
from rince.data.pairs.in_memory import Pairs, Part
from rince.data.pairs.recordings import RATE, Recordings, read_recordings
from rince.errors import UsageError

TEST_TAKES = range(5)  # the data set's own test part
VALIDATION_TAKES = range(5, 10)
Parting = Literal["takes", "speaker", "random"]


class SpokenDigits(Pairs):
    """``a`` are scikit-learn's images of digits, bytes (n, 1, 8, 8); ``b`` are sounds of the same digits, at 8 kHz.

    Every recording has one fixed image of its digit, drawn by ``split_seed``. Images are also split into three parts:
    an image of the test part is in no training pair. There are fewer images than recordings, so the training part uses
    an image about twice. A wrong pair is always one of two different digits.

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
        wrong_pairs: float = 0.0,
        wrong_pairs_seed: int = 0,
    ):
        """
        Args:
            source: Folder or zip file of the recordings, named digit_speaker_take.wav.
            parting: How the data are split: by takes as the data set's authors do (0 to 4 test, 5 to 9 validation), by
                speaker (the last two by name are in no training pair), or a tenth each at random.
            split_seed: Seed that assigns images to parts and sounds, and of the random split.
            seconds: Length to which sounds are cut or padded.
            batch_size: Pairs in a batch of all processes together.
            wrong_pairs: Share of training pairs of an image and a sound of another digit.
            wrong_pairs_seed: Seed that chooses these pairs, and which sounds they get.

        Raises:
            UsageError: If seconds is not positive, or there is no such parting.
        """
        super().__init__(batch_size, wrong_pairs, wrong_pairs_seed)
        if not 0 < seconds <= 600:
            raise UsageError(f"seconds must lie in (0, 600], got {seconds}")
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
                    f"no recording of {self.source} is in the {name} part by {self.parting}: choose another parting"
                )
            supply = np.flatnonzero(of_image == i)
            image = supply[_partners(sounds.digit[chosen], digits.target[supply], self.split_seed + i)]
            labels = torch.from_numpy(sounds.digit[chosen]).long()
            parts[name] = Part(images[image], torch.from_numpy(sounds.samples[chosen]), labels)
            if name == "train":
                self._names = [f"{sounds.digit[i]}_{sounds.speaker[i]}_{sounds.take[i]}" for i in chosen]
        return parts

    def pair_names(self) -> list[str]:
        """The recordings that the pairs are made of, as digit_speaker_take."""
        self.setup()
        return self._names

    def groups(self, train: Part) -> Tensor:
        return train.labels


@functools.lru_cache(maxsize=1)
def _read_once(source: str, seconds: float, stamp: int) -> Recordings:
    """A process that does several runs reads 3,000 files once, unless they have changed."""
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
    place = torch.randperm(len(sounds.digit), generator=generator(seed, 70)).argsort().numpy()
    return np.where(place * 10 < len(place), 2, np.where(place * 10 < 2 * len(place), 1, 0))


def _image_parts(digit: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """A fifth of the images of every digit for tests, a fifth for validation."""
    part = np.zeros(len(digit), dtype=np.int64)
    for value in range(10):
        places = np.random.default_rng((seed, value)).permutation(np.flatnonzero(digit == value))
        fifth = len(places) // 5
        part[places[:fifth]], part[places[fifth : 2 * fifth]] = 2, 1
    return part


def _partners(wanted: NDArray[np.int64], supply: NDArray[np.int64], seed: int) -> NDArray[np.int64]:
    """For every wanted digit the place of one in the supply, all of them once before any is used again."""
    random = np.random.default_rng(seed)
    partner = np.empty(len(wanted), dtype=np.int64)
    for value in range(10):
        places, there = np.flatnonzero(wanted == value), np.flatnonzero(supply == value)
        rounds = [random.permutation(there) for _ in range(-(-len(places) // len(there)))]
        partner[places] = np.concatenate([*rounds, there[:0]])[: len(places)]
    return partner


class SpokenFeatures(NamedTuple):
    """Log-mel features (N, mels * frames), the digit said and who says it."""

    features: NDArray[np.float32]
    digit: NDArray[np.int64]
    speaker: NDArray[np.str_]


class SpokenPairs(NamedTuple):
    """Sounds (N, mels * frames) with images (N, 64) of the same digit; ``image`` says which of scikit-learn's."""

    a: NDArray[np.float32]
    b: NDArray[np.float32]
    digit: NDArray[np.int64]
    image: NDArray[np.int64]


def spoken_digits(source: str | Path, mels: int = 24, frames: int = 16, seconds: float = 0.6) -> SpokenFeatures:
    """The recordings of a folder or zip file, ordered by name, as log-mel features."""
    sounds = read_recordings(source, seconds)
    features = log_mel(torch.from_numpy(sounds.samples), mels, frames)
    return SpokenFeatures(features.flatten(1).numpy(), sounds.digit, sounds.speaker)


def spoken_digit_pairs(source: str | Path, seed: int = 0) -> SpokenPairs:
    """Every recording with an image of the digit that is said, drawn at random from scikit-learn's digits.

    There are fewer images than recordings of a digit, so images come up more than once: the audit finds equal rows by
    itself and never makes mismatched pairs of them.
    """
    from rince.data.pairs.digit_halves import digit_pairs

    sounds = spoken_digits(source)
    even, odd, digit = digit_pairs()
    image = _partners(sounds.digit, digit, seed)
    return SpokenPairs(sounds.features, np.hstack([even, odd])[image], sounds.digit, image)


def log_mel(sounds: Tensor, mels: int, frames: int) -> Tensor:
    """Sounds (N, samples) as (N, mels, frames): power in mel bands, in decibels below the loudest, 80 dB deep."""
    window = 256
    hop = max(1, (sounds.shape[1] - window) // (frames - 1)) if frames > 1 else sounds.shape[1]
    spectrum = torch.stft(sounds, window, hop, window=torch.hann_window(window), center=False, return_complex=True)
    power = mel_bands(mels, window) @ spectrum.abs().square()[..., :frames]
    decibels = 10 * power.clamp_min(1e-10).log10()
    loudest = decibels.amax((1, 2), keepdim=True)
    return (decibels - loudest).clamp_min(-80) / 40 + 1


def mel_bands(mels: int, window: int) -> Tensor:
    """Triangles, evenly spaced on the mel scale, over the frequencies of a window: (mels, window / 2 + 1)."""
    highest = 2595 * np.log10(1 + RATE / 2 / 700)
    centres = 700 * (10 ** (torch.linspace(0, float(highest), mels + 2) / 2595) - 1)
    frequency = torch.linspace(0, RATE / 2, window // 2 + 1)
    left, middle, right = centres[:-2, None], centres[1:-1, None], centres[2:, None]
    return torch.minimum((frequency - left) / (middle - left), (right - frequency) / (right - middle)).clamp_min(0)
