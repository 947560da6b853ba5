"""Sounds: statistics of the log-mel spectrogram."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rince.audit.encode.decode import RATE
from rince.audit.encode.encoder import Encoder

WINDOW, HOP, BANDS, PARTS = 512, 160, 40, 8
DEPTH = 80.0  # decibels below the loudest point of a sound that are heard


class Spectrogram(Encoder):
    """How loud each of 40 mel bands is in each eighth of the sound, and how much it varies: 40 x (8 + 2) numbers.

    In decibels below the loudest point, 80 dB deep, so the volume does not matter. Towers are fitted on top.
    """

    name = "statistics of the log spectrogram"
    batch = 64

    def identity(self) -> str:
        return f"spectrogram 1 {WINDOW} {HOP} {BANDS} {PARTS}"

    def encode(self, items: Sequence[NDArray[np.float32]]) -> NDArray[np.float32]:
        return np.stack([statistics(torch.from_numpy(sound)).numpy() for sound in items])


def statistics(sound: Tensor) -> Tensor:
    """A sound (samples,) at 16 kHz as one row: band means by part, deviations, and mean changes from frame to frame."""
    least = WINDOW + HOP * (PARTS - 1)  # at least one frame for each part
    sound = torch.nn.functional.pad(sound, (0, max(0, least - len(sound))))
    spectrum = torch.stft(sound, WINDOW, HOP, window=torch.hann_window(WINDOW), center=False, return_complex=True)
    decibels = 10 * (mel_bands() @ spectrum.abs().square()).clamp_min(1e-10).log10()
    decibels = (decibels - decibels.max()).clamp_min(-DEPTH) / DEPTH
    parts = torch.nn.functional.adaptive_avg_pool1d(decibels[None], PARTS)[0]
    change = decibels.diff(dim=1).abs().mean(1)
    return torch.cat([parts.flatten(), decibels.std(1), change])


def mel_bands() -> Tensor:
    """Triangles, evenly spaced on the mel scale, over the frequencies of a window: (bands, window / 2 + 1)."""
    highest = 2595 * np.log10(1 + RATE / 2 / 700)
    centres = 700 * (10 ** (torch.linspace(0, float(highest), BANDS + 2) / 2595) - 1)
    frequency = torch.linspace(0, RATE / 2, WINDOW // 2 + 1)
    left, middle, right = centres[:-2, None], centres[1:-1, None], centres[2:, None]
    return torch.minimum((frequency - left) / (middle - left), (right - frequency) / (right - middle)).clamp_min(0)
