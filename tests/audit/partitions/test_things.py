import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rince.audit.clusters import together
from rince.audit.partitions import things as module
from rince.audit.partitions.runner import Here
from rince.audit.partitions.things import count_things


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
def test_as_many_things_as_the_clusters_of_all_pairs_at_once(columns_and_cuts, least, bucket):
    columns, cuts = columns_and_cuts
    codes = np.array(columns, dtype=np.int64).T.copy()
    found = together(codes[:, 0], list(codes[:, 1:].T), least=least)
    slow = len(codes) if found is None else int(found.max()) + 1
    parts = np.split(codes, sorted(cuts))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "BUCKET", bucket)
        assert count_things(Here(), parts, len(codes), codes.shape[1] - 1, least) == slow
