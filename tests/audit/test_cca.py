"""Cross-fitted CCA scores: informative where the sides are related, and only there."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from rince.audit.cca import Moments, cross_fit_cca
from rince.audit.units import block_folds


def related(n: int, p: int = 12, q: int = 9, noise: float = 0.3, seed: int = 0):
    random = np.random.default_rng(seed)
    z = random.normal(size=(n, 6))
    a, b = z @ random.normal(size=(6, p)), z @ random.normal(size=(6, q))
    return a + noise * random.normal(size=a.shape), b + noise * random.normal(size=b.shape)


def mispaired(b: np.ndarray, share: float, seed: int = 0):
    random = np.random.default_rng(seed)
    chosen = random.permutation(len(b))[: round(share * len(b))]
    wrong = np.isin(np.arange(len(b)), chosen)
    b = b.copy()
    b[chosen] = b[np.roll(chosen, 1)]
    return b, wrong


def test_wrong_pairs_of_digit_halves_score_like_the_null():
    images = load_digits().images.astype(np.float32)
    a, b = images[:, ::2].reshape(-1, 32), images[:, 1::2].reshape(-1, 32)
    b, wrong = mispaired(b, 0.4)
    result = cross_fit_cca(a, b, rounds=1)
    assert roc_auc_score(~wrong, result.scores) > 0.99  # two-tower models reach 0.993
    null_side = np.concatenate([result.scores[wrong], result.null])
    labels = np.arange(len(null_side)) < wrong.sum()
    assert abs(roc_auc_score(labels, null_side) - 0.5) < 0.03


def test_second_round_is_not_worse_with_many_wrong_pairs():
    a, b = related(800, noise=0.7)
    b, wrong = mispaired(b, 0.6)
    first, second = (roc_auc_score(~wrong, cross_fit_cca(a, b, rounds=rounds).scores) for rounds in (1, 2))
    assert second > first - 0.005


@pytest.mark.parametrize("n", [80, 600])
def test_unrelated_sides_are_uninformative(n):
    values = []
    for seed in range(3):
        random = np.random.default_rng(seed)
        result = cross_fit_cca(random.normal(size=(n, 20)), random.normal(size=(n, 15)), seed=seed)
        values.append(result.outscored)
    assert abs(np.mean(values) - 0.5) < 3 * 0.29 / np.sqrt(3 * n) + 0.01


def test_same_seed_gives_same_scores():
    a, b = related(200)
    one, two = (cross_fit_cca(a, b, seed=3) for _ in range(2))
    assert np.array_equal(one.scores, two.scores)
    assert np.array_equal(one.null, two.null)


def test_pairs_of_one_unit_share_a_fold():
    a, b = related(300)
    units = np.arange(300) // 5
    folds = cross_fit_cca(a, b, units=units).fit.folds.number
    assert (folds.reshape(60, 5) == folds.reshape(60, 5)[:, :1]).all()


def test_units_do_not_leak():
    # Every unit has its own unrelated a and b, repeated: known within a unit, unrelated across units.
    random = np.random.default_rng(0)
    a, b = (np.repeat(random.normal(size=(60, 10)), 8, axis=0) for _ in range(2))
    a, b = a + 0.01 * random.normal(size=a.shape), b + 0.01 * random.normal(size=b.shape)
    assert cross_fit_cca(a, b).outscored > 0.8
    assert abs(cross_fit_cca(a, b, units=np.arange(480) // 8).outscored - 0.5) < 0.12


def test_unrelated_series_are_uninformative_with_block_folds():
    outscored = []
    for seed in range(2):
        random = np.random.default_rng(seed)
        a, b = random.normal(size=(2, 1000, 4))
        for row in range(1, 1000):
            a[row] += 0.9 * a[row - 1]
            b[row] += 0.9 * b[row - 1]
        folds = block_folds(1000, block=100, gap=25, seed=seed)
        outscored.append(cross_fit_cca(a, b, folds=folds, rounds=1).outscored)
    assert cross_fit_cca(a, b, rounds=1).outscored > 0.75  # random folds: neighbors of a pair are fitted on
    assert np.mean(outscored) < 0.6


def test_block_folds_keep_gaps_between_fitted_and_scored_rows():
    folds, blocks, trainable = block_folds(100, block=20, gap=3)
    assert np.array_equal(np.unique(blocks), np.arange(5))
    for k in np.unique(folds):
        fitted, scored = np.flatnonzero(trainable & (folds != k)), np.flatnonzero(folds == k)
        assert np.abs(fitted[:, None] - scored[None]).min() > 3


def test_moments_of_parts_add_up():
    a, b = (torch.from_numpy(x).float() for x in related(100))
    weights = torch.rand(100)
    whole = Moments.of(a, b, weights)
    parts = Moments.of(a[:30], b[:30], weights[:30]) + Moments.of(a[30:], b[30:], weights[30:])
    torch.testing.assert_close(whole.ab, parts.ab, rtol=1e-5, atol=1e-3)
    torch.testing.assert_close(whole.fit(1.0).map_a.abs(), parts.fit(1.0).map_a.abs(), rtol=1e-3, atol=1e-4)


def test_sampled_fit_scores_all_pairs():
    a, b = related(3000)
    b, wrong = mispaired(b, 0.2)
    result = cross_fit_cca(a, b, max_fit_pairs=800, rounds=1)
    assert result.scores.shape == (3000,)
    assert roc_auc_score(~wrong, result.scores) > 0.95


def test_heavy_tailed_features_are_ranked():
    a, b = related(800)
    b, wrong = mispaired(np.exp(3 * b), 0.3)
    result = cross_fit_cca(np.exp(3 * a), b, rounds=1)
    assert all(fold.view.ranks_a and fold.view.ranks_b for fold in result.fit.scorers)
    assert roc_auc_score(~wrong, result.scores) > 0.9


def test_wide_sides():
    random = np.random.default_rng(0)
    z = random.normal(size=(300, 5))
    a, b = (z @ random.normal(size=(5, 3000)) + random.normal(size=(300, 3000)) for _ in range(2))
    assert cross_fit_cca(a, b, rounds=1).outscored > 0.9


def test_items_that_occur_twice_are_never_mismatched_with_themselves():
    a, b = related(200)
    a, b = np.repeat(a, 2, axis=0), np.repeat(b, 2, axis=0)
    result = cross_fit_cca(a, b, units=np.arange(400) // 2)
    assert np.quantile(result.null, 0.99) < np.median(result.scores)
