import pytest

from rince.compare.tables import aligned, as_csv, mean_and_deviation, paired


def test_mean_and_deviation_of_a_sample():
    assert mean_and_deviation([1.0, 3.0]) == (2.0, 2**0.5)
    assert mean_and_deviation([5.0]) == (5.0, 0.0)


def test_columns_line_up():
    lines = aligned(["a", "long header"], [["row one", "1"], ["2", "22"]]).splitlines()
    assert len({len(line) for line in lines}) == 1
    assert lines[1] == "| ------- | ----------: |"


def test_csv_quotes_what_needs_it():
    assert as_csv(["a", "b"], [("x,y", 1)]) == 'a,b\n"x,y",1\n'


def test_paired_test_uses_common_seeds_and_agrees_with_scipy():
    from scipy import stats

    ours, other = {0: 71.0, 1: 72.0, 2: 73.0, 9: 99.0}, {0: 70.0, 1: 72.0, 2: 71.0}
    test = paired(ours, other)
    assert test.seeds == 3 and test.mean == 1
    assert test.p == pytest.approx(stats.ttest_rel([71, 72, 73], [70, 72, 71]).pvalue)
    low, high = stats.ttest_rel([71, 72, 73], [70, 72, 71]).confidence_interval()
    assert (test.low, test.high) == pytest.approx((low, high)) and test.verdict == "no difference shown"
    assert paired({0: 1.0}, {1: 1.0}) is None


@pytest.mark.parametrize(("gap", "verdict"), [(2.0, "ahead"), (-2.0, "behind"), (0.0, "no difference shown")])
def test_verdict_needs_three_seeds(gap, verdict):
    ours, other = {s: 70.0 + s + gap + 0.1 * (s == 1) for s in range(3)}, {s: 70.0 + s for s in range(3)}
    assert paired(ours, other).verdict == verdict
    few = paired({s: ours[s] for s in range(2)}, other)
    assert "fewer than 3 seeds" in few.verdict and "ahead" not in str(few) and "behind" not in str(few)


def test_equal_differences_are_a_verdict():
    assert paired({0: 2.0, 1: 2.0, 2: 2.0}, {0: 1.0, 1: 1.0, 2: 1.0}).verdict == "ahead"
