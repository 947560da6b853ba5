"""Audits and weights from embeddings: every fold has a space of its own; wrong labels."""

import numpy as np
import pytest
import torch

from rince.audit.relative import References
from rince.errors import UsageError
from rince.noise.pairs import wrong_pairs
from rince.trust import judge_embeddings, judge_labels, weights_from_embeddings, weights_of
from rince.trust.cross_fitted import fold_scores, label_scores


def spaces(rate, seed=0, n=800, folds=2):
    """Pairs embedded by two models: the second one's space is turned, so that rows of different folds mean nothing."""
    draws = torch.Generator().manual_seed(seed)
    z = torch.randn(n, 12, generator=draws)
    a, b = (z + 0.4 * torch.randn(n, 12, generator=draws) for _ in range(2))
    partner, wrong = wrong_pairs(n, rate, seed)
    b = b[torch.from_numpy(partner)]
    fold = torch.arange(n) % folds
    turn, _ = torch.linalg.qr(torch.randn(12, 12, generator=draws))
    a, b = (torch.where(fold[:, None] == 1, x @ turn, x) for x in (a, b))
    return a, b, fold, wrong


def test_wrong_pairs_are_told_apart_within_folds():
    a, b, fold, wrong = spaces(0.4)
    found = judge_embeddings(a, b, fold)
    assert abs(found.noise_rate - 0.4) < 0.05
    weights = weights_from_embeddings(a, b, fold)
    assert weights.dtype == torch.float32 and weights.shape == (800,)
    assert weights[wrong].mean() < 0.1 and weights[~wrong].mean() > 0.9
    assert torch.equal(weights, weights_from_embeddings(a.numpy(), b.numpy(), fold.numpy()))


def test_without_noise_every_weight_is_one():
    a, b, fold, _ = spaces(0.0)
    assert (weights_from_embeddings(a, b, fold) == 1).all()


def test_names_of_folds_and_scale_of_embeddings_do_not_matter():
    a, b, fold, _ = spaces(0.4)
    names = np.where(fold.numpy() == 0, "first", "second")
    assert torch.equal(weights_from_embeddings(a, b, fold), weights_from_embeddings(2 * a, 8 * b, names))


def test_scores_are_those_of_the_towers_of_an_audit():
    a, b, fold, _ = spaces(0.2)
    a, b = (torch.nn.functional.normalize(x[fold == 0], dim=1) for x in (a, b))
    scored = fold_scores(a, b, [], 0.1, (0, 0), 1000)
    rows = np.arange(len(a))
    expected = References(a.numpy(), b.numpy(), [rows], 0.1, skip_best=False).score(a.numpy(), b.numpy(), [rows])
    assert len(scored.null) == 1000 and np.allclose(scored.scores, expected, atol=1e-4)


def test_equal_items_are_no_mismatched_pairs():
    """With only two different items, a mismatched pair is always one of both."""
    one, other = torch.eye(2)
    a = torch.stack([one, other]).repeat(60, 1)
    scored = fold_scores(a, a.clone(), [], 0.1, (0, 0), 500)
    assert scored.null.max() < scored.scores.min()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda a, b, f: (a, b[:, :5], f), "embeddings of one space"),
        (lambda a, b, f: (a, b, f[:-1]), r"one number per pair: expected \(800,\), got \(799,\)"),
        (lambda a, b, f: (a, b, torch.arange(800) // 10), "at least 50 pairs, got 10"),
        (lambda a, b, f: (a.log(), b, f), "a has NaN or infinite values in row 0"),
        (lambda a, b, f: (a[0], b[0], f), r"shape \(pairs, width\)"),
    ],
)
def test_invalid_embeddings_and_folds_are_rejected(change, sentence):
    a, b, fold, _ = spaces(0.2)
    a[0] = -1
    with pytest.raises(UsageError, match=sentence):
        weights_from_embeddings(*change(a, b, fold))


# --- labels ---


def clusters(rate, seed=0, n=900, classes=6):
    draws = torch.Generator().manual_seed(seed)
    truth = torch.arange(n) % classes
    z = 1.5 * torch.eye(classes, 8)[truth] + 0.3 * torch.randn(n, 8, generator=draws)
    wrong = torch.rand(n, generator=draws) < rate
    other = (truth + 1 + (torch.rand(n, generator=draws) * (classes - 1)).long()) % classes
    return z, torch.where(wrong, other, truth), wrong.numpy()


def test_wrong_labels_are_found():
    z, labels, wrong = clusters(0.3)
    weights = weights_of(judge_labels(z, labels, torch.arange(900) % 2))
    assert weights[wrong].mean() < 0.1 and weights[~wrong].mean() > 0.9


def test_weights_of_right_and_unknown_labels_are_high():
    z, labels, _ = clusters(0.0)
    assert (weights_of(judge_labels(z, labels)) == 1).all()
    z, labels, _ = clusters(0.3)
    labels[:20] = -1
    assert weights_of(judge_labels(z, labels))[:20].min() > 0.9


def test_scores_are_mean_cosines():
    z = torch.nn.functional.normalize(torch.randn(7, 4, generator=torch.Generator().manual_seed(1)), dim=1)
    labels = torch.tensor([0, 0, 1, 1, 1, 3, 0])
    own, others, other_class_better = label_scores(z, labels, 4)
    expected, null, beaten = [], [], []
    for i in range(7):
        same = [float(z[i] @ z[j]) for j in range(7) if j != i and labels[j] == labels[i]]
        expected.append(np.mean(same) if same else np.nan)
        others_of_i = [c for c in (0, 1, 3) if c != labels[i]]
        null += [np.mean([float(z[i] @ z[j]) for j in range(7) if labels[j] == c]) for c in others_of_i]
        beaten.append(bool(same) and max(null[-2:]) > expected[-1])
    assert np.allclose(own, expected, atol=1e-6, equal_nan=True)
    assert np.allclose(others, null, atol=1e-6)
    assert 0 < other_class_better < 1 and other_class_better == pytest.approx(np.mean(beaten))


def test_labels_confused_with_similar_ones_are_allowed_for():
    """A model that learned from confused labels finds them fitting: what it can count is whom another fits better."""
    random = np.random.default_rng(0)
    true = random.integers(4, size=1200)
    centers = np.eye(4) + 0.8 * np.eye(4)[[1, 0, 3, 2]]  # 0 is like 1, and 2 like 3
    z = centers[true] + 0.25 * random.normal(size=(1200, 4))
    said = np.where(random.random(1200) < 0.2, true ^ 1, true)
    found = judge_labels(z, said)
    assert not found.noise_found and found.cannot_tell and found.interval[1] > (said != true).mean()
    assert "fit another class better" in found.summary()
    assert (weights_of(found) == 1).all()


def test_labels_of_one_class_are_refused():
    with pytest.raises(UsageError, match="at least 2 classes"):
        judge_labels(torch.randn(100, 4), torch.zeros(100, dtype=torch.int64))
    with pytest.raises(UsageError, match="one integer per item"):
        judge_labels(torch.randn(100, 4), torch.zeros(100))


def test_mismatched_labels_that_hit_the_true_one_are_accounted_for():
    """Of four labels, every third mismatched one of a wrong label is the true one."""
    random = np.random.default_rng(0)
    true = random.integers(4, size=1600)
    z = np.eye(4)[true] + 0.3 * random.normal(size=(1600, 4))
    said = np.where(random.random(1600) < 0.4, (true + random.integers(1, 4, size=1600)) % 4, true)
    found = judge_labels(z, said)
    assert found.noise_rate == pytest.approx((said != true).mean(), abs=0.04)
    assert found.interval[0] <= (said != true).mean() <= found.interval[1]
