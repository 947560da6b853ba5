"""How large a share may be, given how often it was seen: the upper end of the interval of Clopper and Pearson."""

import math


def at_most(count: float, n: int, level: float = 0.975) -> float:
    """The share that is so large that ``count`` or fewer of ``n`` would be seen with a probability of 1 - ``level``.

    The count need not be whole: the beta distribution, whose quantile this is, fills the gaps.
    """
    if count >= n:
        return 1.0
    low, high = max(0.0, count / n), 1.0
    while high - low > 1e-9 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if beta_below(middle, count + 1, n - count) < level else (low, middle)
    return high


def beta_below(x: float, a: float, b: float) -> float:
    """The probability of a beta variable below ``x``: the regularised incomplete beta function, a continued fraction.

    It takes some sqrt(a + b) terms at worst, on the side of the mean where it is asked here.
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_below(1 - x, b, a)
    front = a * math.log(x) + b * math.log1p(-x) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    value, c, d = 1.0, 1.0, 0.0
    for step in range(1_000_000):
        m = step // 2
        if step == 0:
            term = 1.0
        elif step % 2:
            term = -(a + m) * (a + b + m) * x / ((a + step - 1) * (a + step))
        else:
            term = m * (b - m) * x / ((a + step - 1) * (a + step))
        d = 1 / (_not_zero(1 + term * d))
        c = _not_zero(1 + term / c)
        value *= c * d
        if step and abs(c * d - 1) < 1e-13:
            break
    return math.exp(front) / a * (value - 1)


def _not_zero(x: float) -> float:
    return x if abs(x) > 1e-300 else 1e-300
