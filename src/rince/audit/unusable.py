"""Pairs that cannot be judged (NaN, infinite, missing, or without a direction), left out of an audit on demand."""

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from rince.audit.columns import named_rows

if TYPE_CHECKING:
    from rince.audit.result import Audit


def kept_rows(n: int, dropped: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.delete(np.arange(n), dropped)


def with_gaps(result: "Audit", n: int, dropped: NDArray[np.int64]) -> "Audit":
    """The audit of the pairs that were kept as one of all ``n``: NaN where nothing is known."""
    index = kept_rows(n, dropped)

    def spread(values: NDArray[np.float32]) -> NDArray[np.float32]:
        out = np.full(n, np.nan, dtype=np.float32)
        out[index] = values
        return out

    remark = f"left out for NaN, infinite, missing or all-zero values: {named_rows(dropped.tolist())}"
    return dataclasses.replace(
        result,
        scores=spread(result.scores),
        p_values=spread(result.p_values),
        p_wrong=spread(result.p_wrong),
        dropped=dropped,
        remarks=(remark, *result.remarks),
    )
