"""A value over training: functions of progress, which runs from 0 (first step) to 1 (last).

q = schedules.linear(0.01, 0.4)
loss.q = q(step / total_steps)
"""

import math
from collections.abc import Callable

Schedule = Callable[[float], float]


def constant(value: float) -> Schedule:
    return lambda progress: value


def linear(start: float = 0.01, end: float = 0.4) -> Schedule:
    """A straight line; the defaults are the paper's warm-up of q for video."""
    return lambda progress: start + (end - start) * _inside(progress)


def cosine(start: float, end: float) -> Schedule:
    """Half a cosine: flat at both ends."""
    return lambda progress: end + (start - end) * (1 + math.cos(math.pi * _inside(progress))) / 2


def _inside(progress: float) -> float:
    return min(max(progress, 0.0), 1.0)
