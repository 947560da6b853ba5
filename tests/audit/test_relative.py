"""Relative scores against the slow formula, and embeddings whose cosines with everything differ."""

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from rince.audit.null import mismatched_index
from rince.audit.relative import References
from rince.audit.shards.runner import LocalRunner
from rince.audit.shards.score import score_shards
from rince.pairs.shards import Arrays


def unit_pairs(n: int, width: int = 5, seed: int = 0):
    random = np.random.default_rng(seed)
    sides = (random.normal(size=(n, width)) for _ in range(2))
    return [(x / np.linalg.norm(x, axis=1, keepdims=True)).astype(np.float32) for x in sides]


@pytest.mark.parametrize("temperature", [0.2, 0.01])
@pytest.mark.parametrize("skip_best", [True, False])
def test_scores_of_pairs_and_of_mismatched_pairs_follow_the_formula(skip_best, temperature):
    a, b = unit_pairs(60)
    random = np.random.default_rng(1)
    keys = [np.arange(60), random.integers(0, 12, 60), random.integers(0, 12, 60)]
    some = np.sort(random.permutation(60)[:30])
    i, j = mismatched_index(keys, keys, 200, random)
    references = References.of(a, b, keys, some, temperature, skip_best)
    scores, null = references.score_with_null(a, b, keys, (i, j))
    table = a.astype(np.float64) @ b.T.astype(np.float64) / temperature

    def level(values, row, partner):
        apart = [k for k in some if k != partner and all(key[k] != key[row] for key in keys)]
        terms = np.sort(values[apart])[: -1 if skip_best else None]
        return np.logaddexp.reduce(terms) - np.log(len(terms))

    def slow(row, column):
        return table[row, column] - (level(table[row], row, column) + level(table[:, column], column, row)) / 2

    assert np.allclose(scores, [slow(k, k) for k in range(60)], atol=1e-3)
    assert np.allclose(null, [slow(r, c) for r, c in zip(i, j, strict=True)], atol=1e-3)
    assert np.allclose(references.score(a, b, keys), scores)


def test_pairs_that_share_a_key_with_all_references_have_finite_scores():
    a, b = unit_pairs(20)
    keys = [np.arange(20), np.zeros(20, dtype=np.int64)]
    assert np.isfinite(References.of(a, b, keys, np.arange(10), 0.05).score(a, b, keys)).all()


def test_relative_scores_correct_for_items_that_fit_everything():
    random = np.random.default_rng(0)
    a = random.normal(size=(1500, 16))
    b = a + random.normal(size=a.shape)
    # Items of very different spread around a common mean: their cosines with everything differ.
    pull = 4 * random.random(size=(1500, 1)) * np.ones(16)
    a, b = a + pull, b + random.permutation(pull)
    wrong = np.arange(1500) < 450
    b[:450] = np.roll(b[:450], 1, axis=0)
    cosine = (a * b).sum(1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)
    found = score_shards(LocalRunner(), [Arrays(a, b)], fit=False, method="relative")
    scores, null = found.scores[0], found.null.scores
    assert roc_auc_score(~wrong, scores) > roc_auc_score(~wrong, cosine) + 0.05
    side = np.concatenate([scores[wrong], null])
    assert abs(roc_auc_score(np.arange(len(side)) < wrong.sum(), side) - 0.5) < 0.04
