import numpy as np
import pytest

from rince.audit.columns import read, release
from rince.audit.unusable import kept, kept_rows, unusable_rows


@pytest.mark.parametrize("zero_is_bad", [False, True])
def test_unusable_rows_of_either_column_are_found_in_all_chunks(monkeypatch, zero_is_bad):
    monkeypatch.setattr("rince.audit.columns.CHUNK_NUMBERS", 1)
    a, b = np.random.default_rng(0).normal(size=(2, 1000, 3)).astype(np.float32)
    a[[3, 700]], b[700, 1], b[999, 2], a[600, 0] = 0, np.nan, -np.inf, 0
    a[[10, 11]] = 3e38  # finite, though its sum is not
    assert unusable_rows(a, b, zero_is_bad).tolist() == ([3] if zero_is_bad else []) + [700, 999]


def test_kept_rows_read_like_a_matrix_without_the_others(tmp_path):
    data = np.random.default_rng(0).normal(size=(20, 3)).astype(np.float32)
    np.save(tmp_path / "x.npy", data)
    index = kept_rows(20, np.array([0, 7, 19]))
    some = kept(np.load(tmp_path / "x.npy", mmap_mode="r"), index)
    wanted = np.delete(data, [0, 7, 19], axis=0)
    assert some.shape == wanted.shape and some.size == wanted.size and len(some) == 17
    for rows in (slice(None), slice(5, 9), np.array([16, 2, 2])):
        assert (read(some, rows).numpy() == wanted[rows]).all()
    release(some)
