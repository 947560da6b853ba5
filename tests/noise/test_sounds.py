import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rince.noise.pairs import Overdub, Shift, Silence


@given(st.integers(2, 60), st.floats(0, 1), st.integers(0, 99))
def test_every_noise_hits_its_share_and_says_where(n, rate, seed):
    for noise in (Overdub(rate, seed), Shift(rate, 0.5, 2.0, seed), Silence(rate, seed)):
        found = noise(n)
        assert found.hit.sum() == round(rate * n)
        assert ((found.partner != np.arange(n)) | (found.shift != 0) | found.silent).tolist() == found.hit.tolist()
        assert noise(n).digest() == found.digest() == str(found.record()["sha256"])


@given(st.integers(10, 60), st.integers(0, 99))
def test_overdubbing_exchanges_sounds_and_can_avoid_the_own_class(n, seed):
    labels = np.arange(n) % 5
    found = Overdub(1.0, seed, other_class=True)(n, labels)
    assert sorted(found.partner) == list(range(n)) and (labels[found.partner] != labels).all()


def test_shifts_go_both_ways_within_their_bounds():
    shift = Shift(0.5, 1.0, 3.0)(4000).shift
    hit = shift[shift != 0]
    assert np.abs(hit).min() >= 1.0 and np.abs(hit).max() <= 3.0 and abs((hit > 0).mean() - 0.5) < 0.05
    assert abs(np.abs(hit).mean() - 2.0) < 0.05


def test_another_seed_is_another_noise():
    assert len({Overdub(0.5, seed)(100).digest() for seed in range(5)}) == 5


def test_wrong_values_are_told():
    with pytest.raises(ValueError, match=r"must be in \[0, 1\], got 2"):
        Silence(2)
    with pytest.raises(ValueError, match="0 <= least <= most"):
        Shift(0.5, 3.0, 1.0)
    with pytest.raises(ValueError, match="other_class needs the class of every video"):
        Overdub(0.5, other_class=True)(4, [-1, 0, 1, 0])
