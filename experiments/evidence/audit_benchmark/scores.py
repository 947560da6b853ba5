"""Cached audits of every pairing at every rate, to rerun the estimator in seconds."""

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from experiments.evidence.audit_benchmark.pairings import Pairing
from rince.audit import Audit, api, audit_pairs
from rince.audit.estimate import Null
from rince.noise.pairs import wrong_pairs

MISMATCHED = 200_000
CHECKS = ("placeholder", "duplicate", "order", "shifted", "group", "leak")  # a ranking of partners claims nothing


class Case(NamedTuple):
    """One pairing at one rate and seed.

    Attributes:
        pairing, rate, seed: Which case.
        scores: Scores of the judged pairs: all but placeholders.
        null: Scores of mismatched pairs.
        units: Number of independent pairs.
        wrong: Which of the judged pairs are wrong.
        scorer: Name of the scorer.
        claims: Issue types that are claimed.
        conditions: What the verdict depends on, as stated beside it.
        seconds: CPU seconds of the whole audit.
    """

    pairing: Pairing
    rate: float
    seed: int
    scores: NDArray[np.float32]
    null: Null
    units: int
    wrong: NDArray[np.bool_]
    scorer: str
    claims: list[str]
    conditions: list[str]
    seconds: float

    @property
    def truth(self) -> float:
        return float(self.wrong.mean())

    def judge(self) -> Audit:
        """Audit result for the cached scores."""
        return api.judge_scores(self.scores, self.null, self.units, self.seed, self.pairing.fit, self.scorer)


def cases(pairing: Pairing, seeds: int, folder: Path, cached: bool = False) -> Iterator[Case]:
    """All rates and seeds of a pairing; audits that are not in the folder are made and put there, unless ``cached``."""
    for rate in pairing.rates:
        # Clean data, where accusations are worst, and cheap scores get another seed.
        for seed in range(seeds + (rate == 0) if pairing.fit else 2 * seeds):
            if not cached or path_of(pairing, rate, seed, folder).exists():
                yield case(pairing, rate, seed, folder)


def path_of(pairing: Pairing, rate: float, seed: int, folder: Path) -> Path:
    return folder / (re.sub(r"\W+", "-", f"{pairing.name} {rate:g} {seed}") + ".npz")


def case(pairing: Pairing, rate: float, seed: int, folder: Path) -> Case:
    path = path_of(pairing, rate, seed, folder)
    if not path.exists():
        np.savez(path, **audited(pairing, rate, seed))
    with np.load(path) as arrays:
        null = Null(arrays["null"], float(arrays["right_by_chance"]), float(arrays["other_class_better"]))
        return Case(
            pairing, rate, seed, arrays["scores"], null, int(arrays["units"]), arrays["wrong"], str(arrays["scorer"]),
            arrays["claims"].tolist(), arrays["conditions"].tolist(), float(arrays["seconds"]),
        )  # fmt: skip


def audited(pairing: Pairing, rate: float, seed: int) -> dict[str, Any]:
    """One audit with its checks, as its user runs it, and the scores that its verdict was made from."""
    a, b, wrong = noisy(pairing, rate, seed)
    start = time.process_time()
    with mock.patch.object(api, "judge_scores", wraps=api.judge_scores) as judge:
        result = audit_pairs(
            a, b, fit=pairing.fit, score=pairing.score, checks=CHECKS, embeddings="unseen", seed=seed, progress=False
        )
    seconds = time.process_time() - start
    scores, null, units = judge.call_args.args[:3]
    sample = np.random.default_rng(seed).permutation(len(null.scores))[:MISMATCHED]  # as precise, with a smaller cache
    return {
        "scores": scores,
        "null": null.scores[sample],
        "right_by_chance": null.right_by_chance,
        "other_class_better": null.other_class_better,
        "units": units,
        "wrong": np.delete(wrong, result.dropped),
        "scorer": result.scorer,
        "claims": np.array([name for name, issue in result.issues.items() if issue.claimed], dtype=str),
        "conditions": np.array(result.conditions, dtype=str),
        "seconds": seconds,
    }


def noisy(pairing: Pairing, rate: float, seed: int) -> tuple[Any, Any, NDArray[np.bool_]]:
    """Both columns with wrong pairs, and the mask of wrong pairs, excluding those that a shuffle leaves right."""
    a, b = pairing.read()
    if pairing.known_wrong is not None:
        return in_random_order(pairing, a, b, pairing.known_wrong(), seed)
    groups = None if pairing.groups is None else pairing.groups()
    if groups is not None and pairing.hard:
        partner = _within(groups, rate, seed)
    else:
        partner = wrong_pairs(len(a), rate, seed).partner
    rows = np.unique(b, axis=0, return_inverse=True)[1].reshape(-1)
    wrong = rows[partner] != rows
    if groups is not None and not pairing.hard:
        wrong &= groups[partner] != groups
    return in_random_order(pairing, a, b[partner], wrong, seed)


def in_random_order(
    pairing: Pairing, a: Any, b: Any, wrong: NDArray[np.bool_], seed: int
) -> tuple[Any, Any, NDArray[np.bool_]]:
    """Shuffled rows. Many tables are sorted, for example by class; neighbors would then count as one pair."""
    order = np.arange(len(a)) if pairing.as_stored else np.random.default_rng([seed, 3]).permutation(len(a))
    return a[order], b[order], wrong[order]


def _within(groups: NDArray[Any], rate: float, seed: int) -> NDArray[np.int64]:
    """Partners exchanged among a share of the rows of every group."""
    random, partner = np.random.default_rng(seed), np.arange(len(groups))
    for value in np.unique(groups):
        rows = random.permutation(np.flatnonzero(groups == value))
        rows = rows[: round(rate * len(rows))]
        partner[rows] = np.roll(rows, 1)
    return partner
