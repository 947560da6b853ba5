"""Cases in which an assumption of the audit fails: no interval excludes the truth without a condition that says so."""

import numpy as np
import pytest
from sklearn.datasets import load_digits

from rince import audit_pairs
from rince.audit import Verdict
from rince.noise import wrong_pairs


@pytest.fixture(scope="module")
def digits():
    images = load_digits().images.astype(np.float32)
    return images[:, ::2].reshape(-1, 32), images[:, 1::2].reshape(-1, 32)


def embeddings(n=2000, width=16, noise=0.4, seed=0):
    random = np.random.default_rng(seed)
    a = random.normal(size=(n, width))
    return a, a + noise * random.normal(size=a.shape)


@pytest.mark.parametrize("share", [0.19, 0.4])
def test_placeholders_are_reported_apart_and_not_certified(digits, share):
    a, b = digits[0], digits[1].copy()
    failed = np.random.default_rng(0).random(len(b)) < share
    b[failed] = 0  # failed downloads
    result = audit_pairs(a, b, fit=True, progress=False)
    issue = result.issues["placeholder"]
    assert issue.claimed and (issue.scores[failed] > 0).mean() > 0.95 and (issue.scores[~failed] > 0).mean() < 0.01
    assert (result.weights[failed & (issue.scores > 0)] == 0).all() and np.isnan(result.p_wrong[issue.scores > 0]).all()
    assert result.interval[0] == 0 and result.judged_pairs == (issue.scores == 0).sum()
    assert issue.explanation in result.summary()


@pytest.mark.parametrize("share", [0.01, 0.05, 0.2, 0.4])
def test_mean_placeholder_is_reported_with_cosine(share):
    a, b = (x + 2 for x in embeddings(4000))
    failed = np.random.default_rng(0).random(len(b)) < share
    b[failed] = b.mean(0)
    issue = audit_pairs(a, b).issues["placeholder"]
    assert issue.claimed and (issue.scores[failed] > 0).mean() > 0.95


def series(kind, random, n=1200, width=6):
    if kind == "walk":
        return random.normal(size=(n, width)).cumsum(0)
    if kind == "ar1":
        x = random.normal(size=(n, width))
        for row in range(1, n):
            x[row] = 0.99 * x[row - 1] + 0.14 * x[row]
        return x
    return np.repeat(random.normal(size=(n // 20, width)), 20, axis=0) + 0.3 * random.normal(size=(n, width))


@pytest.mark.parametrize("rows", [600, 2400])
@pytest.mark.parametrize("kind", ["walk", "ar1", "clips"])
def test_unrelated_series_are_not_certified(kind, rows):
    random = np.random.default_rng(0)
    result = audit_pairs(series(kind, random, rows), series(kind, random, rows), fit=True, progress=False)
    assert result.verdict is Verdict.CANNOT_TELL and result.interval[1] > 0.95
    assert result.issues["order"].claimed


def test_clips_mispaired_as_wholes_are_found_and_count_as_clips():
    random = np.random.default_rng(0)
    clips, frames = 200, 10
    content = random.normal(size=(clips, 8))
    partner, wrong = wrong_pairs(clips, 0.4, 0)
    a = np.repeat(content, frames, axis=0) + 0.2 * random.normal(size=(clips * frames, 8))
    b = np.repeat(content[partner] @ random.normal(size=(8, 8)), frames, axis=0)
    b = b + 0.2 * random.normal(size=b.shape)
    result = audit_pairs(a, b, fit=True, progress=False)
    low, high = result.interval
    assert low <= wrong.mean() <= high and result.units <= 2 * clips
    assert high - low > 0.1, "an interval of 200 clips, not of 2,000 frames"


def test_wrong_labels_of_rows_sorted_by_class_are_found():
    random = np.random.default_rng(0)
    labels = np.sort(random.integers(0, 3, 300))
    given = np.where(random.random(300) < 0.2, random.integers(0, 3, 300), labels)
    items = 3 * np.eye(6)[labels] + random.normal(size=(300, 6))
    result = audit_pairs(items, np.eye(3)[given], fit=True, progress=False)
    assert result.interval[0] <= (given != labels).mean() <= result.interval[1]
    assert not result.issues["order"].claimed


def test_related_series_are_not_called_noisy():
    random = np.random.default_rng(0)
    a = series("ar1", random)
    result = audit_pairs(
        a, a @ random.normal(size=(6, 6)) + 0.01 * random.normal(size=a.shape), fit=True, progress=False
    )
    assert not result.noise_found


def test_embeddings_carry_the_unseen_condition():
    a, b = embeddings(500)
    unknown, unseen = audit_pairs(a, b), audit_pairs(a, b, embeddings="unseen")
    assert "not trained on these pairs" in unknown.conditions[0]
    assert unknown.conditions[0] in unknown.summary().splitlines()[:4]
    assert not unseen.conditions
    assert "above the interval" in audit_pairs(a, b, embeddings="trained-on-these").conditions[0]


def test_held_out_pairs_expose_trained_embeddings():
    a, b = embeddings(1500, noise=0.1)  # memorized
    held = embeddings(300, noise=1.0, seed=1)
    trained = audit_pairs(a, b, held_out=held)
    assert trained.issues["trained_on_these"].claimed and "above the interval" in trained.conditions[0]
    held = embeddings(300, noise=0.1, seed=1)
    assert not audit_pairs(a, b, held_out=held).issues["trained_on_these"].claimed


def test_related_wrong_pairs_are_not_counted():
    random = np.random.default_rng(0)
    topic = np.repeat(random.normal(size=(100, 16)), 20, axis=0)
    a = topic + 0.3 * random.normal(size=topic.shape)
    b = topic + 0.3 * random.normal(size=topic.shape)  # the same topic, another item
    result = audit_pairs(a, b, checks=None)
    assert result.verdict is Verdict.NONE_FOUND
    assert "wrong but related are not counted" in result.summary()


def test_shifted_stretch_inside_related_data_is_reported():
    a, b = embeddings(1000)
    b[200:300] = b[201:301]
    issue = audit_pairs(a, b).issues["shifted"]
    assert issue.claimed and issue.details["stretches"][0]["offset"] == -1


@pytest.mark.parametrize("share", [0.0, 0.2])
def test_unreadable_minority_is_listed_not_flagged(share):
    random = np.random.default_rng(0)
    a, b = embeddings(2000, width=32, noise=0.5)
    minority = np.arange(2000) < 200
    for k, x in enumerate((a, b)):  # right pairs in another language: a region of its own, without the content
        x[minority] = 2 * np.eye(32)[k] + 0.8 * random.normal(size=(200, 32))
    partner, wrong = wrong_pairs(2000, share, 0)
    result = audit_pairs(a, b[partner])
    assert result.interval[0] <= wrong.mean() <= result.interval[1] and result.noise_found == (share > 0)
    flagged = result.flag()
    assert len(flagged) == 0 if share == 0 else wrong[flagged].mean() > 0.85
    assert result.issues["group"].claimed and any("cannot read" in one for one in result.conditions)


@pytest.mark.parametrize("pairs", [1500, 6000])
def test_ties_of_coarse_scores_do_not_hide_wrong_pairs(pairs):
    a, b = embeddings(pairs, width=32)
    partner, wrong = wrong_pairs(pairs, 0.3, 0)
    result = audit_pairs(np.sign(a), np.sign(b[partner]), score="cosine")
    flagged = result.flag()
    assert result.interval[0] <= wrong.mean() <= result.interval[1]
    assert len(flagged) > 0.2 * pairs and wrong[flagged].mean() > 0.85


def test_column_on_both_sides_does_not_hide_wrong_pairs(digits):
    partner, wrong = wrong_pairs(len(digits[0]), 0.3, 0)
    ids = np.arange(len(partner), dtype=np.float32)[:, None]
    a, b = np.hstack([digits[0], ids]), np.hstack([digits[1][partner], 2 * ids + 7])
    result = audit_pairs(a, b, fit=True, progress=False)
    assert result.issues["leak"].claimed and result.issues["leak"].details["columns"] == [(32, 32)]
    assert result.noise_found and result.interval[0] <= wrong.mean() <= result.interval[1]
