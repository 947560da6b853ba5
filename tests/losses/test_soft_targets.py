"""Soft targets, as in robust cross-modal instance discrimination, are weights of pairs: no loss of their own."""

import pytest
import torch
from torch.nn.functional import log_softmax, normalize

import rince

N = 9


def batch():
    random = torch.Generator().manual_seed(0)
    a, b = (torch.randn(N, 5, generator=random, dtype=torch.float64, requires_grad=True) for _ in range(2))
    return a, b, torch.rand(N, N, generator=random, dtype=torch.float64)


def dense(a, b, targets, temperature):
    """Cross-entropy of the softmax over all candidates against soft targets, anchors on the left."""
    return -(targets * log_softmax(normalize(a) @ normalize(b).T / temperature, 1)).sum()


def by_weights(a, b, targets, temperature):
    """The k-th call pairs anchor i with candidate i + k: all N candidates stay in every denominator."""
    loss = rince.InfoNCE(temperature=temperature, contrast=rince.CrossView(symmetric=False), reduction="sum")
    rows = torch.arange(N)
    return sum(loss(a, b.roll(-k, 0), weights=targets[rows, (rows + k) % N]) for k in range(N))


@pytest.mark.parametrize("temperature", [0.05, 0.5])
def test_soft_targets_over_all_candidates_are_weights_of_shifted_pairs(temperature):
    a, b, targets = batch()
    ours, expected = by_weights(a, b, targets, temperature), dense(a, b, targets, temperature)
    assert ours.item() == pytest.approx(expected.item(), rel=1e-10)
    for mine, theirs in zip(torch.autograd.grad(ours, (a, b)), torch.autograd.grad(expected, (a, b)), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-8, atol=1e-12)


def test_a_weight_per_pair_is_the_diagonal_of_the_targets():
    a, b, targets = batch()
    trust = targets.diagonal()
    loss = rince.InfoNCE(temperature=0.2, contrast=rince.CrossView(symmetric=False))
    expected = dense(a, b, trust.diag(), 0.2) / trust.sum()
    assert loss(a, b, weights=trust).item() == pytest.approx(expected.item(), rel=1e-10)
