"""The standard normal distribution with numpy alone."""

import math

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# Coefficients of Wichura, 1988, Algorithm AS 241 (PPND16), highest power first.
CENTER = (
    (2509.0809287301226727, 33430.575583588128105, 67265.770927008700853, 45921.953931549871457,
     13731.693765509461125, 1971.5909503065514427, 133.14166789178437745, 3.387132872796366608),
    (5226.495278852854561, 28729.085735721942674, 39307.89580009271061, 21213.794301586595867,
     5394.1960214247511077, 687.1870074920579083, 42.313330701600911252, 1.0),
)  # fmt: skip
MIDDLE = (
    (7.7454501427834140764e-4, 0.0227238449892691845833, 0.24178072517745061177, 1.27045825245236838258,
     3.64784832476320460504, 5.7694972214606914055, 4.6303378461565452959, 1.42343711074968357734),
    (1.05075007164441684324e-9, 5.475938084995344946e-4, 0.0151986665636164571966, 0.14810397642748007459,
     0.68976733498510000455, 1.6763848301838038494, 2.05319162663775882187, 1.0),
)  # fmt: skip
TAIL = (
    (2.01033439929228813265e-7, 2.71155556874348757815e-5, 0.0012426609473880784386, 0.026532189526576123093,
     0.29656057182850489123, 1.7848265399172913358, 5.4637849111641143699, 6.6579046435011037772),
    (2.04426310338993978564e-15, 1.4215117583164458887e-7, 1.8463183175100546818e-5, 7.868691311456132591e-4,
     0.0148753612908506148525, 0.13692988092273580531, 0.59983220655588793769, 1.0),
)  # fmt: skip


def normal_cdf(x: NDArray[np.floating]) -> Floats:
    """Cumulative distribution function."""
    flat = (-math.sqrt(0.5) * x).ravel().tolist()
    return 0.5 * np.fromiter(map(math.erfc, flat), dtype=np.float64, count=len(flat)).reshape(x.shape)


def normal_quantile(p: Floats) -> Floats:
    """Inverse of the cumulative distribution function, to about 16 digits; p in [0, 1]."""
    q = p - 0.5
    r = 0.180625 - q * q
    out = q * np.polyval(CENTER[0], r) / np.polyval(CENTER[1], r)
    outer = np.flatnonzero(np.abs(q) > 0.425)
    with np.errstate(divide="ignore", invalid="ignore"):
        r = np.sqrt(-np.log(np.minimum(p[outer], 1 - p[outer])))
        middle, tail = r - 1.6, r - 5
        value = np.where(
            r <= 5,
            np.polyval(MIDDLE[0], middle) / np.polyval(MIDDLE[1], middle),
            np.polyval(TAIL[0], tail) / np.polyval(TAIL[1], tail),
        )
        value[np.isinf(r)] = np.inf
    out[outer] = np.copysign(value, q[outer])
    return np.asarray(out)
