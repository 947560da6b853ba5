import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rince.noise import wrong_pairs


@settings(max_examples=200, deadline=None)
@given(n=st.integers(2, 300), rate=st.floats(0, 1), seed=st.integers(0, 9))
def test_wrong_pairs_matches_the_rate_exactly(n, rate, seed):
    index, hit = wrong_pairs(n, rate, seed)
    assert hit.sum() == round(rate * n)
    assert ((index != np.arange(n)) == hit).all()
    if hit.sum() != 1:
        assert sorted(index) == list(range(n))


@settings(max_examples=200, deadline=None)
@given(sizes=st.lists(st.integers(1, 40), min_size=2, max_size=6), seed=st.integers(0, 9))
def test_new_partners_come_from_another_group(sizes, seed):
    groups = np.repeat(np.arange(len(sizes)), sizes)
    if 2 * max(sizes) > sum(sizes):
        with pytest.raises(ValueError, match="in one group"):
            wrong_pairs(len(groups), 1.0, seed, groups)
        return
    index, hit = wrong_pairs(len(groups), 1.0, seed, groups)
    assert hit.all() and (groups[index] != groups).all() and sorted(index) == list(range(len(groups)))


def test_the_same_seed_gives_the_same_pairs_and_another_seed_others():
    first, again, other = wrong_pairs(100, 0.4, 1), wrong_pairs(100, 0.4, 1), wrong_pairs(100, 0.4, 2)
    assert (first.partner == again.partner).all() and (first.partner != other.partner).any()


@pytest.mark.parametrize("n, rate", [(1, 0.5), (10, -0.1), (10, 1.1), (10, float("nan"))])
def test_bad_input_is_refused(n, rate):
    with pytest.raises(ValueError):
        wrong_pairs(n, rate)
