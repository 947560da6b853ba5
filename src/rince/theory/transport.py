"""The Wasserstein dependency measure of discrete views, exactly, by linear programme."""

import numpy as np
import torch
from torch import Tensor

from rince._support.optional_imports import require
from rince.errors import UsageError
from rince.theory.distributions import check_joint, independent

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

    Raises:
        UsageError: if the two do not have equal mass.

    Example:
        >>> line = torch.tensor([0.0, 1.0, 3.0])
        >>> wasserstein(torch.tensor([1.0, 0, 0]), torch.tensor([0, 0.5, 0.5]), (line[:, None] - line).abs())
        tensor(2., dtype=torch.float64)
    """
    if not torch.allclose(first.sum(-1), second.sum(-1), atol=1e-6):
        raise UsageError("both distributions must have the same mass: divide each by its sum")
    atoms = first.shape[-1]
    masses = torch.stack([first, second], dim=-2).double().reshape(-1, 2, atoms)
    masses = masses / masses.sum(-1, keepdim=True)  # rounding must not make the programme infeasible
    costs = cost.double().expand(*first.shape[:-1], atoms, atoms).reshape(-1, atoms, atoms)
    solved = [
        _transport(some.numpy(), their.numpy())
        for some, their in zip(masses.split(TOGETHER), costs.split(TOGETHER), strict=True)
    ]
    return torch.from_numpy(np.concatenate(solved)).reshape(first.shape[:-1])


def _transport(masses: np.ndarray, costs: np.ndarray) -> np.ndarray:
    """Several problems in one programme: couplings are the variables, their two marginals the constraints."""
    optimize, sparse = require("scipy.optimize", "train"), require("scipy.sparse", "train")
    problems, _, atoms = masses.shape
    one, row = sparse.identity(atoms), np.ones((1, atoms))
    marginals = sparse.vstack([sparse.kron(one, row), sparse.kron(row, one)])
    constraints = sparse.kron(sparse.identity(problems), marginals, format="csr")
    for presolve in (True, False):  # which takes some problems with tiny masses for infeasible
        options = {**dict.fromkeys(TOLERANCES, 1e-10), "presolve": presolve}
        answer = optimize.linprog(costs.ravel(), A_eq=constraints, b_eq=masses.ravel(), method="highs", options=options)
        if answer.status == 0:
            return (answer.x.reshape(costs.shape) * costs).sum((1, 2))
    raise RuntimeError(f"the transport problem was not solved: {answer.message}")


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
    together = of_x[..., :, None, :, None] + of_v[..., None, :, None, :]
    return together.flatten(-2).flatten(-3, -2)


def wasserstein_dependency(joint: Tensor, x: Tensor, v: Tensor) -> Tensor:
    """W(P_XV, P_X P_V): how far the pairs are from independent, in terms of where the views lie.

    Args:
        joint: probabilities, shape (..., x, v).
        x: representations of the values of X, shape (..., x, d).
        v: representations of the values of V, shape (..., v, d).

    Returns:
        Shape (...), in float64.

    Raises:
        UsageError: if ``joint`` is no distribution.

    Example:
        >>> points = torch.tensor([[0.0], [1.0]])
        >>> wasserstein_dependency(torch.tensor([[0.5, 0.0], [0.0, 0.5]]), points, points)
        tensor(0.5000, dtype=torch.float64)
    """
    check_joint(joint)
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
    apart = torch.cdist(values, values)
    slopes = torch.where(apart == 0, torch.zeros_like(apart), apart / distances)
    return slopes.flatten(-2).amax(-1)
