import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rince.audit.estimate.places import compact, counted
from rince.audit.estimate.probability import suspects
from rince.audit.partitions.flags import cut_of, flagged, list_end
from rince.audit.partitions.runner import Here
from rince.errors import UsageError


@settings(max_examples=300, deadline=None)
@given(
    st.integers(1, 60).flatmap(
        lambda n: st.tuples(
            st.lists(st.integers(0, 20), min_size=n, max_size=n),
            st.lists(st.integers(0, 3), min_size=n, max_size=n),
            st.lists(st.integers(0, n), max_size=3),
        )
    ),
    st.lists(st.integers(0, 16), min_size=21, max_size=21),
    st.sampled_from([0.05, 0.1, 0.25, 0.5]),
)
def test_the_cut_flags_what_a_sorted_list_of_all_pairs_does(pairs, sixteenths, fdr):
    """Shares in sixteenths, so that sums are exact and a list ends at the same pair however they are added up."""
    place, finer, cuts = (np.array(values, dtype=np.int64) for values in pairs)
    chance_at = np.sort(np.array(sixteenths))[::-1] / np.float32(16)
    scores, chance = (place * 4 + finer).astype(np.float32), chance_at[place].astype(np.float32)
    wanted = np.zeros(len(place), dtype=bool)
    wanted[suspects(chance, scores, fdr)[0]] = True
    counts = compact(counted(place.astype(np.int32), 10))
    end = list_end(counts, chance_at[counts.place].astype(np.float32), fdr)
    if end is None:
        assert not wanted.any()
        return
    parts = [np.split(values, sorted(cuts)) for values in (scores, place.astype(np.int32), chance)]
    cut, ties = cut_of(Here(), end, parts[0], parts[1])
    found = [flagged(s, c, cut, many) for s, c, many in zip(parts[0], parts[2], ties, strict=True)]
    assert (np.concatenate(found) == wanted).all() and cut.total == wanted.sum()


@pytest.mark.parametrize("fdr", [0, 1, float("nan")])
def test_an_fdr_outside_is_refused(fdr):
    with pytest.raises(UsageError, match="fdr must lie in"):
        list_end(compact(np.ones(3, np.int32)), np.ones(3, np.float32), fdr)
