"""Blocks against the whole matrix in double precision."""

import pytest
import torch
from torch.nn.functional import logsigmoid

from rince.integrations import open_clip


def sigmoid_loss(images, texts, bias, start=0):
    return open_clip._SigmoidLoss.apply(images, texts, bias, start)


def inputs(n, m, dtype=torch.float64):
    g = torch.Generator().manual_seed(n + m)
    images, texts = (torch.randn(k, 5, generator=g, dtype=torch.float64).to(dtype) for k in (n, m))
    return images.requires_grad_(), texts.requires_grad_(), torch.tensor(-1.5, dtype=dtype, requires_grad=True)


def plain(images, texts, bias, start):
    sign = -torch.ones(len(images), len(texts), dtype=images.dtype)
    sign.diagonal(start).neg_()
    return -logsigmoid(sign * (images @ texts.T + bias)).sum()


@pytest.mark.parametrize(("n", "m", "start"), ((1, 1, 0), (7, 7, 0), (5, 15, 10), (5, 15, 4)))
@pytest.mark.parametrize("height", (1, 3, 100))
def test_values_and_gradients_are_those_of_the_whole_matrix(n, m, start, height, monkeypatch):
    monkeypatch.setattr(open_clip, "DENSE", height * m)
    tensors = inputs(n, m)
    got, true = sigmoid_loss(*tensors, start), plain(*tensors, start)
    assert torch.allclose(got, true, rtol=1e-12)
    for x, y in zip(torch.autograd.grad(3 * got, tensors), torch.autograd.grad(3 * true, tensors), strict=True):
        assert (x - y).norm() <= 1e-12 * y.norm()


def test_only_what_is_wanted_gets_a_gradient():
    images, texts, bias = inputs(6, 6)
    value = sigmoid_loss(images.detach(), texts, bias.detach())
    value.backward()
    assert texts.grad is not None and images.grad is None and bias.grad is None
    with torch.no_grad():
        assert torch.allclose(sigmoid_loss(images, texts, bias), value)


def test_gradients_of_gradients():
    assert torch.autograd.gradgradcheck(lambda *z: sigmoid_loss(*z, 1), inputs(3, 5))
