import numpy as np
import pytest

from rince.audit import Scored, judge
from rince.audit.estimate.accidents import without_accidents


@pytest.mark.parametrize("rate", [0.1, 0.3])
def test_mismatched_pairs_that_are_right_by_accident_are_left_out(rate):
    """Two classes: what is mismatched with a wrong label is right."""
    random = np.random.default_rng(0)
    wrong = np.arange(3000) < 3000 * rate
    scores = random.normal(np.where(wrong, 0, 4), 1).astype(np.float32)
    right_by_accident = random.random(100_000) < rate
    null = random.normal(np.where(right_by_accident, 4, 0), 1).astype(np.float32)
    plain, known = judge(Scored(scores, null)), judge(Scored(scores, null, None, 1.0))
    assert known.interval[0] <= rate <= known.interval[1] and abs(known.noise_rate - rate) < 0.02
    assert abs(plain.noise_rate - rate) > 1.2 * abs(known.noise_rate - rate)
    assert (without_accidents(Scored(scores, null, None, 1.0)).null > 2.5).mean() < 0.15 * rate


def test_scores_of_single_things_stay_as_they_are():
    scored = Scored(np.zeros(60, np.float32), np.ones(60, np.float32))
    assert without_accidents(scored) is scored
