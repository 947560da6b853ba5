import numpy as np
import torch

from rince._support.fingerprints import equal_rows


def test_equal_rows_point_to_the_first_one():
    draws = torch.Generator().manual_seed(0)
    a = torch.randint(0, 3, (200, 2, 2), generator=draws, dtype=torch.uint8)
    b = torch.randint(0, 2, (200, 1), generator=draws).float()
    found = equal_rows(a, b)
    for i in range(200):
        first = next(j for j in range(i + 1) if torch.equal(a[i], a[j]) and torch.equal(b[i], b[j]))
        assert found[i] == first


def test_rows_that_all_differ_are_nobodys_copies():
    assert equal_rows(torch.arange(50.0)[:, None]) is None
    assert np.array_equal(equal_rows(torch.zeros(3, 2)), [0, 0, 0])
