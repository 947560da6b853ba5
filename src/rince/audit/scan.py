"""One pass over a shard: unusable rows, codes of equal rows, fingerprint, and a sample of the rows."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince.audit.units import equal_pairs
from rince.errors import UsageError
from rince.pairs.fingerprint import NUMBERS, Fingerprint, SidePrint, Sums, added_sums, sums_of
from rince.pairs.matrix import Keys, RowCheck, cosines_, row_codes
from rince.pairs.shards import Pieces, Shard

SHUFFLED = 10_000_000  # rows up to which all row numbers are shuffled to draw some


class Sample(NamedTuple):
    """Some rows of one side, and codes of those rows and of their partners on the other side.

    Both matter: row i of a and row j of b belong together if rows i and j of b are equal, or rows i and j of a.
    """

    x: NDArray[np.float32]
    own: NDArray[np.int64]
    partner: NDArray[np.int64]
    keys: Keys


class ScanSummary(NamedTuple):
    """The small results of one pass over a shard.

    Attributes:
        checks: Unusable rows of either side.
        widths: Widths of both sides.
        sums: Sums of either side, for the fingerprint.
        keys: Number of keys.
    """

    checks: tuple[RowCheck, RowCheck]
    widths: tuple[int, int]
    sums: tuple[Sums, Sums]
    keys: int


class Scan(NamedTuple):
    """Results of one pass over a shard.

    Attributes:
        scores: (rows,) cosine of every pair; None unless both sides are of one space.
        codes: (rows, 1 + keys) code of the pair, and of everything else that makes two pairs one unit.
        samples: The sampled rows of either side.
        summary: The small results.
    """

    scores: NDArray[np.float32] | None
    codes: NDArray[np.int64]
    samples: tuple[Sample, Sample]
    summary: ScanSummary


def draw_rows(n: int, count: int, random: np.random.Generator) -> NDArray[np.int64]:
    """``count`` of ``n`` rows (or all of them), in order."""
    if n <= SHUFFLED:
        return np.sort(random.permutation(n)[:count])
    return np.sort(random.choice(n, count, replace=False, shuffle=False))


def rows_of_shard(rows: NDArray[np.int64], start: int, count: int) -> NDArray[np.int64]:
    """The rows that lie in a shard, counted from its first row."""
    first, last = np.searchsorted(rows, [start, start + count])
    return rows[first:last] - start


def scan(
    shard: Shard,
    start: int,
    offset: int,
    sample_rows: NDArray[np.int64],
    one_space: bool,
) -> Scan:
    """Read a shard once.

    Args:
        shard: The shard.
        start: Number of its first row among all usable ones.
        offset: Number of its first row among all rows.
        sample_rows: Rows to keep as a sample, counted from its first one.
        one_space: Whether both sides are embeddings of one space: then rows of zeros are unusable, and the cosine of
            every pair is computed.
    """
    checks = RowCheck("a", zero_is_bad=one_space), RowCheck("b", zero_is_bad=one_space)
    keys = shard.keys(offset)
    codes = np.empty((shard.rows, 1 + len(keys)), dtype=np.int64)
    for k, key in enumerate(keys):
        codes[:, 1 + k] = key
    scores = np.empty(shard.rows, dtype=np.float32) if one_space else None
    pools: list[_Pool] = []
    sums = [Sums(), Sums()]
    for first, x, y in Pieces(shard):
        if not pools:
            pools = [_Pool(sample_rows, side.shape[1]) for side in (x, y)]
            if one_space and x.shape[1] != y.shape[1]:
                raise UsageError(
                    f"a and b are {x.shape[1]} and {y.shape[1]} wide, so they are not embeddings of one space: pass "
                    "fit=True (--fit) to learn one"
                )
        own = row_codes(x), row_codes(y)
        sums = [total.plus(sums_of(code, start + first)) for total, code in zip(sums, own, strict=True)]
        for check, side in zip(checks, (x, y), strict=True):
            check.see(side, offset + first)
        pools[0].add(x, own[0], own[1], first)
        pools[1].add(y, own[1], own[0], first)
        rows = slice(first, first + len(x))
        codes[rows, 0] = equal_pairs(*own)
        if scores is not None:
            scores[rows] = cosines_(x, y)
    empty = _Pool(np.empty(0, dtype=np.int64), 0)
    a, b = pools or (empty, empty)
    summary = ScanSummary(
        checks,
        (a.x.shape[1], b.x.shape[1]),
        (sums[0], sums[1]),
        len(keys),
    )
    return Scan(scores, codes, (a.sample(keys), b.sample(keys)), summary)


class _Pool:
    """The sampled rows of one side, collected on the way."""

    def __init__(self, rows: NDArray[np.int64], width: int):
        self.rows = rows
        # Allocated once: many small arrays kept between large temporary ones would fragment the heap.
        self.x = np.empty((len(rows), width), dtype=np.float32)
        self.own = np.empty(len(rows), dtype=np.int64)
        self.partner = np.empty(len(rows), dtype=np.int64)

    def sample(self, keys: Keys) -> Sample:
        return Sample(self.x, self.own, self.partner, [key[self.rows] for key in keys])

    def add(self, x: NDArray[np.float32], own: NDArray[np.int64], partner: NDArray[np.int64], first: int) -> None:
        start, stop = np.searchsorted(self.rows, [first, first + len(x)])
        index = self.rows[start:stop] - first
        np.take(x, index, axis=0, out=self.x[start:stop])
        self.own[start:stop], self.partner[start:stop] = own[index], partner[index]


def join_samples(samples: list[Sample]) -> Sample:
    """The samples of all shards, in their order."""
    samples = [sample for sample in samples if len(sample.own)]
    if len(samples) == 1:
        return samples[0]
    return Sample(
        np.concatenate([sample.x for sample in samples]),
        np.concatenate([sample.own for sample in samples]),
        np.concatenate([sample.partner for sample in samples]),
        [np.concatenate(key) for key in zip(*(sample.keys for sample in samples), strict=True)],
    )


def check_scans(pairs: int, scans: list[ScanSummary]) -> Fingerprint:
    """Reject unusable rows and shards of different widths; returns the fingerprint of all rows."""
    for side in range(2):
        check = RowCheck("ab"[side], zero_is_bad=False)
        for summary in scans:
            check.add(summary.checks[side])
        check.refuse_unusable()
    nonempty = [(k, summary.widths) for k, summary in enumerate(scans) if summary.widths != (0, 0)]
    first = nonempty[0][1]
    for k, widths in nonempty:
        if widths != first:
            raise UsageError(
                f"Shard {k} is {widths[0]} and {widths[1]} wide; earlier ones are {first[0]} and {first[1]}."
            )
    a, b = (SidePrint(NUMBERS, first[k], added_sums(summary.sums[k] for summary in scans)) for k in range(2))
    return Fingerprint(pairs, a, b)
