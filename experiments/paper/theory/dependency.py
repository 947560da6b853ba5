"""RINCE at q = 1 and the Wasserstein dependency of two views, with and without noise."""

import numpy as np
import torch
from torch import Tensor

from experiments.paper.theory.distributions import independent
from rince._support.optional_imports import require

Number = float | Tensor


def min_lam(number: Number) -> Number:
    """The smallest lam for which RINCE at q = 1 bounds the dependency, with and without noise: 1 / (K + 1).

    Below it, views that are independent already contradict the bound.

    Args:
        number: K, the number of negatives.

    Returns:
        1 / (K + 1).

    Example:
        >>> min_lam(255)
        0.00390625
    """
    return 1 / (number + 1)


def printed_min_lam(number: Number, eta: Number) -> Number:
    """The condition on lam that the paper prints for noisy pairs; far more than what is needed.

    Args:
        number: K, the number of negatives.
        eta: noise rate.

    Returns:
        (eta K - eta + 1) / (eta K - eta + 1 + K).

    Example:
        >>> round(printed_min_lam(255, 0.4), 4)
        0.2869
    """
    above = eta * number - eta + 1
    return above / (above + number)


def noisy_weights(lam: Number, number: Number, eta: Number) -> tuple[Number, Number]:
    """What E_P[e^s] and E_PP[e^s] are multiplied with in minus the expected loss, and in the loss, if pairs are noisy.

    Args:
        lam: in (0, 1].
        number: K, the number of negatives.
        eta: noise rate; 0 gives the clean weights.

    Returns:
        (1 - lam)(1 - eta) and lam K - eta (1 - lam).

    Example:
        >>> noisy_weights(lam=0.5, number=4, eta=0.5)
        (0.25, 1.75)
    """
    return (1 - lam) * (1 - eta), lam * number - eta * (1 - lam)


def printed_noisy_weights(lam: Number, number: Number, eta: Number) -> tuple[Number, Number]:
    """The weights that the paper prints: the second one, K (lam - eta + eta lam), multiplies the noise by K, too.

    Args:
        lam: in (0, 1].
        number: K, the number of negatives.
        eta: noise rate.

    Returns:
        (1 - lam)(1 - eta) and K (lam - eta + eta lam); right for K = 1 or eta = 0 only.

    Example:
        >>> printed_noisy_weights(lam=0.5, number=4, eta=0.5)  # true: 0.25 and 1.75
        (0.25, 1.0)
    """
    return (1 - lam) * (1 - eta), number * (lam - eta + eta * lam)


def symmetric_rince(joint: Tensor, scores: Tensor, weights: tuple[Number, Number]) -> Tensor:
    """The expected loss of RINCE at q = 1 from its two weights.

    Args:
        joint: clean probabilities, shape (..., x, v).
        scores: score of every pair, shape (..., x, v).
        weights: from :func:`noisy_weights`, numbers or shape (...).

    Returns:
        Shape (...).

    Example:
        >>> joint = torch.tensor([[0.5, 0.0], [0.0, 0.5]])
        >>> symmetric_rince(joint, torch.zeros(2, 2), noisy_weights(lam=0.2, number=4, eta=0.3))
        tensor(0.)
    """
    pull, push = weights
    joint_mean, product_mean = ((table * scores.exp()).sum((-2, -1)) for table in (joint, independent(joint)))
    return push * product_mean - pull * joint_mean


def dependency_constant(lam: Number, temperature: Number, slope: Number) -> Tensor:
    """L in: minus the expected loss of RINCE at q = 1 is at most (1 - eta) L W(P_XV, P_X P_V).

    Args:
        lam: at least ``min_lam(number)``.
        temperature: t, scores are cosines over it.
        slope: Lipschitz constant of the map from representations to the unit sphere.

    Returns:
        slope (1 - lam) e^{1/t} / t.

    Example:
        >>> dependency_constant(lam=0.5, temperature=1.0, slope=2.0)
        tensor(2.7183)
    """
    t = torch.as_tensor(temperature)
    return slope * (1 - lam) * torch.exp(1 / t) / t


def effective_lam(lam: Number, number: Number, eta: Number) -> Number:
    """The lam of a clean problem that has the same minimizers as RINCE at q = 1 has on noisy pairs.

    r = lam K / (1 - lam) is how many times likelier than chance a pair must be to attract. Noise turns it into
    (r - eta) / (1 - eta): it stays 1 where it is 1, at lam = 1 / (K + 1), and moves away from 1 elsewhere.

    Args:
        lam: in (0, 1).
        number: K, the number of negatives.
        eta: noise rate below 1.

    Returns:
        The other lam; negative where r < eta: negatives do not repel any more.

    Example:
        >>> round(effective_lam(0.01, 255, 0.6), 4), effective_lam(1 / 256, 255, 0.6) * 256
        (0.019, 1.0)
    """
    ratio = (lam * number / (1 - lam) - eta) / (1 - eta)
    return ratio / (number + ratio)


TOGETHER = 80  # transport problems in one call of the solver: a call costs more than a small problem

TOLERANCES = ("primal_feasibility_tolerance", "dual_feasibility_tolerance")  # 1e-7 unless told: off in the 8th digit


def wasserstein(first: Tensor, second: Tensor, cost: Tensor) -> Tensor:
    """The least cost of moving one distribution onto another.

    Args:
        first: probabilities of N atoms, shape (..., N).
        second: same shape.
        cost: of moving from atom to atom, shape (..., N, N).

    Returns:
        Shape (...), in float64.

    Example:
        >>> line = torch.tensor([0.0, 1.0, 3.0])
        >>> wasserstein(torch.tensor([1.0, 0, 0]), torch.tensor([0, 0.5, 0.5]), (line[:, None] - line).abs())
        tensor(2., dtype=torch.float64)
    """
    atoms = first.shape[-1]
    masses = torch.stack([first, second], dim=-2).double().reshape(-1, 2, atoms)
    masses = masses / masses.sum(-1, keepdim=True)  # rounding must not make the program infeasible
    costs = cost.double().expand(*first.shape[:-1], atoms, atoms).reshape(-1, atoms, atoms)
    solved = [
        _transport(mass_block.numpy(), cost_block.numpy())
        for mass_block, cost_block in zip(masses.split(TOGETHER), costs.split(TOGETHER), strict=True)
    ]
    return torch.from_numpy(np.concatenate(solved)).reshape(first.shape[:-1])


def _transport(masses: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """Several problems in one program: couplings are the variables, their two marginals the constraints."""
    optimize, sparse = require("scipy.optimize", "train"), require("scipy.sparse", "train")
    problems, _, atoms = masses.shape
    identity, row = sparse.identity(atoms), np.ones((1, atoms))
    marginals = sparse.vstack([sparse.kron(identity, row), sparse.kron(row, identity)])
    constraints = sparse.kron(sparse.identity(problems), marginals, format="csr")
    for presolve in (True, False):  # which takes some problems with tiny masses for infeasible
        options = {**dict.fromkeys(TOLERANCES, 1e-10), "presolve": presolve}
        result = optimize.linprog(costs.ravel(), A_eq=constraints, b_eq=masses.ravel(), method="highs", options=options)
        if result.status == 0:
            return (result.x.reshape(costs.shape) * costs).sum((1, 2))
    raise RuntimeError(f"the transport problem was not solved: {result.message}")


def pair_distances(x: Tensor, v: Tensor) -> Tensor:
    """|x - x'| + |v - v'| between any two pairs (x, v) and (x', v').

    Args:
        x: where the values of X lie, shape (..., x, d).
        v: where the values of V lie, shape (..., v, d).

    Returns:
        Shape (..., x * v, x * v), pairs in the order of a flattened table.

    Example:
        >>> pair_distances(torch.tensor([[0.0], [3.0]]), torch.tensor([[0.0]]))
        tensor([[0., 3.],
                [3., 0.]])
    """
    of_x, of_v = torch.cdist(x, x), torch.cdist(v, v)
    distances = of_x[..., :, None, :, None] + of_v[..., None, :, None, :]
    return distances.flatten(-2).flatten(-3, -2)


def wasserstein_dependency(joint: Tensor, x: Tensor, v: Tensor) -> Tensor:
    """W(P_XV, P_X P_V): how far the pairs are from independent, in terms of where the views lie.

    Args:
        joint: probabilities, shape (..., x, v).
        x: representations of the values of X, shape (..., x, d).
        v: representations of the values of V, shape (..., v, d).

    Returns:
        Shape (...), in float64.

    Example:
        >>> points = torch.tensor([[0.0], [1.0]])
        >>> wasserstein_dependency(torch.tensor([[0.5, 0.0], [0.0, 0.5]]), points, points)
        tensor(0.5000, dtype=torch.float64)
    """
    return wasserstein(joint.flatten(-2), independent(joint).flatten(-2), pair_distances(x, v))


def lipschitz(values: Tensor, distances: Tensor) -> Tensor:
    """The smallest L with |values_i - values_j| <= L distances_ij.

    Args:
        values: vectors of a function at N points, shape (..., N, d).
        distances: between the points, shape (..., N, N).

    Returns:
        Shape (...); infinite where one point has two values.

    Example:
        >>> lipschitz(torch.tensor([[0.0], [2.0]]), torch.tensor([[0.0, 0.5], [0.5, 0.0]]))
        tensor(4.)
    """
    value_distances = torch.cdist(values, values)
    slopes = torch.where(value_distances == 0, torch.zeros_like(value_distances), value_distances / distances)
    return slopes.flatten(-2).amax(-1)
