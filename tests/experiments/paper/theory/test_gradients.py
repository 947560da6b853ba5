"""Symmetry, the limit q -> 0, and printed derivatives."""

import math
from functools import partial

import pytest
import torch

from experiments.paper.theory.gradients import (
    candidate_sum,
    entanglement,
    info_nce_derivatives,
    limit_error,
    limit_gradient_error,
    printed_derivatives,
    printed_proof_derivatives,
    pull_over_push,
)
from rince.losses.objectives import info_nce, rince

GENERATOR = torch.Generator().manual_seed(0)
POSITIVE = torch.randn(50, generator=GENERATOR, dtype=torch.float64)
NEGATIVES = torch.randn(50, 4, generator=GENERATOR, dtype=torch.float64)
SHARES = torch.softmax(torch.cat([POSITIVE[:, None], NEGATIVES], dim=-1), dim=-1)


@pytest.mark.parametrize("lam", [0.1, 0.2, 0.9])
def test_symmetric_rince_pulls_in_proportion_to_its_push(lam):
    ratio = pull_over_push(partial(rince, q=1.0, lam=lam), torch.linspace(-3, 3, 50).double(), POSITIVE, NEGATIVES)
    assert torch.allclose(ratio, torch.tensor((1 - lam) / lam, dtype=torch.float64))


def test_info_nce_does_not():
    score = torch.full((50,), 0.5, dtype=torch.float64)
    as_positive = torch.softmax(torch.cat([score[:, None], NEGATIVES], dim=-1), dim=-1)[:, 0]
    beside = torch.cat([POSITIVE[:, None], score[:, None], NEGATIVES[:, 1:]], dim=-1)
    expected = (1 - as_positive) / torch.softmax(beside, dim=-1)[:, 1]
    found = pull_over_push(info_nce, score, POSITIVE, NEGATIVES)
    assert torch.allclose(found, expected)
    assert float(found.max() / found.min()) > 2


def test_entanglement_of_info_nce_is_minus_the_product_of_shares():
    assert torch.allclose(entanglement(info_nce, POSITIVE, NEGATIVES), -SHARES[:, :1] * SHARES[:, 1:])


@pytest.mark.parametrize("q", [0.25, 0.5, 1.0])
def test_entanglement_of_rince_vanishes_at_one(q):
    total = POSITIVE.exp() + NEGATIVES.exp().sum(-1)
    expected = (q - 1) * 0.1**q * total[:, None] ** q * SHARES[:, :1] * SHARES[:, 1:]
    assert torch.allclose(entanglement(partial(rince, q=q, lam=0.1), POSITIVE, NEGATIVES), expected, atol=1e-12)


def test_a_loss_without_curvature_is_not_entangled():
    assert torch.equal(
        entanglement(lambda positive, negatives: -positive, POSITIVE, NEGATIVES), torch.zeros(50, 4).double()
    )


@pytest.mark.parametrize("lam", [0.1, 0.2, 0.5])
def test_candidates_of_symmetric_rince_sum_to_a_multiple_of_the_total(lam):
    scores = torch.cat([POSITIVE[:, None], NEGATIVES], dim=-1)
    expected = (5 * lam - 1) * scores.exp().sum(-1)
    assert torch.allclose(candidate_sum(partial(rince, q=1.0, lam=lam), scores), expected, atol=1e-12)


def test_softmax_shares_sum_to_num_negatives():
    scores = torch.cat([POSITIVE[:, None], NEGATIVES], dim=-1)
    sums = candidate_sum(lambda positive, negatives: torch.sigmoid(negatives - positive), scores)
    assert torch.allclose(sums, torch.tensor(4.0, dtype=torch.float64))


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


def loss(scores):
    return -math.log(math.exp(scores[0]) / sum(math.exp(score) for score in scores))


def slope(scores, place, step=1e-6):
    up, down = ([*scores[:place], scores[place] + sign * step, *scores[place + 1 :]] for sign in (1, -1))
    return (loss(up) - loss(down)) / (2 * step)


@pytest.mark.parametrize("scores", [[0.5, 1.2, -0.3], [2.0, 0.1], [-4.0, 3.0, 3.0, -2.0]])
def test_they_are_the_slopes_of_the_loss(scores):
    positive, negatives = torch.tensor(scores[0], dtype=torch.float64), torch.tensor(scores[1:], dtype=torch.float64)
    found = info_nce_derivatives(positive, negatives)
    assert float(found[0]) == pytest.approx(slope(scores, 0), abs=1e-8)
    assert found[1].tolist() == pytest.approx([slope(scores, i + 1) for i in range(len(negatives))], abs=1e-8)
    assert float(found[0] + found[1].sum()) == pytest.approx(0, abs=1e-12)


def test_the_printed_ones_are_what_the_appendix_says_and_are_wrong():
    positive, negatives = (
        torch.tensor(0.0, dtype=torch.float64),
        torch.tensor([0.2, math.log(1.311)], dtype=torch.float64),
    )
    scores = [0.0, *negatives.tolist()]
    pos, neg = 1.0, sum(math.exp(score) for score in scores[1:])
    by_positive, by_negatives = printed_derivatives(positive, negatives)
    assert float(by_positive) == pytest.approx(-1 / loss(scores) * pos * neg / (pos + neg) ** 2)
    second = -1 / loss(scores) * (pos * (1 - 1.311) + neg) / (pos + neg) ** 2
    assert float(by_negatives[1]) == pytest.approx(second)
    assert slope(scores, 0) == pytest.approx(-0.717, abs=1e-3) and float(by_positive) == pytest.approx(-0.161, abs=1e-3)
    assert slope(scores, 2) > 0 > second


def test_the_lines_of_the_proof_contradict_their_own_last_line():
    positive, negatives = torch.tensor(0.3, dtype=torch.float64), torch.tensor([0.1, -1.0], dtype=torch.float64)
    total = float(positive.exp() + negatives.exp().sum())
    p, e = math.exp(0.3) / total, math.exp(0.3)
    by_positive, by_negatives = printed_proof_derivatives(positive, negatives)
    assert float(by_positive) == pytest.approx(-(e / total) * (total * e - e * e) / total**2)
    first = math.exp(0.1)
    assert float(by_negatives[0]) == pytest.approx(-(total / first) * (-e * first) / total**2)
    right = info_nce_derivatives(positive, negatives)
    assert float(right[0]) == pytest.approx(-1 + p)
    assert abs(float(right[0] - by_positive)) > 0.3 and abs(float(right[1][0] - by_negatives[0])) > 0.01
