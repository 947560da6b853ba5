"""TwoView and CrossView beyond the grid of tests/test_losses.py: ids, small batches, many anchors."""

import pytest
import torch

import rince
from support.losses import reference

KINDS = {"TwoView": rince.TwoView(), "CrossView": rince.CrossView(), "CrossView one way": rince.CrossView(False)}


@pytest.mark.parametrize("n", (6, 400))
@pytest.mark.parametrize("kind", KINDS)
def test_pairs_of_equal_id_are_no_negatives_of_each_other(kind, n):
    a, b = torch.randn(2, n, 8, requires_grad=True)
    ids = torch.randint(0, n // 2, (n,), generator=torch.Generator().manual_seed(0))
    each = rince.InfoNCE(temperature=0.5, contrast=KINDS[kind], reduction="none")(a, b, ids=ids)
    expected = reference.losses(reference.info_nce, *reference.halves(kind, a, b, 0.5, ids=ids))
    torch.testing.assert_close(each.double(), expected, rtol=1e-5, atol=1e-6)
    mean, true = (torch.autograd.grad(v.mean(), a)[0].double() for v in (each, expected))
    assert (mean - true).norm() <= 1e-5 * true.norm()


@pytest.mark.parametrize("kind", KINDS)
def test_number_counts_the_negatives_an_anchor_really_has(kind):
    a, b = torch.randn(2, 6, 8)
    ids = torch.tensor([1, 1, 1, 2, 2, 3])
    for given in (None, ids):
        _, _, counts = reference.pairs(kind, a, b, 1.0, ids=given)
        positive = reference.pairs(kind, a, b, 1.0, ids=given)[1]
        assert KINDS[kind](a, b, 0.5, None, given).num_negatives.tolist() == (counts & ~positive).sum(1).tolist()


@pytest.mark.parametrize("objective", ["info_nce", "dcl", "rince"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_of_one_is_finite(kind, objective):
    a, b = torch.randn(2, 1, 8, requires_grad=True)
    value = rince.ContrastiveLoss(getattr(rince.losses.objectives, objective), temperature=0.1, contrast=KINDS[kind])(
        a, b
    )
    (gradient,) = torch.autograd.grad(value, a)
    assert value.isfinite() and gradient.isfinite().all()


def test_a_zero_embedding_pulls_nothing_and_breaks_nothing():
    a = torch.randn(4, 8)
    a[1] = 0
    a.requires_grad_()
    rince.RINCE.paper()(a, torch.randn(4, 8)).backward()
    assert a.grad.isfinite().all() and (a.grad[1] == 0).all() and (a.grad[0] != 0).any()
