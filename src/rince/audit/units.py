"""Units: pairs that are right or wrong together, such as the same pair twice. A unit counts as one independent pair.

Pairs of equal rows are one unit, and so are pairs with an equal key. In memory, ``together`` numbers the units. Over
shards only their number is needed: every code that occurs more than once is a node, and every pair that has several
such codes is an edge. Pairs without such a code are units of their own; the others are as many units as there are
components: nodes, less the edges that join two components. Codes are counted in buckets, each in one place. Only edges
have to be brought together, and there are few: pairs that repeat a key and, in another shard perhaps, both rows.
"""

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince.errors import UsageError
from rince.pairs.matrix import Keys

if TYPE_CHECKING:
    from rince.audit.shards.runner import Runner

FOLDS = 4
MIN_UNITS = 20  # a key that makes fewer units is a class
BUCKET = 5_000_000  # codes per counting task


def equal_pairs(left: NDArray[np.int64], right: NDArray[np.int64]) -> NDArray[np.int64]:
    """One code per pair from the codes of its rows (see ``row_codes``), equal where both are."""
    return (left.view(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + right.view(np.uint64)).view(np.int64)


def together(pairs: NDArray[np.int64], keys: Keys, min_units: int = MIN_UNITS) -> NDArray[np.int64] | None:
    """Unit number of every pair, in order of appearance; None if all pairs are separate units.

    Pairs of equal rows (equal codes in ``pairs``) always share a unit, and so do pairs that are linked by equal
    keys. A key is left out if it would make fewer than ``min_units`` units, or one of more than half of all pairs: such
    keys are classes rather than units.
    """
    units = joined([pairs])
    for key in keys:
        merged = joined([key] if units is None else [units, key])
        if merged is not None:
            sizes = np.bincount(merged)
            units = merged if len(sizes) >= min_units and 2 * sizes.max() <= len(key) else units
    return units


def num_units(codes: NDArray[np.int64]) -> int:
    """Number of independent pairs, by the code of every pair and its keys."""
    units = together(codes[:, 0], [codes[:, k] for k in range(1, codes.shape[1])])
    return len(codes) if units is None else int(units.max()) + 1


def joined(keys: Keys) -> NDArray[np.int64] | None:
    """The connected components of pairs with an equal key, numbered by their first pair; None if none is equal."""
    n = len(keys[0])
    links = [np.unique(key, return_inverse=True)[1] for key in keys if not _all_differ(key)]
    if not links:
        return None
    root, before = np.arange(n), None
    while before is None or (root != before).any():
        before = root
        for link in links:
            lowest = np.full(n, n)
            np.minimum.at(lowest, link, root)
            # Whole components move, not single pairs, so that long chains take few rounds.
            parent = np.arange(n)
            np.minimum.at(parent, root, lowest[link])
            while (parent != parent[parent]).any():
                parent = parent[parent]
            root = parent[root]
    return np.unique(root, return_inverse=True)[1]


def _all_differ(key: NDArray[np.int64]) -> bool:
    ordered = np.sort(key)
    return not (ordered[1:] == ordered[:-1]).any()


# --- folds ------------------------------------------------------------------------------------------------------------


def fold_numbers(pairs: NDArray[np.int64], folds: int, keys: Keys, random: np.random.Generator) -> NDArray[np.int64]:
    """Folds of about equal size, by the codes of the pairs and their keys.

    Equal pairs stay together; otherwise a fit would score pairs it was trained on. So do pairs that are linked by equal
    keys, unless these are so few that this would hide whole classes. Pairs that share one row only may be in different
    folds.
    """
    clusters = together(pairs, keys, min_units=20 * folds)
    if clusters is None:
        return random.permutation(len(pairs)) % folds
    number = int(clusters.max()) + 1
    if number < 2 * folds:
        raise UsageError(f"Only {number} of the {len(pairs):,} pairs are different: too few to fit a scorer.")
    return (random.permutation(number) % folds)[clusters]


class Folds(NamedTuple):
    """Fold of any pair: that of the sample pairs in its unit, or an arbitrary one.

    Attributes:
        folds: Number of folds.
        known: For the row number, the code of the pair and every key: codes of the sample, in order, and their fold.
    """

    folds: int
    known: list[tuple[NDArray[np.int64], NDArray[np.int64]]]

    @classmethod
    def of(cls, number: NDArray[np.int64], folds: int, keys: Keys) -> "Folds":
        """From the folds of the sample. A code whose pairs lie in several folds is a class and is ignored."""
        known = []
        for key in keys:
            order = np.argsort(key, kind="stable")
            codes, first = np.unique(key[order], return_index=True)
            lowest, highest = (f.reduceat(number[order], first) for f in (np.minimum, np.maximum))
            unique = lowest == highest
            known.append((codes[unique], lowest[unique]))
        return cls(folds, known)

    def find(self, keys: Keys) -> NDArray[np.int64]:
        """The fold of every pair; ``keys`` as in ``known``. Other pairs are spread by their own code."""
        result = keys[1] % self.folds
        for key, (codes, number) in zip(reversed(keys), reversed(self.known), strict=True):
            if len(codes):
                index = np.minimum(np.searchsorted(codes, key), len(codes) - 1)
                result = np.where(codes[index] == key, number[index], result)
        return result


class GivenFolds(NamedTuple):
    """Folds of all rows, such as blocks of ordered data.

    Attributes:
        number: (rows,) fold of every row, from 0.
        units: (rows,) unit of every row: pairs of one unit are never mismatched with one another.
        trainable: (rows,) whether fits may use the row. They do not use those in the gaps between blocks.
    """

    number: NDArray[np.int64]
    units: NDArray[np.int64]
    trainable: NDArray[np.bool_]

    def find(self, keys: Keys) -> NDArray[np.int64]:
        """The fold of every pair; the first key is its row number."""
        return self.number[keys[0]]


def block_folds(rows: int, block: int, gap: int, folds: int = FOLDS, seed: int = 0) -> GivenFolds:
    """Folds of contiguous blocks for ordered data; the blocks are the units.

    Args:
        rows: Number of pairs.
        block: Rows per block.
        gap: Rows at both ends of a block that no fit uses, so that scored rows have no neighbors among fitted ones.
        folds: Number of folds.
        seed: Random assignment of blocks.
    """
    blocks = np.minimum(np.arange(rows) // block, max(rows // block - 1, 0))
    fold = (np.random.default_rng(seed).permutation(int(blocks[-1]) + 1) % folds)[blocks]
    first = np.searchsorted(blocks, blocks, "left")
    last = np.searchsorted(blocks, blocks, "right") - 1
    index = np.arange(rows)
    outer = (index - first < gap) & (first > 0) | (last - index < gap) & (last < rows - 1)
    return GivenFolds(fold, blocks, ~outer)


# --- over shards ------------------------------------------------------------------------------------------------------


class Repeated(NamedTuple):
    """The codes that occur more than once, in order, and how often."""

    codes: NDArray[np.int64]
    counts: NDArray[np.int64]


class Links(NamedTuple):
    """Links of a shard: the number of pairs without a repeated code, and the edges (one code and count per key).

    A code that occurs once is not a node; its count is 0.
    """

    alone: int
    codes: NDArray[np.int64]
    counts: NDArray[np.int64]


def count_units(runner: "Runner", codes: list[Any], pairs: int, keys: int, min_units: int = MIN_UNITS) -> int:
    """Number of units over all shards.

    Args:
        runner: Runner of the shards.
        codes: Handles of (rows, 1 + keys) arrays, see ``scan.Scan``.
        pairs: Total number of rows.
        keys: Number of keys. A key that would make fewer than ``min_units`` units, or one of more than half of
            all pairs, is left out: it is a class.
        min_units: See ``keys``.
    """
    buckets = max(1, -(-pairs // BUCKET))
    repeated = [_repeated(runner, codes, column, buckets) for column in range(1 + keys)]
    chosen, units = [0], _units(runner, codes, repeated, [0], pairs)[0]
    for key in range(1, 1 + keys):
        wider, largest = _units(runner, codes, repeated, [*chosen, key], pairs)
        if wider >= min_units and 2 * largest <= pairs:
            chosen, units = [*chosen, key], wider
    return units


def num_copies(runner: "Runner", codes: list[Any], pairs: int) -> int:
    """Number of pairs that occur more than once; arguments as in ``count_units``."""
    repeated = _repeated(runner, codes, 0, max(1, -(-pairs // BUCKET)))
    return int(runner.result(runner.submit(total_count, repeated)))


def total_count(repeated: Repeated) -> int:
    return int(repeated.counts.sum())


def _repeated(runner: "Runner", codes: list[Any], column: int, buckets: int) -> Any:
    """A handle of the repeated codes of one column."""
    if buckets == 1:
        return runner.submit(repeated_codes, runner.map(partial(column_of, column=column), codes))
    split = runner.map(partial(in_buckets, column=column, buckets=buckets), codes)
    pieces = [
        runner.submit(repeated_codes, [runner.submit(item, part, bucket) for part in split])
        for bucket in range(buckets)
    ]
    return runner.submit(one_after_another, pieces)


def _units(runner: "Runner", codes: list[Any], repeated: list[Any], columns: list[int], pairs: int) -> tuple[int, int]:
    """Number of units by these columns, and the size of the largest."""
    selected = [repeated[column] for column in columns]
    if len(selected) == 1:  # no edges
        repeats, largest = runner.result(runner.submit(repetitions, selected[0]))
        return pairs - repeats, largest
    links = runner.map(links_of, codes, [columns] * len(codes), [selected] * len(codes))
    alone, nodes, joins, largest = runner.result(runner.submit(components, links, selected))
    return alone + nodes - joins, largest


def repetitions(repeated: Repeated) -> tuple[int, int]:
    """Number of pairs that repeat the code of an earlier one, and the count of the most frequent code."""
    return int((repeated.counts - 1).sum()), int(repeated.counts.max(initial=1))


def item(parts: list[Any], k: int) -> Any:
    return parts[k]


def column_of(codes: NDArray[np.int64], column: int) -> NDArray[np.int64]:
    return codes[:, column]


def in_buckets(codes: NDArray[np.int64], column: int, buckets: int) -> list[NDArray[np.int64]]:
    """The codes of a column by their remainder."""
    values = codes[:, column]
    bucket = values % buckets
    return [values[bucket == k] for k in range(buckets)]


def repeated_codes(parts: list[NDArray[np.int64]]) -> Repeated:
    """The codes that occur more than once in all parts together."""
    ordered = np.concatenate(parts)
    ordered.sort()
    index = np.flatnonzero(ordered[1:] == ordered[:-1])
    codes, count = np.unique(ordered[index], return_counts=True)
    return Repeated(codes, count + 1)


def one_after_another(parts: list[Repeated]) -> Repeated:
    codes = np.concatenate([part.codes for part in parts])
    order = np.argsort(codes)
    return Repeated(codes[order], np.concatenate([part.counts for part in parts])[order])


def links_of(codes: NDArray[np.int64], columns: list[int], repeated: list[Repeated]) -> Links:
    """The links of a shard, by these columns."""
    count = np.zeros((len(codes), len(columns)), dtype=np.int64)
    for k, (column, entry) in enumerate(zip(columns, repeated, strict=True)):
        if len(entry.codes):
            index = np.minimum(np.searchsorted(entry.codes, codes[:, column]), len(entry.codes) - 1)
            is_repeated = entry.codes[index] == codes[:, column]
            count[is_repeated, k] = entry.counts[index[is_repeated]]
    nodes = (count > 0).sum(1)
    edges = nodes > 1
    return Links(int((nodes == 0).sum()), codes[edges][:, columns], count[edges])


def components(links: list[Links], repeated: list[Repeated]) -> tuple[int, int, int, int]:
    """Number of lone pairs, of nodes, and of edges that join components; size of the largest component."""
    alone = sum(part.alone for part in links)
    nodes = sum(len(entry.codes) for entry in repeated)
    largest = max((int(entry.counts.max()) for entry in repeated if len(entry.codes)), default=1)
    codes, count = (np.concatenate([getattr(part, name) for part in links]) for name in ("codes", "counts"))
    if not len(codes):
        return alone, nodes, 0, largest
    # A code that occurs once joins no unit: a unique number separates it from all others.
    single = np.cumsum(count == 0).reshape(count.shape)
    keys, touched, sizes = [], 0, []
    for k in range(codes.shape[1]):
        distinct, first, inverse = np.unique(codes[:, k], return_index=True, return_inverse=True)
        node = count[first, k] > 0
        touched += int(node.sum())
        keys.append(np.where(count[:, k] > 0, inverse, len(distinct) + single[:, k]))
        sizes.append((first[node], count[first[node], k]))
    component = joined(keys)
    component = np.arange(len(codes)) if component is None else component
    number = int(component.max()) + 1
    size = np.zeros(number, dtype=np.int64)
    for first, pairs in sizes:  # all pairs of all codes of a component, less those that were counted several times
        np.add.at(size, component[first], pairs)
    np.subtract.at(size, component, (count > 0).sum(1) - 1)
    return alone, nodes, touched - number, max(largest, int(size.max()))
