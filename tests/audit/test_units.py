import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rince.audit import units as module
from rince.audit.shards.runner import LocalRunner
from rince.audit.units import count_units, equal_pairs, joined, together


def slow_components(keys):
    """Every pair takes the lowest number among those it shares a key with, until nothing changes."""
    number = list(range(len(keys[0])))
    changed = True
    while changed:
        changed = False
        for i in range(len(number)):
            for j in range(len(number)):
                if number[j] < number[i] and any(key[i] == key[j] for key in keys):
                    number[i], changed = number[j], True
    return [sorted(set(number)).index(one) for one in number]


@settings(max_examples=150, deadline=None)
@given(
    st.integers(1, 14).flatmap(
        lambda n: st.lists(st.lists(st.integers(0, 9), min_size=n, max_size=n), min_size=1, max_size=3)
    )
)
def test_components_are_those_of_a_slow_search_in_order_of_appearance(keys):
    found = joined([np.array(key) for key in keys])
    slow = slow_components(keys)
    assert slow == (list(range(len(slow))) if found is None else found.tolist())
    assert (found is None) == (len(set(slow)) == len(slow))


def test_a_long_chain_in_any_order_is_one_component():
    order = np.random.default_rng(0).permutation(100_000)
    found = joined([order // 2, (order + 1) // 2])
    assert found is not None and not found.any()


def test_equal_pairs_share_both_rows():
    random = np.random.default_rng(0)
    rows = random.integers(-(2**63), 2**63, size=5)
    left, right = rows[random.integers(5, size=(2, 300))]
    found = equal_pairs(left, right)
    slow = {pair: k for k, pair in enumerate(set(zip(left.tolist(), right.tolist(), strict=True)))}
    assert len(np.unique(found)) == len(slow) == 25


def test_shared_keys_join_pairs():
    pairs = np.arange(120)
    twos, classes = pairs // 2, pairs % 10
    assert (together(pairs, [twos]) == twos).all()
    assert together(pairs, [classes]) is None
    assert (together(pairs, [classes, twos]) == together(pairs, [twos, classes])).all()
    assert together(pairs, [np.maximum(pairs, 70)]) is None
    assert together(twos, [np.zeros(120, int)]).max() == 59, "equal pairs stay together whatever the keys are"
    assert together(twos, [(pairs + 2) // 4]).max() == 30


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 30).flatmap(
        lambda n: st.tuples(
            st.lists(st.lists(st.integers(-9, 12), min_size=n, max_size=n), min_size=1, max_size=3),
            st.lists(st.integers(0, n), max_size=4),
        )
    ),
    st.integers(1, 8),
    st.sampled_from([7, 10**6]),
)
def test_as_many_units_as_the_components_of_all_pairs_at_once(columns_and_cuts, least, bucket):
    columns, cuts = columns_and_cuts
    codes = np.array(columns, dtype=np.int64).T.copy()
    found = together(codes[:, 0], list(codes[:, 1:].T), min_units=least)
    slow = len(codes) if found is None else int(found.max()) + 1
    parts = np.split(codes, sorted(cuts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BUCKET", bucket)
        assert count_units(LocalRunner(), parts, len(codes), codes.shape[1] - 1, least) == slow
