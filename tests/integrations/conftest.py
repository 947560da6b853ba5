import pytest
import torch


@pytest.fixture
def equal():
    """``equal(theirs, ours, *tensors)``: values and gradients agree to a relative 1e-5, at once."""

    def check(theirs, ours, *tensors, bound=1e-5):
        pairs = [(theirs.detach(), ours.detach())]
        gradients = [torch.autograd.grad(x, tensors, allow_unused=True) for x in (theirs, ours)]
        for true, got, tensor in zip(*gradients, tensors, strict=True):
            zero = torch.zeros_like(tensor)
            pairs.append((zero if true is None else true, zero if got is None else got))
        for true, got in pairs:
            assert (got - true).norm() <= bound * true.norm() + 1e-12, (true, got)

    return check


@pytest.fixture
def views():
    """``views(n)``: two matrices of embeddings of n pairs that mostly belong together."""

    def make(n, width=8, seed=0):
        g = torch.Generator().manual_seed(seed)
        a = torch.randn(n, width, generator=g)
        return a.requires_grad_(), (a.detach() + torch.randn(n, width, generator=g)).requires_grad_()

    return make
