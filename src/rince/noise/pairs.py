"""Mismatched pairs: some items get the partner of another item, or a wrong sound."""

import hashlib
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rince.errors import UsageError


class WrongPairs(NamedTuple):
    """Partners of which some are wrong on purpose.

    Attributes:
        partner: ``b[partner]`` is the noisy second column.
        hit: marks the rows that now have the partner of another row.

    Example:
        >>> noise = rince.noise.wrong_pairs(5, rate=0.4, seed=0)
        >>> int(noise.hit.sum()), bool((noise.partner[~noise.hit] == np.arange(5)[~noise.hit]).all())
        (2, True)
    """

    partner: NDArray[np.int64]
    hit: NDArray[np.bool_]


def wrong_pairs(n: int, rate: float, seed: int = 0, groups: ArrayLike | None = None) -> WrongPairs:
    """Give ``round(rate * n)`` of ``n`` pairs, drawn at random, the partner of another pair.

    The hit rows exchange their partners among themselves, so every partner is still used once (a single hit row copies
    one instead). No row keeps its own partner.

    Args:
        n: how many pairs there are, at least 2.
        rate: the share of them to be made wrong, in [0, 1].
        seed: the same seed gives the same pairs.
        groups: one value per row, such as its class: a row then gets no partner of its own group either.

    Returns:
        The partners, and which rows were hit.

    Raises:
        UsageError: if n or rate is out of range, or if one group is too large to find partners outside of it.

    Example:
        >>> partner, hit = rince.noise.wrong_pairs(1000, rate=0.2, seed=0)
        >>> int(hit.sum()), int((partner != np.arange(1000)).sum())
        (200, 200)
    """
    if not isinstance(n, (int, np.integer)) or n < 2:
        raise UsageError(f"wrong pairs need at least 2 pairs to exchange partners, got n = {n}")
    if not 0 <= rate <= 1:
        raise UsageError(f"the rate of wrong pairs must lie in [0, 1], got {rate}")
    keys = np.arange(n) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    if len(keys) != n:
        raise UsageError(f"groups must have one value per pair: expected {n}, got {len(keys)}")
    random = np.random.default_rng(seed)
    chosen = random.permutation(n)[: round(rate * n)]
    index = np.arange(n)
    if len(chosen) == 1:
        others = np.flatnonzero(keys != keys[chosen[0]])
        if not len(others):
            raise UsageError("there is no partner of another group: all pairs are of one group")
        index[chosen] = random.choice(others)
    elif len(chosen):
        index[chosen] = chosen[_exchange(keys[chosen], random)]
    hit = np.zeros(n, dtype=bool)
    hit[chosen] = True
    return WrongPairs(index, hit)


def _exchange(keys: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
    """A random permutation that gives no row a partner of the same key."""
    count = len(keys)
    largest = np.bincount(keys).max()
    if 2 * largest > count:
        raise UsageError(
            f"{largest} of the {count} pairs to exchange are of one group, so some would keep a partner of their own: "
            "lower the rate or use finer groups"
        )
    order = random.permutation(count)
    for _ in range(100):  # swap the rows in conflict with random others; a few rounds do
        clash = np.flatnonzero(keys[order] == keys)
        if not len(clash):
            return order
        for row in clash:
            other = random.integers(count)
            if keys[order[other]] != keys[row] and keys[order[row]] != keys[other]:
                order[row], order[other] = order[other], order[row]
    by_key = np.argsort(keys, kind="stable")  # one group holds nearly half: turning the sorted rows always works
    order[by_key] = np.roll(by_key, largest)
    return order


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
