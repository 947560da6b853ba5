import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rince.audit import Scored, Verdict, judge
from rince.audit.estimate import last_flagged, null_correction, suspects
from rince.audit.rate import RankCounts, ranks


def test_the_list_is_the_longest_with_few_enough_expected_false_alarms():
    random = np.random.default_rng(0)
    scores = random.random(500).astype(np.float32)
    chance = (1 - scores) ** 2
    found, alarms = suspects(chance, scores, 0.2)
    slow = 0
    order = np.argsort(scores)
    for k in range(1, 501):
        right = 1 - chance[order[:k]].astype(float)
        if right.mean() <= 0.2 and (right.sum() + 2 * np.sqrt((right * (1 - right)).sum())) / k <= 0.3:
            slow = k
    assert len(found) == slow and (found == order[:slow]).all()
    assert np.isclose(alarms[-1], (1 - chance[found]).mean(), atol=1e-6) and alarms[-1] <= 0.2


def test_a_short_list_keeps_the_promise_too():
    """Twenty pairs at a probability of 0.9: two false alarms are expected, and four of twenty would be too many."""
    scores = np.arange(400, dtype=np.float32)
    nine_of_ten = np.full(400, 0.9, np.float32)
    short = np.where(scores < 20, nine_of_ten, 0)
    assert len(suspects(short, scores, 0.1001)[0]) == 0 and len(suspects(nine_of_ten, scores, 0.1001)[0]) == 400
    sure = np.where(scores < 5, np.float32(0.999), 0)
    assert len(suspects(sure, scores, 0.1)[0]) == 5, "what is certain may be said of a few pairs, too"


def test_lists_exceed_the_promise_by_half_in_few_cases_only():
    random = np.random.default_rng(0)
    shares = []
    for _ in range(600):
        chance = np.sort(random.beta(6, 0.6, 60).astype(np.float32))[::-1]
        wrong = random.random(60) < chance
        found = suspects(chance, np.arange(60, dtype=np.float32), 0.1)[0]
        shares += [(~wrong[found]).mean()] if len(found) else []
    assert len(shares) > 300 and np.mean(np.array(shares) > 0.15) < 0.06


def test_a_smaller_fdr_gives_the_beginning_of_the_same_list():
    scores = np.random.default_rng(1).random(300).astype(np.float32)
    short, long = (suspects(1 - scores, scores, fdr)[0] for fdr in (0.1, 0.3))
    assert 0 < len(short) < len(long) and (long[: len(short)] == short).all()


def test_nothing_is_flagged_where_nothing_is_suspected():
    assert len(suspects(np.zeros(9, np.float32), np.zeros(9, np.float32), 0.5)[0]) == 0


@pytest.mark.parametrize("fdr", [0, 1, -0.1, float("nan")])
def test_an_fdr_outside_is_refused(fdr):
    with pytest.raises(ValueError, match="fdr must be in"):
        suspects(np.ones(3, np.float32), np.ones(3, np.float32), fdr)


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_mismatched_pairs_that_are_right_by_chance_are_left_out(rate):
    """Two classes: what is mismatched with a wrong label is right."""
    random = np.random.default_rng(0)
    wrong = np.arange(3000) < 3000 * rate
    scores = random.normal(np.where(wrong, 0, 4), 1).astype(np.float32)
    by_chance = random.random(100_000) < rate
    null = random.normal(np.where(by_chance, 4, 0), 1).astype(np.float32)
    plain, known = judge(Scored(scores, null)), judge(Scored(scores, null, None, 1.0))
    assert known.interval[0] <= rate <= known.interval[1] and abs(known.noise_rate - rate) < 0.02
    assert abs(plain.noise_rate - rate) > 1.2 * abs(known.noise_rate - rate)
    counts = RankCounts.of(ranks(scores, np.sort(null)))
    kept = null_correction(null, counts, len(scores), 1.0)
    assert (null[kept] > 2.5).mean() < 0.15 * rate and np.array_equal(known.null, null[kept])


def test_scores_without_classes_stay_as_they_are():
    null = np.ones(60, np.float32)
    assert null_correction(null, RankCounts.of(np.full(60, 3)), 60, 0.0).all()


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.integers(0, 20), min_size=1, max_size=60),
    st.lists(st.integers(0, 16), min_size=21, max_size=21),
    st.sampled_from([0.05, 0.1, 0.25, 0.5]),
)
def test_flags_from_counts_of_ranks_are_those_of_the_sorted_list(rank, sixteenths, fdr):
    """Shares in sixteenths, so that sums are exact however they are added up."""
    rank = np.array(rank)
    probability_at = (np.sort(np.array(sixteenths))[::-1] / 16).astype(np.float32)
    counts = RankCounts.of(rank)
    end = last_flagged(counts.counts, probability_at[counts.rank], fdr)
    expected = np.isin(rank, counts.rank[:end])
    rows = suspects(probability_at[rank], rank.astype(np.float32), fdr)[0]
    assert set(np.flatnonzero(expected)) == set(rows)


def test_pairs_of_one_p_value_are_flagged_together():
    scores = np.arange(100, dtype=np.float32)
    p_values = np.repeat([0.9, 0.1], 50).astype(np.float32)
    rows, _ = suspects(np.where(p_values > 0.5, 0.95, 0.5).astype(np.float32), scores, 0.1, p_values)
    assert len(rows) == 50


def test_verdict_is_text_and_enum():
    assert Verdict.FOUND == "found" and str(Verdict.CANNOT_TELL) == "cannot tell"
    assert Verdict("none found") is Verdict.NONE_FOUND
