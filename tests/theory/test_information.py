"""Mutual information in closed forms, and InfoNCE's bound where it is reached."""

import math

import pytest
import torch

from rince.losses.objectives import info_nce
from rince.theory import best_scores, expected_loss, independent, information_bound, mutual_information


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


def test_best_scores_come_ever_closer_with_more_negatives_and_no_others_do_better():
    joint = torch.tensor([[0.3, 0.05, 0.05], [0.02, 0.25, 0.03], [0.05, 0.05, 0.2]], dtype=torch.float64)
    information = float(mutual_information(joint))
    bounds = [float(information_bound(joint, best_scores(joint), number)) for number in (1, 4, 16, 40)]
    assert bounds == sorted(bounds) and bounds[-1] < information < bounds[-1] + 0.05
    generator = torch.Generator().manual_seed(0)
    others = best_scores(joint) + 0.3 * torch.randn(200, 3, 3, generator=generator, dtype=torch.float64)
    assert float(information_bound(joint.expand(200, 3, 3), others, 4).max()) < bounds[1]
