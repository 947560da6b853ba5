import itertools

import pytest

from rince.data.module import SeededBatches


def batches(seen=0, rank=0, processes=1, seed=0):
    return SeededBatches(23, 4, seed, lambda: seen, rank, processes)


def test_epoch_has_no_duplicates_and_order_changes_between_epochs():
    first, second = list(batches(0)), list(batches(5))
    assert len(first) == len(batches()) == 5
    flat = list(itertools.chain(*first))
    assert len(set(flat)) == 20 and flat != list(itertools.chain(*second))
    assert list(batches(0)) == first != list(batches(0, seed=1))


@pytest.mark.parametrize("seen", range(5, 10))
def test_it_goes_on_with_the_very_next_batch(seen):
    assert list(batches(seen)) == list(batches(5))[seen - 5 :]


def test_processes_share_a_batch_in_the_order_of_their_ranks():
    one = list(batches(5))
    two = [list(batches(5, rank, 2)) for rank in (0, 1)]
    assert [a + b for a, b in zip(*two, strict=True)] == one


@pytest.mark.parametrize(("items", "size", "processes"), [(10, 1, 1), (10, 11, 1), (10, 5, 2)])
def test_impossible_sizes_are_refused(items, size, processes):
    with pytest.raises(ValueError, match="batch_size"):
        SeededBatches(items, size, 0, lambda: 0, 0, processes)


@pytest.mark.parametrize(("limit", "count"), [(3, 3), (0.5, 2), (1.0, 5), (1, 1), (9, 5), (0, 1)])
def test_a_limited_epoch_is_as_long_as_the_trainers(limit, count):
    def limited(seen):
        return list(SeededBatches(23, 4, 0, lambda: seen, limit=limit))

    assert [len(limited(epoch * count)) for epoch in range(4)] == [count] * 4
    assert limited(0) == list(batches(0))[:count] and limited(count) == list(batches(5))[:count]
    assert limited(2 * count - 1) == limited(count)[-1:]


@pytest.mark.parametrize(("processes", "last"), [(1, 3), (2, 0)])
def test_keep_last_needs_two_items_per_rank(processes, last):
    def kept(seen=0, rank=0):
        return SeededBatches(23, 4, 0, lambda: seen, rank, processes, keep_last=True)

    assert len(kept()) == 5 + (last > 0)
    everything = [item for rank in range(processes) for batch in kept(rank=rank) for item in batch]
    assert len(set(everything)) == len(everything) == 20 + last
    assert [len(batch) for batch in kept()][-1] == (last or 2)
    assert list(kept(seen=len(kept()) + 3)) == list(kept(seen=len(kept())))[3:]
