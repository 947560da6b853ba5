"""Symmetry over pairs and over candidates, against closed forms."""

from functools import partial

import pytest
import torch

from rince.losses.objectives import info_nce, rince
from rince.theory import candidate_sum, entanglement, pull_over_push

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


def test_candidates_of_the_softmax_shares_sum_to_the_number_of_negatives():
    scores = torch.cat([POSITIVE[:, None], NEGATIVES], dim=-1)
    sums = candidate_sum(lambda positive, negatives: torch.sigmoid(negatives - positive), scores)
    assert torch.allclose(sums, torch.tensor(4.0, dtype=torch.float64))
