import itertools

import numpy as np
import pytest

from rince.audit import Scored, group_rates, judge
from rince.audit.groups import NAMELESS, added_up, rates_of, tallied
from rince.errors import UsageError

RATES = {"web": 0.1, "forum": 0.02, "broken crawler": 0.9, "books": 0.3}


def grouped(n=6000, seed=0, spread=0.15):
    random = np.random.default_rng(seed)
    source = random.choice(list(RATES), n, p=[0.5, 0.3, 0.05, 0.15])
    wrong = random.random(n) < np.vectorize(RATES.get)(source)
    scores = np.where(wrong, random.normal(0, spread, n), random.normal(0.6, spread, n)).astype(np.float32)
    return judge(Scored(scores, random.normal(0, spread, 100_000).astype(np.float32)), seed=seed), source, wrong


def test_group_intervals_cover_and_sort_by_rate():
    held = []
    for seed in range(8):
        found, source, wrong = grouped(seed=seed)
        rates = group_rates(found, source)
        assert rates[0].name == "broken crawler" and rates[0].unusual and not rates[-1].unusual
        for one in rates:
            truth = wrong[source == one.name].mean()
            assert abs(one.rate - truth) < 0.08
            held.append(one.interval[0] - 1e-9 <= truth <= one.interval[1] + 1e-9)
    assert np.mean(held) >= 0.9


def test_counts_add_up_over_groups_and_flags():
    found, source, _ = grouped()
    rates = group_rates(found, source, fdr=0.05)
    assert {one.name: one.pairs for one in rates} == {name: int((source == name).sum()) for name in RATES}
    assert sum(one.flagged for one in rates) == len(found.flag(0.05))


def test_tallies_of_parts_add_up_to_the_rates_of_the_whole():
    found, source, _ = grouped(2000)
    found.p_wrong[:7] = np.nan  # not judged
    flags = np.zeros(2000, dtype=bool)
    flags[found.flag(0.1)] = True
    cuts = [0, 3, 700, 700, 1999, 2000]
    parts = [
        tallied(list(source[i:j]), found.p_values[i:j], found.p_wrong[i:j], flags[i:j])
        for i, j in itertools.pairwise(cuts)
    ]
    whole = rates_of(tallied(list(source), found.p_values, found.p_wrong, flags), found)
    for one, other in zip(rates_of(added_up(parts), found), whole, strict=True):
        assert one._replace(behind=0) == other._replace(behind=0) and one.behind == pytest.approx(other.behind)
    assert sum(one.pairs for one in whole) == 1993


def test_where_nothing_is_found_there_is_an_upper_bound_and_no_rate():
    random = np.random.default_rng(0)
    found = judge(
        Scored(random.normal(0.6, 0.1, 900).astype(np.float32), random.normal(0, 0.1, 50_000).astype(np.float32))
    )
    rates = group_rates(found, ["a"] * 450 + [None] * 450)
    assert {one.name for one in rates} == {"a", NAMELESS}
    assert all(one.rate is None and one.interval[0] == 0 and one.interval[1] < 0.05 for one in rates)


def test_groups_need_one_value_per_pair():
    found, source, _ = grouped()
    with pytest.raises(UsageError, match=r"groups .* 6,000, got 5,999"):
        group_rates(found, source[1:])
