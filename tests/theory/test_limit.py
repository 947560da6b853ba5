"""Lemma 1 with a rate: the bounds are exact in shape, neither broken nor far away."""

import math

import pytest
import torch

from rince.losses.objectives import info_nce, rince
from rince.theory import limit_error, limit_gradient_error


def scores():
    generator = torch.Generator().manual_seed(0)
    return torch.randn(2, 200, generator=generator, dtype=torch.float64) * 2


@pytest.mark.parametrize("lam", [0.01, 0.5, 2.0])
def test_the_distance_is_q_times_half_the_difference_of_squares(lam):
    positive, negatives = scores()
    q = 1e-6
    away = rince(positive, negatives, q, lam) - info_nce(positive, negatives) - math.log(lam)
    upper = (lam * (positive.exp() + negatives.exp())).log()
    assert torch.allclose(away / q, (upper**2 - positive**2) / 2, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("q", [1e-4, 0.1, 1.0])
def test_the_bound_is_the_formula_of_the_page(q):
    positive, negatives = scores()
    upper = (0.1 * (positive.exp() + negatives.exp())).log()
    largest = torch.maximum(positive.abs(), upper.abs())
    bound = limit_error(positive, negatives, q, 0.1)
    assert torch.allclose(bound, (upper - positive).abs() * ((q * largest).exp() - 1))
    away = (rince(positive, negatives, q, 0.1) - upper + positive).abs()
    assert bool((away <= bound).all())
    assert float((away / bound).max()) > 0.3


def test_bounds_go_to_zero_in_proportion_to_q():
    positive, negatives = scores()
    for bound in (
        limit_error,
        lambda *given: limit_gradient_error(*given)[0],
        lambda *given: limit_gradient_error(*given)[1],
    ):
        ratio = bound(positive, negatives, 1e-8, 0.3) / bound(positive, negatives, 1e-9, 0.3)
        assert torch.allclose(ratio, torch.tensor(10.0, dtype=torch.float64), rtol=1e-5)
