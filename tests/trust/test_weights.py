"""From an audit to weights: 1 - p_wrong, 0 for what was left out, and 1 for all where nothing is known against them."""

import numpy as np
import pytest

from rince.audit import audit
from rince.errors import UsageError
from rince.noise.pairs import wrong_pairs
from rince.trust import trust_of
from rince.trust.weights import check_weights


def columns(rate, seed=0, n=600):
    random = np.random.default_rng(seed)
    z = random.normal(size=(n, 16)).astype(np.float32)
    a, b = (z + 0.4 * random.normal(size=z.shape).astype(np.float32) for _ in range(2))
    partner, wrong = wrong_pairs(n, rate, seed)
    return a, b[partner], wrong


def test_wrong_pairs_weigh_little_and_right_ones_much():
    a, b, wrong = columns(0.3)
    found = audit(a, b)
    trust = trust_of(found)
    assert np.allclose(trust, 1 - found.p_wrong) and trust.dtype == np.float32
    assert trust[wrong].mean() < 0.1 < 0.9 < trust[~wrong].mean()


def test_without_noise_all_pairs_weigh_one():
    a, b, _ = columns(0.0)
    assert (trust_of(audit(a, b)) == 1).all()


def test_scores_that_tell_nothing_are_no_reason_to_mistrust_anybody():
    random = np.random.default_rng(0)
    a, b = random.normal(size=(2, 600, 16)).astype(np.float32)
    found = audit(a, b)
    assert found.useless
    assert (trust_of(found) == 1).all()


def test_pairs_that_the_audit_left_out_weigh_nothing():
    a, b, _ = columns(0.3)
    a[[3, 70]] = np.nan
    trust = trust_of(audit(a, b, drop_bad=True))
    assert (trust[[3, 70]] == 0).all() and np.isfinite(trust).all()


@pytest.mark.parametrize(
    ("weights", "sentence"),
    [
        ([0.5, np.nan], "has no number in row 1, where a trust from 0 to 1 should be"),
        ([0.5, np.inf], "has inf in row 1"),
        ([0.5, 1.5], r"must lie in \[0, 1\], got 1.5 in row 1"),
        ([-0.1, 1], r"must lie in \[0, 1\], got -0.1 in row 0"),
        ([0.0, 0.0], "is 0, so there is nothing left to learn from"),
    ],
)
def test_weights_that_are_none_are_refused(weights, sentence):
    with pytest.raises(UsageError, match=sentence):
        check_weights(np.array(weights), "t.csv")
