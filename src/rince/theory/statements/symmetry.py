"""Symmetry over pairs, symmetry over candidates, and what the latter gives on noisy pairs."""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from rince.losses.objectives import info_nce, rince
from rince.theory.distributions import noisy
from rince.theory.expectation import Objective, expected_loss
from rince.theory.statements.draws import candidate_scores, joints, uniform
from rince.theory.statements.statement import Statement, differ, exceeds, in_groups
from rince.theory.symmetry import candidate_sum, entanglement, pull_over_push

NUMBERS = [1, 2, 4, 16, 64]
FEW = [1, 2, 3, 4, 5]  # negatives whose every combination is summed over
TABLES = 6  # of scores, from which the best has to be chosen


def one_minus_p(positive: Tensor, negatives: Tensor) -> Tensor:
    """1 - pos / (pos + neg): the generalised cross-entropy of the softmax at q = 1."""
    return torch.sigmoid(negatives - positive)


def rince_with(ratio: float, q: float = 1.0) -> Callable[[int], Objective]:
    """RINCE with lam at ``ratio`` times 1 / (K + 1)."""
    return lambda number: partial(rince, q=q, lam=ratio / (number + 1))


def plain(objective: Objective) -> Callable[[int], Objective]:
    return lambda number: objective


def proportion_varies(
    rng: np.random.Generator, cases: int, number: int, objective: Callable[[int], Objective]
) -> Tensor:
    """The same score among other scores must pull and push in the same proportion."""
    score = uniform(rng, -3, 3, cases)
    found = [pull_over_push(objective(number), score, *candidate_scores(rng, cases, number)) for _ in range(2)]
    return differ(found[0], found[1])


def scores_are_entangled(
    rng: np.random.Generator, cases: int, number: int, objective: Callable[[int], Objective]
) -> Tensor:
    mixed = entanglement(objective(number), *candidate_scores(rng, cases, number))
    return (mixed.abs() > 1e-9).any(-1)


def sum_varies(rng: np.random.Generator, cases: int, number: int, objective: Callable[[int], Objective]) -> Tensor:
    sums = []
    for _ in range(2):
        positive, negatives = candidate_scores(rng, cases, number)
        sums.append(candidate_sum(objective(number), torch.cat([positive[:, None], negatives], dim=-1)))
    return differ(sums[0], sums[1])


def noise_changes_the_choice(
    rng: np.random.Generator, cases: int, number: int, objective: Callable[[int], Objective]
) -> Tensor:
    """The table of scores that is best on noisy pairs must be best on clean ones."""
    joint, eta = joints(rng, cases, 3, 3), uniform(rng, 0, 0.95, cases)
    scores = torch.from_numpy(rng.uniform(0.2, 2, size=(cases, TABLES, 1, 1)) * rng.normal(size=(cases, TABLES, 3, 3)))
    clean, found = (
        expected_loss(objective(number), table[:, None], scores, number) for table in (joint, noisy(joint, eta))
    )
    chosen = clean.gather(-1, found.argmin(-1, keepdim=True)).squeeze(-1)
    return exceeds(chosen, clean.amin(-1))


STATEMENTS = [
    *(
        Statement(
            "symmetry over pairs",
            f"{name}: a score has the same pull / push among any other scores",
            holds,
            in_groups(check, NUMBERS),
        )
        for name, holds, check in [
            ("RINCE at q = 1", True, partial(proportion_varies, objective=rince_with(0.7))),
            ("RINCE at q = 0.5", False, partial(proportion_varies, objective=rince_with(0.7, q=0.5))),
            ("InfoNCE", False, partial(proportion_varies, objective=plain(info_nce))),
        ]
    ),
    *(
        Statement(
            "symmetry over pairs", f"{name}: no derivative depends on another score", holds, in_groups(check, NUMBERS)
        )
        for name, holds, check in [
            ("RINCE at q = 1", True, partial(scores_are_entangled, objective=rince_with(0.7))),
            ("InfoNCE", False, partial(scores_are_entangled, objective=plain(info_nce))),
        ]
    ),
    *(
        Statement(
            "symmetry over candidates",
            f"{name}: the losses over all candidates sum to a constant",
            holds,
            in_groups(check, NUMBERS),
        )
        for name, holds, check in [
            ("1 - p", True, partial(sum_varies, objective=plain(one_minus_p))),
            ("RINCE at q = 1, lam = 1/(K+1)", True, partial(sum_varies, objective=rince_with(1))),
            ("RINCE at q = 1, lam = 0.7/(K+1)", False, partial(sum_varies, objective=rince_with(0.7))),
            ("InfoNCE", False, partial(sum_varies, objective=plain(info_nce))),
        ]
    ),
    *(
        Statement(
            "noisy pairs",
            f"{name}: the best scores for noisy pairs are the best for clean ones",
            holds,
            in_groups(check, FEW),
        )
        for name, holds, check in [
            ("1 - p", True, partial(noise_changes_the_choice, objective=plain(one_minus_p))),
            ("RINCE at q = 1, lam = 1/(K+1)", True, partial(noise_changes_the_choice, objective=rince_with(1))),
            ("RINCE at q = 1, lam = 1.7/(K+1)", False, partial(noise_changes_the_choice, objective=rince_with(1.7))),
            (
                "RINCE at q = 0.5, lam = 1/(K+1)",
                False,
                partial(noise_changes_the_choice, objective=rince_with(1, q=0.5)),
            ),
            ("InfoNCE", False, partial(noise_changes_the_choice, objective=plain(info_nce))),
        ]
    ),
]
