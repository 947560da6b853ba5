"""InfoNCE as a lower bound of mutual information, and what noise does to the latter."""

import math
from functools import partial

import numpy as np
import torch
from torch import Tensor

from rince.theory.distributions import noisy
from rince.theory.information import best_scores, information_bound, mutual_information
from rince.theory.statements.draws import joints, uniform
from rince.theory.statements.statement import Statement, differ, exceeds, in_groups

NUMBERS = [1, 2, 3, 5, 8]


def bound_is_broken(rng: np.random.Generator, cases: int, number: int, candidates: int) -> Tensor:
    """log(K + candidates) - E[InfoNCE] against the information, with scores from the best ones to arbitrary ones."""
    joint = joints(rng, cases, 3, 4)
    away = rng.random((cases, 1, 1)) ** 3
    scores = best_scores(joint) + torch.from_numpy(away * rng.normal(scale=3, size=joint.shape))
    bound = information_bound(joint, scores, number) - math.log(number + 1) + math.log(number + candidates)
    return exceeds(bound, mutual_information(joint))


def noise_leaves_more(cases: int, seed: int, exactly: bool) -> Tensor:
    rng = np.random.default_rng(seed)
    joint, eta = joints(rng, cases, 3, 4), uniform(rng, 0, 1, cases)
    left, share = mutual_information(noisy(joint, eta)), (1 - eta) * mutual_information(joint)
    return differ(left, share) if exactly else exceeds(left, share)


STATEMENTS = [
    *(
        Statement("mutual information", f"{name} - E[InfoNCE] <= I(X; V)", holds, in_groups(check, NUMBERS))
        for name, holds, check in [
            ("log(K + 1)", True, partial(bound_is_broken, candidates=1)),
            ("log(K), as printed,", True, partial(bound_is_broken, candidates=0)),
            ("log(K + 2)", False, partial(bound_is_broken, candidates=2)),
        ]
    ),
    Statement(
        "mutual information",
        "a noise rate eta leaves at most 1 - eta of it",
        True,
        partial(noise_leaves_more, exactly=False),
    ),
    Statement(
        "mutual information",
        "a noise rate eta leaves exactly 1 - eta of it",
        False,
        partial(noise_leaves_more, exactly=True),
    ),
]
