import numpy as np
import pytest

from rince.audit import Scored, judge
from rince.audit.estimate.accidents import not_by_accident
from rince.audit.estimate.places import compact, counted, places


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
    counts = compact(counted(places(scores, np.sort(null)), len(null)))
    kept = not_by_accident(null, counts, len(scores), 1.0)
    assert (null[kept] > 2.5).mean() < 0.15 * rate and np.array_equal(known.null, null[kept])


def test_scores_of_single_things_stay_as_they_are():
    null = np.ones(60, np.float32)
    assert not_by_accident(null, compact(counted(np.full(60, 3, np.int32), 60)), 60, 0.0).all()
