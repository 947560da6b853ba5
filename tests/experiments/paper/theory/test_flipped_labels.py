"""Risks of small classification problems, and the bounds for them."""

import math

import pytest
import torch

from experiments.paper.theory.flipped_labels import (
    exponential_loss,
    logistic_loss,
    risk,
    risk_bound,
    sigmoid_loss,
    vacuous_flip_rate,
)

SCORES = torch.linspace(-4, 4, 33, dtype=torch.float64)
ONES = torch.ones_like(SCORES)


@pytest.mark.parametrize(("loss", "spread"), [(exponential_loss, 0), (sigmoid_loss, 0), (logistic_loss, 2.6)])
def test_the_two_labels_of_a_symmetric_loss_sum_to_a_constant(loss, spread):
    sums = loss(SCORES, ONES) + loss(SCORES, -ONES)
    assert float(sums.max() - sums.min()) == pytest.approx(spread, abs=0.1 if spread else 1e-12)


def test_risk_is_the_average_over_points_and_flips():
    scores, labels = torch.tensor([0.3, -1.0, 2.0]), torch.tensor([1.0, -1.0, -1.0])
    weights, flips = torch.tensor([0.5, 0.3, 0.2]), torch.tensor([0.1, 0.0, 0.4])
    total = 0.0
    for s, y, w, f in zip(*(t.tolist() for t in (scores, labels, weights, flips)), strict=True):
        total += w * ((1 - f) * -y * math.exp(s) + f * y * math.exp(s))
    assert float(risk(exponential_loss, scores, labels, weights, flips)) == pytest.approx(total)
    clean = 0.5 * -math.exp(0.3) + 0.3 * math.exp(-1.0) + 0.2 * math.exp(2.0)
    assert float(risk(exponential_loss, scores, labels, weights)) == pytest.approx(clean)


def test_the_bound_is_the_theorem_the_corollary_and_the_sharper_one():
    assert risk_bound(0.3, 0.4) == pytest.approx(0.3 / 0.2)
    assert risk_bound(-0.3, 0.4, ceiling=2.0) == pytest.approx(5 * -0.3 + 4 * 2.0)  # the paper's example
    assert risk_bound(-0.3, 0.4, ceiling=2.0, min_flip=0.4) == pytest.approx(-0.3)  # equal flips cost nothing
    assert risk_bound(-0.3, 0.4, 2.0, 0.1) < risk_bound(-0.3, 0.4, 2.0)


@pytest.mark.parametrize("best", [-0.9, -0.5, 0.0, 0.4])
def test_the_corollary_reaches_the_ceiling_at_the_rate_that_is_said(best):
    rate = vacuous_flip_rate(best, 1.0)
    assert risk_bound(best, rate, ceiling=1.0) == pytest.approx(1.0)
    assert risk_bound(best, rate - 0.01, ceiling=1.0) < 1 < risk_bound(best, rate + 0.01, ceiling=1.0)


def test_risk_bound_is_vacuous_at_40_percent_flips():
    best = float(risk(exponential_loss, torch.tensor([2.0, -2.0]), torch.tensor([1.0, -1.0]), torch.tensor([0.5, 0.5])))
    ceiling = math.exp(2.0)
    assert best > -ceiling / 2 and risk_bound(best, 0.4, ceiling) > ceiling
