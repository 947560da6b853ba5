"""One look at a partition: are its rows usable, which are equal, and a sample of them."""

from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from rince.audit.clusters import equal_pairs
from rince.audit.columns import Checked, Keys, RowCheck, cosines_, row_codes
from rince.audit.fingerprint import Sums, sums_of
from rince.audit.partitions.partition import Partition, Pieces
from rince.errors import UsageError

SHUFFLED = 10_000_000  # rows; to shuffle the numbers of more, just to draw some, would take memory of their size


class Sample(NamedTuple):
    """Some rows of one side, and codes of those rows and of their partners on the other side.

    Both matter: row i of a and row j of b belong together if rows i and j of b are equal, or rows i and j of a.
    """

    x: Tensor
    own: NDArray[np.int64]
    partner: NDArray[np.int64]
    keys: Keys


class Seen(NamedTuple):
    """What was seen of a partition.

    Attributes:
        scores: The cosine of every pair; None if nobody asked for it.
        codes: (rows, 1 + keys): a code of the pair itself, and of everything else that makes two pairs the same thing.
        checks: Of either side, which rows cannot be used.
        samples: Of either side, the rows that were asked for.
        widths: Of either side.
        sums: Of either side, what its rows are known by.
    """

    scores: NDArray[np.float32] | None
    codes: NDArray[np.int64]
    checks: tuple[Checked, Checked]
    samples: tuple[Sample, Sample]
    widths: tuple[int, int]
    sums: tuple[Sums, Sums]


def drawn_rows(n: int, count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """``count`` of ``n`` rows (or all of them), in order."""
    if n <= SHUFFLED:
        return np.sort(random.permutation(n)[:count])
    return np.sort(random.choice(n, count, replace=False, shuffle=False))


def inside(rows: NDArray[np.int64], start: int, count: int) -> NDArray[np.int64]:
    """Those of the rows that lie in a partition, counted from its first one."""
    first, last = np.searchsorted(rows, [start, start + count])
    return rows[first:last] - start


def scan(
    part: Partition,
    start: int,
    offset: int,
    wanted: tuple[NDArray[np.int64], NDArray[np.int64]],
    cosine: bool,
) -> Seen:
    """Read a partition once.

    Args:
        part: The partition.
        start: The number of its first row among all that are used.
        offset: The number of its first row among all there are.
        wanted: The rows of either side to keep, counted from its first one.
        cosine: Whether the two sides live in one space, and are compared.
    """
    checks = RowCheck("a", zero_is_bad=cosine), RowCheck("b", zero_is_bad=cosine)
    keys = part.keys(offset)
    codes = np.empty((part.rows, 1 + len(keys)), dtype=np.int64)
    for k, key in enumerate(keys):
        codes[:, 1 + k] = key
    scores = np.empty(part.rows, dtype=np.float32) if cosine else None
    pools: list[_Pool] = []
    sums = [Sums(), Sums()]
    for first, x, y in Pieces(part):
        if not pools:
            pools = [_Pool(rows, side.shape[1]) for rows, side in zip(wanted, (x, y), strict=True)]
            _check_widths(x.shape[1], y.shape[1], cosine)
        own = row_codes(x), row_codes(y)
        sums = [total.plus(sums_of(one, start + first)) for total, one in zip(sums, own, strict=True)]
        for check, side in zip(checks, (x, y), strict=True):
            check.see(side, first)
        pools[0].see(x, own[0], own[1], first)
        pools[1].see(y, own[1], own[0], first)
        rows = slice(first, first + len(x))
        codes[rows, 0] = equal_pairs(*own)
        if scores is not None:
            scores[rows] = cosines_(x, y).numpy()
    both = tuple(pool.sample(keys) for pool in pools) if pools else (_nothing(len(keys)),) * 2
    widths = (pools[0].x.shape[1], pools[1].x.shape[1]) if pools else (0, 0)
    checked = checks[0].summary(offset), checks[1].summary(offset)
    return Seen(scores, codes, checked, both, widths, (sums[0], sums[1]))  # type: ignore[arg-type]


def _check_widths(a: int, b: int, cosine: bool) -> None:
    if cosine and a != b:
        raise UsageError(f"a and b must live in one space, but are {a} and {b} wide: use fit=True (--fit) to learn one")


def _nothing(keys: int) -> Sample:
    none = np.empty(0, dtype=np.int64)
    return Sample(torch.empty(0, 0), none, none, [none] * keys)


class _Pool:
    """The rows of one side that are kept, collected on the way."""

    def __init__(self, rows: NDArray[np.int64], width: int):
        self.rows = rows
        # Allocated once: many small arrays kept between large ones that are not would break up the heap.
        self.x = torch.empty(len(rows), width)
        self.own = np.empty(len(rows), dtype=np.int64)
        self.partner = np.empty(len(rows), dtype=np.int64)

    def sample(self, keys: Keys) -> Sample:
        return Sample(self.x, self.own, self.partner, [key[self.rows] for key in keys])

    def see(self, x: Tensor, own: NDArray[np.int64], partner: NDArray[np.int64], first: int) -> None:
        start, stop = np.searchsorted(self.rows, [first, first + len(x)])
        here = self.rows[start:stop] - first
        torch.index_select(x, 0, torch.from_numpy(here), out=self.x[start:stop])
        self.own[start:stop], self.partner[start:stop] = own[here], partner[here]


def joined_sample(samples: list[Sample]) -> Sample:
    """The samples of all partitions, in their order."""
    samples = [sample for sample in samples if len(sample.own)]
    if len(samples) == 1:
        return samples[0]
    keys = zip(*(sample.keys for sample in samples), strict=True)
    return Sample(
        torch.cat([sample.x for sample in samples]),
        np.concatenate([sample.own for sample in samples]),
        np.concatenate([sample.partner for sample in samples]),
        [np.concatenate(key) for key in keys],
    )
