"""Independent and noisy versions of a joint distribution."""

import pytest
import torch

from rince.errors import UsageError
from rince.theory import expected_loss, independent, mutual_information, noisy

TABLE = torch.tensor([[0.1, 0.3, 0.0], [0.2, 0.1, 0.3]], dtype=torch.float64)


def test_independent_views_have_the_same_marginals():
    for axis in (0, 1):
        assert torch.allclose(independent(TABLE).sum(axis), TABLE.sum(axis))
    assert float(independent(TABLE)[1, 2]) == pytest.approx(0.6 * 0.3)


def test_noise_mixes_joint_and_product_and_keeps_the_marginals():
    mixed = noisy(TABLE, 0.25)
    assert torch.allclose(mixed, 0.75 * TABLE + 0.25 * torch.outer(TABLE.sum(1), TABLE.sum(0)))
    assert torch.allclose(mixed.sum(0), TABLE.sum(0))
    assert torch.equal(noisy(TABLE, 0.0), TABLE)


def test_a_batch_takes_a_noise_rate_for_each():
    rates = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)
    batch = noisy(TABLE.expand(3, 2, 3), rates)
    for one, rate in zip(batch, rates, strict=True):
        assert torch.allclose(one, noisy(TABLE, float(rate)))


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (2 * TABLE, "sum to 1, got 2"),
        (torch.tensor([[1.5, -0.5]]), "at least 0, got -0.5"),
        (torch.tensor([1.0]), r"got shape \(1,\)"),
        (torch.tensor([[float("nan"), 1.0]]), "at least 0, got nan"),
    ],
)
def test_tables_that_are_no_distribution_are_refused(table, message):
    with pytest.raises(UsageError, match=message):
        mutual_information(table)


def test_a_noise_rate_beyond_one_is_refused():
    with pytest.raises(UsageError, match=r"\[0, 1\], got 1.5"):
        noisy(TABLE, 1.5)


def test_no_negatives_are_refused():
    with pytest.raises(UsageError, match="at least 1, got 0"):
        expected_loss(lambda positive, negatives: positive, TABLE, TABLE, 0)
