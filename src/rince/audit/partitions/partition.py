"""A partition: some of the pairs, read where they are scored and never held whole."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rince._support.optional_imports import require
from rince._support.progress import track
from rince.audit.columns import Keys, Matrix, RowCheck, chunk_rows, chunks, codes, one_dimensional, read, release
from rince.errors import UsageError

Blocks = Iterator[tuple[Matrix, Matrix]]


class Partition(ABC):
    """Some of the pairs of an audit. Subclass it for data of your own: ``rows`` and ``blocks`` are enough.

    A partition is sent to the process that scores it, so it must be picklable: let it say where its rows are rather
    than hold them. It is read several times, and must be the same every time.

    Example:
        >>> class Made(rince.audit.Partition):
        ...     rows = 300
        ...
        ...     def __init__(self, seed):
        ...         self.seed = seed
        ...
        ...     def blocks(self):
        ...         random = np.random.default_rng(self.seed)
        ...         a = random.normal(size=(300, 16))
        ...         yield a, a + 0.3 * random.normal(size=a.shape)
        >>> rince.audit.audit_partitions([Made(0), Made(1)]).verdict
        'none found'
    """

    name: str = ""
    """What errors call it."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """How many pairs it has."""

    @abstractmethod
    def blocks(self) -> Blocks:
        """Both sides of all of its pairs, in order, in blocks of any number of rows: (rows, width) each."""

    def ids(self) -> Any:
        """One name per pair; None if their numbers are their names."""
        return None

    def duplicates(self) -> Any:
        """One value per pair, equal for pairs that are the same thing; None if nothing is known."""
        return None

    def groups(self) -> Any:
        """One value per pair, such as its source; None if there are no groups."""
        return None

    def id_type(self) -> Any:
        """The Arrow type of the ids, so that all files of the table have the same; None if there are no ids."""
        ids = self.ids()
        if ids is None:
            return None
        arrow = require("pyarrow", "cluster")
        try:
            return arrow.array(one_dimensional(ids)).type
        except arrow.ArrowException:  # whole numbers among texts
            return arrow.string()

    def keys(self, start: int) -> Keys:
        """What makes two pairs the same thing, as codes that mean the same in all partitions.

        ``start`` is the number of its first row.
        """
        named = (("ids", self.ids()), ("duplicates", self.duplicates()))
        return [codes(value, name, self.rows, start) for name, value in named if value is not None]


class Arrays(Partition):
    """Pairs in two matrices, in memory or mapped into it."""

    def __init__(self, a: Matrix, b: Matrix, keys: Sequence[NDArray[np.int64]] = (), progress: bool | None = False):
        self.a, self.b, self._keys, self.progress = a, b, list(keys), progress

    @property
    def rows(self) -> int:
        return len(self.a)

    def blocks(self) -> Blocks:
        width = max(self.a.shape[1], self.b.shape[1])
        for rows in track(list(chunks(len(self.a), width)), "reading pairs", show=self.progress):
            yield self.a[rows], self.b[rows]
            release(self.a)
            release(self.b)

    def keys(self, start: int) -> Keys:
        return self._keys


class Usable(Partition):
    """A partition without the rows that cannot be used."""

    def __init__(self, whole: Partition, dropped: NDArray[np.int64]):
        self.whole, self.dropped, self.name = whole, dropped, whole.name

    @property
    def rows(self) -> int:
        return self.whole.rows - len(self.dropped)

    @property
    def kept(self) -> NDArray[np.int64]:
        """The rows of the whole partition that are used."""
        return np.delete(np.arange(self.whole.rows), self.dropped)

    def blocks(self) -> Blocks:
        start = 0
        for a, b in self.whole.blocks():
            inside = self.dropped[(self.dropped >= start) & (self.dropped < start + len(a))] - start
            start += len(a)
            yield (np.delete(a, inside, axis=0), np.delete(b, inside, axis=0)) if len(inside) else (a, b)

    def keys(self, start: int) -> Keys:
        return [np.delete(key, self.dropped) for key in self.whole.keys(start)]


class Pieces:
    """Both sides of a partition as float32 tensors, piece by piece, in memory that is used again and again."""

    def __init__(self, part: Partition):
        self.part = part
        self._room: list[Tensor] = []

    def __iter__(self) -> Iterator[tuple[int, Tensor, Tensor]]:
        """The first row of every piece, and both sides of it."""
        start, widths = 0, None
        for a, b in self.part.blocks():
            if widths is None:
                widths = check_block(a, b, self.part)
                self._room = [torch.empty(min(self.part.rows, chunk_rows(max(widths))), width) for width in widths]
            if len(a) != len(b) or (a.shape[1], b.shape[1]) != widths:
                raise UsageError(f"{_named(self.part)} has blocks of {a.shape} and {b.shape}, after widths of {widths}")
            for rows in chunks(len(a), max(widths)):
                if start >= self.part.rows or start + (rows.stop - rows.start) > self.part.rows:
                    raise UsageError(f"{_named(self.part)} has more than the {self.part.rows:,} rows that it announced")
                yield start, read(a, rows, self._room[0]), read(b, rows, self._room[1])
                start += rows.stop - rows.start
        if start != self.part.rows:
            raise UsageError(f"{_named(self.part)} has {start:,} rows, where it announced {self.part.rows:,}")


def check_block(a: Matrix, b: Matrix, part: Partition) -> tuple[int, int]:
    """The widths of both sides."""
    if a.ndim != 2 or b.ndim != 2 or not (a.shape[1] and b.shape[1]):
        raise UsageError(f"{_named(part)} must have blocks of shape (rows, width), got {a.shape} and {b.shape}")
    return a.shape[1], b.shape[1]


def _named(part: Partition) -> str:
    return part.name or "a partition"


def unusable(part: Partition, zero_is_bad: bool) -> NDArray[np.int64]:
    """The rows in which either side holds NaN, infinity or, if that is bad, nothing but zeros."""
    bad: set[int] = set()
    checks = [RowCheck(name, zero_is_bad) for name in "ab"]
    for start, *sides in Pieces(part):
        for check, x in zip(checks, sides, strict=True):
            check.see(x, start)
    for check in checks:
        bad.update(check.broken, check.zero)
    return np.array(sorted(bad), dtype=np.int64)
