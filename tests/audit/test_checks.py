"""Issue types: found where they were made, not claimed on clean pairs."""

import numpy as np
import pytest
from sklearn.datasets import load_digits
from sklearn.metrics import roc_auc_score

from rince.audit import checks
from rince.audit.calibrate import local_probability
from rince.audit.cca import cross_fit_cca
from rince.audit.rate import break_ties, tie_step
from rince.audit.units import block_folds


@pytest.fixture(scope="module")
def digits():
    images = load_digits().images.astype(np.float32)
    return images[:, ::2].reshape(-1, 32), images[:, 1::2].reshape(-1, 32)


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def embeddings(n: int, width: int = 16, noise: float = 0.5, seed: int = 0):
    random = np.random.default_rng(seed)
    a = random.normal(size=(n, width))
    return unit(a), unit(a + noise * random.normal(size=a.shape))


@pytest.mark.parametrize("share", [0.02, 0.19, 0.4])
@pytest.mark.parametrize("kind", ["zeros", "mean", "other row"])
def test_placeholders_are_found(digits, share, kind):
    a, b = digits
    wrong = np.random.default_rng(0).random(len(a)) < share
    b = b.copy()
    b[wrong] = {"zeros": 0.0, "mean": b.mean(0), "other row": b[7]}[kind]
    issue = checks.placeholder(a, b)
    assert issue.claimed
    assert (issue.scores[wrong] > 0).mean() > 0.95
    assert (issue.scores[~wrong] > 0).mean() < 0.01


def test_no_placeholder_in_clean_pairs_or_classes(digits):
    a, b = digits
    assert not checks.placeholder(a, b).claimed
    labels = np.eye(10)[load_digits().target]
    assert not checks.placeholder(a, labels).claimed


def test_item_with_many_right_partners_is_not_a_placeholder():
    random = np.random.default_rng(0)
    a, b = random.normal(size=(2, 1000, 8))
    a[:60] = a[0]
    b[:60] = b[0] + 0.1 * random.normal(size=(60, 8))
    assert not checks.placeholder(a, b).claimed


def test_duplicates_and_shared_items():
    a, b = embeddings(200)
    a[:5], b[:5] = a[10:15], b[10:15]
    a[20:23] = a[30:33]
    issue = checks.duplicate(a, b)
    assert issue.details == {"equal_pairs": 10, "shared": 6}
    assert not checks.duplicate(*embeddings(200)).claimed


@pytest.mark.parametrize("kind", ["walk", "ar1", "clips"])
def test_order_of_unrelated_series_is_noticed(kind):
    random = np.random.default_rng(0)
    a, b = random.normal(size=(2, 1200, 4))
    if kind == "walk":
        a, b = a.cumsum(0), b.cumsum(0)
    elif kind == "ar1":
        for row in range(1, 1200):
            a[row] += 0.9 * a[row - 1]
            b[row] += 0.9 * b[row - 1]
    else:
        a, b = (np.repeat(random.normal(size=(120, 4)), 10, axis=0) + 0.3 * x for x in (a, b))
    order = checks.order(a, b)
    assert order.dependent
    assert order.independent < 400
    if order.differences:
        a, b = np.diff(a, axis=0), np.diff(b, axis=0)
        assert kind == "walk"
        assert abs(cross_fit_cca(a, b, rounds=1).outscored - 0.5) < 0.06
    else:
        folds = block_folds(len(a), order.block, order.gap)
        assert cross_fit_cca(a, b, folds=folds, rounds=1).outscored < 0.65


def test_order_is_not_claimed_for_shuffled_rows(digits):
    rows = np.random.default_rng(0).permutation(len(digits[0]))
    assert not checks.order(*(x[rows] for x in digits)).dependent


def test_rows_sorted_by_class_are_not_a_series():
    random = np.random.default_rng(0)
    labels = np.sort(random.integers(0, 4, 600))
    items, classes = 3 * np.eye(8)[labels] + random.normal(size=(600, 8)), np.eye(4)[labels]
    assert not checks.order(items, classes).dependent
    clips = items + np.repeat(random.normal(size=(60, 8)), 10, axis=0)
    assert checks.order(clips, classes).dependent


@pytest.mark.parametrize("length", [20, 200])
def test_shifted_stretch_is_found_with_its_offset(length):
    a, b = embeddings(1000, noise=0.7)
    b[300 : 300 + length] = np.roll(b[300 : 300 + length], 1, axis=0)
    issue = checks.shifted(a, b)
    assert issue.claimed
    assert [stretch["offset"] for stretch in issue.details["stretches"]] == [1]
    assert abs(issue.details["stretches"][0]["first"] - 300) <= 3
    assert abs(issue.count - length) <= 5


@pytest.mark.parametrize("share", [0.0, 0.4])
def test_shift_is_not_claimed_without_one(share):
    a, b = embeddings(1000, noise=0.7)
    rows = np.flatnonzero(np.random.default_rng(1).random(1000) < share)
    b[rows] = b[np.random.default_rng(2).permutation(rows)]
    assert checks.shifted(a, b).count == 0


def test_exchanged_pairs_rank_high_but_are_not_claimed():
    a, b = embeddings(600)
    b[:40] = b[:40].reshape(20, 2, -1)[:, ::-1].reshape(40, -1)
    issue = checks.better_partner(a, b)
    assert not issue.claimed
    assert roc_auc_score(np.arange(600) < 40, issue.scores) > 0.95
    assert issue.details["partner"][0] == 1


def test_unreadable_minority_is_a_group():
    a, b = embeddings(2000)
    minority = np.arange(2000) < 150
    a[minority] += 1.0
    flagged = minority & (np.random.default_rng(0).random(2000) < 0.9)
    issue = checks.group(flagged, (a, b))
    assert issue.claimed
    assert (issue.scores[flagged] > 0).mean() > 0.9
    assert checks.group(flagged, labels=np.where(minority, "fi", "en")).claimed


def test_random_flags_are_not_a_group():
    a, b = embeddings(2000)
    assert not checks.group(np.random.default_rng(0).random(2000) < 0.3, (a, b)).claimed


def test_ids_are_found_among_many_thousand_columns():
    random = np.random.default_rng(0)
    a, b = random.normal(size=(2, 120, 13_000)).astype(np.float32)
    b[:, 5], b[:, 12_000] = np.exp(a[:, 700]), 3 - 2 * a[:, 9]  # in another unit, and in the opposite order
    issue = checks.leak(a, b)
    assert issue.claimed and issue.details["columns"] == [(9, 12_000), (700, 5)]


def test_id_on_both_sides_is_a_leak(digits):
    a, b = digits
    ids = np.arange(len(a), dtype=np.float32)[:, None]
    issue = checks.leak(np.hstack([a, ids]), np.hstack([1000 - 3 * ids, b]))
    assert issue.details["columns"] == [(32, 0)]
    assert not checks.leak(a, b).claimed


def test_scores_of_a_model_trained_on_the_pairs_exceed_held_out_ones():
    random = np.random.default_rng(0)
    assert checks.trained_on_pairs(random.normal(3, 1, 4000), random.normal(1.5, 1.5, 100)).claimed
    assert not checks.trained_on_pairs(random.normal(1, 1, 4000), random.normal(3, 1, 100)).claimed  # of another source
    assert (
        sum(checks.trained_on_pairs(random.normal(size=4000), random.normal(size=100)).claimed for _ in range(50)) <= 1
    )


def test_wrong_pairs_of_sign_bits_can_be_flagged_with_broken_ties():
    random = np.random.default_rng(0)
    a, b = embeddings(2000, width=32, noise=0.4)
    wrong = random.random(2000) < 0.3
    b[wrong] = np.roll(b[wrong], 1, axis=0)
    a, b = np.sign(a), np.sign(b)
    i, j = random.integers(2000, size=(2, 50_000))
    scores, null = (a * b).mean(1), (a[i] * b[j]).mean(1)[i != j]
    step = tie_step(null)
    scores, null = break_ties(scores, step), break_ties(null, step, first=len(scores))
    assert len(np.unique(scores)) > 1000
    p = local_probability(scores, null, 0.3)
    flagged = p > 0.7
    assert flagged.sum() > 400
    assert wrong[flagged].mean() > 0.9


@pytest.mark.parametrize("seed", range(5))
def test_shift_is_not_claimed_on_unrelated_sides(seed):
    random = np.random.default_rng(seed)
    a, b = random.normal(size=(2, 1000, 16))
    assert not checks.shifted(a, b).claimed
