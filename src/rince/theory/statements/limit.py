"""Lemma 1 and the derivatives of InfoNCE."""

from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from torch import Tensor

from rince.losses.objectives import info_nce, rince
from rince.theory.derivatives import info_nce_derivatives, printed_derivatives, printed_proof_derivatives
from rince.theory.limit import limit_error, limit_gradient_error
from rince.theory.statements.draws import candidate_scores, log_uniform
from rince.theory.statements.statement import Statement, differ, exceeds, in_groups

NUMBERS = [1, 2, 4, 16, 64]


def gradients(loss: Tensor, *scores: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss.sum(), scores)


def value_leaves_the_bound(rng: np.random.Generator, cases: int, number: int, with_lam: bool) -> Tensor:
    positive, several = candidate_scores(rng, cases, number)
    negatives = torch.logsumexp(several, dim=-1)
    lam, q = log_uniform(rng, 1e-3, 3, cases), float(log_uniform(rng, 1e-6, 1, 1))
    limit = info_nce(positive, negatives) + (lam.log() if with_lam else 0)
    away = (rince(positive, negatives, q, lam) - limit).abs()
    return exceeds(away, limit_error(positive, negatives, q, lam))


def gradient_leaves_the_bound(rng: np.random.Generator, cases: int, number: int) -> Tensor:
    positive, several = candidate_scores(rng, cases, number)
    positive, negatives = positive.requires_grad_(), torch.logsumexp(several, dim=-1).requires_grad_()
    lam, q = log_uniform(rng, 1e-3, 3, cases), float(log_uniform(rng, 1e-6, 1, 1))
    ours = gradients(rince(positive, negatives, q, lam), positive, negatives)
    limit = gradients(info_nce(positive, negatives), positive, negatives)
    bounds = limit_gradient_error(positive.detach(), negatives.detach(), q, lam)
    wrong = [exceeds((a - b).abs(), bound) for a, b, bound in zip(ours, limit, bounds, strict=True)]
    return wrong[0] | wrong[1]


def derivative_is_off(
    rng: np.random.Generator, cases: int, number: int, formula: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
) -> Tensor:
    positive, negatives = (scores.requires_grad_() for scores in candidate_scores(rng, cases, number))
    true = gradients(info_nce(positive, torch.logsumexp(negatives, dim=-1)), positive, negatives)
    by_positive, by_negatives = formula(positive.detach(), negatives.detach())
    return differ(true[0], by_positive) | differ(true[1], by_negatives).any(-1)


def printed_sign_is_wrong(rng: np.random.Generator, cases: int, number: int) -> Tensor:
    """Of the derivative by the first negative score, which is positive."""
    _, by_negatives = printed_derivatives(*candidate_scores(rng, cases, number))
    return by_negatives[:, 0] < 0


MANY = NUMBERS * 20  # q is one number in each group

STATEMENTS = [
    Statement(
        "Lemma 1",
        "RINCE is within |b - a| (e^{qM} - 1) of InfoNCE + log lam",
        True,
        in_groups(partial(value_leaves_the_bound, with_lam=True), MANY),
    ),
    Statement(
        "Lemma 1",
        "the same without log lam",
        False,
        in_groups(partial(value_leaves_the_bound, with_lam=False), MANY),
    ),
    Statement(
        "Lemma 1",
        "its derivatives are within (1 + p)(e^{qM} - 1) and (1 - p)(e^{qM} - 1) of InfoNCE's",
        True,
        in_groups(gradient_leaves_the_bound, MANY),
    ),
    Statement(
        "derivatives",
        "InfoNCE's derivatives are -(1 - p) and p_i",
        True,
        in_groups(partial(derivative_is_off, formula=info_nce_derivatives), NUMBERS),
    ),
    Statement(
        "derivatives",
        "they are what the appendix prints under 'InfoNCE is not symmetric'",
        False,
        in_groups(partial(derivative_is_off, formula=printed_derivatives), NUMBERS),
    ),
    Statement(
        "derivatives", "the latter have the right sign for a negative", False, in_groups(printed_sign_is_wrong, NUMBERS)
    ),
    Statement(
        "derivatives",
        "they are what the proof of Lemma 1 prints on its middle lines",
        False,
        in_groups(partial(derivative_is_off, formula=printed_proof_derivatives), NUMBERS),
    ),
]
