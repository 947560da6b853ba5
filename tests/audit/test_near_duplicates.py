import numpy as np
import pytest

from rince.audit.near_duplicates import alike_rows, near_duplicates
from rince.errors import UsageError


def with_copies(n=2000, width=32, copies=300, noise=0.02, seed=0):
    """Rows, the last of which are the first ones with a little noise, far from the origin as embeddings tend to be."""
    random = np.random.default_rng(seed)
    x = random.normal(size=(n, width)).astype(np.float32)
    x[n - copies :] = x[:copies] + noise * random.normal(size=(copies, width))
    return x + 5


def test_copies_are_found_and_nothing_else():
    x = with_copies()
    found = alike_rows(x)
    same = found[:300] == found[-300:]
    assert same.mean() > 0.98
    centered = x - x.mean(0)
    centered /= np.linalg.norm(centered, axis=1, keepdims=True)
    cosines = centered @ centered.T
    i, j = np.nonzero(np.triu(found[:, None] == found[None, :], 1))
    assert (cosines[i, j] > 0.97).all()  # linked through others, perhaps


def test_many_copies_of_one_row_are_one_cluster():
    x = with_copies(copies=0)
    x[:150] = x[0]
    found = alike_rows(x)
    assert len(set(found[:150])) == 1 and len(set(found)) == 1851


def test_either_side_links_pairs_and_none_is_none():
    random = np.random.default_rng(1)
    plain = random.normal(size=(500, 16)).astype(np.float32)
    a, b = plain.copy(), random.normal(size=(500, 16)).astype(np.float32)
    a[1], b[2] = a[0], b[0]
    found = near_duplicates(a, b)
    assert found[0] == found[1] == found[2] and len(set(found)) == 498
    assert near_duplicates(plain, random.normal(size=(500, 16)).astype(np.float32)) is None


def test_rows_that_are_missing_equal_no_other():
    x = with_copies()
    x[5], x[6] = np.nan, np.nan
    found = alike_rows(x)
    assert found[5] != found[6]


def test_a_cosine_lies_between_0_and_1():
    with pytest.raises(UsageError, match=r"cosine in \(0, 1\], got 1.5"):
        near_duplicates(np.ones((60, 3)), np.ones((60, 3)), 1.5)
