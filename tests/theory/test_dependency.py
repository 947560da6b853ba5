"""RINCE at q = 1: its two weights with noise, right and printed, and the condition on lam."""

from functools import partial

import pytest
import torch

from rince.losses.objectives import rince
from rince.theory import (
    dependency_constant,
    effective_lam,
    expected_loss,
    independent,
    least_lam,
    noisy,
    noisy_weights,
    printed_least_lam,
    printed_noisy_weights,
    sampled_loss,
    symmetric_rince,
)

JOINT = torch.tensor([[0.4, 0.1], [0.1, 0.4]], dtype=torch.float64)
SCORES = torch.tensor([[1.0, -1.0], [-0.5, 0.8]], dtype=torch.float64)


def test_the_weights_without_noise_are_those_of_the_loss():
    loss = symmetric_rince(JOINT, SCORES, noisy_weights(0.3, 5, 0.0))
    assert float(loss) == pytest.approx(float(expected_loss(partial(rince, q=1.0, lam=0.3), JOINT, SCORES, 5)))


@pytest.mark.parametrize(("number", "lam", "eta"), [(8, 0.2, 0.4), (4, 0.5, 0.2), (16, 1 / 17, 0.6)])
def test_simulated_noise_tells_the_right_weight_from_the_printed_one(number, lam, eta):
    generator = torch.Generator().manual_seed(0)
    objective = partial(rince, q=1.0, lam=lam)
    mean, error = sampled_loss(objective, noisy(JOINT, eta), SCORES, number, 100_000, generator)
    right = symmetric_rince(JOINT, SCORES, noisy_weights(lam, number, eta))
    printed = symmetric_rince(JOINT, SCORES, printed_noisy_weights(lam, number, eta))
    assert abs(float((mean - right) / error)) < 4
    assert abs(float((mean - printed) / error)) > 100


def test_the_printed_weight_is_right_for_one_negative_or_without_noise():
    assert printed_noisy_weights(0.3, 1, 0.4) == pytest.approx(noisy_weights(0.3, 1, 0.4))
    assert printed_noisy_weights(0.3, 9, 0.0) == pytest.approx(noisy_weights(0.3, 9, 0.0))


@pytest.mark.parametrize("number", [1, 4, 255])
@pytest.mark.parametrize("eta", [0.0, 0.3, 0.9])
def test_the_condition_is_where_push_reaches_pull(number, eta):
    pull, push = noisy_weights(least_lam(number), number, eta)
    assert push == pytest.approx(pull)
    pull, push = noisy_weights(0.99 * least_lam(number), number, eta)
    assert push < pull
    pull, push = printed_noisy_weights(printed_least_lam(number, eta), number, eta)
    assert push == pytest.approx(pull)  # the printed condition follows from the printed weight
    assert printed_least_lam(number, eta) >= least_lam(number) - 1e-15


def test_below_the_condition_independent_views_have_a_negative_loss():
    apart = independent(JOINT)
    for number in (1, 7, 300):
        assert float(symmetric_rince(apart, SCORES, noisy_weights(0.9 * least_lam(number), number, 0.0))) < 0
        assert float(symmetric_rince(apart, SCORES, noisy_weights(1.1 * least_lam(number), number, 0.0))) > 0


def test_noise_moves_lam_away_from_balance_and_leaves_balance_alone():
    assert effective_lam(1 / 256, 255, 0.6) == pytest.approx(1 / 256)
    assert effective_lam(0.01, 255, 0.6) > 0.01 and effective_lam(0.002, 255, 0.3) < 0.002
    assert effective_lam(0.001, 255, 0.5) < 0  # r = 0.26 < eta: negatives attract


def test_the_constant_of_the_theorem():
    assert float(dependency_constant(0.2, 0.5, 3.0)) == pytest.approx(3 * 0.8 * 7.38905609893065 / 0.5)
