"""How many different things the pairs of all partitions are: what ``clusters.together`` finds, counted piecewise.

Pairs of equal rows are one thing, and so are pairs with an equal key. Take every code that occurs more than once as a
node, and every pair that has several such codes as an edge between them. Pairs without such a code are things of their
own; the others are as many things as there are components: nodes, less the edges that join two components. Codes are
counted in buckets, each in one place. Only edges have to be brought together, and there are few: pairs that repeat an
id and, in another partition perhaps, the two rows as well.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince.audit.clusters import LEAST, joined
from rince.audit.partitions.runner import Runner

BUCKET = 5_000_000  # codes that are counted in one place


class Repeated(NamedTuple):
    """The codes that occur more than once, in order, and how often."""

    codes: NDArray[np.int64]
    many: NDArray[np.int64]


class Links(NamedTuple):
    """Of a partition: pairs without any repeated code, and the edges: for every key a code and how often it occurs.

    A code that occurs once is no node; it has a count of 0.
    """

    alone: int
    codes: NDArray[np.int64]
    many: NDArray[np.int64]


def count_things(runner: Runner, codes: list[Any], pairs: int, keys: int, least: int = LEAST) -> int:
    """How many different things there are.

    Args:
        runner: Where the partitions are.
        codes: Handles of (rows, 1 + keys) arrays, see ``seen.Seen``.
        pairs: How many rows they have together.
        keys: How many keys there are. A key that would make fewer than ``least`` things, or one of more than half of
            all pairs, is left out: it is a class, and no thing.
        least: See ``keys``.
    """
    buckets = max(1, -(-pairs // BUCKET))
    repeated = [_repeated(runner, codes, column, buckets) for column in range(1 + keys)]
    chosen, things = [0], _things(runner, codes, repeated, [0], pairs)[0]
    for key in range(1, 1 + keys):
        wider, largest = _things(runner, codes, repeated, [*chosen, key], pairs)
        if wider >= least and 2 * largest <= pairs:
            chosen, things = [*chosen, key], wider
    return things


def _repeated(runner: Runner, codes: list[Any], column: int, buckets: int) -> Any:
    """A handle of the repeated codes of one column."""
    if buckets == 1:
        return runner.one(repeated_codes, runner.each(column_of, codes, [column] * len(codes)))
    split = runner.each(in_buckets, codes, [column] * len(codes), [buckets] * len(codes))
    pieces = [
        runner.one(repeated_codes, [runner.one(item, part, bucket) for part in split]) for bucket in range(buckets)
    ]
    return runner.one(one_after_another, pieces)


def _things(runner: Runner, codes: list[Any], repeated: list[Any], columns: list[int], pairs: int) -> tuple[int, int]:
    """How many things these columns make, and the size of the largest."""
    some = [repeated[column] for column in columns]
    if len(some) == 1:  # no edges
        again, largest = runner.value(runner.one(repetitions, some[0]))
        return pairs - again, largest
    links = runner.each(links_of, codes, [columns] * len(codes), [some] * len(codes))
    alone, nodes, joins, largest = runner.value(runner.one(components, links, some))
    return alone + nodes - joins, largest


def repetitions(known: Repeated) -> tuple[int, int]:
    """How many pairs repeat a code that another has already, and how often the most frequent code occurs."""
    return int((known.many - 1).sum()), int(known.many.max(initial=1))


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
    again = np.flatnonzero(ordered[1:] == ordered[:-1])
    codes, count = np.unique(ordered[again], return_counts=True)
    return Repeated(codes, count + 1)


def one_after_another(parts: list[Repeated]) -> Repeated:
    codes = np.concatenate([part.codes for part in parts])
    order = np.argsort(codes)
    return Repeated(codes[order], np.concatenate([part.many for part in parts])[order])


def links_of(codes: NDArray[np.int64], columns: list[int], repeated: list[Repeated]) -> Links:
    """The links of a partition, by these columns."""
    count = np.zeros((len(codes), len(columns)), dtype=np.int64)
    for k, (column, known) in enumerate(zip(columns, repeated, strict=True)):
        if len(known.codes):
            place = np.minimum(np.searchsorted(known.codes, codes[:, column]), len(known.codes) - 1)
            hit = known.codes[place] == codes[:, column]
            count[hit, k] = known.many[place[hit]]
    nodes = (count > 0).sum(1)
    edges = nodes > 1
    return Links(int((nodes == 0).sum()), codes[edges][:, columns], count[edges])


def components(links: list[Links], repeated: list[Repeated]) -> tuple[int, int, int, int]:
    """How many pairs are alone, how many nodes there are, how many edges join components; the largest component."""
    alone = sum(part.alone for part in links)
    nodes = sum(len(known.codes) for known in repeated)
    largest = max((int(known.many.max()) for known in repeated if len(known.codes)), default=1)
    codes, count = (np.concatenate([getattr(part, name) for part in links]) for name in ("codes", "many"))
    if not len(codes):
        return alone, nodes, 0, largest
    # A code that occurs once joins nothing: a number of its own keeps it apart from all others.
    single = np.cumsum(count == 0).reshape(count.shape)
    keys, touched, sizes = [], 0, []
    for k in range(codes.shape[1]):
        known, first, place = np.unique(codes[:, k], return_index=True, return_inverse=True)
        node = count[first, k] > 0
        touched += int(node.sum())
        keys.append(np.where(count[:, k] > 0, place, len(known) + single[:, k]))
        sizes.append((first[node], count[first[node], k]))
    component = joined(keys)
    component = np.arange(len(codes)) if component is None else component
    number = int(component.max()) + 1
    size = np.zeros(number, dtype=np.int64)
    for first, many in sizes:  # all pairs of all codes of a component, then those less that were counted several times
        np.add.at(size, component[first], many)
    np.subtract.at(size, component, (count > 0).sum(1) - 1)
    return alone, nodes, touched - number, max(largest, int(size.max()))
