"""Products in TF32 and bfloat16, emulated, against float64, by temperature."""

import pytest
import torch

import rince
from rince.errors import UsageError
from rince.losses.blocks import rounded
from support.losses import reference

# Largest relative error of value and gradient of InfoNCE.
BOUNDS = {
    ("tf32", 1.0): (1e-6, 3e-4),
    ("tf32", 0.1): (3e-5, 1e-3),
    ("tf32", 0.01): (1e-2, 1e-2),
    ("bfloat16", 1.0): (1e-5, 2e-3),
    ("bfloat16", 0.1): (1e-3, 1e-2),
    ("bfloat16", 0.01): (1e-1, 1e-1),
}


def errors(precision, temperature, n, contrast=rince.CrossView):
    g = torch.Generator().manual_seed(0)
    z1 = torch.randn(n, 64, generator=g)
    z1, z2 = z1.requires_grad_(), (z1 + torch.randn(n, 64, generator=g)).detach().requires_grad_()
    value = rince.InfoNCE(temperature=temperature, contrast=contrast(precision=precision))(z1, z2)
    kind = contrast.__name__
    expected = reference.losses(reference.info_nce, *reference.halves(kind, z1, z2, temperature)).mean()
    got, true = (torch.cat(torch.autograd.grad(x, (z1, z2))).double() for x in (value, expected))
    return abs(value.item() / expected.item() - 1), float((got - true).norm() / true.norm())


@pytest.mark.parametrize("precision, temperature", BOUNDS)
def test_errors_of_value_and_gradient(precision, temperature):
    for n in (40, 600):  # one block, and several
        value, gradient = errors(precision, temperature, n)
        assert value <= BOUNDS[precision, temperature][0] and gradient <= BOUNDS[precision, temperature][1]
        exact = errors("highest", temperature, n)
        assert exact[1] < gradient / 20, "the option has no effect"


@pytest.mark.parametrize("precision", ("tf32", "bfloat16"))
def test_two_views_and_functional_gradients_round_too(precision):
    value, gradient = errors(precision, 0.1, 40, rince.TwoView)
    assert value <= BOUNDS[precision, 0.1][0] and 1e-5 < gradient <= BOUNDS[precision, 0.1][1]
    z1, z2 = torch.randn(2, 20, 8)
    loss = rince.InfoNCE(contrast=rince.CrossView(precision=precision))
    plain = torch.func.grad(lambda z: loss(z, z2))(z1)
    (gradient,) = torch.autograd.grad(loss(z1.requires_grad_(), z2), z1)
    torch.testing.assert_close(plain, gradient, rtol=0.02, atol=1e-4)


def test_rounding_to_nearest():
    x = torch.randn(1000)
    assert torch.equal(rounded(x, "bfloat16"), x.bfloat16().float())
    assert torch.equal(rounded(x, "tf32").view(torch.int32) & 0x1FFF, torch.zeros(1000, dtype=torch.int32))
    assert ((rounded(x, "tf32") / x - 1).abs() <= 2**-11).all()


def test_float64_embeddings_are_not_rounded():
    z1, z2 = torch.randn(2, 20, 8, dtype=torch.float64)
    losses = [rince.InfoNCE(contrast=rince.TwoView(precision=p))(z1, z2) for p in ("highest", "bfloat16")]
    torch.testing.assert_close(*losses, rtol=1e-12, atol=0)


def test_unknown_precision():
    with pytest.raises(UsageError, match=r"precision .*'tf32'.* got 'half'"):
        rince.CrossView(precision="half")
