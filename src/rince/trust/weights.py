"""From what an audit found to one weight per pair."""

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from rince.errors import UsageError

if TYPE_CHECKING:
    from rince.audit.result import Audit


def trust_of(found: "Audit") -> NDArray[np.float32]:
    """The probability of every pair to be right, as a weight for training.

    Args:
        found: An audit of the pairs.

    Returns:
        One weight in [0, 1] per pair: ``1 - p_wrong``, and 0 for pairs that the audit left out. All pairs weigh 1 where
        no noise was found, and where the scores cannot tell pairs from mismatched ones (``found.useless``): such an
        audit is no reason to trust one pair less than another.

    Example:
        >>> random = np.random.default_rng(0)
        >>> scores = np.concatenate([random.normal(5, 1, 400), random.normal(0, 1, 100)])
        >>> found = rince.audit.judge(scores, random.normal(0, 1, 100_000))
        >>> weights = rince.trust.trust_of(found)  # loss(z1, z2, weights=torch.from_numpy(weights[rows]))
        >>> bool(weights[:400].mean() > 0.9 > 0.2 > weights[400:].mean())
        True
    """
    return np.asarray(found.trust, dtype=np.float32)


def check_weights(weights: NDArray[Any], where: str) -> NDArray[np.float32]:
    """Weights of pairs, from ``where``, as float32.

    Raises:
        UsageError: One of them is missing or outside of [0, 1], or all of them are 0.
    """
    values = np.asarray(weights, dtype=np.float32)
    broken = np.flatnonzero(~np.isfinite(values))
    if len(broken):
        raise UsageError(
            f"{where} has {_shown(values[broken[0]])} in row {broken[0]:,}, where a trust from 0 to 1 should be: give "
            "pairs that are not to be trusted a 0"
        )
    outside = np.flatnonzero((values < 0) | (values > 1))
    if len(outside):
        raise UsageError(f"a trust must lie in [0, 1], got {values[outside[0]]:g} in row {outside[0]:,} of {where}")
    if len(values) and not values.any():
        raise UsageError(f"all trust in {where} is 0, so there is nothing left to learn from")
    return values


def _shown(value: Any) -> str:
    return "no number" if np.isnan(value) else f"{value:g}"
