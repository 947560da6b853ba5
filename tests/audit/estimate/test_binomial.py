import math

import numpy as np
import pytest

from rince.audit.estimate.binomial import at_most, beta_below


def chance_of_at_most(count, n, share):
    """The binomial tail, term by term; far below the count there is nothing to add."""
    i = np.arange(max(0, count - 40_000), count + 1, dtype=np.float64)
    ways = math.lgamma(n + 1) - np.array([math.lgamma(x + 1) + math.lgamma(n - x + 1) for x in i])
    return np.exp(ways + i * math.log(share) + (n - i) * math.log1p(-share)).sum()


@pytest.mark.parametrize("n, count", [(5, 0), (5, 4), (50, 1), (300, 90), (1797, 180), (10**6, 3), (10**7, 2_000_000)])
def test_as_few_would_be_seen_once_in_forty_times(n, count):
    assert chance_of_at_most(count, n, at_most(count, n)) == pytest.approx(0.025, rel=1e-4)


def test_nothing_seen_is_not_nothing_there():
    assert at_most(0, 50) == pytest.approx(1 - 0.025 ** (1 / 50), rel=1e-8) == pytest.approx(0.0711, abs=1e-4)
    assert at_most(0, 10**7) == pytest.approx(1 - 0.025**1e-7, rel=1e-8)
    assert at_most(50, 50) == 1


def test_counts_between_whole_ones_lie_between():
    bounds = [at_most(count, 60) for count in np.linspace(0, 60, 241)]
    assert (np.diff(bounds) > 0).sum() == 240 and at_most(59.7, 60) > 0.99
    assert beta_below(0.0, 2, 3) == 0 and beta_below(1.0, 2, 3) == 1
    assert beta_below(0.3, 1, 1) == pytest.approx(0.3) and beta_below(0.7, 2, 1) == pytest.approx(0.49)
