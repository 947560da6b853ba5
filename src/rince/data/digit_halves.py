"""Halves of scikit-learn's handwritten digits as pairs."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince._support.optional_imports import require
from rince.errors import UsageError

Cut = Literal["rows", "columns", "top_bottom", "left_right"]


class DigitPairs(NamedTuple):
    """Two views of 1,797 digits.

    Attributes:
        a: (1797, 32) first halves in [0, 1].
        b: (1797, 32) second halves.
        digit: (1797,) classes from 0 to 9.
    """

    a: NDArray[np.float32]
    b: NDArray[np.float32]
    digit: NDArray[np.int64]


def digit_pairs(cut: Cut = "rows") -> DigitPairs:
    """Halves of scikit-learn's digits as pairs, without a download.

    Args:
        cut: Even and odd ``"rows"`` or ``"columns"``, ``"top_bottom"`` or ``"left_right"``.

    Returns:
        Both halves of all 1,797 digits, and their classes.

    Raises:
        UsageError: If the cut is unknown.

    Example:
        >>> pairs = rince.data.digit_pairs()
        >>> pairs.a.shape, pairs.b.shape
        ((1797, 32), (1797, 32))
    """
    bundle = require("sklearn.datasets", "train").load_digits()
    a, b = cut_in_two(bundle.images.astype(np.float32) / 16, cut)
    return DigitPairs(a, b, bundle.target.astype(np.int64))


def cut_in_two(images: NDArray[np.float32], cut: Cut) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """(n, height, width) images as two flat halves."""
    halves = {
        "rows": (np.s_[:, 0::2], np.s_[:, 1::2]),
        "columns": (np.s_[:, :, 0::2], np.s_[:, :, 1::2]),
        "top_bottom": (np.s_[:, : images.shape[1] // 2], np.s_[:, images.shape[1] // 2 :]),
        "left_right": (np.s_[:, :, : images.shape[2] // 2], np.s_[:, :, images.shape[2] // 2 :]),
    }
    if cut not in halves:
        raise UsageError(f"cut must be one of {', '.join(halves)}, got {cut!r}")
    first, second = halves[cut]
    return images[first].reshape(len(images), -1), images[second].reshape(len(images), -1)
