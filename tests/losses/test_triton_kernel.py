"""The Triton kernel in Triton's interpreter, against the dense float64 matrix over the grid of test_logsumexp.py."""

import os

import pytest
import torch

import rince
from losses.test_logsumexp import agree, dense, embeddings
from rince.losses import logsumexp
from support.losses import reference
from support.losses.loss_cases import batch, same

pytest.importorskip("triton", reason="Triton is not installed: make test-peers")
if os.environ.get("TRITON_INTERPRET") != "1" and not torch.cuda.is_available():
    pytest.skip("needs a GPU, or TRITON_INTERPRET=1 as in make test-peers", allow_module_level=True)

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture(autouse=True)
def kernel(monkeypatch):
    """Calls of the kernel."""
    from rince.losses import triton_kernel

    monkeypatch.setenv("RINCE_KERNEL", "triton")
    calls, walk = [], triton_kernel._walk
    monkeypatch.setattr(triton_kernel, "_walk", lambda *given: calls.append(given) or walk(*given))
    return calls


@pytest.mark.parametrize("shared", (True, False))  # one shift of all scores, or the maximum of each row
@pytest.mark.parametrize("temperature, bound", [(1, 2e-6), (0.1, 5e-6), (0.02, 5e-5)])
@pytest.mark.parametrize("keys", ["own", "shared", "scattered"])
def test_kernel_equals_the_dense_matrix(temperature, bound, keys, shared, kernel):
    n, m = 100, 130  # ragged last blocks; the width of 24 is less than a block, too
    a, b = embeddings(n, temperature), embeddings(m, temperature, seed=1)
    everyone = {
        "own": torch.arange(m),
        "shared": torch.arange(m) // 3,
        "scattered": torch.randint(-(2**62), 2**62, (m // 7 + 1,)).repeat(7)[:m],
    }[keys]
    row_keys, largest = everyone[20 : 20 + n], 1.001 / temperature if shared else None
    scores = dense(a, b, row_keys, everyone)
    agree(
        [logsumexp.negative_scores(a, b, row_keys, everyone, bound=largest).lse], [scores.logsumexp(1)], [a, b], bound
    )
    both = [side.lse for side in logsumexp.negative_scores_both(a, b, row_keys, everyone, bound=largest)]
    agree(both, [scores.logsumexp(1), scores.logsumexp(0)], [a, b], bound)
    itself = [dense(a, a, row_keys, row_keys).logsumexp(1)]
    agree([logsumexp.negative_scores_self(a, row_keys, bound=largest).lse], itself, [a], bound)
    no_keys = [logsumexp.negative_scores(a, b, None, None, bound=largest).lse]
    agree(no_keys, [(a.double() @ b.double().T).logsumexp(1)], [a, b], bound)
    assert len(kernel) == (4 if shared and temperature > 0.034 else 5)


@pytest.mark.parametrize("temperature", (0.5, 0.01))
def test_rows_without_negatives_are_minus_infinity_with_no_gradient(temperature, kernel):
    a = embeddings(70, temperature)
    keys = torch.zeros(70, dtype=torch.int64)
    keys[0] = 1
    for given in (keys * 0, keys):
        lse = logsumexp.negative_scores(a, a.detach()[1:], given, keys[1:] * 0, bound=1 / temperature).lse
        assert torch.isneginf(lse[1:]).all() and torch.isneginf(lse[0]) == (given[0] == 0)
        (gradient,) = torch.autograd.grad(lse.masked_fill(torch.isneginf(lse), 0).sum(), a)
        assert gradient.isfinite().all() and not gradient[1:].any()
    assert kernel


@pytest.mark.parametrize("width", (3, 16, 200))  # of embeddings: narrower than a block, one, several
@pytest.mark.parametrize("kind", ("TwoView", "CrossView", "CrossView one way"))
def test_losses_equal_the_reference(kind, width, kernel):
    g = torch.Generator().manual_seed(0)
    z1, z2 = (torch.randn(20, width, generator=g).requires_grad_() for _ in range(2))
    contrast = rince.TwoView() if kind == "TwoView" else rince.CrossView(symmetric=kind == "CrossView")
    ids = torch.arange(20) // 2
    each = reference.losses(
        lambda pos, neg: reference.gce(pos, neg, 0.5), *reference.halves(kind, z1, z2, 0.2, ids=ids)
    )
    same(rince.GCE(q=0.5, contrast=contrast)(z1, z2, ids=ids), each.mean(), (z1, z2), 1e-4)
    assert kernel


@pytest.mark.parametrize("precision", ("tf32", "bfloat16"))
def test_rounded_products_are_those_of_the_blocks(precision, kernel, monkeypatch):
    z1, z2, *_ = batch(70)
    loss = rince.InfoNCE(contrast=rince.CrossView(precision=precision))
    value = loss(z1, z2)
    assert kernel
    monkeypatch.delenv("RINCE_KERNEL")
    same(value, loss(z1, z2).double(), (z1, z2), 1e-3)


def test_what_the_kernel_cannot_do_goes_through_the_blocks(kernel):
    z1, z2, *_ = batch(6)
    rince.HardNegatives()(z1, z2)
    rince.InfoNCE()(z1.double(), z2.double())
    assert not kernel
