"""Pairs that are one thing several times: they are judged together, and count as one witness."""

import numpy as np
from numpy.typing import NDArray

from rince.audit.columns import Keys

LEAST = 20  # clusters; pairs drawn from fewer would say little about how sure a rate is


def equal_pairs(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    """One code a pair from the codes of its rows (see ``columns.row_codes``), equal where both are."""
    return (left.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + right.view(np.uint64)).view(np.int64)


def together(pairs: NDArray[np.int64], keys: Keys, least: int = LEAST) -> NDArray[np.int64] | None:
    """For every pair the number of its cluster, in order of appearance; None if each is one of its own.

    Pairs of equal rows (equal codes in ``pairs``) always share a cluster, and so do pairs that are linked by equal
    keys. A key is left out if it would make fewer than ``least`` clusters, or one of more than half of all pairs: such
    keys are classes rather than things.
    """
    found = joined([pairs])
    for key in keys:
        wider = joined([key] if found is None else [found, key])
        if wider is not None:
            sizes = np.bincount(wider)
            found = wider if len(sizes) >= least and 2 * sizes.max() <= len(key) else found
    return found


def joined(keys: Keys) -> NDArray[np.int64] | None:
    """The connected components of pairs with an equal key, numbered by their first pair; None if none is equal."""
    n = len(keys[0])
    links = [np.unique(key, return_inverse=True)[1] for key in keys if not _all_differ(key)]
    if not links:
        return None
    root, before = np.arange(n), None
    while before is None or (root != before).any():
        before = root
        for link in links:
            least = np.full(n, n)
            np.minimum.at(least, link, root)
            # Whole components move, not single pairs, so that long chains take few rounds.
            parent = np.arange(n)
            np.minimum.at(parent, root, least[link])
            while (parent != parent[parent]).any():
                parent = parent[parent]
            root = parent[root]
    return np.unique(root, return_inverse=True)[1]


def _all_differ(key: NDArray[np.int64]) -> bool:
    ordered = np.sort(key)
    return not (ordered[1:] == ordered[:-1]).any()
