"""Videos whose sound does not belong to their pictures: overdubbed, shifted in time or silent."""

import hashlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rince.errors import UsageError
from rince.noise.pairs import wrong_pairs


class NoisySounds(NamedTuple):
    """What was done to the sounds of all videos, one value per video.

    Attributes:
        partner: The video whose sound it gets.
        shift: How many seconds late the sound is taken.
        silent: Whether the sound is silence.
        hit: Whether any of this happened to it.
    """

    partner: NDArray[np.int64]
    shift: NDArray[np.float64]
    silent: NDArray[np.bool_]
    hit: NDArray[np.bool_]

    def digest(self) -> str:
        """A hash of all of it: equal hashes, equal noise."""
        return hashlib.sha256(b"".join(array.tobytes() for array in self)).hexdigest()

    def record(self) -> dict[str, Any]:
        """As arrays, to be saved with a run."""
        names = ("partner", "shift", "silent", "partner_hit")
        return {**dict(zip(names, self, strict=True)), "sha256": np.array(self.digest())}


class SoundNoise:
    """What is done to the sounds of ``n`` videos. The same seed does the same."""

    def __init__(self, rate: float, seed: int = 0):
        """
        Args:
            rate: Share of the videos that are changed.
            seed: Which videos these are, and what happens to them.

        Raises:
            UsageError: If the rate does not lie in [0, 1].
        """
        if not 0 <= rate <= 1:
            raise UsageError(f"the rate of noise on sounds must lie in [0, 1], got {rate}")
        self.rate, self.seed = rate, seed

    def __call__(self, n: int, labels: ArrayLike | None = None) -> NoisySounds:
        raise NotImplementedError

    def _hit(self, n: int) -> tuple[NDArray[np.bool_], np.random.Generator]:
        random = np.random.default_rng(self.seed)
        hit = np.zeros(n, dtype=bool)
        hit[random.permutation(n)[: round(self.rate * n)]] = True
        return hit, random


class Overdub(SoundNoise):
    """A share of the videos exchange their sounds among themselves: each has the sound of another video.

    Example:
        >>> noise = rince.noise.Overdub(rate=0.4)(10)
        >>> int(noise.hit.sum()), bool((noise.partner[noise.hit] != np.arange(10)[noise.hit]).all())
        (4, True)
    """

    def __init__(self, rate: float, seed: int = 0, other_class: bool = False):
        """
        Args:
            rate: Share of the videos that are changed.
            seed: Seed that chooses these videos, and whose sounds they get.
            other_class: Take the sound from a video of another class.
        """
        super().__init__(rate, seed)
        self.other_class = other_class

    def __call__(self, n: int, labels: ArrayLike | None = None) -> NoisySounds:
        if self.other_class and (labels is None or (np.asarray(labels) < 0).any()):
            raise UsageError("other_class needs the class of every video, and some have none: set other_class to false")
        partner, hit = wrong_pairs(n, self.rate, self.seed, labels if self.other_class else None)
        return NoisySounds(partner.astype(np.int64), np.zeros(n), np.zeros(n, dtype=bool), hit)


class Shift(SoundNoise):
    """A share of the sounds is taken earlier or later than the pictures, each by a time of its own.

    Example:
        >>> noise = rince.noise.Shift(rate=0.5, least=1.0, most=2.0)(10)
        >>> bool((abs(noise.shift[noise.hit]) >= 1).all())
        True
    """

    def __init__(self, rate: float, least: float = 1.0, most: float = 4.0, seed: int = 0):
        """
        Args:
            rate: Share of the videos that are changed.
            least: Least distance in seconds.
            most: Largest distance in seconds; earlier and later are equally likely.
            seed: Seed that chooses these videos, and how far their sounds are shifted.

        Raises:
            UsageError: If least and most are not 0 <= least <= most.
        """
        super().__init__(rate, seed)
        if not 0 <= least <= most < float("inf"):
            raise UsageError(f"a shift must be given as 0 <= least <= most seconds, got {least} and {most}")
        self.least, self.most = least, most

    def __call__(self, n: int, labels: ArrayLike | None = None) -> NoisySounds:
        hit, random = self._hit(n)
        shift = random.uniform(self.least, self.most, n) * random.choice((-1.0, 1.0), n)
        return NoisySounds(np.arange(n), np.where(hit, shift, 0.0), np.zeros(n, dtype=bool), hit)


class Silence(SoundNoise):
    """A share of the videos is silent.

    Example:
        >>> int(rince.noise.Silence(rate=0.3)(10).silent.sum())
        3
    """

    def __call__(self, n: int, labels: ArrayLike | None = None) -> NoisySounds:
        hit, _ = self._hit(n)
        return NoisySounds(np.arange(n), np.zeros(n), hit.copy(), hit)
