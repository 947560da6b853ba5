"""Hard negatives where scores spread too far for one exponential: other betas, masks, nothing left, NaN."""

import pytest
import torch

import rince
from support.losses import reference


def embeddings(n, dtype=torch.float32):
    g = torch.Generator().manual_seed(n)
    return [torch.randn(n, 16, generator=g, dtype=torch.float64).to(dtype).requires_grad_() for _ in range(2)]


@pytest.mark.parametrize("contrast", ["TwoView", "CrossView"])
@pytest.mark.parametrize("n", (3, 600))  # one tile, and several
@pytest.mark.parametrize("t", (0.01, 0.03, 0.06))
@pytest.mark.parametrize("beta", (0.3, 1.0, 2.0, 5.0))
def test_value_and_gradient_equal_the_dense_float64_reference(beta, t, n, contrast):
    z = embeddings(n)
    exact = [x.detach().double().requires_grad_() for x in z]
    value = rince.HardNegatives(beta, 0.0, t, getattr(rince, contrast)())(*z)
    expected = reference.hard_negatives(reference.rows(contrast, *exact, t), beta, 0.0).mean()
    assert value.item() == pytest.approx(expected.item(), rel=1e-5)
    for ours, theirs in zip(torch.autograd.grad(value, z), torch.autograd.grad(expected, exact), strict=True):
        assert (ours - theirs).norm() <= 2e-4 * theirs.norm()


@pytest.mark.parametrize("beta", (0.5, 1.0, 2.0))
@pytest.mark.parametrize("n", (4, 600))
def test_anchors_without_negatives_pull_on_nothing(n, beta):
    z = embeddings(n)
    ids = torch.zeros(n, dtype=torch.long)
    alone = rince.HardNegatives(beta, 0.0, 0.02)(*z, ids=ids)
    assert alone.item() == 0 and not any(g.any() for g in torch.autograd.grad(alone, z))
    ids[: n // 2] = torch.arange(1, n // 2 + 1)  # the others have these as negatives only
    value = rince.HardNegatives(beta, 0.0, 0.02)(*z, ids=ids)
    gradients = torch.autograd.grad(value, z)
    assert value.isfinite() and all(g.isfinite().all() and g.any() for g in gradients)


def test_what_is_no_number_is_not_hidden():
    z1, z2 = embeddings(600)
    with torch.no_grad():
        z2[599, 3] = torch.nan
    assert rince.HardNegatives(1.0, 0.0, 0.02)(z1, z2).isnan()
