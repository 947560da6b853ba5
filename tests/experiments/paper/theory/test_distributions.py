"""Small distributions, expected losses and mutual information."""

import itertools
import math
from functools import partial

import pytest
import torch

from experiments.paper.theory.distributions import (
    best_scores,
    expected_loss,
    independent,
    information_bound,
    mutual_information,
    noisy,
    sampled_loss,
)
from rince.losses.objectives import info_nce, rince

TABLE = torch.tensor([[0.1, 0.3, 0.0], [0.2, 0.1, 0.3]], dtype=torch.float64)


def test_independent_views_have_the_same_marginals():
    for axis in (0, 1):
        assert torch.allclose(independent(TABLE).sum(axis), TABLE.sum(axis))
    assert float(independent(TABLE)[1, 2]) == pytest.approx(0.6 * 0.3)


def test_noise_mixes_joint_and_product_and_keeps_the_marginals():
    mixed = noisy(TABLE, 0.25)
    assert torch.allclose(mixed, 0.75 * TABLE + 0.25 * torch.outer(TABLE.sum(1), TABLE.sum(0)))
    assert torch.allclose(mixed.sum(0), TABLE.sum(0))
    assert torch.equal(noisy(TABLE, 0.0), TABLE)


def test_a_batch_takes_a_noise_rate_for_each():
    rates = torch.tensor([0.0, 0.5, 1.0], dtype=torch.float64)
    batch = noisy(TABLE.expand(3, 2, 3), rates)
    for one, rate in zip(batch, rates, strict=True):
        assert torch.allclose(one, noisy(TABLE, float(rate)))


def obvious(formula, joint, scores, number):
    """Every anchor, positive and ordered list of negatives, with plain floats."""
    rows, columns = joint.shape
    total = 0.0
    for x, v in itertools.product(range(rows), range(columns)):
        for others in itertools.product(range(columns), repeat=number):
            chance = float(joint[x, v]) * math.prod(float(joint[:, other].sum()) for other in others)
            pos, neg = math.exp(scores[x, v]), sum(math.exp(scores[x, other]) for other in others)
            total += chance * formula(pos, neg)
    return total


FORMULAS = [
    (info_nce, lambda pos, neg: -math.log(pos / (pos + neg))),
    (partial(rince, q=1.0, lam=0.2), lambda pos, neg: -pos + 0.2 * (pos + neg)),
    (partial(rince, q=0.4, lam=0.1), lambda pos, neg: (-(pos**0.4) + (0.1 * (pos + neg)) ** 0.4) / 0.4),
]


def random_tables(*shape):
    generator = torch.Generator().manual_seed(0)
    joint = torch.rand(*shape, generator=generator, dtype=torch.float64)
    return joint / joint.sum((-2, -1), keepdim=True), torch.randn(*shape, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("number", [1, 2, 4])
@pytest.mark.parametrize(("objective", "formula"), FORMULAS)
def test_it_is_the_sum_over_every_list_of_negatives(objective, formula, number):
    joint, scores = random_tables(4, 2, 3)
    joint[0, 0, 1] += joint[0, 0, 0]
    joint[0, 0, 0] = 0
    found = expected_loss(objective, joint, scores, number)
    for one, table, score in zip(found, joint, scores, strict=True):
        assert float(one) == pytest.approx(obvious(formula, table, score, number), rel=1e-12)


def test_a_value_that_never_occurs_does_not_matter():
    joint, scores = random_tables(2, 2)
    wider = torch.cat([joint, torch.zeros(2, 1)], dim=-1)
    more = torch.cat([scores, torch.full((2, 1), 7.0)], dim=-1)
    assert float(expected_loss(info_nce, wider, more, 3)) == pytest.approx(
        float(expected_loss(info_nce, joint, scores, 3))
    )


def test_simulation_agrees_within_its_standard_error():
    joint, scores = random_tables(6, 5, 3, 4)
    exact = expected_loss(info_nce, joint, scores, 3)
    mean, error = sampled_loss(info_nce, joint, scores, 3, 2000, torch.Generator().manual_seed(1))
    away = (mean - exact) / error
    assert mean.shape == error.shape == (6, 5)
    assert float(away.abs().max()) < 4
    assert 0.6 < float(away.std()) < 1.4  # an error bar that is too wide would not be noticed above


@pytest.mark.parametrize("error", [0.0, 0.1, 0.5])
def test_a_channel_that_flips_a_bit(error):
    joint = torch.tensor([[1 - error, error], [error, 1 - error]], dtype=torch.float64) / 2
    entropy = -sum(p * math.log(p) for p in (error, 1 - error) if p)
    assert float(mutual_information(joint)) == pytest.approx(math.log(2) - entropy, abs=1e-12)


def test_the_constant_is_reached_by_independent_views():
    joint = independent(torch.tensor([[0.1, 0.2], [0.3, 0.4]], dtype=torch.float64))
    for number in (1, 5):
        assert float(information_bound(joint, torch.zeros(2, 2).double(), number)) == pytest.approx(0, abs=1e-12)


def test_the_bound_is_the_number_of_candidates_less_the_loss():
    joint = torch.tensor([[0.4, 0.1], [0.2, 0.3]], dtype=torch.float64)
    scores = best_scores(joint)
    assert float(information_bound(joint, scores, 7)) == pytest.approx(
        math.log(8) - float(expected_loss(info_nce, joint, scores, 7))
    )


def test_best_scores_converge_with_negatives():
    joint = torch.tensor([[0.3, 0.05, 0.05], [0.02, 0.25, 0.03], [0.05, 0.05, 0.2]], dtype=torch.float64)
    information = float(mutual_information(joint))
    bounds = [float(information_bound(joint, best_scores(joint), number)) for number in (1, 4, 16, 40)]
    assert bounds == sorted(bounds) and bounds[-1] < information < bounds[-1] + 0.05
    generator = torch.Generator().manual_seed(0)
    others = best_scores(joint) + 0.3 * torch.randn(200, 3, 3, generator=generator, dtype=torch.float64)
    assert float(information_bound(joint.expand(200, 3, 3), others, 4).max()) < bounds[1]
