"""Mismatched pairs: some items get the partner of another item."""

from typing import NamedTuple

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
