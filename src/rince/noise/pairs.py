"""Mismatched pairs, and noise on the sound of videos."""

import hashlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rince.errors import UsageError


class WrongPairs(NamedTuple):
    """Mismatched pairs.

    Attributes:
        partner: (n,) indices; ``b[partner]`` is the noisy second column.
        hit: (n,) mask of the mismatched rows.

    Example:
        >>> noise = rince.noise.wrong_pairs(5, rate=0.4, seed=0)
        >>> int(noise.hit.sum()), bool((noise.partner[~noise.hit] == np.arange(5)[~noise.hit]).all())
        (2, True)
    """

    partner: NDArray[np.int64]
    hit: NDArray[np.bool_]

    def record(self) -> dict[str, Any]:
        """Arrays to save with a run."""
        digest = hashlib.sha256(self.partner.tobytes()).hexdigest()
        return {"partner": self.partner, "partner_hit": self.hit, "partner_sha256": np.array(digest)}


def wrong_pairs(n: int, rate: float, seed: int = 0, groups: ArrayLike | None = None) -> WrongPairs:
    """Mismatch ``round(rate * n)`` of ``n`` pairs at random.

    The mismatched rows permute their partners, so that every partner is used once (a single mismatched row copies one
    instead). No mismatched row keeps its own partner.

    Args:
        n: Number of pairs, at least 2.
        rate: Share of pairs to mismatch, in [0, 1].
        seed: Random seed.
        groups: (n,) groups, such as classes. A row gets no partner of its own group.

    Returns:
        Partners and mask of the mismatched rows.

    Raises:
        UsageError: If n or rate is out of range, or a group is too large to find partners outside of it.

    Example:
        >>> partner, hit = rince.noise.wrong_pairs(1000, rate=0.2, seed=0)
        >>> int(hit.sum()), int((partner != np.arange(1000)).sum())
        (200, 200)
    """
    if not isinstance(n, (int, np.integer)) or n < 2:
        raise UsageError(f"n must be at least 2 pairs, got {n}")
    if not 0 <= rate <= 1:
        raise UsageError(f"rate of wrong pairs must be in [0, 1], got {rate}")
    keys = np.arange(n) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    if len(keys) != n:
        raise UsageError(f"groups must have one value per pair: expected {n}, got {len(keys)}")
    random = np.random.default_rng(seed)
    chosen = random.permutation(n)[: round(rate * n)]
    index = np.arange(n)
    if len(chosen) == 1:
        others = np.flatnonzero(keys != keys[chosen[0]])
        if not len(others):
            raise UsageError("all pairs are in one group, so none can be mismatched")
        index[chosen] = random.choice(others)
    elif len(chosen):
        index[chosen] = chosen[_exchange(keys[chosen], random)]
    hit = np.zeros(n, dtype=bool)
    hit[chosen] = True
    return WrongPairs(index, hit)


def _exchange(keys: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
    """Random permutation that maps no row to a row of the same key."""
    count = len(keys)
    largest = np.bincount(keys).max()
    if 2 * largest > count:
        raise UsageError(
            f"{largest} of the {count} pairs to exchange are in one group, so some would keep a partner in it: "
            "lower the rate or use finer groups"
        )
    order = random.permutation(count)
    for _ in range(100):  # swap rows in conflict with random others; a few rounds suffice
        clash = np.flatnonzero(keys[order] == keys)
        if not len(clash):
            return order
        for row in clash:
            swap = random.integers(count)
            if keys[order[swap]] != keys[row] and keys[order[row]] != keys[swap]:
                order[row], order[swap] = order[swap], order[row]
    by_key = np.argsort(keys, kind="stable")  # nearly half of the rows are one group: rotating the sorted rows works
    order[by_key] = np.roll(by_key, largest)
    return order


class NoisySounds(NamedTuple):
    """Noise on the sounds of videos.

    Attributes:
        partner: (n,) videos that provide the sounds.
        shift: (n,) shifts of the sounds in seconds.
        silent: (n,) mask of the silent videos.
        hit: (n,) mask of the changed videos.
    """

    partner: NDArray[np.int64]
    shift: NDArray[np.float64]
    silent: NDArray[np.bool_]
    hit: NDArray[np.bool_]

    def digest(self) -> str:
        """Hash of all arrays."""
        return hashlib.sha256(b"".join(array.tobytes() for array in self)).hexdigest()

    def record(self) -> dict[str, Any]:
        """Arrays to save with a run."""
        names = ("partner", "shift", "silent", "partner_hit")
        return {**dict(zip(names, self, strict=True)), "sha256": np.array(self.digest())}


class SoundNoise:
    """Base class of noise on the sounds of videos."""

    def __init__(self, rate: float, seed: int = 0):
        """
        Args:
            rate: Share of videos to change.
            seed: Random seed.

        Raises:
            UsageError: If the rate is not in [0, 1].
        """
        if not 0 <= rate <= 1:
            raise UsageError(f"rate of noise on sounds must be in [0, 1], got {rate}")
        self.rate, self.seed = rate, seed

    def __call__(self, n: int, labels: ArrayLike | None = None) -> NoisySounds:
        raise NotImplementedError

    def _hit(self, n: int) -> tuple[NDArray[np.bool_], np.random.Generator]:
        random = np.random.default_rng(self.seed)
        hit = np.zeros(n, dtype=bool)
        hit[random.permutation(n)[: round(self.rate * n)]] = True
        return hit, random


class Overdub(SoundNoise):
    """Replace the sound of a share of the videos by that of another video.

    Example:
        >>> noise = rince.noise.Overdub(rate=0.4)(10)
        >>> int(noise.hit.sum()), bool((noise.partner[noise.hit] != np.arange(10)[noise.hit]).all())
        (4, True)
    """

    def __init__(self, rate: float, seed: int = 0, other_class: bool = False):
        """
        Args:
            rate: Share of videos to change.
            seed: Random seed.
            other_class: Take sounds from videos of another class only.
        """
        super().__init__(rate, seed)
        self.other_class = other_class

    def __call__(self, n: int, labels: ArrayLike | None = None) -> NoisySounds:
        if self.other_class and (labels is None or (np.asarray(labels) < 0).any()):
            raise UsageError("other_class needs the class of every video: set other_class to false")
        partner, hit = wrong_pairs(n, self.rate, self.seed, labels if self.other_class else None)
        return NoisySounds(partner.astype(np.int64), np.zeros(n), np.zeros(n, dtype=bool), hit)


class Shift(SoundNoise):
    """Shift a share of the sounds in time relative to the frames.

    Example:
        >>> noise = rince.noise.Shift(rate=0.5, least=1.0, most=2.0)(10)
        >>> bool((abs(noise.shift[noise.hit]) >= 1).all())
        True
    """

    def __init__(self, rate: float, least: float = 1.0, most: float = 4.0, seed: int = 0):
        """
        Args:
            rate: Share of videos to change.
            least: Smallest shift in seconds.
            most: Largest shift in seconds; earlier and later are equally likely.
            seed: Random seed.

        Raises:
            UsageError: If least and most are not 0 <= least <= most.
        """
        super().__init__(rate, seed)
        if not 0 <= least <= most < float("inf"):
            raise UsageError(f"Shift needs 0 <= least <= most, got {least} and {most}")
        self.least, self.most = least, most

    def __call__(self, n: int, labels: ArrayLike | None = None) -> NoisySounds:
        hit, random = self._hit(n)
        shift = random.uniform(self.least, self.most, n) * random.choice((-1.0, 1.0), n)
        return NoisySounds(np.arange(n), np.where(hit, shift, 0.0), np.zeros(n, dtype=bool), hit)


class Silence(SoundNoise):
    """Silence a share of the videos.

    Example:
        >>> int(rince.noise.Silence(rate=0.3)(10).silent.sum())
        3
    """

    def __call__(self, n: int, labels: ArrayLike | None = None) -> NoisySounds:
        hit, _ = self._hit(n)
        return NoisySounds(np.arange(n), np.zeros(n), hit.copy(), hit)
