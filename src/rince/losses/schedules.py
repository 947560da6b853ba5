"""Schedules: functions from progress, 0 at the first step and 1 at the last, to a value.

q = schedules.linear(0.01, 0.4)
loss.q = q(step / total_steps)
"""

import math
from collections.abc import Callable
from functools import partial

Schedule = Callable[[float], float]


def constant(value: float) -> Schedule:
    """A constant.

    Args:
        value: The value at any progress.

    Returns:
        A function of progress from 0 to 1.

    Example:
        >>> rince.schedules.constant(0.3)(0.5)
        0.3
    """
    return partial(_line, value, value)


def linear(start: float = 0.01, end: float = 0.4) -> Schedule:
    """Linear; the defaults are the paper's warm-up of q for video.

    Args:
        start: Value at progress 0.
        end: Value at progress 1.

    Returns:
        A function of progress from 0 to 1.

    Example:
        >>> rince.schedules.linear(0.0, 0.4)(0.5)
        0.2
    """
    return partial(_line, start, end)


def cosine(start: float, end: float) -> Schedule:
    """Half a cosine, flat at both ends.

    Args:
        start: Value at progress 0.
        end: Value at progress 1.

    Returns:
        A function of progress from 0 to 1.

    Example:
        >>> round(rince.schedules.cosine(0.0, 0.4)(0.25), 4)
        0.0586
    """
    return partial(_half_cosine, start, end)


def _line(start: float, end: float, progress: float) -> float:
    return start + (end - start) * _inside(progress)


def _half_cosine(start: float, end: float, progress: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * _inside(progress))) / 2


def _inside(progress: float) -> float:
    return min(max(progress, 0.0), 1.0)
