"""Risk bounds for symmetric losses: Ghosh et al. 2015 and the paper's corollary for -y e^s."""

from functools import partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from rince.theory.flipped_labels import (
    Loss,
    exponential_loss,
    logistic_loss,
    risk,
    risk_bound,
    sigmoid_loss,
    useless_from,
)
from rince.theory.statements.draws import uniform
from rince.theory.statements.statement import Statement, exceeds

POINTS, CLASSIFIERS = 6, 12


class Problem(NamedTuple):
    """Random problems: points, their flip rates, a family of classifiers, and the score that none exceeds."""

    scores: Tensor  # (cases, classifiers, points)
    labels: Tensor  # (cases, 1, points), as are the next two
    weights: Tensor
    flips: Tensor
    largest: Tensor  # (cases,)

    def chosen(self, loss: Loss) -> tuple[Tensor, Tensor]:
        """Clean risk of the classifier that is best on noisy labels, and of the best one."""
        clean = risk(loss, self.scores, self.labels, self.weights)
        found = risk(loss, self.scores, self.labels, self.weights, self.flips)
        return clean.gather(-1, found.argmin(-1, keepdim=True)).squeeze(-1), clean.amin(-1)

    @property
    def most(self) -> Tensor:
        return self.flips.amax((-2, -1))

    @property
    def least(self) -> Tensor:
        return self.flips.amin((-2, -1))


def problems(cases: int, seed: int, equal_flips: bool = False) -> Problem:
    rng = np.random.default_rng(seed)
    labels = np.where(rng.random((cases, 1, POINTS)) < rng.random((cases, 1, 1)), 1.0, -1.0)
    labels[..., 0] = -1  # with positive labels alone there is nothing to tell apart
    quality = rng.random((cases, CLASSIFIERS, 1)) ** 2
    largest = uniform(rng, 0.5, 10, cases)
    shape = (cases, CLASSIFIERS, POINTS)
    scores = largest[:, None, None].numpy() * (quality * labels + (1 - quality) * rng.uniform(-1, 1, shape))
    flips = rng.uniform(0, 0.49, (cases, 1, 1)) * (1 if equal_flips else rng.random((cases, 1, POINTS)))
    weights = rng.dirichlet(np.ones(POINTS), (cases, 1))
    tables = [torch.from_numpy(table) for table in (scores, labels, weights, flips + 0 * weights)]
    return Problem(tables[0], tables[1], tables[2], tables[3], largest)


def choice_changes(cases: int, seed: int, loss: Loss) -> Tensor:
    chosen, best = problems(cases, seed, equal_flips=True).chosen(loss)
    return exceeds(chosen, best)


def bound_is_broken(cases: int, seed: int, loss: Loss, sharper: bool = False) -> Tensor:
    problem = problems(cases, seed)
    chosen, best = problem.chosen(loss)
    ceiling = problem.largest.exp() if loss is exponential_loss else 0.0
    return exceeds(chosen, torch.as_tensor(risk_bound(best, problem.most, ceiling, problem.least if sharper else 0.0)))


def printed_line_is_broken(cases: int, seed: int) -> Tensor:
    """(1 - 2 eta_max) E[B + loss] <= epsilon: the proof forgets to add B on the right."""
    problem = problems(cases, seed)
    chosen, best = problem.chosen(exponential_loss)
    return exceeds((1 - 2 * problem.most) * (problem.largest.exp() + chosen), best)


def bound_is_no_use(cases: int, seed: int, sharper: bool = False) -> Tensor:
    """The bound allows e^{s_max}, which is the largest loss of all."""
    problem = problems(cases, seed)
    _, best = problem.chosen(exponential_loss)
    ceiling = problem.largest.exp()
    return torch.as_tensor(risk_bound(best, problem.most, ceiling, problem.least if sharper else 0.0)) >= ceiling


def bound_is_some_use(cases: int, seed: int, earlier: float = 0.0) -> Tensor:
    """With a perfect classifier in the family and a largest flip rate of (1 + share of positives) / 4 - earlier."""
    problem = problems(cases, seed)
    best = risk(exponential_loss, problem.largest[:, None, None] * problem.labels, problem.labels, problem.weights)
    share = (problem.weights * (problem.labels > 0)).sum((-2, -1))
    most = (1 + share) / 4 - earlier
    ceiling = problem.largest.exp()
    no_use = most >= torch.as_tensor(useless_from(best.squeeze(-1), ceiling)) - 1e-12
    allowed = torch.as_tensor(risk_bound(best.squeeze(-1), most, ceiling))
    return ~no_use | exceeds(ceiling, allowed)


STATEMENTS = [
    *(
        Statement(
            "flipped labels",
            f"{name}: equal flip rates do not change the best classifier",
            holds,
            partial(choice_changes, loss=loss),
        )
        for name, holds, loss in [
            ("the sigmoid loss (symmetric)", True, sigmoid_loss),
            ("-y e^s (symmetric)", True, exponential_loss),
            ("the logistic loss", False, logistic_loss),
        ]
    ),
    Statement(
        "risk bound",
        "R <= epsilon / (1 - 2 eta_max) for the sigmoid loss",
        True,
        partial(bound_is_broken, loss=sigmoid_loss),
    ),
    Statement("risk bound", "the same for the logistic loss", False, partial(bound_is_broken, loss=logistic_loss)),
    Statement(
        "corollary",
        "R <= (epsilon + 2 eta_max B) / (1 - 2 eta_max) for -y e^s, B = e^{s_max}",
        True,
        partial(bound_is_broken, loss=exponential_loss),
    ),
    Statement(
        "corollary",
        "R <= ((1 - 2 eta_min) epsilon + 2 (eta_max - eta_min) B) / (1 - 2 eta_max)",
        True,
        partial(bound_is_broken, loss=exponential_loss, sharper=True),
    ),
    Statement("corollary", "(1 - 2 eta_max)(B + R) <= epsilon, as its proof prints", False, printed_line_is_broken),
    Statement("corollary", "it is below B, which no risk exceeds", False, bound_is_no_use),
    Statement("corollary", "with eta_min, it is below B", False, partial(bound_is_no_use, sharper=True)),
    Statement("corollary", "it is B or more from eta_max = (1 + share of positives) / 4 on", True, bound_is_some_use),
    Statement("corollary", "it is B or more from 0.05 earlier on", False, partial(bound_is_some_use, earlier=0.05)),
]
