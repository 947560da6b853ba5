"""RINCE at q = 1 and the Wasserstein dependency measure, with clean and noisy pairs."""

from collections.abc import Callable
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rince.losses.objectives import rince
from rince.theory.dependency import (
    Number,
    dependency_constant,
    effective_lam,
    least_lam,
    noisy_weights,
    printed_least_lam,
    printed_noisy_weights,
    symmetric_rince,
)
from rince.theory.distributions import independent, noisy
from rince.theory.expectation import expected_loss, sampled_loss
from rince.theory.statements.draws import joints, log_uniform, on_the_sphere, uniform
from rince.theory.statements.statement import Statement, differ, exceeds, in_groups
from rince.theory.transport import lipschitz, pair_distances, wasserstein_dependency

Check = Callable[[int, int], Tensor]
Weights = Callable[[Number, Number, Number], tuple[Number, Number]]


class World(NamedTuple):
    """Views with representations, scores, and constants of the bound, one per case."""

    joint: Tensor  # (cases, x, v)
    scores: Tensor
    temperature: Tensor  # (cases,), as is what follows
    slope: Tensor  # of the head
    steepest: Tensor  # of e^s itself: the smallest constant for which the duality can be used
    dependency: Tensor
    eta: Tensor
    noisy_dependency: Tensor


@lru_cache(maxsize=2)  # solving 5,000 programmes takes seconds, and several statements are about the same worlds
def worlds(cases: int, seed: int) -> World:
    rng = np.random.default_rng(seed)
    joint, where = joints(rng, cases, 2, 3), on_the_sphere(rng, cases, 2, 3)
    temperature = uniform(rng, 0.2, 2, cases)
    scores = where["fx"] @ where["fv"].mT / temperature[:, None, None]
    slopes = [lipschitz(where["f" + side], torch.cdist(where[side], where[side])) for side in "xv"]
    steepest = lipschitz(scores.exp().flatten(1)[..., None], pair_distances(where["x"], where["v"]))
    eta = uniform(rng, 0, 1, cases)
    clean, left = (wasserstein_dependency(table, where["x"], where["v"]) for table in (joint, noisy(joint, eta)))
    return World(joint, scores, temperature, torch.maximum(*slopes), steepest, clean, eta, left)


def lams(rng: np.random.Generator, number: Tensor, enough: bool) -> Tensor:
    """From 1 / (K + 1) to 100 / (K + 1), half of them at the very start, where the bound is closest; or below."""
    if not enough:
        return log_uniform(rng, 0.01, 0.99, len(number)) * least_lam(number)
    times = log_uniform(rng, 1, 100, len(number)) ** (torch.arange(len(number)) % 2)
    return (times * least_lam(number)).clamp(max=1)


def bound_is_broken(cases: int, seed: int, enough: bool = True, with_noise: bool = False, tight: float = 0) -> Tensor:
    """Minus the expected loss against the bound, for lam from 1 / (K + 1) on, or below it.

    L is the paper's constant, or ``tight`` times the smallest one for which the duality can be used.
    """
    world, rng = worlds(cases, seed), np.random.default_rng(seed + 1)
    number = log_uniform(rng, 1, 500, cases).round()
    lam = lams(rng, number, enough)
    eta = uniform(rng, 0, 1, cases) if with_noise else torch.zeros(cases, dtype=torch.float64)
    loss = symmetric_rince(world.joint, world.scores, noisy_weights(lam, number, eta))
    paper = dependency_constant(lam, world.temperature, world.slope)
    constant = tight * (1 - lam) * world.steepest if tight else paper
    return exceeds(-loss, (1 - eta) * constant * world.dependency)


def independence_breaks_the_bound(cases: int, seed: int) -> Tensor:
    """Independent views have no dependency, and RINCE must not be negative for them."""
    rng = np.random.default_rng(seed)
    joint = independent(joints(rng, cases, 3, 3))
    scores, number = torch.from_numpy(rng.normal(size=joint.shape)), log_uniform(rng, 1, 500, cases).round()
    lam = lams(rng, number, enough=False)
    return symmetric_rince(joint, scores, noisy_weights(lam, number, 0.0)) < 0


def bound_needs_the_printed_condition(cases: int, seed: int) -> Tensor:
    """lam anywhere between what is needed and what is printed for noisy pairs."""
    world, rng = worlds(cases, seed), np.random.default_rng(seed + 1)
    number, eta = log_uniform(rng, 2, 500, cases).round(), uniform(rng, 0, 1, cases)
    low, high = least_lam(number), printed_least_lam(number, eta)
    lam = low + uniform(rng, 0, 1, cases) ** 4 * (high - low)  # most of them close to what is needed
    loss = symmetric_rince(world.joint, world.scores, noisy_weights(lam, number, eta))
    bound = (1 - eta) * (1 - lam) * world.steepest * world.dependency
    return exceeds(-loss, bound)


def dependency_is_off(cases: int, seed: int, power: float) -> Tensor:
    """W of noisy pairs against (1 - eta)^power W of clean ones."""
    world = worlds(cases, seed)
    return differ(world.noisy_dependency, (1 - world.eta) ** power * world.dependency)


def setting(rng: np.random.Generator, cases: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Joint distributions, scores, lam and eta."""
    joint = joints(rng, cases, 3, 3)
    scores = torch.from_numpy(rng.normal(scale=0.7, size=joint.shape))
    return joint, scores, uniform(rng, 0.01, 0.9, cases), uniform(rng, 0.1, 0.9, cases)


def expectation_is_off(rng: np.random.Generator, cases: int, number: int, weights: Weights) -> Tensor:
    """The loss summed over all noisy positives and negatives, against two weights."""
    joint, scores, lam, eta = setting(rng, cases)
    loss = partial(rince, q=1.0, lam=lam[:, None, None, None])
    return differ(
        expected_loss(loss, noisy(joint, eta), scores, number),
        symmetric_rince(joint, scores, weights(lam, number, eta)),
    )


def simulation_is_off(rng: np.random.Generator, cases: int, number: int, weights: Weights) -> Tensor:
    """The loss over 500 simulated noisy pairs, against two weights: off by more than six standard errors."""
    joint, scores, lam, eta = setting(rng, cases)
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    loss = partial(rince, q=1.0, lam=lam[:, None])
    mean, error = sampled_loss(loss, noisy(joint, eta), scores, number, 500, generator)
    return (mean - symmetric_rince(joint, scores, weights(lam, number, eta))).abs() > 6 * error


def other_lam_is_off(cases: int, seed: int) -> Tensor:
    """RINCE on noisy pairs against clean RINCE with the effective lam, up to a factor."""
    rng = np.random.default_rng(seed)
    joint, scores, lam, eta = setting(rng, cases)
    number = log_uniform(rng, 1, 500, cases).round()
    found = symmetric_rince(joint, scores, noisy_weights(lam, number, eta))
    other = torch.as_tensor(effective_lam(lam, number, eta))
    factor = (1 - eta) * (1 - lam) / (1 - other)
    return differ(found, factor * symmetric_rince(joint, scores, noisy_weights(other, number, 0.0)))


CLEAN = "-E[RINCE] <= L W"
NOISY = "-E[RINCE on noisy pairs] <= (1 - eta) L W"

BOUNDS: list[tuple[str, bool, Check]] = [
    (f"{CLEAN} for lam >= 1/(K+1)", True, bound_is_broken),
    (f"{CLEAN} for lam >= 1/(K+1), L = (1 - lam) Lip(e^s)", True, partial(bound_is_broken, tight=1)),
    (f"{CLEAN} with 0.8 times that L", False, partial(bound_is_broken, tight=0.8)),
    (f"{CLEAN} for lam < 1/(K+1), any views", False, partial(bound_is_broken, enough=False)),
    (f"{CLEAN} for lam < 1/(K+1), independent views", False, independence_breaks_the_bound),
    (f"{NOISY} for lam >= 1/(K+1)", True, partial(bound_is_broken, with_noise=True, tight=1)),
    (f"{NOISY} for lam from 1/(K+1) to the printed condition", True, bound_needs_the_printed_condition),
    (f"{NOISY} for lam < 1/(K+1)", False, partial(bound_is_broken, enough=False, with_noise=True)),
]

STATEMENTS = [
    *(Statement("dependency", text, holds, check) for text, holds, check in BOUNDS),
    Statement("dependency", "a noise rate eta leaves exactly 1 - eta of W", True, partial(dependency_is_off, power=1)),
    Statement("dependency", "a noise rate eta leaves (1 - eta)^2 of W", False, partial(dependency_is_off, power=2)),
    *(
        Statement("noisy pairs", f"E_PP[e^s] has the weight {name}{how}", holds, in_groups(check, numbers))
        for name, holds, weights in [
            ("lam K - eta (1 - lam)", True, noisy_weights),
            ("K (lam - eta + eta lam), as printed", False, printed_noisy_weights),
        ]
        for how, check, numbers in [
            ("", partial(expectation_is_off, weights=weights), [2, 3, 4, 6, 8]),
            (" (simulation)", partial(simulation_is_off, weights=weights), [2, 3, 4, 6, 8]),
        ]
    ),
    Statement("noisy pairs", "RINCE at q = 1 on noisy pairs is clean RINCE with another lam", True, other_lam_is_off),
]
