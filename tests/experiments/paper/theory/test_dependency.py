"""RINCE at q = 1 and the Wasserstein dependency."""

from functools import partial

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from scipy.stats import wasserstein_distance

from experiments.paper.theory.dependency import (
    TOGETHER,
    dependency_constant,
    effective_lam,
    lipschitz,
    min_lam,
    noisy_weights,
    pair_distances,
    printed_min_lam,
    printed_noisy_weights,
    symmetric_rince,
    wasserstein,
    wasserstein_dependency,
)
from experiments.paper.theory.distributions import expected_loss, independent, noisy, sampled_loss
from rince.losses.objectives import rince

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
    pull, push = noisy_weights(min_lam(number), number, eta)
    assert push == pytest.approx(pull)
    pull, push = noisy_weights(0.99 * min_lam(number), number, eta)
    assert push < pull
    pull, push = printed_noisy_weights(printed_min_lam(number, eta), number, eta)
    assert push == pytest.approx(pull)  # the printed condition follows from the printed weight
    assert printed_min_lam(number, eta) >= min_lam(number) - 1e-15


def test_below_the_condition_independent_views_have_a_negative_loss():
    apart = independent(JOINT)
    for number in (1, 7, 300):
        assert float(symmetric_rince(apart, SCORES, noisy_weights(0.9 * min_lam(number), number, 0.0))) < 0
        assert float(symmetric_rince(apart, SCORES, noisy_weights(1.1 * min_lam(number), number, 0.0))) > 0


def test_noise_moves_lam_away_from_balance_and_leaves_balance_alone():
    assert effective_lam(1 / 256, 255, 0.6) == pytest.approx(1 / 256)
    assert effective_lam(0.01, 255, 0.6) > 0.01 and effective_lam(0.002, 255, 0.3) < 0.002
    assert effective_lam(0.001, 255, 0.5) < 0  # r = 0.26 < eta: negatives attract


def test_the_constant_of_the_theorem():
    assert float(dependency_constant(0.2, 0.5, 3.0)) == pytest.approx(3 * 0.8 * 7.38905609893065 / 0.5)


RNG = np.random.default_rng(0)


def tables(cases, x, v):
    return torch.from_numpy(RNG.dirichlet(np.ones(x * v), cases)).reshape(cases, x, v)


def points(cases, number):
    return torch.from_numpy(RNG.normal(size=(cases, number, 2)))


def test_on_a_line_it_is_the_distance_of_distribution_functions():
    place = torch.from_numpy(RNG.normal(size=7))
    first, second = (torch.from_numpy(RNG.dirichlet(np.ones(7), 20)) for _ in range(2))
    found = wasserstein(first, second, (place[:, None] - place).abs())
    expected = [wasserstein_distance(place, place, a, b) for a, b in zip(first, second, strict=True)]
    assert found.tolist() == pytest.approx(expected, abs=1e-9)


def test_two_by_two_closed_form():
    cases = 2 * TOGETHER + 3
    joint, x, v = tables(cases, 2, 2), points(cases, 2), points(cases, 2)
    excess = (joint - independent(joint))[:, 0, 0].abs()
    nearest = torch.minimum((x[:, 0] - x[:, 1]).norm(dim=-1), (v[:, 0] - v[:, 1]).norm(dim=-1))
    assert torch.allclose(wasserstein_dependency(joint, x, v), 2 * excess * nearest, atol=1e-9)


def test_it_equals_the_kantorovich_rubinstein_dual():
    joint, x, v = tables(5, 2, 4), points(5, 2), points(5, 4)
    found, distances = wasserstein_dependency(joint, x, v), pair_distances(x, v)
    rows = [np.eye(8)[i] - np.eye(8)[j] for i in range(8) for j in range(8)]
    for one, table, cost in zip(found, joint, distances, strict=True):
        gain = (table - independent(table)).flatten().numpy()
        dual = linprog(-gain, A_ub=np.array(rows), b_ub=cost.numpy().ravel(), bounds=[(None, None)] * 8)
        assert float(one) == pytest.approx(-dual.fun, abs=1e-9)


def test_distances_of_pairs_are_sums_of_distances():
    x, v = points(1, 2)[0], points(1, 3)[0]
    found = pair_distances(x, v)
    for i in range(6):
        for j in range(6):
            expected = (x[i // 3] - x[j // 3]).norm() + (v[i % 3] - v[j % 3]).norm()
            assert float(found[i, j]) == pytest.approx(float(expected), abs=1e-6)


def test_single_precision_and_any_batch_are_taken():
    joint, x, v = tables(6, 3, 2).float().reshape(2, 3, 3, 2), points(6, 3).float(), points(6, 2).float()
    found = wasserstein_dependency(joint, x.reshape(2, 3, 3, 2), v.reshape(2, 3, 2, 2))
    assert found.shape == (2, 3) and found.dtype == torch.float64
    one = wasserstein_dependency(joint[1, 2], x[5], v[5])
    assert float(found[1, 2]) == pytest.approx(float(one), abs=1e-6) and float(one) > 0


def test_the_steepest_slope():
    values, where = points(1, 5)[0], points(1, 5)[0]
    slopes = [(values[i] - values[j]).norm() / (where[i] - where[j]).norm() for i in range(5) for j in range(i)]
    assert float(lipschitz(values, torch.cdist(where, where))) == pytest.approx(float(max(slopes)))
    assert float(lipschitz(torch.tensor([[0.0], [1.0]]), torch.zeros(2, 2))) == float("inf")
    assert float(lipschitz(torch.tensor([[1.0], [1.0]]), torch.zeros(2, 2))) == 0


def test_tiny_probabilities_are_transported_too():
    points = torch.eye(3, dtype=torch.float64)
    joint = torch.tensor([[8.8371e-03, 7.3e-11, 3.4e-07], [9.9116e-01, 2.5e-11, 2.4e-06], [3.3e-09, 7.5e-08, 7e-12]])
    found = wasserstein_dependency(joint.double() / joint.double().sum(), points, points)
    assert float(found) == pytest.approx(1.1045e-6, rel=1e-3)
