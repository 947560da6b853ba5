import pytest
from hypothesis import given
from hypothesis import strategies as st

from rince.losses import schedules


@given(st.floats(0, 1), st.floats(0, 1), st.floats(-0.5, 1.5))
def test_schedules_start_and_end_where_they_say_and_stay_between(start, end, progress):
    for schedule in (schedules.linear(start, end), schedules.cosine(start, end)):
        assert schedule(0) == pytest.approx(start) and schedule(1) == pytest.approx(end)
        assert min(start, end) - 1e-12 <= schedule(progress) <= max(start, end) + 1e-12
    assert schedules.constant(start)(progress) == start


def test_linear_is_the_papers_warm_up_by_default():
    assert (
        schedules.linear()(0) == 0.01
        and schedules.linear()(1) == 0.4
        and schedules.linear()(0.5) == pytest.approx(0.205)
    )


def test_cosine_is_flat_at_the_ends():
    q = schedules.cosine(0, 1)
    assert q(0.01) < 0.001 and q(0.99) > 0.999 and q(0.5) == pytest.approx(0.5)
