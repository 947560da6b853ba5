"""Trust in labels: an item that looks like another class than the one it is said to be of."""

import numpy as np
import pytest
import torch

from rince.errors import UsageError
from rince.trust import judge_labels, trust_of
from rince.trust.labels import label_scores


def clusters(rate, seed=0, n=900, classes=6):
    draws = torch.Generator().manual_seed(seed)
    truth = torch.arange(n) % classes
    z = 1.5 * torch.eye(classes, 8)[truth] + 0.3 * torch.randn(n, 8, generator=draws)
    wrong = torch.rand(n, generator=draws) < rate
    other = (truth + 1 + (torch.rand(n, generator=draws) * (classes - 1)).long()) % classes
    return z, torch.where(wrong, other, truth), wrong.numpy()


def test_wrong_labels_are_found():
    z, labels, wrong = clusters(0.3)
    trust = trust_of(judge_labels(z, labels, torch.arange(900) % 2))
    assert trust[wrong].mean() < 0.1 and trust[~wrong].mean() > 0.9


def test_right_labels_are_all_trusted_and_unknown_ones_not_doubted():
    z, labels, _ = clusters(0.0)
    assert (trust_of(judge_labels(z, labels)) == 1).all()
    z, labels, _ = clusters(0.3)
    labels[:20] = -1
    assert trust_of(judge_labels(z, labels))[:20].min() > 0.9


def test_scores_are_mean_cosines():
    z = torch.nn.functional.normalize(torch.randn(7, 4, generator=torch.Generator().manual_seed(1)), dim=1)
    labels = torch.tensor([0, 0, 1, 1, 1, 3, 0])
    own, others, with_rival = label_scores(z, labels, 4)
    expected, null, beaten = [], [], []
    for i in range(7):
        same = [float(z[i] @ z[j]) for j in range(7) if j != i and labels[j] == labels[i]]
        expected.append(np.mean(same) if same else np.nan)
        others_of_i = [c for c in (0, 1, 3) if c != labels[i]]
        null += [np.mean([float(z[i] @ z[j]) for j in range(7) if labels[j] == c]) for c in others_of_i]
        beaten.append(bool(same) and max(null[-2:]) > expected[-1])
    assert np.allclose(own, expected, atol=1e-6, equal_nan=True)
    assert np.allclose(others, null, atol=1e-6)
    assert 0 < with_rival < 1 and with_rival == pytest.approx(np.mean(beaten))


def test_labels_confused_with_similar_ones_are_allowed_for():
    """A model that learned from confused labels finds them fitting: what it can count is whom another fits better."""
    random = np.random.default_rng(0)
    true = random.integers(4, size=1200)
    centres = np.eye(4) + 0.8 * np.eye(4)[[1, 0, 3, 2]]  # 0 is like 1, and 2 like 3
    z = centres[true] + 0.25 * random.normal(size=(1200, 4))
    said = np.where(random.random(1200) < 0.2, true ^ 1, true)
    found = judge_labels(z, said)
    assert not found.noise_found and found.cannot_tell and found.interval[1] > (said != true).mean()
    assert any("fit another class better" in remark for remark in found.remarks)
    assert (trust_of(found) == 1).all()


def test_labels_of_one_class_are_refused():
    with pytest.raises(UsageError, match="of 2 classes or more"):
        judge_labels(torch.randn(100, 4), torch.zeros(100, dtype=torch.int64))
    with pytest.raises(UsageError, match="one whole number per item"):
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
