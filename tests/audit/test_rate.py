import math
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rince.audit import noise_rate, p_values, storey
from rince.audit.rate import (
    CUTS,
    DEVIATIONS,
    MEANS,
    SLANTS,
    RankCounts,
    beta_below,
    cell_counts,
    densities,
    hard_share,
    normal_scores,
    null_cells,
    p_of_kept,
    p_of_ranks,
    ranks,
    upper_bound,
    upper_share,
)


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
def test_p_value_counts_ties_half(scores, null):
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
def test_clean_pairs_outside_the_model_family_are_not_flagged(kind):
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


def test_small_sample_interval_covers_the_binomial():
    found = noise_rate(made_up_p_values(100, 0.1, 6.0, 0))
    assert found.high >= upper_share(100 * found.value, 100) > found.value + 0.05


def test_pairs_that_come_up_often_are_no_more_sure_than_once():
    p = made_up_p_values(300, 0.3, 3.0, 0)
    once, often = noise_rate(p), noise_rate(np.repeat(p, 8), clusters=np.repeat(np.arange(300), 8))
    assert often.value == pytest.approx(once.value) and (often.low, often.high) == pytest.approx((once.low, once.high))
    assert often.probability == pytest.approx(once.probability)


@settings(max_examples=50, deadline=None)
@given(seed=st.integers(0, 1000), rate=st.floats(0, 1), shift=st.floats(0, 5))
def test_there_is_always_room_for_the_wrong_pairs_that_there_are(seed, rate, shift):
    p = made_up_p_values(1000, rate, shift, seed, mismatched=20_000)
    counts = cell_counts(p).astype(float)
    null = np.diff(_below(CUTS), prepend=0, append=1)
    room, upper = upper_bound(counts, null, 1000)
    assert upper >= room and upper > np.round(rate, 3) - 0.06


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
    shares = hard_share(overlap)
    assert shares[0] <= 0.01 and (np.diff(shares) > 0).all() and shares[-1] > 0.99


def test_all_p_values_beat_a_threshold():
    """The mean squared error over seeds against Storey's at the median."""
    ours, theirs = [], []
    for seed in range(12):
        p = made_up_p_values(2000, 0.5, 4.0, seed)
        ours.append(noise_rate(p).value - 0.5)
        theirs.append(storey(p) - 0.5)
    assert np.square(ours).mean() < 0.6 * np.square(theirs).mean()


def test_probability_falls_with_the_score():
    found = noise_rate(made_up_p_values(4000, 0.3, 3.5, 0))
    assert (
        (np.diff(found.probability[4:]) <= 1e-9).all() and found.probability[8] > 0.9 and found.probability[-1] < 0.01
    )


def test_every_pair_is_counted_once():
    p = np.random.default_rng(0).random(10_000).astype(np.float32)
    assert cell_counts(p).sum() == 10_000 and len(cell_counts(p)) == len(CUTS) + 1
    assert cell_counts(np.array([0.0, 1.0], np.float32)).tolist()[:: len(CUTS)] == [1, 1]


def test_storey_refuses_a_threshold_outside():
    with pytest.raises(ValueError, match="threshold"):
        storey(np.zeros(3, np.float32), 1.0)


scores_of = st.lists(st.integers(0, 12), min_size=1, max_size=40)


def slow_p(score, null):
    """Mismatched pairs that score as high or higher; ties count half."""
    return (sum(other > score for other in null) + 0.5 * sum(other == score for other in null) + 0.5) / (len(null) + 1)


@settings(max_examples=200, deadline=None)
@given(scores_of, scores_of, st.lists(st.booleans(), min_size=40, max_size=40))
def test_p_values_follow_from_ranks_also_without_some_of_the_null(scores, null, keep):
    scores, ordered = np.array(scores, np.float32), np.sort(np.array(null, np.float32))
    kept = np.array(keep[: len(ordered)])
    rank = ranks(scores, ordered)
    assert np.allclose(p_of_ranks(rank, len(ordered)), [slow_p(s, ordered) for s in scores])
    assert np.allclose(p_of_kept(rank, ordered, kept), [slow_p(s, ordered[kept]) for s in scores])


def test_counts_of_parts_add_up_and_fill_the_same_cell_counts():
    random = np.random.default_rng(0)
    scores, ordered = random.normal(size=5000).astype(np.float32), np.sort(random.normal(size=800)).astype(np.float32)
    rank = ranks(scores, ordered)
    whole = RankCounts.total([RankCounts.of(part) for part in np.split(rank, [10, 10, 3000])])
    assert whole.pairs == 5000
    assert (cell_counts(p_of_ranks(whole.rank, 800), whole.counts) == cell_counts(p_of_ranks(rank, 800))).all()


def test_every_density_is_a_distribution():
    found = densities()
    assert found.shape == (len(MEANS) * len(DEVIATIONS) * len(SLANTS), len(CUTS) + 1)
    assert found.min() >= 0 and np.allclose(found.sum(1), 1, atol=1e-5)


@pytest.mark.parametrize("mean, deviation", [(0, 0), (10, 5), (25, 12), (50, 17)])
def test_a_density_without_slant_is_normal(mean, deviation):
    upright = int(np.flatnonzero(SLANTS == 0)[0])
    found = densities().reshape(len(SLANTS), len(MEANS), len(DEVIATIONS), -1)[upright, mean, deviation]
    normal = NormalDist(MEANS[mean], DEVIATIONS[deviation])
    assert np.allclose(np.cumsum(found)[:-1], [normal.cdf(cut) for cut in CUTS], atol=1e-4)


@pytest.mark.parametrize("slant", [-5.0, 2.0, 20.0])
def test_a_slanted_density_is_what_drawing_from_it_gives(slant):
    random = np.random.default_rng(0)
    first, second = random.normal(size=(2, 200_000))
    delta = slant / np.sqrt(1 + slant**2)
    drawn = delta * np.abs(first) + np.sqrt(1 - delta**2) * second
    drawn = (drawn - drawn.mean()) / drawn.std()
    mean, deviation = 14, 9
    counts = np.bincount(np.searchsorted(CUTS, MEANS[mean] + DEVIATIONS[deviation] * drawn), minlength=len(CUTS) + 1)
    which = int(np.flatnonzero(slant == SLANTS)[0])
    found = densities().reshape(len(SLANTS), len(MEANS), len(DEVIATIONS), -1)[which, mean, deviation]
    assert np.abs(counts / 200_000 - found).max() < 0.004


def test_normal_scores_put_small_p_values_high():
    p = np.array([0.0013499, 0.5, 0.8413447], np.float32)
    assert np.allclose(normal_scores(p), [3, 0, -1], atol=1e-3)
    assert cell_counts(p).nonzero()[0].tolist() == sorted(np.searchsorted(CUTS, normal_scores(p)).tolist())


def chance_of_at_most(count, n, share):
    """The binomial tail, term by term; far below the count there is nothing to add."""
    i = np.arange(max(0, count - 40_000), count + 1, dtype=np.float64)
    ways = math.lgamma(n + 1) - np.array([math.lgamma(x + 1) + math.lgamma(n - x + 1) for x in i])
    return np.exp(ways + i * math.log(share) + (n - i) * math.log1p(-share)).sum()


@pytest.mark.parametrize("n, count", [(5, 0), (5, 4), (50, 1), (300, 90), (1797, 180), (10**6, 3), (10**7, 2_000_000)])
def test_as_few_would_be_seen_once_in_forty_times(n, count):
    assert chance_of_at_most(count, n, upper_share(count, n)) == pytest.approx(0.025, rel=1e-4)


def test_nothing_seen_is_not_nothing_there():
    assert upper_share(0, 50) == pytest.approx(1 - 0.025 ** (1 / 50), rel=1e-8) == pytest.approx(0.0711, abs=1e-4)
    assert upper_share(0, 10**7) == pytest.approx(1 - 0.025**1e-7, rel=1e-8)
    assert upper_share(50, 50) == 1


def test_counts_between_whole_ones_lie_between():
    bounds = [upper_share(count, 60) for count in np.linspace(0, 60, 241)]
    assert (np.diff(bounds) > 0).sum() == 240 and upper_share(59.7, 60) > 0.99
    assert beta_below(0.0, 2, 3) == 0 and beta_below(1.0, 2, 3) == 1
    assert beta_below(0.3, 1, 1) == pytest.approx(0.3) and beta_below(0.7, 2, 1) == pytest.approx(0.49)
