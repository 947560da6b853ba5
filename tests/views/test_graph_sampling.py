import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rince.views.graph import counts, distinct, owner, pick

sizes = st.lists(st.integers(0, 12), min_size=1, max_size=6)


def seeded(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@given(sizes, st.randoms(), st.integers(0, 10**6))
@settings(deadline=None, max_examples=50)
def test_pick_takes_the_requested_number_per_group(size, rng, seed):
    number = [rng.randint(0, n) for n in size]
    group = [g for g, n in enumerate(size) for _ in range(n)]
    rng.shuffle(group)
    hit = pick(torch.tensor(group, dtype=torch.long), torch.tensor(number), seeded(seed))
    for g, n in enumerate(number):
        assert sum(bool(h) for h, owner in zip(hit, group, strict=True) if owner == g) == n


@given(sizes, st.randoms(), st.integers(0, 10**6))
@settings(deadline=None, max_examples=50)
def test_distinct_draws_different_integers_within_each_range(size, rng, seed):
    number = [rng.randint(0, n) for n in size]
    group, value = distinct(torch.tensor(number), torch.tensor(size), seeded(seed))
    for g, (n, top) in enumerate(zip(number, size, strict=True)):
        mine = value[group == g].tolist()
        assert len(mine) == len(set(mine)) == n
        assert all(0 <= v < top for v in mine)


def test_distinct_draws_every_subset_equally_often():
    for wanted in (2, 4):  # by rejection, and by a shuffle
        draws = 6000
        group, value = distinct(torch.full((draws,), wanted), torch.full((draws,), 6), seeded(0))
        code = torch.zeros(draws, dtype=torch.long).index_add(0, group, 2**value)
        often = torch.unique(code, return_counts=True)[1]
        assert len(often) == 15
        assert (often / draws - 1 / 15).abs().max() < 4.5 * (1 / 15 / draws) ** 0.5


def test_counts_are_right_on_average_for_the_smallest_groups():
    drawn = counts(torch.full((20000,), 3), 0.1, seeded(0))
    assert set(drawn.tolist()) == {0, 1}
    assert abs(float(drawn.double().mean()) - 0.3) < 0.015


def test_owner_skips_groups_that_own_nothing():
    assert owner(torch.tensor([0, 1, 2]), torch.tensor([0, 2, 0, 1])).tolist() == [1, 1, 3]
