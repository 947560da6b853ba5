"""Mispaired views: some items get the partner of a stranger."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rince.errors import UsageError


class WrongPairs(NamedTuple):
    """``b[partner]`` is the noisy second column; ``hit`` marks the rows that now have a stranger's partner."""

    partner: NDArray[np.int64]
    hit: NDArray[np.bool_]


def wrong_pairs(n: int, rate: float, seed: int = 0, groups: ArrayLike | None = None) -> WrongPairs:
    """Give ``round(rate * n)`` of ``n`` pairs, drawn at random, a stranger's partner.

    The hit rows exchange their partners among themselves, so every partner is still used once (a single hit row copies
    one instead). No row keeps its own partner; with ``groups`` (one value a row, such as the class) it gets none of its
    own group either. The same seed gives the same pairs.
    """
    if not isinstance(n, (int, np.integer)) or n < 2:
        raise UsageError(f"wrong pairs need at least 2 pairs to exchange partners, got n = {n}")
    if not 0 <= rate <= 1:
        raise UsageError(f"the rate of wrong pairs must lie in [0, 1], got {rate}")
    keys = np.arange(n) if groups is None else np.unique(np.asarray(groups), return_inverse=True)[1].reshape(-1)
    if len(keys) != n:
        raise UsageError(f"groups must have one value a pair: expected {n}, got {len(keys)}")
    random = np.random.default_rng(seed)
    chosen = random.permutation(n)[: round(rate * n)]
    index = np.arange(n)
    if len(chosen) == 1:
        strangers = np.flatnonzero(keys != keys[chosen[0]])
        if not len(strangers):
            raise UsageError("there is no stranger: all pairs are of one group")
        index[chosen] = random.choice(strangers)
    elif len(chosen):
        index[chosen] = chosen[_exchange(keys[chosen], random)]
    hit = np.zeros(n, dtype=bool)
    hit[chosen] = True
    return WrongPairs(index, hit)


def _exchange(keys: NDArray[np.int64], random: np.random.Generator) -> NDArray[np.int64]:
    """A random permutation that gives nobody a partner of the same key."""
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
