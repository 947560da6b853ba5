"""A value over training: functions of progress, which runs from 0 (first step) to 1 (last).

q = schedules.linear(0.01, 0.4)
loss.q = q(step / total_steps)
"""

import math
from collections.abc import Callable
from functools import partial

Schedule = Callable[[float], float]


def constant(value: float) -> Schedule:
    return partial(_line, value, value)


def linear(start: float = 0.01, end: float = 0.4) -> Schedule:
    """A straight line; the defaults are the paper's warm-up of q for video."""
    return partial(_line, start, end)


def cosine(start: float, end: float) -> Schedule:
    """Half a cosine: flat at both ends."""
    return partial(_half_cosine, start, end)


def _line(start: float, end: float, progress: float) -> float:
    return start + (end - start) * _inside(progress)


def _half_cosine(start: float, end: float, progress: float) -> float:
    return end + (start - end) * (1 + math.cos(math.pi * _inside(progress))) / 2


def _inside(progress: float) -> float:
    return min(max(progress, 0.0), 1.0)
