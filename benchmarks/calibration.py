"""How well the probabilities that an audit gives agree with the truth."""

from typing import Any

import numpy as np
from numpy.typing import NDArray


def calibration_error(chance: NDArray[Any], wrong: NDArray[np.bool_], bins: int = 10) -> float:
    """The mean gap between the probability of being wrong and the share that is wrong, over bins of the former."""
    place = np.minimum((chance * bins).astype(int), bins - 1)
    return float(sum(abs((chance - wrong)[place == k].mean()) * (place == k).mean() for k in np.unique(place)))
