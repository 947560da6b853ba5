import numpy as np

from rince.report.histogram import histogram


def test_shares_add_up_to_one_and_outliers_end_at_the_border():
    values = np.concatenate([np.linspace(0, 1, 10_000), [1e6]]).astype(np.float32)
    found = histogram({"some": values, "others": np.ones(5, dtype=np.float32)})
    assert found["high"] < 2 and len(found["shares"][0]) == 60
    assert all(abs(sum(shares) - 1) < 1e-4 for shares in found["shares"])


def test_equal_scores_still_have_an_axis():
    found = histogram({"all": np.zeros(10, dtype=np.float32)})
    assert found["low"] < found["high"] and sum(found["shares"][0]) == 1
