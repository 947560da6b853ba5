import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rince.audit.binomial import at_most
from rince.audit.rate import EDGES, histogram, noise_rate, p_values, resampled, storey


def made_up_p_values(n, rate, shift, seed):
    """Wrong pairs score like strangers, right ones ``shift`` deviations higher."""
    random = np.random.default_rng(seed)
    wrong = np.arange(n) < round(rate * n)
    scores = random.normal(np.where(wrong, 0, shift), 1).astype(np.float32)
    return p_values(scores, random.normal(0, 1, 200_000).astype(np.float32))


@settings(max_examples=100, deadline=None)
@given(
    scores=st.lists(st.floats(-2, 2, width=16), min_size=1, max_size=30),
    null=st.lists(st.floats(-2, 2, width=16), min_size=1, max_size=30),
)
def test_a_p_value_is_the_share_of_strangers_above_with_ties_counted_half(scores, null):
    found = p_values(np.array(scores, np.float32), np.array(null, np.float32))
    slow = [(sum(o > s for o in null) + sum(o == s for o in null) / 2 + 0.5) / (len(null) + 1) for s in scores]
    assert np.allclose(found, slow, atol=1e-6)


def test_p_values_of_strangers_are_uniform():
    p = made_up_p_values(50_000, 1.0, 0, 0)
    assert np.abs(np.histogram(p, 10, (0, 1))[0] / 5000 - 1).max() < 0.06


@pytest.mark.parametrize("shift", [3.0, 5.0])
@pytest.mark.parametrize("rate", [0.1, 0.4, 0.9])
def test_the_rate_is_found_and_lies_in_its_interval(rate, shift):
    errors, inside = [], 0
    for seed in range(3):
        found = noise_rate(made_up_p_values(4000, rate, shift, seed), resamples=60)
        errors.append(found.value - rate)
        inside += found.low <= rate <= found.high
        assert found.found
    assert np.abs(np.mean(errors)) < 0.015 and inside >= 2


@pytest.mark.parametrize("shift", [2.5, 4.0, 6.0])
def test_clean_pairs_have_no_noise_even_if_some_score_low(shift):
    for seed in range(3):
        found = noise_rate(made_up_p_values(4000, 0.0, shift, seed), resamples=60)
        assert not found.found and found.low == 0 and found.value <= 0.01
        assert not found.chance.any() and not found.cautious.any()


def test_a_rate_that_might_be_chance_is_not_found():
    found = noise_rate(made_up_p_values(50, 0.1, 4.0, 1), resamples=60)
    assert found.value > 0.03 and not found.found and found.low == 0 and found.high > 0.15


@pytest.mark.parametrize("n, most", [(50, 0.0711), (4000, 0.0009218)])
def test_where_no_pair_looks_wrong_some_still_may_be(n, most):
    found = noise_rate(made_up_p_values(n, 0.0, 6.0, 0), resamples=10)
    assert found.value < 1e-6 and found.low == 0 and found.high == pytest.approx(most, rel=1e-3)


def test_the_interval_of_few_pairs_is_no_narrower_than_the_binomial_one():
    found = noise_rate(made_up_p_values(100, 0.1, 6.0, 0), resamples=60)
    assert found.high >= at_most(100 * found.value, 100) > found.value + 0.05


def test_pairs_that_come_up_often_are_no_more_sure_than_once():
    p = made_up_p_values(300, 0.3, 3.0, 0)
    once, often = noise_rate(p), noise_rate(np.repeat(p, 8), clusters=np.repeat(np.arange(300), 8))
    assert often.value == pytest.approx(once.value, abs=1e-3)
    assert often.high - often.low == pytest.approx(once.high - once.low, rel=0.2)
    assert (often.cautious.sum()) == pytest.approx(once.cautious.sum(), rel=0.1)
    nothing = noise_rate(np.repeat(made_up_p_values(60, 0.0, 6.0, 0), 20), clusters=np.repeat(np.arange(60), 20))
    assert nothing.high == pytest.approx(at_most(0, 60))


def test_lots_of_clusters_vary_as_much_as_the_clusters_themselves(monkeypatch):
    p = np.repeat(made_up_p_values(900, 0.3, 3.0, 0), 3)
    clusters = np.repeat(np.arange(900), 3)
    wrong = []
    for lots in (900, 100):
        monkeypatch.setattr("rince.audit.rate.LOTS", lots)
        counts = resampled(p, clusters, 3000, np.random.default_rng(0))
        assert (counts % 3 == 0).all() and (counts.sum(1) == 2700).all()
        wrong.append(counts[:, EDGES[1:] > 0.5].sum(1) / 2700)
    assert np.std(wrong[0]) == pytest.approx(np.sqrt(0.15 * 0.85 / 900), rel=0.1)
    assert np.std(wrong[1]) == pytest.approx(np.std(wrong[0]), rel=0.25)
    assert np.mean(wrong[1]) == pytest.approx((p > 0.5).mean(), abs=0.002)


def test_all_p_values_beat_a_threshold():
    """The mean squared error over seeds against Storey's at the median."""
    ours, theirs = [], []
    for seed in range(12):
        p = made_up_p_values(2000, 0.5, 4.0, seed)
        ours.append(noise_rate(p, resamples=2).value - 0.5)
        theirs.append(storey(p) - 0.5)
    assert np.square(ours).mean() < 0.6 * np.square(theirs).mean()


def test_suspicion_never_falls_with_the_p_value_and_caution_is_below():
    found = noise_rate(made_up_p_values(4000, 0.3, 3.0, 0))
    assert (np.diff(found.chance) >= -1e-9).all() and found.chance[-1] > 0.9
    assert (found.cautious <= found.chance).all()


def test_the_histogram_counts_every_pair_once():
    p = np.random.default_rng(0).random(10_000).astype(np.float32)
    assert histogram(p).sum() == 10_000 and len(histogram(p)) == len(EDGES) - 1
    assert histogram(np.array([0.0, 1.0], np.float32)).sum() == 2


def test_storey_refuses_a_threshold_outside():
    with pytest.raises(ValueError, match="threshold"):
        storey(np.zeros(3, np.float32), 1.0)
