"""Histograms small enough to put on a page."""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray


def histogram(
    series: dict[str, NDArray[np.float32]], bins: int = 60, span: tuple[float, float] | None = None
) -> dict[str, Any]:
    """Shares of every series in common bins over ``span``, by default that of all; outliers end at its border."""
    low, high = span or extent(series.values())
    if not high > low:
        low, high = low - 0.5, high + 0.5
    edges = np.linspace(low, high, bins + 1)
    shares = []
    for values in series.values():
        counts = np.zeros(bins)
        for start in range(0, len(values), 1 << 20):
            counts += np.histogram(np.clip(values[start : start + (1 << 20)], low, high), edges)[0]
        shares.append([round(float(c), 6) for c in counts / max(1, len(values))])
    return {"low": low, "high": high, "names": list(series), "shares": shares}


def extent(series: Iterable[NDArray[np.float32]]) -> tuple[float, float]:
    """From the lowest to the highest score of all series, but for one in a thousand."""
    known = [values for values in series if len(values)]
    low = min(float(np.quantile(values, 0.0005)) for values in known)
    return low, max(float(np.quantile(values, 0.9995)) for values in known)
