"""Inputs of every kind through gradient caching, and what happens between the loss and its backward pass."""

import pytest
import torch
from torch import nn

import rince
from rince.errors import UsageError


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
def test_a_gradient_that_would_get_lost_is_refused(wrap):
    model, a, b, loss = made()
    inside = wrap(torch.ones(3, requires_grad=True))
    with pytest.raises(
        UsageError, match=rf"inside of a {type(inside).__name__} wants a gradient.*give its \.detach\(\)"
    ):
        rince.cached(loss, model, ((a, 1.0, inside), b), chunk=4)
    with torch.no_grad():
        rince.cached(loss, model, ((a, 1.0, inside), b), chunk=4)
    rince.cached(loss, model, ((a, 1.0, wrap(torch.ones(3))), b), chunk=4).backward()


@pytest.mark.parametrize("then", (True, False), ids=("trained", "evaluated"))
def test_the_second_pass_runs_in_the_mode_of_the_first(then):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.5), nn.Linear(16, 4))
    model[1].eval()  # a part with a mode of its own
    a, b = torch.randn(2, 12, 8).unbind()
    loss, weights = rince.InfoNCE(temperature=0.1), list(model.parameters())
    model.training = model[2].training = then
    torch.manual_seed(3)
    true = torch.autograd.grad(rince.cached(loss, model, (a, b), chunk=4), weights)
    torch.manual_seed(3)
    value = rince.cached(loss, model, (a, b), chunk=4)
    model.train(not then)
    for x, y in zip(torch.autograd.grad(value, weights), true, strict=True):
        assert torch.equal(x, y)
    assert {m.training for m in model.modules()} == {not then}


def test_an_input_that_was_changed_before_the_backward_pass_is_refused():
    model, a, b, loss = made()
    for change in (b.zero_, lambda: b[2:3].add_(1)):
        value = rince.cached(loss, model, (a, b), chunk=4)
        change()
        with pytest.raises(UsageError, match=r"\(12, 8\).* changed in place"):
            value.backward()
    inside = torch.ones(12)
    value = rince.cached(loss, model, (a, (b, 1.0, [inside] * 12)), chunk=4)
    inside.zero_()
    with pytest.raises(UsageError, match="was changed in place"):
        value.backward()
    with torch.inference_mode():
        unversioned = torch.randn(12, 8)
    rince.cached(loss, model, (a, b), chunk=4).backward()
    assert a.grad.norm() > 0
    rince.cached(loss, model, (a, (b, 1.0, unversioned)), chunk=4).backward()
