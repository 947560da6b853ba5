"""Random cases: scores, joint distributions and representations."""

import numpy as np
import torch
from torch import Tensor

from rince.theory.distributions import noisy


def candidate_scores(rng: np.random.Generator, cases: int, number: int) -> tuple[Tensor, Tensor]:
    """Scores of a positive, shape (cases,), and of its negatives, shape (cases, K), from -10 to 10 as at t = 0.1."""
    spread = rng.uniform(0.1, 4, size=(cases, 1))
    scores = np.clip(spread * rng.normal(size=(cases, number + 1)), -10, 10)
    return torch.from_numpy(scores[:, 0]), torch.from_numpy(scores[:, 1:])


def uniform(rng: np.random.Generator, low: float, high: float, cases: int) -> Tensor:
    return torch.from_numpy(rng.uniform(low, high, size=cases))


def log_uniform(rng: np.random.Generator, low: float, high: float, cases: int) -> Tensor:
    return uniform(rng, np.log(low), np.log(high), cases).exp()


def joints(rng: np.random.Generator, cases: int, x: int, v: int) -> Tensor:
    """Joint distributions, shape (cases, x, v): from concentrated to even, from dependent to almost independent."""
    concentration = rng.uniform(0.2, 3, size=(cases, 1))
    tables = rng.gamma(concentration, size=(cases, x * v)) + 1e-12
    joint = torch.from_numpy(tables / tables.sum(-1, keepdims=True)).reshape(cases, x, v)
    return noisy(joint, uniform(rng, 0, 1, cases))


def on_the_sphere(rng: np.random.Generator, cases: int, x: int, v: int, width: int = 3) -> dict[str, Tensor]:
    """Representations of both views and one smooth head that maps either to the unit sphere.

    Returns ``x`` (cases, x, width), ``v`` (cases, v, width) and their images ``fx`` and ``fv``.
    """
    scale = rng.uniform(0.2, 3, size=(cases, 1, 1))
    points = torch.from_numpy(scale * rng.normal(size=(cases, x + v, width)))
    weights, bias = rng.normal(size=(cases, width, width)), rng.normal(size=(cases, 1, width))
    heads = torch.nn.functional.normalize(points @ torch.from_numpy(weights) + torch.from_numpy(bias), dim=-1)
    return {"x": points[:, :x], "v": points[:, x:], "fx": heads[:, :x], "fv": heads[:, x:]}
