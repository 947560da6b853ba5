import numpy as np

from rince.audit import judge
from rince.audit.result import kept_rows, with_gaps


def test_an_audit_with_gaps_has_the_rows_of_the_input():
    random = np.random.default_rng(0)
    scores = np.concatenate([random.normal(6, 1, 80), random.normal(0, 1, 20)]).astype(np.float32)
    found = judge(scores, random.normal(0, 1, 20_000))
    gone = np.array([0, 50, 102])
    whole = with_gaps(found, 103, gone)
    rows = kept_rows(103, gone)
    assert len(whole) == 103 and whole.judged_pairs == 100
    assert np.flatnonzero(np.isnan(whole.scores)).tolist() == gone.tolist()
    assert (whole.p_wrong[rows] == found.p_wrong).all() and (whole.flag(0.2) == rows[found.flag(0.2)]).all()
    assert not whole.trust[gone].any() and "3 rows (0, 50, 102)" in whole.remarks[0]
