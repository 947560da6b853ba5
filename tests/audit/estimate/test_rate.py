import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rince.audit.estimate.binomial import at_most
from rince.audit.estimate.rate import (
    FOR_FLAGS,
    FOR_INTERVAL,
    hard_share,
    noise_rate,
    null_cells,
    p_values,
    storey,
    upper_bound,
)
from rince.audit.estimate.shapes import CUTS, cells


def made_up_p_values(n, rate, shift, seed, deviation=1.0, mismatched=200_000):
    """Wrong pairs score like mismatched ones, right ones ``shift`` deviations higher."""
    random = np.random.default_rng(seed)
    wrong = np.arange(n) < round(rate * n)
    scores = random.normal(np.where(wrong, 0, shift), np.where(wrong, 1, deviation)).astype(np.float32)
    return p_values(scores, random.normal(0, 1, mismatched).astype(np.float32))


@settings(max_examples=100, deadline=None)
@given(
    scores=st.lists(st.floats(-2, 2, width=16), min_size=1, max_size=30),
    null=st.lists(st.floats(-2, 2, width=16), min_size=1, max_size=30),
)
def test_a_p_value_is_the_share_of_mismatched_pairs_above_with_ties_counted_half(scores, null):
    found = p_values(np.array(scores, np.float32), np.array(null, np.float32))
    slow = [(sum(o > s for o in null) + sum(o == s for o in null) / 2 + 0.5) / (len(null) + 1) for s in scores]
    assert np.allclose(found, slow, atol=1e-6)


def test_p_values_of_mismatched_pairs_are_uniform():
    p = made_up_p_values(50_000, 1.0, 0, 0)
    assert np.abs(np.histogram(p, 10, (0, 1))[0] / 5000 - 1).max() < 0.06


@pytest.mark.parametrize("shift", [3.5, 5.0])
@pytest.mark.parametrize("rate", [0.1, 0.4, 0.9])
def test_the_rate_is_found_and_lies_in_its_interval(rate, shift):
    errors, inside = [], 0
    for seed in range(3):
        found = noise_rate(made_up_p_values(4000, rate, shift, seed))
        errors.append(found.value - rate)
        inside += found.low <= rate <= found.high
        assert found.low > rate / 3 or (rate == 0.9 and shift == 3.5), "400 right pairs so near are too few to be sure"
    assert np.abs(np.mean(errors)) < 0.015 and inside >= 2


@pytest.mark.parametrize("shift", [0.5, 1.0, 1.5, 2.5, 4.0, 6.0])
@pytest.mark.parametrize("deviation", [0.7, 1.0, 1.5])
def test_clean_pairs_are_never_accused_however_weak_the_scores(shift, deviation):
    for seed in range(2):
        found = noise_rate(made_up_p_values(3000, 0.0, shift, seed, deviation))
        assert found.low == 0


@pytest.mark.parametrize("kind", ["hard ones", "two kinds", "heavy tail"])
def test_clean_pairs_that_are_not_of_the_family_are_not_accused_either(kind):
    random, null = np.random.default_rng(0), np.random.default_rng(1).normal(size=100_000).astype(np.float32)
    spread = {
        "hard ones": np.where(random.random(3000) < 0.008, 0, 5),
        "two kinds": np.where(random.random(3000) < 0.3, 0.8, 2.5),
        "heavy tail": 2 + random.standard_t(3, 3000),
    }[kind]
    scores = (spread + (0 if kind == "heavy tail" else random.normal(size=3000))).astype(np.float32)
    assert noise_rate(p_values(scores, null)).low == 0


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.6])
def test_the_interval_of_weak_scores_holds_the_truth_by_being_wide(rate):
    for seed in range(3):
        found = noise_rate(made_up_p_values(2000, rate, 1.2, seed))
        assert found.low <= rate <= found.high and found.low < rate / 2


def test_a_rate_that_might_be_chance_is_not_found():
    found = noise_rate(made_up_p_values(50, 0.06, 4.0, 1))
    assert found.value > 0.02 and found.low == 0 and found.high > 0.12


@pytest.mark.parametrize("n, most", [(50, 0.0711), (4000, 0.0009218)])
def test_where_no_pair_looks_wrong_some_still_may_be(n, most):
    found = noise_rate(made_up_p_values(n, 0.0, 6.0, 0))
    assert found.value < most and found.low == 0 and most <= found.high < 2.5 * most


def test_the_interval_of_few_pairs_is_no_narrower_than_the_binomial_one():
    found = noise_rate(made_up_p_values(100, 0.1, 6.0, 0))
    assert found.high >= at_most(100 * found.value, 100) > found.value + 0.05


def test_pairs_that_come_up_often_are_no_more_sure_than_once():
    p = made_up_p_values(300, 0.3, 3.0, 0)
    once, often = noise_rate(p), noise_rate(np.repeat(p, 8), clusters=np.repeat(np.arange(300), 8))
    assert often.value == pytest.approx(once.value) and (often.low, often.high) == pytest.approx((once.low, once.high))
    assert often.cautious == pytest.approx(once.cautious)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 1000), rate=st.floats(0, 1), shift=st.floats(0, 5))
def test_there_is_always_room_for_the_wrong_pairs_that_there_are(seed, rate, shift):
    p = made_up_p_values(1000, rate, shift, seed, mismatched=20_000)
    counts = cells(p).astype(float)
    null = np.diff(_below(CUTS), prepend=0, append=1)
    floor, room = upper_bound(counts, null, 1000)
    assert room >= floor and room > np.round(rate, 3) - 0.06


def _below(z):
    from math import erf

    return np.array([(1 + erf(x / 2**0.5)) / 2 for x in z])


def test_cells_of_mismatched_pairs_that_tie_are_where_the_ties_are():
    null = np.repeat([0.0, 1.0], [600, 400]).astype(np.float32)
    found = null_cells(null)
    assert found.max() == pytest.approx(0.6) and np.sort(found)[-2] == pytest.approx(0.4)
    assert found.sum() == pytest.approx(1, abs=1e-6)


def test_the_more_right_pairs_overlap_the_more_of_them_may_be_hard():
    overlap = np.array([0.0, 0.05, 0.2, 1.0])
    worst, usual = (hard_share(overlap, allowed) for allowed in (FOR_INTERVAL, FOR_FLAGS))
    for shares in (worst, usual):
        assert shares[0] <= 0.01 and (np.diff(shares) > 0).all() and shares[-1] > 0.99
    assert (usual[:-1] < worst[:-1]).all()


def test_all_p_values_beat_a_threshold():
    """The mean squared error over seeds against Storey's at the median."""
    ours, theirs = [], []
    for seed in range(12):
        p = made_up_p_values(2000, 0.5, 4.0, seed)
        ours.append(noise_rate(p).value - 0.5)
        theirs.append(storey(p) - 0.5)
    assert np.square(ours).mean() < 0.6 * np.square(theirs).mean()


def test_suspicion_falls_with_the_score_and_caution_is_below():
    found = noise_rate(made_up_p_values(4000, 0.3, 3.5, 0))
    assert (np.diff(found.chance[4:]) <= 1e-9).all() and found.chance[8] > 0.9 and found.chance[-1] < 0.01
    assert (found.cautious <= found.chance).all()


def test_every_pair_is_counted_once():
    p = np.random.default_rng(0).random(10_000).astype(np.float32)
    assert cells(p).sum() == 10_000 and len(cells(p)) == len(CUTS) + 1
    assert cells(np.array([0.0, 1.0], np.float32)).tolist()[:: len(CUTS)] == [1, 1]


def test_storey_refuses_a_threshold_outside():
    with pytest.raises(ValueError, match="threshold"):
        storey(np.zeros(3, np.float32), 1.0)
