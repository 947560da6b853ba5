"""The scores behind an audit of two matrices."""

from typing import NamedTuple

import numpy as np
import pytest

from rince.audit.null import NULL_SIZE
from rince.audit.scores import SAMPLE_PAIRS
from rince.audit.shards.runner import LocalRunner
from rince.audit.shards.score import score_shards
from rince.audit.units import num_units
from rince.pairs.matrix import as_matrix
from rince.pairs.shards import Arrays


class Scores(NamedTuple):
    scores: np.ndarray
    null: np.ndarray
    units: int


def cosine_scores(a, b, keys=(), seed=0, mismatched=NULL_SIZE, pool=SAMPLE_PAIRS["cosine"]):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("rince.audit.null.NULL_SIZE", mismatched)
        patch.setitem(SAMPLE_PAIRS, "cosine", pool)
        patch.setattr("rince.audit.scores.MIN_SAMPLE_PAIRS", 1)
        return _scores(a, b, keys, fit=False, method="cosine", seed=seed)


def fitted_scores(a, b, keys=(), seed=0, config=None):
    return _scores(a, b, keys, fit=True, method="towers", seed=seed, config=config)


def _scores(a, b, keys, **options):
    pairs = Arrays(as_matrix(a, "a"), as_matrix(b, "b"), [np.asarray(key) for key in keys])
    found = score_shards(LocalRunner(), [pairs], **options)
    return Scores(found.scores[0], found.null.scores, num_units(found.codes[0]))
