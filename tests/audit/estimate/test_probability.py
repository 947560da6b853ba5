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
        if (1 - chance[order[:k]]).mean() <= 0.2:
            slow = k
    assert len(found) == slow and (found == order[:slow]).all()
    assert np.isclose(alarms[-1], (1 - chance[found]).mean(), atol=1e-6) and alarms[-1] <= 0.2


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
