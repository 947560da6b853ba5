"""Spoken digits in the small: images and log-mel spectrograms, matched by two MLPs in seconds."""

import functools
import os
from pathlib import Path

import torch
from torch import Tensor, nn

from rince._support.fingerprints import of_path
from rince.compare.tasks import TwoTowers
from rince.compare.towers import Training
from rince.data.pairs.spoken_digits import SpokenDigits, log_mel
from rince.errors import UsageError
from rince.noise.pairs import wrong_pairs
from rince.small_towers import Split

MELS, FRAMES = 24, 16


class SpokenDigitTowers(TwoTowers):
    """Parts are the data set's own: takes 0 to 4 are for tests, and no image is in two parts.

    Many pairs of a batch are of the same digit, so that an anchor's negatives hold others that fit as well.
    """

    training = Training(epochs=20)

    def __init__(self, source: str | None = None) -> None:
        super().__init__(
            "spoken-digits-towers",
            metric="same digit",
            about="spectrograms and images of digits, matched by two small MLPs (--source: folder or zip file)",
            temperatures=(0.1, 0.2, 0.5),
            rates=(0.0, 0.4),
        )
        self.source = str(source or Path(os.environ.get("RINCE_DATA", "data")) / "fsdd.zip")

    def check(self) -> None:
        if not Path(self.source).exists():
            raise UsageError(f"there are no spoken digits at {self.source}: give --source, a folder or zip file")

    def fingerprint(self) -> str:
        return of_path(Path(self.source))

    def parts(self, rate: float, seed: int) -> Split:
        found = features(self.source)
        a, b, digits = found["train"]
        partner, wrong = wrong_pairs(len(a), rate, seed, digits.numpy())
        held_out = [found[name][:2] for name in ("validation", "test")]
        return Split(a, b[partner], wrong, held_out[0], held_out[1])

    def measure(self, f: nn.Module, g: nn.Module, pairs: Split) -> dict[str, float]:
        digits = {name: part[2] for name, part in features(self.source).items()}
        return {
            "validation": same_class(f, g, pairs.validation, digits["validation"]),
            "test": same_class(f, g, pairs.test, digits["test"]),
        }


@functools.cache
def features(source: str) -> dict[str, tuple[Tensor, Tensor, Tensor]]:
    """Images, spectrograms and digits of every part."""
    return {
        name: (part.a.flatten(1) / 255, log_mel(part.b, MELS, FRAMES).flatten(1), part.labels)
        for name, part in SpokenDigits(source).read().items()
    }


@torch.no_grad()
def same_class(f: nn.Module, g: nn.Module, pairs: tuple[Tensor, Tensor], labels: Tensor) -> float:
    """How often, in percent, the nearest of all is of the same class; the mean of both directions."""
    scores = nn.functional.normalize(f(pairs[0])) @ nn.functional.normalize(g(pairs[1])).T
    ways = [(labels[scores.argmax(dim)] == labels).double().mean() for dim in (0, 1)]
    return 100 * float(sum(ways)) / 2
