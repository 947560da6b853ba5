"""The linear programme against closed forms, its dual and transport on a line."""

import numpy as np
import pytest
import torch
from scipy.optimize import linprog
from scipy.stats import wasserstein_distance

from rince.errors import UsageError
from rince.theory import independent, lipschitz, pair_distances, wasserstein, wasserstein_dependency
from rince.theory.transport import TOGETHER

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


def test_two_by_two_has_a_closed_form_also_beyond_one_call_of_the_solver():
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


def test_unequal_masses_are_refused():
    with pytest.raises(UsageError, match="same mass"):
        wasserstein(torch.tensor([1.0, 0.0]), torch.tensor([1.0, 1.0]), torch.zeros(2, 2))
