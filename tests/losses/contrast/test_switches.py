"""Both sides of every switch of the kernel, against the dense float64 matrix: values and gradients.

The switches: one shift for all scores up to a spread of SAFE, one tile up to DENSE scores, square tiles of 256 or 512
rows, keys or none, a bound that is known or looked for.
"""

import pytest
import torch

import rince
from rince.losses.contrast import kernel
from rince.losses.contrast.tiles import DENSE, SAFE
from support.losses import reference
from support.losses.loss_cases import batch, same

SIDE = int(DENSE**0.5)


def dense(kind, z1, z2, t, ids, weights):
    each = reference.losses(reference.info_nce, *reference.halves(kind, z1, z2, t, ids=ids))
    if weights is None:
        return each.mean()
    weights = weights.double().repeat(len(each) // len(weights))
    return (each * weights).sum() / weights.sum()


# The spread of scores is 2 / t: the switch lies at t = 2 / SAFE = 0.0333.
@pytest.mark.parametrize("learned", (False, True))  # the bound is looked for, or known
@pytest.mark.parametrize("t", [2 / SAFE * factor for factor in (0.97, 0.9999, 1.0001, 1.03)])
@pytest.mark.parametrize("kind", ("TwoView", "CrossView", "CrossView one way"))
def test_temperatures_on_both_sides_of_one_shift_for_all_scores(kind, t, learned):
    g = torch.Generator().manual_seed(3)
    contrast = rince.TwoView() if kind == "TwoView" else rince.CrossView(symmetric=kind == "CrossView")
    loss = rince.InfoNCE(torch.nn.Parameter(torch.tensor(t, dtype=torch.float64)) if learned else t, contrast)
    for n, width in ((9, 2), (9, 16), (40, 3)):
        z1, z2, *_ = batch(n, 1, width)
        for ids in (None, torch.arange(n) // 2):
            for weights in (None, torch.rand(n, generator=g)):
                expected = dense(kind, z1, z2, t, ids, weights)
                same(loss(z1, z2, ids=ids, weights=weights), expected, (z1, z2), 1e-4)


def test_opposite_embeddings_at_the_switch_keep_full_precision():
    """The worst case for one shift: every score lies as far below the bound as can be."""
    z1 = torch.randn(1, 8).repeat(6, 1)
    for t in (2 / SAFE * 0.999, 2 / SAFE * 1.001):
        a, b = z1.clone().requires_grad_(), (-z1 + 1e-3 * torch.randn(6, 8)).requires_grad_()
        same(rince.InfoNCE(t, rince.CrossView())(a, b), dense("CrossView", a, b, t, None, None), (a, b), 2e-4)


@pytest.mark.parametrize("t, limit", [(0.02, 5e-5), (0.1, 1e-5)])
@pytest.mark.parametrize("n, m", [(SIDE, SIDE - 1), (SIDE, SIDE), (SIDE, SIDE + 1), (1, DENSE + 1), (1025, 300)])
def test_matrices_on_both_sides_of_one_tile(n, m, t, limit):
    g = torch.Generator().manual_seed(0)
    unit = [torch.nn.functional.normalize(torch.randn(k, 4, generator=g), dim=1) for k in (n, m)]
    rows, columns = ((z * t**-0.5).requires_grad_() for z in unit)
    weights = torch.rand(n, generator=g)
    for keys in (None, torch.arange(max(n, m)) // 3):
        row_keys, column_keys = (None, None) if keys is None else (keys[:n], keys[:m])
        scores = rows.double() @ columns.double().T
        if keys is not None:
            scores = scores.masked_fill(row_keys[:, None] == column_keys, -torch.inf)
        expected = (scores.logsumexp(1) * weights.double()).sum()
        for bound in (None, 1 / t):
            lse = kernel.negative_scores(rows, columns, row_keys, column_keys, bound=bound).lse
            value = (lse * weights).sum()
            assert value.item() == pytest.approx(expected.item(), rel=1e-6)
            got = torch.autograd.grad(value, (rows, columns), retain_graph=True)
            true = torch.autograd.grad(expected, (rows, columns), retain_graph=True)
            for a, b in zip(got, true, strict=True):
                assert (a - b).norm() <= limit * b.norm()
