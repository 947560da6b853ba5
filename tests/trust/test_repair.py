"""New partners: exact, whatever the tiles, with probabilities that hold."""

import numpy as np
import pytest

from rince.audit.fit.towers import Recipe
from rince.errors import UsageError
from rince.noise.pairs import wrong_pairs
from rince.trust import best_partners, repair

QUICK = Recipe(folds=3, width=64, dim=32, steps=100)


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


def test_tiles_change_nothing(monkeypatch):
    a, b, wrong, _ = shuffled()
    rows, trust = np.flatnonzero(wrong)[:70], 1 - wrong.astype(np.float32)
    whole = best_partners(a, b, rows, trust, k=4)
    monkeypatch.setattr(repair, "QUERIES", 13)
    monkeypatch.setattr(repair, "CANDIDATES", 57)
    monkeypatch.setattr(repair, "CHUNK", 200)
    tiled = best_partners(a, b, rows, trust, k=4)
    assert np.array_equal(whole.partners, tiled.partners)
    assert np.allclose(whole.probability, tiled.probability, atol=1e-4)


def test_the_search_is_exact():
    a, b, wrong, _ = shuffled(noise=1.0)
    rows, trust = np.flatnonzero(wrong), 1 - wrong.astype(np.float32)
    found = best_partners(a, b, rows, trust, k=2)
    x, y = (z / np.linalg.norm(z, axis=1, keepdims=True) for z in (a, b))
    nearest = np.sort(y @ x.T, axis=1)[:, -10:].mean(1)  # all rows are references here
    scores = x[rows] @ y.T - 0.5 * nearest
    assert np.array_equal(found.partners, np.argsort(-scores, axis=1)[:, :2])


def test_probabilities_hold_where_partners_are_hard_to_find():
    a, b, wrong, where = shuffled(noise=0.6, n=1500)
    rows = np.flatnonzero(wrong)
    found = best_partners(a, b, rows, 1 - wrong.astype(np.float32), k=1)
    right, p = found.partners[:, 0] == where[rows], found.probability[:, 0]
    assert 0.2 < right.mean() < 0.8
    for low, high in ((0.0, 0.3), (0.3, 0.7), (0.7, 1.01)):
        inside = (p >= low) & (p < high)
        assert inside.sum() > 30 and abs(p[inside].mean() - right[inside].mean()) < 0.13


def test_partners_that_are_not_there_are_not_promised():
    """The second halves of mismatched pairs are from another world: there is nothing to find."""
    a, b, wrong, _ = shuffled()
    b[wrong] = np.random.default_rng(1).normal(size=b[wrong].shape)
    found = best_partners(a, b, np.flatnonzero(wrong), 1 - wrong.astype(np.float32), k=1)
    assert found.probability.mean() < 0.1


def test_any_features_are_compared_by_towers_that_never_saw_the_pair():
    a, b, wrong, where = shuffled(noise=0.2, n=600, rate=0.2)
    a = np.hstack([a, np.abs(a)])  # of another width
    rows = np.flatnonzero(wrong)
    found = best_partners(a, b, rows, 1 - wrong.astype(np.float32), k=1, fit=True, recipe=QUICK)
    assert (found.partners[:, 0] == where[rows]).mean() > 0.5
    with pytest.raises(UsageError, match="use fit=True"):
        best_partners(a, b, rows, 1 - wrong.astype(np.float32))


def test_what_does_not_fit_is_one_sentence():
    a, b, wrong, _ = shuffled(n=200)
    trust = 1 - wrong.astype(np.float32)
    with pytest.raises(UsageError, match="trust must have one weight per pair"):
        best_partners(a, b, np.array([1]), trust[:-1])
    with pytest.raises(UsageError, match="rows must be numbers of rows from 0 to 199"):
        best_partners(a, b, np.array([200]), trust)
    with pytest.raises(UsageError, match="k must lie between 1 and the 200 rows"):
        best_partners(a, b, np.array([1]), trust, k=0)
    with pytest.raises(UsageError, match="needs 50 of them, got 0"):
        best_partners(a, b, np.array([1]), 0.5 * trust)
    assert len(best_partners(a, b, np.empty(0, np.int64), trust).rows) == 0


@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.0])
def test_the_share_of_partners_that_are_there_is_found_even_where_scores_are_alike(share):
    random = np.random.default_rng(0)
    present, absent = random.normal(0.5, 1, 4000), random.normal(0, 1, 4000)
    there = random.random(4000) < share
    best = np.where(there, random.normal(0.5, 1, 4000), random.normal(0, 1, 4000))
    assert abs(repair.chance_of_presence(best, present, absent).mean() - share) < 0.1
