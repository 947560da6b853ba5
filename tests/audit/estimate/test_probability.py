import numpy as np
import pytest

from rince.audit.estimate.probability import suspects


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
    with pytest.raises(ValueError, match="fdr must lie in"):
        suspects(np.ones(3, np.float32), np.ones(3, np.float32), fdr)
