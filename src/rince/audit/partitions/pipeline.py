"""From partitions to one verdict: scores where the data is, counts of their places added up, and a decision here."""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince.audit.columns import FEWEST, checked_together
from rince.audit.estimate.decide import Decision, Null, decide
from rince.audit.estimate.places import Counts, added, compact, counted, places
from rince.audit.fingerprint import NUMBERS, Fingerprint, SidePrint, added_sums
from rince.audit.mismatched import MISMATCHED, POOL, cosine_null
from rince.audit.partitions.partition import Partition, Usable, unusable
from rince.audit.partitions.runner import Runner
from rince.audit.partitions.seen import drawn_rows, inside, scan
from rince.audit.partitions.things import count_things, item
from rince.errors import UsageError


class Parts(NamedTuple):
    """Partitions, or their handles, with the number of their first row and of their rows.

    ``start`` counts the rows that are used, ``offset`` all there are.
    """

    runner: Runner
    parts: list[Any]
    offset: list[int]
    start: list[int]
    rows: list[int]

    @property
    def pairs(self) -> int:
        return sum(self.rows)

    def inside(self, rows: NDArray[np.int64]) -> list[NDArray[np.int64]]:
        """Rows by partition, each counted from its first one."""
        return [inside(rows, start, count) for start, count in zip(self.start, self.rows, strict=True)]

    def check_seen(self, seen: list[Any], label: str) -> Fingerprint:
        """Refuse rows that cannot be used, and partitions of different widths; gives what all rows are known by."""
        runner = self.runner
        found = runner.values(runner.each(item, seen, [2] * len(seen)), label)
        for side in range(2):
            checked_together([checks[side] for checks in found]).refuse_unusable()
        widths = runner.values(runner.each(item, seen, [4] * len(seen)))
        known = [(k, one) for k, one in enumerate(widths) if one != (0, 0)]
        for k, one in known:
            if one != known[0][1]:
                first = "{} and {}".format(*known[0][1])
                raise UsageError(f"partition {k} is {one[0]} and {one[1]} wide, where those before are {first}")
        sums = runner.values(runner.each(item, seen, [5] * len(seen)))
        a, b = (SidePrint(NUMBERS, known[0][1][k], added_sums(one[k] for one in sums)) for k in range(2))
        return Fingerprint(self.pairs, a, b)


class ScoredParts(NamedTuple):
    """Handles of the scores of every partition and of the codes of its pairs; the null, here and there.

    The fingerprint is that of all rows that are used.
    """

    scores: list[Any]
    codes: list[Any]
    null: Null
    null_handle: Any
    keys: int
    fingerprint: Fingerprint


class Judged(NamedTuple):
    """Partitions that were judged: handles of their scores and places, and what was decided about all of them."""

    of: Parts
    scored: ScoredParts
    places: list[Any]
    counts: Counts
    decision: Decision
    dropped: list[Any]
    dropped_count: list[int]


Score = Callable[[Parts, int], ScoredParts]


def ready(runner: Runner, parts: Sequence[Partition], drop_bad: bool, zero_is_bad: bool) -> tuple[Parts, list[Any]]:
    """The partitions with their places, without rows that cannot be used if these are to be dropped; and those rows."""
    whole = [part.rows for part in parts]
    offset = np.cumsum([0, *whole[:-1]]).tolist()
    used, rows, dropped = list(parts), whole, []
    if drop_bad:
        dropped = runner.each(unusable, used, [zero_is_bad] * len(used))
        gone = runner.values(runner.each(len, dropped), "looking for rows that cannot be used")
        used = runner.each(Usable, used, dropped)
        rows = [count - less for count, less in zip(whole, gone, strict=True)]
    if sum(rows) < FEWEST:
        raise UsageError(f"an audit needs at least {FEWEST} pairs to say anything, got {sum(rows)}")
    return Parts(runner, used, offset, np.cumsum([0, *rows[:-1]]).tolist(), rows), dropped


def cosine_scores_of(parts: Parts, seed: int) -> ScoredParts:
    """Cosines of all pairs and of a million shuffled ones, in one pass over the data.

    The mismatched pairs come from a random sample of rows of each side, the same however the pairs are divided
    into partitions.
    """
    runner, random, count = parts.runner, np.random.default_rng(seed), len(parts.parts)
    rows = drawn_rows(parts.pairs, POOL, random), drawn_rows(parts.pairs, POOL, random)
    wanted = list(zip(parts.inside(rows[0]), parts.inside(rows[1]), strict=True))
    seen = runner.each(scan, parts.parts, parts.start, parts.offset, wanted, [True] * count)
    fingerprint = parts.check_seen(seen, "scoring pairs")
    scores, codes, samples = (runner.each(item, seen, [k] * count) for k in (0, 1, 3))
    del seen  # what is not needed any more may be forgotten
    sides = [runner.each(item, samples, [side] * count) for side in range(2)]
    null = runner.one(cosine_null, *sides, rows, MISMATCHED, random)
    del sides, samples
    keys = runner.value(runner.one(width_of, codes[0])) - 1
    return ScoredParts(scores, codes, runner.value(null), null, keys, fingerprint)


def width_of(codes: NDArray[np.int64]) -> int:
    return codes.shape[1]


def ordered(null: Null) -> NDArray[np.float32]:
    return np.sort(null.scores)


def judged_parts(
    runner: Runner, parts: Sequence[Partition], score: Score, *, fit: bool, seed: int = 0, drop_bad: bool = False
) -> Judged:
    """Score all partitions, and decide.

    Args:
        runner: Where the work is done.
        parts: The partitions.
        score: Gives the scores of all pairs and of mismatched ones.
        fit: Whether that is by towers, for which a row of zeros is as good as any.
        seed: The same seed gives the same audit.
        drop_bad: Leave out pairs with rows that cannot be used.
    """
    of, dropped = ready(runner, parts, drop_bad, zero_is_bad=not fit)
    scored = score(of, seed)
    size = len(scored.null.scores)
    sample = runner.one(ordered, scored.null_handle)
    place = runner.each(places, scored.scores, [sample] * len(of.parts))
    counts = compact(runner.value(runner.merged(added, runner.each(counted, place, [size] * len(place)))))
    things = count_things(runner, scored.codes, of.pairs, scored.keys)
    decision = decide(scored.null, counts, things, seed)
    whole = [part.rows for part in parts]
    gone = [count - rows for count, rows in zip(whole, of.rows, strict=True)]
    return Judged(of, scored, place, counts, decision, dropped, gone)
