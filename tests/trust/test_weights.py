"""Weights from columns and from audits: 1 - p_wrong, 0 for skipped pairs, and 1 for all unless noise is found."""

import numpy as np
import pytest
import torch

import rince
from rince.audit import Scored, audit_pairs, judge
from rince.audit.cca import cross_fit_cca
from rince.errors import UsageError
from rince.noise.pairs import wrong_pairs
from rince.trust import WarmUpWeights, estimate_weights, read_weights, weights_by_id, weights_of
from rince.trust.weights import check_weights


def columns(rate, seed=0, n=600):
    random = np.random.default_rng(seed)
    z = random.normal(size=(n, 16)).astype(np.float32)
    a, b = (z + 0.4 * random.normal(size=z.shape).astype(np.float32) for _ in range(2))
    partner, wrong = wrong_pairs(n, rate, seed)
    return a, b[partner], wrong


def test_wrong_pairs_weigh_little_and_right_ones_much():
    a, b, wrong = columns(0.3)
    found = audit_pairs(a, b)
    weights = weights_of(found)
    assert np.allclose(weights, 1 - found.p_wrong) and weights.dtype == np.float32
    assert weights[wrong].mean() < 0.1 < 0.9 < weights[~wrong].mean()


def test_without_noise_all_pairs_weigh_one():
    a, b, _ = columns(0.0)
    assert (weights_of(audit_pairs(a, b)) == 1).all()


def test_uninformative_scores_give_equal_weights():
    random = np.random.default_rng(0)
    a, b = random.normal(size=(2, 600, 16)).astype(np.float32)
    found = audit_pairs(a, b)
    assert found.uninformative
    assert (weights_of(found) == 1).all()


def uncertain(n=1500, rate=0.5, lead=1.7):
    """Scores that rank pairs, but leave open how many are wrong."""
    random = np.random.default_rng(0)
    wrong = np.arange(n) < rate * n
    scores = random.normal(np.where(wrong, 0, lead), np.where(wrong, 1, 1.2), n)
    return judge(scores, random.normal(size=100_000)), wrong


def test_weights_follow_the_best_guess():
    found, wrong = uncertain()
    assert found.cannot_tell and not found.uninformative and (found.p_wrong == 0).all()
    weights = found.weights
    assert np.array_equal(weights, weights_of(found))
    assert weights[wrong].mean() < 0.4 and weights[~wrong].mean() > weights[wrong].mean() + 0.2


def test_saved_audits_give_the_same_weights(tmp_path):
    found, _ = uncertain()
    for table in ("csv", "parquet"):
        found.save(tmp_path / table, table=table)
        assert np.allclose(read_weights(tmp_path / table, len(found)), found.weights, atol=1e-5)


def test_an_id_that_occurs_twice_has_no_weight(tmp_path):
    (tmp_path / "weights.csv").write_text("id,weight\nx,1\ny,0.5\nx,0\n")
    with pytest.raises(UsageError, match="'x' more than once"):
        weights_by_id(tmp_path / "weights.csv")


def test_weights_are_one_where_nearly_all_pairs_may_be_wrong():
    found, _ = uncertain(rate=0.6, lead=1.3)
    assert found.cannot_tell and found.interval[1] > 0.7
    assert (weights_of(found) == 1).all()


def test_weights_of_a_class_are_one_where_the_verdict_is_cannot_tell():
    found, _ = uncertain()
    assert (found.weights < 1).any()
    of_classes = judge(Scored(found.scores, found.null, right_by_chance=0.01))
    assert of_classes.cannot_tell and of_classes.of_classes and (of_classes.weights == 1).all()


def test_pairs_that_the_audit_left_out_weigh_nothing():
    a, b, _ = columns(0.3)
    a[[3, 70]] = np.nan
    weights = weights_of(audit_pairs(a, b, skip_invalid=True))
    assert (weights[[3, 70]] == 0).all() and np.isfinite(weights).all()


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ([0.5, np.nan], "got nan in row 1 of t.csv"),
        ([0.5, np.inf], "got inf in row 1"),
        ([0.5, 1.5], r"in \[0, 1\], got 1.5 in row 1"),
        ([-0.1, 1], r"in \[0, 1\], got -0.1 in row 0"),
        ([0.0, 0.0], "are 0"),
    ],
)
def test_invalid_weights_are_rejected(weights, sentence):
    with pytest.raises(UsageError, match=sentence):
        check_weights(np.array(weights), "t.csv")


# --- estimate_weights ---


def features(rate, seed=0, n=900):
    """Two sides of different widths, related by a linear map."""
    random = np.random.default_rng(seed)
    a = random.normal(size=(n, 20)).astype(np.float32)
    b = a @ random.normal(size=(20, 12)) + random.normal(size=(n, 12))
    partner, wrong = wrong_pairs(n, rate, seed)
    return a, b[partner].astype(np.float32), wrong


def test_features_of_different_widths_give_weights():
    a, b, wrong = features(0.4)
    estimate = estimate_weights(a, torch.from_numpy(b))
    assert estimate.weights.dtype == np.float32 and estimate.weights.shape == (900,)
    assert estimate.weights[wrong].mean() < 0.2 and estimate.weights[~wrong].mean() > 0.85
    assert estimate.verdict == "found" and estimate.interval[0] < wrong.mean() < estimate.interval[1]
    assert np.array_equal(estimate.weights, estimate_weights(a, b).weights)  # the same seed, the same weights


def test_weights_are_one_without_noise_and_with_unrelated_features():
    a, b, _ = features(0.0)
    assert (estimate_weights(a, b).weights == 1).all()
    unrelated = estimate_weights(a, np.random.default_rng(1).normal(size=(900, 8)))
    assert (unrelated.weights == 1).all() and "cannot tell" in str(unrelated)


def test_quick_fit_that_cannot_tell_is_followed_by_a_thorough_one():
    """The absolute values of symmetric features have no linear relation to them."""
    a = np.random.default_rng(0).normal(size=(900, 4)).astype(np.float32)
    partner, wrong = wrong_pairs(900, 0.4, 0)
    b = np.abs(a)[partner]
    assert cross_fit_cca(a, b, quick=True).outscored < 0.6
    estimate = estimate_weights(a, b)
    assert estimate.verdict == "found" and estimate.weights[wrong].mean() < 0.3


def test_neighborhoods_find_classes_that_are_no_directions():
    random = np.random.default_rng(2)
    centers = 3 * random.normal(size=(2, 6, 4, 8))  # six classes, each of four clusters anywhere
    label = random.integers(6, size=1200)
    wrong = np.arange(len(label)) < 600
    shown = np.where(wrong, (label + random.integers(1, 6, size=len(label))) % 6, label)
    a, b = (
        center[of, random.integers(4, size=len(of))] + 0.5 * random.normal(size=(len(of), 8))
        for center, of in zip(centers, (label, shown), strict=True)
    )
    found = estimate_weights(a, b)
    assert found.verdict == "found" and "neighborhoods" in found.scorer
    assert found.weights[wrong].mean() < 0.2 < 0.5 < found.weights[~wrong].mean()


def test_raw_texts_are_encoded():
    random = np.random.default_rng(0)
    words = [f"{x}{y}{z}" for x in "bdfgklmnprst" for y in "aeiou" for z in "bdfgklmnprst"]
    topics = random.integers(len(words), size=(800, 6))
    texts = [" ".join(words[k] for k in row) for row in topics]
    partner, wrong = wrong_pairs(800, 0.4, 0)
    others = [" ".join(words[k].upper() + "x" for k in random.permutation(topics[row])) for row in partner]
    estimate = estimate_weights(texts, others)
    assert "n-grams" in estimate.scorer
    assert estimate.weights[wrong].mean() < estimate.weights[~wrong].mean() - 0.5


def test_invalid_rows_are_rejected_or_get_weight_zero():
    a, b, _ = features(0.4)
    b[[5, 9]] = np.nan
    with pytest.raises(UsageError, match="skip_invalid=True"):
        estimate_weights(a, b)
    weights = estimate_weights(a, b, skip_invalid=True).weights
    assert (weights[[5, 9]] == 0).all() and len(weights) == 900


def test_too_few_valid_pairs_or_different_ids_are_rejected():
    random = np.random.default_rng(0)
    a = random.normal(size=(200, 6))
    gaps = np.where(np.arange(200)[:, None] < 180, np.nan, a)
    with pytest.raises(UsageError, match="50"):
        estimate_weights(gaps, a, skip_invalid=True)
    with pytest.raises(UsageError, match="ids"):
        estimate_weights(a, a, ids=np.arange(200) % 2)


def test_copies_of_a_wrong_pair_are_scored_by_a_fit_without_them():
    """A pair that stands there 30 times would vouch for itself."""
    a, b, wrong = features(0.4)
    copied = np.repeat(np.flatnonzero(wrong)[:20], 30)
    weights = estimate_weights(np.concatenate([a, a[copied]]), np.concatenate([b, b[copied]])).weights
    assert weights[900:].mean() < 0.3


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda a, b: (a, b[:-1]), "900 and 899"),
        (lambda a, b: (a[:20], b[:20]), "at least 50 pairs"),
        (lambda a, b: (a, b[None]), "shape"),
    ],
)
def test_columns_that_do_not_match_are_rejected(change, sentence):
    a, b, _ = features(0.2)
    with pytest.raises(UsageError, match=sentence):
        estimate_weights(*change(a, b))


def test_warm_up_weights_are_estimated_once_and_saved():
    a, b, _ = features(0.4)
    warm_up = WarmUpWeights(900, at_step=2)
    for step in range(4):
        due = warm_up.due()
        assert due == (step == 2)
        if due:
            warm_up.update(torch.from_numpy(a), torch.from_numpy(b))
        assert (warm_up(torch.arange(900)) == 1).all() == (step < 2)
    weights = warm_up(torch.arange(900)).numpy()
    assert np.array_equal(weights, estimate_weights(a, b).weights)
    resumed = WarmUpWeights(900, at_step=2)
    resumed.load_state_dict(warm_up.state_dict())
    assert torch.equal(resumed.weights, warm_up.weights) and not resumed.due()
    with pytest.raises(UsageError, match="900 pairs, got 10"):
        warm_up.update(torch.zeros(10, 2), torch.zeros(10, 2))


def test_old_names_warn_and_work():
    with pytest.deprecated_call():
        assert rince.trust.trust_of is weights_of
