"""Spoken digits as log-mel features, and with images of the same digits, for audits."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rince.data import digit_pairs
from rince.data.spoken_digits import RATE, assign_images, read_recordings


class SpokenFeatures(NamedTuple):
    """Log-mel features (N, mels * frames), spoken digits and speakers."""

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
    sounds = spoken_digits(source)
    even, odd, digit = digit_pairs()
    image = assign_images(sounds.digit, digit, seed)
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
    centers = 700 * (10 ** (torch.linspace(0, float(highest), mels + 2) / 2595) - 1)
    frequency = torch.linspace(0, RATE / 2, window // 2 + 1)
    left, middle, right = centers[:-2, None], centers[1:-1, None], centers[2:, None]
    return torch.minimum((frequency - left) / (middle - left), (right - frequency) / (right - middle)).clamp_min(0)
