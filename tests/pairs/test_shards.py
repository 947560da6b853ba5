import numpy as np
import pytest

from rince.pairs.shards import Arrays, Partition, Pieces, Usable, unusable


@pytest.mark.parametrize("zero_is_bad", [False, True])
def test_unusable_rows_of_either_side_are_found_in_all_chunks(monkeypatch, zero_is_bad):
    monkeypatch.setattr("rince.pairs.matrix.CHUNK_NUMBERS", 1)
    a, b = np.random.default_rng(0).normal(size=(2, 1000, 3)).astype(np.float32)
    a[[3, 700]], b[700, 1], b[999, 2], a[600, 0] = 0, np.nan, -np.inf, 0
    a[[10, 11]] = 3e38  # finite, though its sum is not
    assert unusable(Arrays(a, b), zero_is_bad).tolist() == ([3] if zero_is_bad else []) + [700, 999]


def test_usable_rows_read_like_a_partition_without_the_others(tmp_path):
    data = np.random.default_rng(0).normal(size=(2000, 3)).astype(np.float32)
    np.save(tmp_path / "x.npy", data)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    gone = np.array([0, 7, 1024, 1999])
    some = Usable(Arrays(mapped, mapped[::-1], [np.arange(2000)]), gone)
    wanted = np.delete(data, gone, axis=0)
    pieces = [(start, x.copy(), y.copy()) for start, x, y in Pieces(some)]
    assert some.rows == 1996 and (some.keys(0)[0] == np.delete(np.arange(2000), gone)).all()
    assert np.array_equal(np.concatenate([x for _, x, _ in pieces]), wanted)
    assert np.array_equal(np.concatenate([y for _, _, y in pieces]), np.delete(data[::-1], gone, axis=0))
    assert [start for start, *_ in pieces] == np.cumsum([0, *(len(x) for _, x, _ in pieces[:-1])]).tolist()


def test_a_partition_of_a_users_own_needs_rows_and_blocks_only():
    class Own(Partition):
        rows = 3

        def blocks(self):
            yield np.ones((3, 2)), np.ones((3, 4), dtype=np.float16)

    ((start, x, y),) = Pieces(Own())
    assert start == 0 and x.shape == (3, 2) and y.shape == (3, 4) and y.dtype == np.float32
    assert Own().keys(0) == [] and Own().id_type() is None and Own().groups() is None
