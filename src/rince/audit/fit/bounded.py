"""Scores for any two columns of features, however many rows they have: towers learn from a sample, and judge all.

As long as all pairs fit into the sample, every pair is in it. Beyond, a pair outside of the sample is judged by the
towers of the fold of its copies, or by any: none of them has seen it. So memory is bounded by the sample and by one
piece of a partition at a time.
"""

from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince._support.progress import track
from rince.audit.classes import share_hit_by_accident
from rince.audit.columns import row_codes
from rince.audit.estimate.decide import Null
from rince.audit.fit.cross_fit import CrossFit, FirstRound
from rince.audit.fit.features import Features
from rince.audit.fit.fold_judge import FoldJudge, Folds
from rince.audit.fit.towers import Recipe
from rince.audit.partitions.partition import Partition, Pieces, check_block
from rince.audit.partitions.pipeline import Parts, ScoredParts, width_of
from rince.audit.partitions.seen import Sample, drawn_rows, joined_sample, scan
from rince.audit.partitions.things import item

SAMPLE_PAIRS = 262_144
SAMPLE_NUMBERS = 80_000_000  # of both sides: 320 MB
FEWEST_PAIRS = 16_384  # whatever their width
TOGETHER = 4096  # pairs, up to which all towers of a round are trained together


class Jury(NamedTuple):
    """The judges of all folds, and who is whose."""

    judges: list[FoldJudge]
    folds: Folds


def fitted_scores_of(
    parts: Parts, seed: int, recipe: Recipe | None = None, progress: bool | None = None
) -> ScoredParts:
    """Scores of all pairs and of mismatched pairs, each by towers that were trained without them.

    A score is the logarithm of how many times likelier than chance the towers think the pair is: its cosine over the
    temperature, less the average (log-mean-exp) over the mismatched partners of either side.
    """
    recipe = Recipe() if recipe is None else recipe
    runner, count = parts.runner, len(parts.parts)
    some = next(part for part, rows in zip(parts.parts, parts.rows, strict=True) if rows)
    rows = sample_rows(parts.pairs, runner.value(runner.one(widths_of, some)), seed)
    mine = parts.inside(rows)
    both = [(one, one) for one in mine]
    seen = runner.each(scan, parts.parts, parts.start, parts.offset, both, [False] * count)
    fingerprint = parts.check_seen(seen, "reading pairs")
    codes, samples = (runner.each(item, seen, [k] * count) for k in (1, 3))
    del seen
    fit = runner.one(cross_fit, samples, rows, seed, recipe)
    del samples
    pairs, folds = list(combinations(range(recipe.folds), 2)), list(range(recipe.folds))
    # Towers of few pairs are trained together; for many, a step has enough to do, and workers share the towers.
    together = len(rows) <= TOGETHER
    first_tasks, second_tasks = ([pairs], [folds]) if together else ([[p] for p in pairs], [[k] for k in folds])
    steps = iter(track([*first_tasks, *second_tasks], "fitting towers", show=progress))
    first = [runner.one(first_round, fit, next(steps)) for _ in first_tasks]
    judges = [runner.one(second_round, fit, next(steps), first) for _ in second_tasks]
    next(steps, None)  # lets the bar close
    jury = runner.one(jury_of, fit, judges)
    null = runner.one(null_of, fit, judges)
    found = ScoredParts([], codes, runner.values([null], "fitting towers")[0], null, 0, fingerprint)
    del fit, first, judges
    scores = runner.each(judged, parts.parts, parts.start, codes, [jury] * count)
    runner.values(runner.each(len, scores), "scoring pairs")
    return found._replace(scores=scores, keys=runner.value(runner.one(width_of, codes[0])) - 1)


def sample_rows(pairs: int, widths: tuple[int, int], seed: int) -> NDArray[np.int64]:
    """The pairs that towers are trained on: all of them, or as many as fit into memory."""
    most = min(SAMPLE_PAIRS, max(FEWEST_PAIRS, SAMPLE_NUMBERS // sum(widths)))
    return np.arange(pairs) if pairs <= most else drawn_rows(pairs, most, np.random.default_rng([seed, most]))


def widths_of(part: Partition) -> tuple[int, int]:
    return next(check_block(a, b, part) for a, b in part.blocks())


def cross_fit(samples: list[tuple[Sample, Sample]], rows: NDArray[np.int64], seed: int, recipe: Recipe) -> CrossFit:
    """The folds of the sample, made of the samples of all partitions."""
    keys = joined_sample([sample[0] for sample in samples]).keys
    sides = [Features(joined_sample([sample[k] for sample in samples]).x.numpy(), "ab"[k]) for k in range(2)]
    return CrossFit(sides[0], sides[1], keys, seed, recipe, rows)


def first_round(fit: CrossFit, pairs: list[tuple[int, int]]) -> FirstRound:
    return fit.first_round(pairs)


def second_round(fit: CrossFit, numbers: list[int], first: list[FirstRound]) -> list[FoldJudge]:
    return fit.second_round(numbers, {key: scored for part in first for key, scored in part.items()})


def jury_of(fit: CrossFit, judges: list[list[FoldJudge]]) -> Jury:
    rows, _, _, *keys = fit.keys
    return Jury(list(chain(*judges)), Folds.of(fit.number, fit.recipe.folds, [rows, fit.pairs, *keys]))


def null_of(fit: CrossFit, judges: list[list[FoldJudge]]) -> Null:
    by_accident = 0.0 if fit.classes is None else share_hit_by_accident(fit.classes)
    everyone = list(chain(*judges))
    with_rival = np.average([one.with_rival for one in everyone], weights=[len(one.rows) for one in everyone])
    return Null(np.concatenate([one.null for one in everyone]), by_accident, float(with_rival))


def judged(part: Partition, start: int, codes: NDArray[np.int64], jury: Jury) -> NDArray[np.float32]:
    """The scores of all pairs of a partition."""
    scores = np.empty(part.rows, dtype=np.float32)
    for first, x, y in Pieces(part):
        piece = slice(first, first + len(x))
        rows = np.arange(start + first, start + first + len(x))
        user: list[Any] = [codes[piece, k] for k in range(1, codes.shape[1])]
        number = jury.folds.find([rows, codes[piece, 0], *user])
        out = scores[piece]
        for k, judge in enumerate(jury.judges):
            inside = np.flatnonzero(number == k)
            known, out[inside] = judge.known(rows[inside])
            new = inside[~known]
            if len(new):
                a, b = x[new], y[new]
                keys = [rows[new], row_codes(a), row_codes(b), *(key[new] for key in user)]
                out[new] = judge.judge(a, b, keys)
    return scores
