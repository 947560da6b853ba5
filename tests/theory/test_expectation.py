"""The exact expected loss against a sum over ordered negatives, and the simulated one against the exact one."""

import itertools
import math
from functools import partial

import pytest
import torch

from rince.errors import UsageError
from rince.losses.objectives import info_nce, rince
from rince.theory import expected_loss, sampled_loss


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


def test_simulation_needs_two_samples():
    joint, scores = random_tables(2, 2)
    with pytest.raises(UsageError, match="got 1 and 3"):
        sampled_loss(info_nce, joint, scores, 3, 1, torch.Generator())
