"""Every statement of the theory, and how many random cases contradict it.

python -m experiments statements --cases 5000 --seed 0
"""

import argparse
import math
import time
from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from experiments.paper.theory import dependency, distributions, flipped_labels, gradients
from experiments.paper.theory.dependency import Number, noisy_weights, symmetric_rince
from experiments.paper.theory.distributions import Objective, expected_loss, noisy
from experiments.paper.theory.flipped_labels import Loss, exponential_loss, risk, risk_bound
from rince.losses.objectives import info_nce, rince


class Statement(NamedTuple):
    """A claim about every case of some kind, and a test of it.

    Example:
        >>> wrong = lambda cases, seed: torch.arange(cases) ** 2 < 0
        >>> Statement("numbers", "squares are not negative", True, wrong).violations(cases=100)
        0
    """

    topic: str
    text: str
    holds: bool  # a false statement shows that the cases could tell
    contradicted: Callable[[int, int], Tensor]  # (cases, seed) -> which of the random cases contradict it

    def violations(self, cases: int = 5000, seed: int = 0) -> int:
        """Number of random cases that contradict the claim."""
        result = self.contradicted(cases, seed)
        assert result.shape == (cases,)
        return int(result.sum())


RNG = np.random.Generator
ObjectiveOf = Callable[[int], Objective]
"""A loss for a number of negatives."""

STATEMENTS: list[Statement] = []


def state(
    topic: str, text: str, holds: bool, check: Callable[..., Tensor], numbers: Sequence[int] = (), **settings: object
) -> None:
    """Add a statement.

    Args:
        topic: What it is about, in a word or two.
        text: The claim.
        holds: Whether it is true.
        check: From cases and seed, or with ``numbers`` from a source of random numbers, cases and the number of
            negatives: which cases contradict the claim.
        numbers: Numbers of negatives, among which the cases are shared out.
        settings: Further arguments of ``check``.
    """

    def contradicted(cases: int, seed: int) -> Tensor:
        if not numbers:
            return check(cases, seed, **settings)
        rng = np.random.default_rng(seed)
        shares = [len(part) for part in np.array_split(np.arange(cases), len(numbers))]
        return torch.cat([check(rng, share, number, **settings) for share, number in zip(shares, numbers, strict=True)])

    STATEMENTS.append(Statement(topic, text, holds, contradicted))


def differ(first: Tensor, second: Tensor, tolerance: float = 1e-9) -> Tensor:
    """Mask of differences beyond rounding."""
    return (first - second).abs() > tolerance * (1 + torch.maximum(first.abs(), second.abs()))


def exceeds(first: Tensor, second: Tensor, tolerance: float = 1e-9) -> Tensor:
    """Where the first is larger than the second by more than rounding."""
    return first - second > tolerance * (1 + torch.maximum(first.abs(), second.abs()))


def candidate_scores(rng: RNG, cases: int, number: int) -> tuple[Tensor, Tensor]:
    """Scores of a positive, shape (cases,), and of its negatives, shape (cases, K), from -10 to 10 as at t = 0.1."""
    spread = rng.uniform(0.1, 4, size=(cases, 1))
    scores = np.clip(spread * rng.normal(size=(cases, number + 1)), -10, 10)
    return torch.from_numpy(scores[:, 0]), torch.from_numpy(scores[:, 1:])


def uniform(rng: RNG, low: float, high: float, cases: int) -> Tensor:
    return torch.from_numpy(rng.uniform(low, high, size=cases))


def log_uniform(rng: RNG, low: float, high: float, cases: int) -> Tensor:
    return uniform(rng, np.log(low), np.log(high), cases).exp()


def joints(rng: RNG, cases: int, x: int, v: int) -> Tensor:
    """Joint distributions, shape (cases, x, v): from concentrated to even, from dependent to almost independent."""
    concentration = rng.uniform(0.2, 3, size=(cases, 1))
    tables = rng.gamma(concentration, size=(cases, x * v)) + 1e-12
    joint = torch.from_numpy(tables / tables.sum(-1, keepdims=True)).reshape(cases, x, v)
    return noisy(joint, uniform(rng, 0, 1, cases))


def on_the_sphere(rng: RNG, cases: int, x: int, v: int, width: int = 3) -> dict[str, Tensor]:
    """Representations of both views and one smooth head that maps either to the unit sphere.

    Returns ``x`` (cases, x, width), ``v`` (cases, v, width) and their images ``fx`` and ``fv``.
    """
    scale = rng.uniform(0.2, 3, size=(cases, 1, 1))
    points = torch.from_numpy(scale * rng.normal(size=(cases, x + v, width)))
    weights, bias = rng.normal(size=(cases, width, width)), rng.normal(size=(cases, 1, width))
    heads = torch.nn.functional.normalize(points @ torch.from_numpy(weights) + torch.from_numpy(bias), dim=-1)
    return {"x": points[:, :x], "v": points[:, x:], "fx": heads[:, :x], "fv": heads[:, x:]}


NUMBERS = (1, 2, 4, 16, 64)  # of negatives
MORE_GROUPS = NUMBERS * 20  # q is one number in each group


def derivatives(loss: Tensor, *scores: Tensor) -> tuple[Tensor, ...]:
    return torch.autograd.grad(loss.sum(), scores)


def value_leaves_the_bound(rng: RNG, cases: int, number: int, with_lam: bool) -> Tensor:
    positive, several = candidate_scores(rng, cases, number)
    negatives = torch.logsumexp(several, dim=-1)
    lam, q = log_uniform(rng, 1e-3, 3, cases), float(log_uniform(rng, 1e-6, 1, 1))
    limit = info_nce(positive, negatives) + (lam.log() if with_lam else 0)
    error = (rince(positive, negatives, q, lam) - limit).abs()
    return exceeds(error, gradients.limit_error(positive, negatives, q, lam))


def gradient_leaves_the_bound(rng: RNG, cases: int, number: int) -> Tensor:
    positive, several = candidate_scores(rng, cases, number)
    positive, negatives = positive.requires_grad_(), torch.logsumexp(several, dim=-1).requires_grad_()
    lam, q = log_uniform(rng, 1e-3, 3, cases), float(log_uniform(rng, 1e-6, 1, 1))
    ours = derivatives(rince(positive, negatives, q, lam), positive, negatives)
    limit = derivatives(info_nce(positive, negatives), positive, negatives)
    bounds = gradients.limit_gradient_error(positive.detach(), negatives.detach(), q, lam)
    wrong = [exceeds((a - b).abs(), bound) for a, b, bound in zip(ours, limit, bounds, strict=True)]
    return wrong[0] | wrong[1]


def derivative_is_off(
    rng: RNG, cases: int, number: int, formula: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]
) -> Tensor:
    positive, negatives = (scores.requires_grad_() for scores in candidate_scores(rng, cases, number))
    true = derivatives(info_nce(positive, torch.logsumexp(negatives, dim=-1)), positive, negatives)
    by_positive, by_negatives = formula(positive.detach(), negatives.detach())
    return differ(true[0], by_positive) | differ(true[1], by_negatives).any(-1)


def printed_sign_is_wrong(rng: RNG, cases: int, number: int) -> Tensor:
    """Of the derivative by the first negative score, which is positive."""
    _, by_negatives = gradients.printed_derivatives(*candidate_scores(rng, cases, number))
    return by_negatives[:, 0] < 0


def ratio_of_negatives_is_off(rng: RNG, cases: int, number: int, scaled: bool) -> Tensor:
    """Of the derivatives by the first two negatives: how much more a hard negative weighs."""
    positive, several = candidate_scores(rng, cases, max(2, number))
    several, q = several.requires_grad_(), float(log_uniform(rng, 1e-6, 1, 1))
    loss = rince(positive, torch.logsumexp(several, dim=-1), q, log_uniform(rng, 1e-3, 1, cases))
    (by_negatives,) = derivatives(loss, several)
    gap = (several[:, 0] - several[:, 1]).detach()
    return differ(by_negatives[:, 0], by_negatives[:, 1] * (gap * (q if scaled else 1)).exp())


state(
    "Lemma 1", "RINCE is within |b - a| (e^{qM} - 1) of InfoNCE + log lam", True,
    value_leaves_the_bound, MORE_GROUPS, with_lam=True,
)  # fmt: skip
state("Lemma 1", "the same without log lam", False, value_leaves_the_bound, MORE_GROUPS, with_lam=False)
state(
    "Lemma 1", "its derivatives are within (1 + p)(e^{qM} - 1) and (1 - p)(e^{qM} - 1) of InfoNCE's", True,
    gradient_leaves_the_bound, MORE_GROUPS,
)  # fmt: skip
state(
    "hard negatives", "RINCE's derivatives by two negatives stand in the ratio e^{s_i - s_j}, at every q", True,
    ratio_of_negatives_is_off, MORE_GROUPS, scaled=False,
)  # fmt: skip
state(
    "hard negatives", "... in the ratio e^{q (s_i - s_j)}", False, ratio_of_negatives_is_off, MORE_GROUPS, scaled=True
)
for text, holds, formula in (
    ("InfoNCE's derivatives are -(1 - p) and p_i", True, gradients.info_nce_derivatives),
    ("they are what the appendix prints under 'InfoNCE is not symmetric'", False, gradients.printed_derivatives),
):
    state("derivatives", text, holds, derivative_is_off, NUMBERS, formula=formula)
state("derivatives", "the latter have the right sign for a negative", False, printed_sign_is_wrong, NUMBERS)
state(
    "derivatives", "they are what the proof of Lemma 1 prints on its middle lines", False,
    derivative_is_off, NUMBERS, formula=gradients.printed_proof_derivatives,
)  # fmt: skip


FEW_NUMBERS = (1, 2, 3, 4, 5)  # of negatives whose every combination is summed over
TABLES = 6  # of scores, from which the best has to be chosen


def one_minus_p(positive: Tensor, negatives: Tensor) -> Tensor:
    """1 - pos / (pos + neg): the generalized cross-entropy of the softmax at q = 1."""
    return torch.sigmoid(negatives - positive)


def rince_with(ratio: float, q: float = 1.0) -> ObjectiveOf:
    """RINCE with lam at ``ratio`` times 1 / (K + 1)."""
    return lambda number: partial(rince, q=q, lam=ratio / (number + 1))


def plain(objective: Objective) -> ObjectiveOf:
    return lambda number: objective


def proportion_varies(rng: RNG, cases: int, number: int, objective: ObjectiveOf) -> Tensor:
    """The same score among other scores must pull and push in the same proportion."""
    score = uniform(rng, -3, 3, cases)
    ratios = [
        gradients.pull_over_push(objective(number), score, *candidate_scores(rng, cases, number)) for _ in range(2)
    ]
    return differ(ratios[0], ratios[1])


def scores_are_entangled(rng: RNG, cases: int, number: int, objective: ObjectiveOf) -> Tensor:
    mixed = gradients.entanglement(objective(number), *candidate_scores(rng, cases, number))
    return (mixed.abs() > 1e-9).any(-1)


def sum_varies(rng: RNG, cases: int, number: int, objective: ObjectiveOf) -> Tensor:
    sums = []
    for _ in range(2):
        positive, negatives = candidate_scores(rng, cases, number)
        sums.append(gradients.candidate_sum(objective(number), torch.cat([positive[:, None], negatives], dim=-1)))
    return differ(sums[0], sums[1])


def noise_changes_the_choice(rng: RNG, cases: int, number: int, objective: ObjectiveOf) -> Tensor:
    """The table of scores that is best on noisy pairs must be best on clean ones."""
    joint, eta = joints(rng, cases, 3, 3), uniform(rng, 0, 0.95, cases)
    scores = torch.from_numpy(rng.uniform(0.2, 2, size=(cases, TABLES, 1, 1)) * rng.normal(size=(cases, TABLES, 3, 3)))
    clean, noisy_losses = (
        expected_loss(objective(number), table[:, None], scores, number) for table in (joint, noisy(joint, eta))
    )
    chosen = clean.gather(-1, noisy_losses.argmin(-1, keepdim=True)).squeeze(-1)
    return exceeds(chosen, clean.amin(-1))


RINCE_1, RINCE_HALF, INFO_NCE = rince_with(0.7), rince_with(0.7, q=0.5), plain(info_nce)
for name, holds, objective in (("RINCE at q = 1", True, RINCE_1), ("RINCE at q = 0.5", False, RINCE_HALF),
                               ("InfoNCE", False, INFO_NCE)):  # fmt: skip
    text = f"{name}: a score has the same pull / push among any other scores"
    state("symmetry over pairs", text, holds, proportion_varies, NUMBERS, objective=objective)
for name, holds, objective in (("RINCE at q = 1", True, RINCE_1), ("InfoNCE", False, INFO_NCE)):
    text = f"{name}: no derivative depends on another score"
    state("symmetry over pairs", text, holds, scores_are_entangled, NUMBERS, objective=objective)
for name, holds, objective in (
    ("1 - p", True, plain(one_minus_p)),
    ("RINCE at q = 1, lam = 1/(K+1)", True, rince_with(1)),
    ("RINCE at q = 1, lam = 0.7/(K+1)", False, RINCE_1),
    ("InfoNCE", False, INFO_NCE),
):
    text = f"{name}: the losses over all candidates sum to a constant"
    state("symmetry over candidates", text, holds, sum_varies, NUMBERS, objective=objective)
for name, holds, objective in (
    ("1 - p", True, plain(one_minus_p)),
    ("RINCE at q = 1, lam = 1/(K+1)", True, rince_with(1)),
    ("RINCE at q = 1, lam = 1.7/(K+1)", False, rince_with(1.7)),
    ("RINCE at q = 0.5, lam = 1/(K+1)", False, rince_with(1, q=0.5)),
    ("InfoNCE", False, INFO_NCE),
):
    text = f"{name}: the best scores for noisy pairs are the best for clean ones"
    state("noisy pairs", text, holds, noise_changes_the_choice, FEW_NUMBERS, objective=objective)


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
        noisy_risk = risk(loss, self.scores, self.labels, self.weights, self.flips)
        return clean.gather(-1, noisy_risk.argmin(-1, keepdim=True)).squeeze(-1), clean.amin(-1)

    @property
    def max_flip(self) -> Tensor:
        return self.flips.amax((-2, -1))

    @property
    def min_flip(self) -> Tensor:
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


def risk_bound_is_broken(cases: int, seed: int, loss: Loss, sharper: bool = False) -> Tensor:
    problem = problems(cases, seed)
    chosen, best = problem.chosen(loss)
    ceiling = problem.largest.exp() if loss is exponential_loss else 0.0
    return exceeds(
        chosen, torch.as_tensor(risk_bound(best, problem.max_flip, ceiling, problem.min_flip if sharper else 0.0))
    )


def printed_line_is_broken(cases: int, seed: int) -> Tensor:
    """(1 - 2 eta_max) E[B + loss] <= epsilon: the proof forgets to add B on the right."""
    problem = problems(cases, seed)
    chosen, best = problem.chosen(exponential_loss)
    return exceeds((1 - 2 * problem.max_flip) * (problem.largest.exp() + chosen), best)


def bound_is_vacuous(cases: int, seed: int, sharper: bool = False) -> Tensor:
    """The bound allows e^{s_max}, which is the largest loss of all."""
    problem = problems(cases, seed)
    _, best = problem.chosen(exponential_loss)
    ceiling = problem.largest.exp()
    return torch.as_tensor(risk_bound(best, problem.max_flip, ceiling, problem.min_flip if sharper else 0.0)) >= ceiling


def bound_is_not_vacuous(cases: int, seed: int, earlier: float = 0.0) -> Tensor:
    """With a perfect classifier in the family and a largest flip rate of (1 + share of positives) / 4 - earlier."""
    problem = problems(cases, seed)
    best = risk(exponential_loss, problem.largest[:, None, None] * problem.labels, problem.labels, problem.weights)
    share = (problem.weights * (problem.labels > 0)).sum((-2, -1))
    max_flip = (1 + share) / 4 - earlier
    ceiling = problem.largest.exp()
    vacuous = max_flip >= torch.as_tensor(flipped_labels.vacuous_flip_rate(best.squeeze(-1), ceiling)) - 1e-12
    allowed = torch.as_tensor(risk_bound(best.squeeze(-1), max_flip, ceiling))
    return ~vacuous | exceeds(ceiling, allowed)


for name, holds, loss in (
    ("the sigmoid loss (symmetric)", True, flipped_labels.sigmoid_loss),
    ("-y e^s (symmetric)", True, exponential_loss),
    ("the logistic loss", False, flipped_labels.logistic_loss),
):
    text = f"{name}: equal flip rates do not change the best classifier"
    state("flipped labels", text, holds, choice_changes, loss=loss)
for text, holds, loss in (
    ("R <= epsilon / (1 - 2 eta_max) for the sigmoid loss", True, flipped_labels.sigmoid_loss),
    ("the same for the logistic loss", False, flipped_labels.logistic_loss),
):
    state("risk bound", text, holds, risk_bound_is_broken, loss=loss)
for text, sharper in (
    ("R <= (epsilon + 2 eta_max B) / (1 - 2 eta_max) for -y e^s, B = e^{s_max}", False),
    ("R <= ((1 - 2 eta_min) epsilon + 2 (eta_max - eta_min) B) / (1 - 2 eta_max)", True),
):
    state("corollary", text, True, risk_bound_is_broken, loss=exponential_loss, sharper=sharper)
state("corollary", "(1 - 2 eta_max)(B + R) <= epsilon, as its proof prints", False, printed_line_is_broken)
state("corollary", "it is below B, which no risk exceeds", False, bound_is_vacuous)
state("corollary", "with eta_min, it is below B", False, bound_is_vacuous, sharper=True)
state("corollary", "it is B or more from eta_max = (1 + share of positives) / 4 on", True, bound_is_not_vacuous)
state("corollary", "it is B or more from 0.05 earlier on", False, bound_is_not_vacuous, earlier=0.05)


def information_bound_is_broken(rng: RNG, cases: int, number: int, candidates: int) -> Tensor:
    """log(K + candidates) - E[InfoNCE] against the information, with scores from the best ones to arbitrary ones."""
    joint = joints(rng, cases, 3, 4)
    deviation = rng.random((cases, 1, 1)) ** 3
    scores = distributions.best_scores(joint) + torch.from_numpy(deviation * rng.normal(scale=3, size=joint.shape))
    bound = (
        distributions.information_bound(joint, scores, number) - math.log(number + 1) + math.log(number + candidates)
    )
    return exceeds(bound, distributions.mutual_information(joint))


def noise_leaves_more(cases: int, seed: int, exactly: bool) -> Tensor:
    rng = np.random.default_rng(seed)
    joint, eta = joints(rng, cases, 3, 4), uniform(rng, 0, 1, cases)
    remaining, share = (
        distributions.mutual_information(noisy(joint, eta)),
        (1 - eta) * distributions.mutual_information(joint),
    )
    return differ(remaining, share) if exactly else exceeds(remaining, share)


for name, holds, candidates in (("log(K + 1)", True, 1), ("log(K), as printed,", True, 0), ("log(K + 2)", False, 2)):
    text = f"{name} - E[InfoNCE] <= I(X; V)"
    state("mutual information", text, holds, information_bound_is_broken, (1, 2, 3, 5, 8), candidates=candidates)
for name, exactly in (("at most", False), ("exactly", True)):
    text = f"a noise rate eta leaves {name} 1 - eta of it"
    state("mutual information", text, not exactly, noise_leaves_more, exactly=exactly)


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


@lru_cache(maxsize=2)  # solving 5,000 programs takes seconds, and several statements are about the same worlds
def worlds(cases: int, seed: int) -> World:
    rng = np.random.default_rng(seed)
    joint, where = joints(rng, cases, 2, 3), on_the_sphere(rng, cases, 2, 3)
    temperature = uniform(rng, 0.2, 2, cases)
    scores = where["fx"] @ where["fv"].mT / temperature[:, None, None]
    slopes = [dependency.lipschitz(where["f" + side], torch.cdist(where[side], where[side])) for side in "xv"]
    steepest = dependency.lipschitz(
        scores.exp().flatten(1)[..., None], dependency.pair_distances(where["x"], where["v"])
    )
    eta = uniform(rng, 0, 1, cases)
    clean, remaining = (
        dependency.wasserstein_dependency(table, where["x"], where["v"]) for table in (joint, noisy(joint, eta))
    )
    return World(joint, scores, temperature, torch.maximum(*slopes), steepest, clean, eta, remaining)


def lams(rng: RNG, number: Tensor, enough: bool) -> Tensor:
    """From 1 / (K + 1) to 100 / (K + 1), half of them at the very start, where the bound is closest; or below."""
    if not enough:
        return log_uniform(rng, 0.01, 0.99, len(number)) * dependency.min_lam(number)
    times = log_uniform(rng, 1, 100, len(number)) ** (torch.arange(len(number)) % 2)
    return (times * dependency.min_lam(number)).clamp(max=1)


def dependency_bound_is_broken(
    cases: int, seed: int, enough: bool = True, with_noise: bool = False, tight: float = 0
) -> Tensor:
    """Minus the expected loss against the bound, for lam from 1 / (K + 1) on, or below it.

    L is the paper's constant, or ``tight`` times the smallest one for which the duality can be used.
    """
    world, rng = worlds(cases, seed), np.random.default_rng(seed + 1)
    number = log_uniform(rng, 1, 500, cases).round()
    lam = lams(rng, number, enough)
    eta = uniform(rng, 0, 1, cases) if with_noise else torch.zeros(cases, dtype=torch.float64)
    loss = symmetric_rince(world.joint, world.scores, noisy_weights(lam, number, eta))
    paper = dependency.dependency_constant(lam, world.temperature, world.slope)
    constant = tight * (1 - lam) * world.steepest if tight else paper
    return exceeds(-loss, (1 - eta) * constant * world.dependency)


def independence_breaks_the_bound(cases: int, seed: int) -> Tensor:
    """Independent views have no dependency, and RINCE must not be negative for them."""
    rng = np.random.default_rng(seed)
    joint = distributions.independent(joints(rng, cases, 3, 3))
    scores, number = torch.from_numpy(rng.normal(size=joint.shape)), log_uniform(rng, 1, 500, cases).round()
    lam = lams(rng, number, enough=False)
    return symmetric_rince(joint, scores, noisy_weights(lam, number, 0.0)) < 0


def bound_needs_the_printed_condition(cases: int, seed: int) -> Tensor:
    """lam anywhere between what is needed and what is printed for noisy pairs."""
    world, rng = worlds(cases, seed), np.random.default_rng(seed + 1)
    number, eta = log_uniform(rng, 2, 500, cases).round(), uniform(rng, 0, 1, cases)
    low, high = dependency.min_lam(number), dependency.printed_min_lam(number, eta)
    lam = low + uniform(rng, 0, 1, cases) ** 4 * (high - low)  # most of them close to what is needed
    loss = symmetric_rince(world.joint, world.scores, noisy_weights(lam, number, eta))
    bound = (1 - eta) * (1 - lam) * world.steepest * world.dependency
    return exceeds(-loss, bound)


def dependency_is_off(cases: int, seed: int, power: float) -> Tensor:
    """W of noisy pairs against (1 - eta)^power W of clean ones."""
    world = worlds(cases, seed)
    return differ(world.noisy_dependency, (1 - world.eta) ** power * world.dependency)


def setting(rng: RNG, cases: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Joint distributions, scores, lam and eta."""
    joint = joints(rng, cases, 3, 3)
    scores = torch.from_numpy(rng.normal(scale=0.7, size=joint.shape))
    return joint, scores, uniform(rng, 0.01, 0.9, cases), uniform(rng, 0.1, 0.9, cases)


def expectation_is_off(rng: RNG, cases: int, number: int, weights: Weights) -> Tensor:
    """The loss summed over all noisy positives and negatives, against two weights."""
    joint, scores, lam, eta = setting(rng, cases)
    loss = partial(rince, q=1.0, lam=lam[:, None, None, None])
    return differ(
        expected_loss(loss, noisy(joint, eta), scores, number),
        symmetric_rince(joint, scores, weights(lam, number, eta)),
    )


def simulation_is_off(rng: RNG, cases: int, number: int, weights: Weights) -> Tensor:
    """The loss over 500 simulated noisy pairs, against two weights: off by more than six standard errors."""
    joint, scores, lam, eta = setting(rng, cases)
    generator = torch.Generator().manual_seed(int(rng.integers(2**31)))
    loss = partial(rince, q=1.0, lam=lam[:, None])
    mean, error = distributions.sampled_loss(loss, noisy(joint, eta), scores, number, 500, generator)
    return (mean - symmetric_rince(joint, scores, weights(lam, number, eta))).abs() > 6 * error


def other_lam_is_off(cases: int, seed: int) -> Tensor:
    """RINCE on noisy pairs against clean RINCE with the effective lam, up to a factor."""
    rng = np.random.default_rng(seed)
    joint, scores, lam, eta = setting(rng, cases)
    number = log_uniform(rng, 1, 500, cases).round()
    loss = symmetric_rince(joint, scores, noisy_weights(lam, number, eta))
    other = torch.as_tensor(dependency.effective_lam(lam, number, eta))
    factor = (1 - eta) * (1 - lam) / (1 - other)
    return differ(loss, factor * symmetric_rince(joint, scores, noisy_weights(other, number, 0.0)))


CLEAN = "-E[RINCE] <= L W"
NOISY = "-E[RINCE on noisy pairs] <= (1 - eta) L W"
bound = partial(state, "dependency")
bound(f"{CLEAN} for lam >= 1/(K+1)", True, dependency_bound_is_broken)
bound(f"{CLEAN} for lam >= 1/(K+1), L = (1 - lam) Lip(e^s)", True, dependency_bound_is_broken, tight=1)
bound(f"{CLEAN} with 0.8 times that L", False, dependency_bound_is_broken, tight=0.8)
bound(f"{CLEAN} for lam < 1/(K+1), any views", False, dependency_bound_is_broken, enough=False)
bound(f"{CLEAN} for lam < 1/(K+1), independent views", False, independence_breaks_the_bound)
bound(f"{NOISY} for lam >= 1/(K+1)", True, dependency_bound_is_broken, with_noise=True, tight=1)
bound(f"{NOISY} for lam from 1/(K+1) to the printed condition", True, bound_needs_the_printed_condition)
bound(f"{NOISY} for lam < 1/(K+1)", False, dependency_bound_is_broken, enough=False, with_noise=True)
bound("a noise rate eta leaves exactly 1 - eta of W", True, dependency_is_off, power=1)
bound("a noise rate eta leaves (1 - eta)^2 of W", False, dependency_is_off, power=2)
for name, holds, weights in (
    ("lam K - eta (1 - lam)", True, noisy_weights),
    ("K (lam - eta + eta lam), as printed", False, dependency.printed_noisy_weights),
):
    for how, check in (("", expectation_is_off), (" (simulation)", simulation_is_off)):
        text = f"E_PP[e^s] has the weight {name}{how}"
        state("noisy pairs", text, holds, check, (2, 3, 4, 6, 8), weights=weights)
state("noisy pairs", "RINCE at q = 1 on noisy pairs is clean RINCE with another lam", True, other_lam_is_off)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", type=int, default=5000, help="random cases for each statement (5000)")
    parser.add_argument("--seed", type=int, default=0, help="of the random cases (0)")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    start = time.process_time()
    print("| about | statement | true | cases | contradicted |\n| --- | --- | --- | --- | --- |")
    wrong = 0
    for statement in STATEMENTS:
        count = statement.violations(options.cases, options.seed)
        wrong += (count == 0) != statement.holds
        text = statement.text.replace("|", "\\|")
        print(
            f"| {statement.topic} | {text} | {'yes' if statement.holds else 'no'} | {options.cases:,} | {count:,} |",
            flush=True,
        )
    print(f"\n{len(STATEMENTS)} statements, {wrong} of them not as said, {time.process_time() - start:.0f} CPU s")
