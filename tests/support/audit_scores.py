"""The scores behind an audit of two matrices, as one partition."""

from typing import NamedTuple

import numpy as np
import pytest

from rince.audit.columns import as_matrix
from rince.audit.fit.bounded import fitted_scores_of
from rince.audit.mismatched import MISMATCHED, POOL
from rince.audit.partitions import pipeline
from rince.audit.partitions.partition import Arrays
from rince.audit.partitions.runner import Here
from rince.audit.partitions.things import count_things


class Scores(NamedTuple):
    scores: np.ndarray
    null: np.ndarray
    things: int


def cosine_scores(a, b, keys=(), seed=0, mismatched=MISMATCHED, pool=POOL):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "MISMATCHED", mismatched)
        patch.setattr(pipeline, "POOL", pool)
        return _scores(a, b, keys, lambda parts: pipeline.cosine_scores_of(parts, seed), zero_is_bad=True)


def fitted_scores(a, b, keys=(), seed=0, recipe=None):
    return _scores(a, b, keys, lambda parts: fitted_scores_of(parts, seed, recipe), zero_is_bad=False)


def _scores(a, b, keys, score, zero_is_bad):
    part = Arrays(as_matrix(a, "a"), as_matrix(b, "b"), [np.asarray(key) for key in keys])
    parts, _ = pipeline.ready(Here(), [part], False, zero_is_bad)
    found = score(parts)
    things = count_things(Here(), found.codes, len(a), len(keys))
    return Scores(found.scores[0], found.null.scores, things)
