"""The direct way for small batches against the plain formula in double precision."""

import pytest
import torch

from rince.integrations._shared import diagonal_scores, small
from rince.losses.contrasts import unit
from rince.losses.logsumexp import negative_scores_both


def sides(n, m, scale, dtype=torch.float64):
    g = torch.Generator().manual_seed(n + m)
    rows, columns = (torch.randn(k, 6, generator=g, dtype=torch.float64) for k in (n, m))
    return (scale * unit(rows)).to(dtype).requires_grad_(), unit(columns).to(dtype).requires_grad_()


def plain(rows, columns, start, both):
    scores = rows @ columns.T
    positive = scores.diagonal(start)
    others = scores.masked_fill(torch.eye(*scores.shape, dtype=torch.bool).roll(start, 1), -torch.inf)
    return [positive, others.logsumexp(1), *([others.logsumexp(0)] if both else [])]


CASES = [(5, 5, 0, False), (5, 5, 0, True), (5, 15, 0, False), (4, 12, 3, False), (40, 40, 0, True)]


@pytest.mark.parametrize("scale", (1.0, 20.0, 100.0, 2000.0))
@pytest.mark.parametrize(("n", "m", "start", "both"), CASES)
def test_values_and_gradients_are_those_of_the_formula(n, m, start, both, scale):
    rows, columns = sides(n, m, scale)
    got, true = diagonal_scores(rows, columns, start, both), plain(rows, columns, start, both)
    weights = [torch.linspace(-1, 2, n, dtype=torch.float64) for _ in true]
    for x, y in zip(got, true, strict=False):
        assert torch.allclose(x, y, rtol=1e-12)
    found = torch.autograd.grad(got[: len(true)], (rows, columns), weights)
    for x, y in zip(found, torch.autograd.grad(true, (rows, columns), weights), strict=True):
        assert (x - y).norm() <= 1e-11 * y.norm()


@pytest.mark.parametrize("scale", (20.0, 100.0))
def test_float32_is_as_good_as_the_blocked_kernel(scale):
    rows, columns = sides(40, 40, scale, torch.float32)
    keys = torch.arange(40)
    true = [side.lse for side in negative_scores_both(rows.double(), columns.double(), keys, keys)]
    for x, y in zip(diagonal_scores(rows, columns, both=True)[1:], true, strict=True):
        assert torch.allclose(x.double(), y, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("both", (False, True))
def test_an_anchor_without_negatives_pulls_on_nothing(both):
    rows, columns = sides(1, 1, 20.0)
    positive, *others = diagonal_scores(rows, columns, both=both)
    assert all(torch.isneginf(side).all() for side in others[: 1 + both])
    gradient = torch.autograd.grad(positive.sum() + sum(side.exp().sum() for side in others), rows)[0]
    assert torch.allclose(gradient, columns)


@pytest.mark.parametrize("both", (False, True))
def test_gradients_of_gradients(both):
    rows, columns = sides(4, 4, 3.0)
    assert torch.autograd.gradgradcheck(lambda a, b: diagonal_scores(a, b, 0, both)[: 2 + both], (rows, columns))


def test_second_derivatives_with_candidates_made_from_anchors():
    rows, _ = sides(4, 4, 3.0)
    found = []
    for scores in (lambda z: diagonal_scores(z, z.flip(1) ** 2, 0, True), lambda z: plain(z, z.flip(1) ** 2, 0, True)):
        (first,) = torch.autograd.grad(sum(side.sum() for side in scores(rows)), rows, create_graph=True)
        found.append((first, *torch.autograd.grad(first.square().sum(), rows)))
    for ours, true in zip(*found, strict=True):
        assert torch.allclose(ours, true, rtol=1e-10)


def test_rows_of_any_length_become_unit_rows():
    rows = torch.randn(6, 4)
    lengths = torch.tensor([1, 1e-20, 1e25, 0, 1, 1])
    expected = torch.nn.functional.normalize(rows, dim=1) * (lengths > 0).float()[:, None]
    assert torch.allclose(unit(rows * lengths[:, None]), expected, atol=1e-6)
    assert torch.allclose(unit(rows), torch.nn.functional.normalize(rows, dim=1), atol=1e-6)
    assert unit(torch.zeros(0, 4)).shape == (0, 4)


def test_large_matrices_are_left_to_the_kernel():
    rows = torch.randn(520, 3)
    assert small(rows[:512], rows[:512]) and not small(rows, rows)
