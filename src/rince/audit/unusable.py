"""Pairs that cannot be judged (NaN, infinite, missing, or without a direction), left out of an audit on demand."""

import dataclasses
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray

from rince.audit.columns import Matrix, RowCheck, chunks, named_rows, read, release

if TYPE_CHECKING:
    from rince.audit.result import Audit


class Kept:
    """Some rows of a matrix, which stays where it is."""

    def __init__(self, x: Matrix, index: NDArray[np.int64]):
        self.base, self.index = x, index
        self.shape = (len(index), x.shape[1])
        self.size = len(index) * x.shape[1]

    def __len__(self) -> int:
        return len(self.index)

    def __getitem__(self, rows: Any) -> Matrix:
        return self.base[self.index[rows]]


def unusable_rows(a: Matrix, b: Matrix, zero_is_bad: bool) -> NDArray[np.int64]:
    """The rows in which either column holds NaN, infinity or, if that is bad, nothing but zeros."""
    bad: set[int] = set()
    for name, x in (("a", a), ("b", b)):
        check = RowCheck(name, zero_is_bad)
        for rows in chunks(*x.shape):
            check.see(read(x, rows), rows.start)
            release(x)
        bad.update(check.broken, check.zero)
    return np.array(sorted(bad), dtype=np.int64)


def kept_rows(n: int, dropped: NDArray[np.int64]) -> NDArray[np.int64]:
    return np.delete(np.arange(n), dropped)


def kept(x: Matrix, index: NDArray[np.int64]) -> Matrix:
    return cast(Matrix, Kept(x, index))


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
