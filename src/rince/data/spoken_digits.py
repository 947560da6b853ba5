"""The Free Spoken Digit Dataset: people saying digits, and pairs of such a sound with an image of the digit."""

import io
import re
import wave
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

RATE = 8000
NAME = re.compile(r"(\d)_([^_/]+)_(\d+)\.wav$")  # digit_speaker_take.wav


class SpokenDigits(NamedTuple):
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


def spoken_digits(source: str | Path, mels: int = 24, frames: int = 16, seconds: float = 0.6) -> SpokenDigits:
    """Read the recordings of a folder or zip file, ordered by name, as log-mel features."""
    sounds, digits, speakers = [], [], []
    for name, content in sorted(_recordings(Path(source))):
        match = NAME.search(name)
        if match:
            sounds.append(_samples(content, name, round(seconds * RATE)))
            digits.append(int(match[1]))
            speakers.append(match[2])
    if not sounds:
        raise ValueError(f"{source} holds no recordings named digit_speaker_take.wav, such as 7_jackson_32.wav")
    features = log_mel(torch.from_numpy(np.stack(sounds)), mels, frames)
    return SpokenDigits(features.flatten(1).numpy(), np.array(digits), np.array(speakers))


def spoken_digit_pairs(source: str | Path, seed: int = 0) -> SpokenPairs:
    """Every recording with an image of the digit that is said, drawn at random from scikit-learn's digits.

    There are fewer images than recordings of a digit, so images come up more than once: the audit finds equal rows by
    itself and never takes them for strangers.
    """
    from rince.data.digits import digit_pairs

    recordings = spoken_digits(source)
    even, odd, digit = digit_pairs()
    random = np.random.default_rng(seed)
    image = np.empty(len(recordings.digit), dtype=np.int64)
    for value in range(10):
        places, supply = np.flatnonzero(recordings.digit == value), np.flatnonzero(digit == value)
        rounds = [random.permutation(supply) for _ in range(-(-len(places) // len(supply)))]
        image[places] = np.concatenate([*rounds, supply[:0]])[: len(places)]
    return SpokenPairs(recordings.features, np.hstack([even, odd])[image], recordings.digit, image)


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


def _recordings(source: Path) -> Iterator[tuple[str, bytes]]:
    if source.is_dir():
        for path in source.rglob("*.wav"):
            yield path.name, path.read_bytes()
    elif source.is_file():
        try:
            with zipfile.ZipFile(source) as archive:
                for name in archive.namelist():
                    if name.endswith(".wav"):
                        yield name.rsplit("/", 1)[-1], archive.read(name)
        except zipfile.BadZipFile as error:
            raise ValueError(f"{source} is neither a folder of recordings nor a readable zip file") from error
    else:
        raise FileNotFoundError(f"there are no spoken digits at {source}: give the folder or zip file of the data set")


def _samples(content: bytes, name: str, length: int) -> NDArray[np.float32]:
    """16-bit mono samples in [-1, 1], cut or padded to ``length``."""
    try:
        with wave.open(io.BytesIO(content)) as file:
            if (file.getnchannels(), file.getsampwidth(), file.getframerate()) != (1, 2, RATE):
                raise ValueError(f"{name} must be 16-bit mono at {RATE} Hz")
            raw = file.readframes(length)
    except (wave.Error, EOFError) as error:
        raise ValueError(f"{name} is not a readable wav file: {error}") from error
    samples = np.frombuffer(raw, dtype="<i2").astype(np.float32) / 32768
    return np.pad(samples, (0, length - len(samples)))
