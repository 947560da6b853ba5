"""Scores of every pairing at every rate, computed once and kept on disk: the estimator can then be tried in seconds."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.evidence.audit_benchmark.pairings import Pairing
from rince.audit.api import score_pairs
from rince.audit.units import together
from rince.noise.pairs import wrong_pairs
from rince.pairs.shards import Arrays

MISMATCHED = 200_000


class Case(NamedTuple):
    """One pairing at one rate and seed: its scores, the truth, and the CPU seconds the scores took."""

    pairing: Pairing
    rate: float
    seed: int
    scored: Any
    wrong: NDArray[np.bool_]
    seconds: float

    @property
    def truth(self) -> float:
        return float(self.wrong.mean())


def cases(pairing: Pairing, seeds: int, folder: Path) -> Iterator[Case]:
    """All rates and seeds of a pairing; scores that are not in the folder are computed and put there."""
    for rate in pairing.rates:
        # Clean data, where accusations are worst, and cheap scores get another seed.
        for seed in range(seeds + (rate == 0) if pairing.fit else 2 * seeds):
            yield case(pairing, rate, seed, folder)


def case(pairing: Pairing, rate: float, seed: int, folder: Path) -> Case:
    name = re.sub(r"\W+", "-", f"{pairing.name} {rate:g} {seed}")
    path = folder / f"{name}.npz"
    if not path.exists():
        start = time.process_time()
        a, b, wrong = noisy(pairing, rate, seed)
        arrays = scores(pairing, a, b, seed)
        np.savez(path, wrong=wrong, seconds=time.process_time() - start, **arrays)
    with np.load(path) as kept:
        from rince.audit import Scored

        fields = {key: kept[key] if kept[key].ndim else float(kept[key]) for key in Scored._fields if key in kept}
        return Case(pairing, rate, seed, Scored(**fields), kept["wrong"], float(kept["seconds"]))


def noisy(pairing: Pairing, rate: float, seed: int) -> tuple[Any, Any, NDArray[np.bool_]]:
    """The two columns with wrong pairs, and which pairs these are: what a shuffle leaves right is right."""
    a, b = pairing.read()
    if pairing.known_wrong is not None:
        return a, b, pairing.known_wrong()
    groups = None if pairing.groups is None else pairing.groups()
    if groups is not None and pairing.hard:
        partner = _within(groups, rate, seed)
    else:
        partner = wrong_pairs(len(a), rate, seed).partner
    rows = np.unique(b, axis=0, return_inverse=True)[1].reshape(-1)
    wrong = rows[partner] != rows
    if groups is not None and not pairing.hard:
        wrong &= groups[partner] != groups
    return a, b[partner], wrong


def _within(groups: NDArray[Any], rate: float, seed: int) -> NDArray[np.int64]:
    """Partners exchanged among a share of the rows of every group."""
    random, partner = np.random.default_rng(seed), np.arange(len(groups))
    for value in np.unique(groups):
        rows = random.permutation(np.flatnonzero(groups == value))
        rows = rows[: round(rate * len(rows))]
        partner[rows] = np.roll(rows, 1)
    return partner


def scores(pairing: Pairing, a: Any, b: Any, seed: int) -> dict[str, Any]:
    """Scores of pairs and of mismatched pairs, and the unit of every pair where rows are equal."""
    found = score_pairs(Arrays(a, b), fit=pairing.fit, seed=seed, progress=False)
    random = np.random.default_rng(seed)
    some = random.permutation(len(found.null.scores))[:MISMATCHED]  # the estimator is as sure, and the cache smaller
    arrays = {"scores": found.scores, "null": found.null.scores[some]}
    arrays |= {"right_by_chance": found.null.right_by_chance, "other_class_better": found.null.other_class_better}
    units = together(found.codes[:, 0], [])
    return arrays if units is None else {**arrays, "clusters": units}
