"""Inputs of every kind through gradient caching."""

import pytest
import torch
from torch import nn

import rince


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.map = nn.Linear(8, 4)

    def forward(self, x, scale=1.0, more=None):
        return torch.tanh(self.map(x) * scale)


def made(n=12):
    torch.manual_seed(0)
    a, b = torch.randn(2, n, 8).unbind()
    return Scaled(), a.requires_grad_(), b, rince.InfoNCE(temperature=0.1)


@pytest.mark.parametrize(
    "side",
    (
        lambda x, scale: (x, scale),
        lambda x, scale: {"x": x, "scale": scale},
        lambda x, scale: {"scale": scale, "x": x},
    ),
    ids=("by place", "by name", "before the rows"),
)
@pytest.mark.parametrize("chunk", (1, 4, 12))
def test_scalar_tensor_gets_its_gradient(chunk, side):
    model, a, b, loss = made()
    scale = torch.tensor(3.0, requires_grad=True)
    wanted = [*model.parameters(), a, scale]
    true = torch.autograd.grad(loss(model(a, scale), model(b, scale)), wanted)
    got = torch.autograd.grad(rince.cached(loss, model, (side(a, scale), side(b, scale)), chunk=chunk), wanted)
    for x, y in zip(got, true, strict=True):
        assert (x - y).norm() <= 1e-5 * y.norm()


@pytest.mark.parametrize(
    "wrap", (lambda x: [x] * 12, lambda x: (1, x), lambda x: {"deep": [x]}), ids=("list", "tuple", "dict")
)
def test_gradient_reaches_tensors_inside_of_inputs(wrap):
    class Shifted(Scaled):
        def forward(self, x, scale=1.0, more=None):
            shift = more["deep"][0] if isinstance(more, dict) else more[-1]
            return super().forward(x, scale) + shift

    (_, a, b, loss), model = made(), Shifted()
    shift = torch.randn(4, requires_grad=True)
    value = rince.cached(loss, model, ((a, 1.0, wrap(shift)), (b, 1.0, wrap(shift))), chunk=4)
    true = torch.autograd.grad(loss(model(a, 1.0, wrap(shift)), model(b, 1.0, wrap(shift))), shift)[0]
    assert (torch.autograd.grad(value, shift)[0] - true).norm() <= 1e-5 * true.norm()
