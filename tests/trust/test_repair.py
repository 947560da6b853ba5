"""New partners: an exact search among candidates, with calibrated probabilities."""

import numpy as np
import pytest

from rince.errors import UsageError
from rince.noise.pairs import wrong_pairs
from rince.trust import best_partners, repair


def shuffled(noise=0.4, n=900, rate=0.4, seed=0):
    random = np.random.default_rng(seed)
    z = random.normal(size=(n, 16)).astype(np.float32)
    a, b = (z + noise * random.normal(size=z.shape).astype(np.float32) for _ in range(2))
    partner, wrong = wrong_pairs(n, rate, seed)
    return a, b[partner], wrong, np.argsort(partner)


def test_partners_of_a_shuffled_table_are_found_back():
    a, b, wrong, where = shuffled(noise=0.3)
    rows = np.flatnonzero(wrong)
    found = best_partners(a, b, rows, 1 - wrong.astype(np.float32), k=3)
    right = found.partners[:, 0] == where[rows]
    assert right.mean() > 0.95 and abs(found.probability[:, 0].mean() - right.mean()) < 0.05
    assert found.probability.shape == (len(rows), 3) and (np.diff(found.scores, axis=1) <= 0).all()


def test_block_sizes_do_not_change_the_result(monkeypatch):
    a, b, wrong, _ = shuffled()
    rows, weights = np.flatnonzero(wrong)[:70], 1 - wrong.astype(np.float32)
    whole = best_partners(a, b, rows, weights, k=4, candidates="all")
    monkeypatch.setattr(repair, "QUERIES", 13)
    monkeypatch.setattr(repair, "CANDIDATES", 57)
    tiled = best_partners(a, b, rows, weights, k=4, candidates="all")
    assert np.array_equal(whole.partners, tiled.partners)
    assert np.allclose(whole.probability, tiled.probability, atol=1e-4)


def exact_scores(a, b, rows):
    x, y = (z / np.linalg.norm(z, axis=1, keepdims=True) for z in (a, b))
    nearest = np.sort(y @ x.T, axis=1)[:, -10:].mean(1)  # all rows are references here
    return x[rows] @ y.T - 0.5 * nearest


def test_the_search_is_exact():
    a, b, wrong, _ = shuffled(noise=1.0)
    rows, weights = np.flatnonzero(wrong), 1 - wrong.astype(np.float32)
    scores = exact_scores(a, b, rows)
    found = best_partners(a, b, rows, weights, k=2, candidates="all")
    assert np.array_equal(found.partners, np.argsort(-scores, axis=1)[:, :2])
    found = best_partners(a, b, rows, weights, k=2)  # by default among the same rows
    assert np.array_equal(found.partners, rows[np.argsort(-scores[:, rows], axis=1)[:, :2]])


def test_one_to_one_gives_every_row_its_own_partner_and_recovers_more():
    a, b, wrong, where = shuffled(noise=0.8)
    rows, weights = np.flatnonzero(wrong), 1 - wrong.astype(np.float32)
    free = best_partners(a, b, rows, weights, k=3)
    assigned = best_partners(a, b, rows, weights, k=3, one_to_one=True)
    assert np.array_equal(np.sort(assigned.partners[:, 0]), np.sort(rows))
    assert len(np.unique(free.partners[:, 0])) < len(rows)
    assert (assigned.partners[:, 0] == where[rows]).mean() > (free.partners[:, 0] == where[rows]).mean()
    assert all(len(set(row)) == 3 for row in assigned.partners.tolist())
    scores = exact_scores(a, b, rows)
    assert np.allclose(assigned.scores, np.take_along_axis(scores, assigned.partners, 1), atol=1e-5)


def test_probabilities_hold_where_partners_are_hard_to_find():
    a, b, wrong, where = shuffled(noise=0.6, n=1500)
    rows = np.flatnonzero(wrong)
    found = best_partners(a, b, rows, 1 - wrong.astype(np.float32), k=1)
    right, p = found.partners[:, 0] == where[rows], found.probability[:, 0]
    assert 0.2 < right.mean() < 0.8
    for low, high in ((0.0, 0.3), (0.3, 0.7), (0.7, 1.01)):
        inside = (p >= low) & (p < high)
        assert inside.sum() > 30 and abs(p[inside].mean() - right[inside].mean()) < 0.13


def test_probabilities_are_low_where_right_partners_are_absent():
    """The second sides of wrong pairs are unrelated to everything."""
    a, b, wrong, _ = shuffled()
    b[wrong] = np.random.default_rng(1).normal(size=b[wrong].shape)
    found = best_partners(a, b, np.flatnonzero(wrong), 1 - wrong.astype(np.float32), k=1)
    assert found.probability.mean() < 0.1


def test_features_of_different_widths_are_compared_after_a_fit():
    a, b, wrong, where = shuffled(noise=0.2, n=600, rate=0.2)
    a = np.hstack([a, np.abs(a)])  # of another width
    rows = np.flatnonzero(wrong)
    found = best_partners(a, b, rows, 1 - wrong.astype(np.float32), k=1, fit=True)
    assert (found.partners[:, 0] == where[rows]).mean() > 0.5
    with pytest.raises(UsageError, match="use fit=True"):
        best_partners(a, b, rows, 1 - wrong.astype(np.float32))


def test_invalid_arguments_are_rejected():
    a, b, wrong, _ = shuffled(n=200)
    weights = 1 - wrong.astype(np.float32)
    with pytest.raises(UsageError, match="weights must have one weight per pair"):
        best_partners(a, b, np.array([1]), weights[:-1])
    with pytest.raises(UsageError, match="rows must be row numbers from 0 to 199"):
        best_partners(a, b, np.array([200]), weights)
    with pytest.raises(UsageError, match="k must be at least 1, got 0"):
        best_partners(a, b, np.array([1]), weights, k=0)
    with pytest.raises(UsageError, match="needs 50 of them, got 0"):
        best_partners(a, b, np.array([1]), 0.4 * weights)
    assert len(best_partners(a, b, np.empty(0, np.int64), weights).rows) == 0


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
def test_share_of_present_partners(share):
    random = np.random.default_rng(0)
    present, absent = random.normal(0.5, 1, 4000), random.normal(0, 1, 4000)
    there = random.random(4000) < share
    best = np.where(there, random.normal(0.5, 1, 4000), random.normal(0, 1, 4000))
    assert abs(repair.presence(best, present, absent).mean() - share) < 0.1
