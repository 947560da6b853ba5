"""The loss of an anchor, as a function of its scores.

``positive`` is the score of the anchor's positive pair (cosine over temperature), ``negatives`` the log-sum-exp of the
scores of its negatives, without the positive. Both have any shape, the result has the same; ``negatives = -inf`` means
that there are none. Objectives that need more take ``Scores``, which also hold the number of negatives and, where one
was asked for, a second reduction over them.
"""

import math
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import softplus

from rince.losses.contrast.scores import Scores

SMALLEST_Q = 1e-30  # as good as 0 in the formulas


def info_nce(positive: Tensor, negatives: Tensor) -> Tensor:
    """-log(pos / (pos + neg)): the positive has to win against all negatives at once.

    Args:
        positive: the score of the positive pair, any shape.
        negatives: the log-sum-exp of the scores of the negatives, same shape; -inf where there are none.

    Returns:
        The loss of every anchor, same shape.

    Example:
        >>> rince.objectives.info_nce(torch.tensor(0.0), torch.tensor(0.0))  # one negative, as good as the positive
        tensor(0.6931)
    """
    return softplus(negatives - positive, threshold=40)


def dcl(positive: Tensor, negatives: Tensor) -> Tensor:
    """-log(pos / neg): decoupled, with the positive left out of the denominator; GraphCL's published form.

    Args:
        positive: the score of the positive pair, any shape.
        negatives: the log-sum-exp of the scores of the negatives, same shape; -inf where there are none.

    Returns:
        The loss of every anchor, same shape. It is unbounded below, so an anchor without negatives counts as 0 and not
        as -inf.

    Example:
        >>> rince.objectives.dcl(torch.tensor(2.0), torch.tensor(1.0))
        tensor(-1.)
    """
    alone = torch.isneginf(negatives)
    return torch.where(alone, 0, torch.where(alone, positive, negatives) - positive)


def rince(positive: Tensor, negatives: Tensor, q: float | Tensor = 0.5, lam: float | Tensor = 0.01) -> Tensor:
    """-pos^q / q + (lam (pos + neg))^q / q, for q in [0, 1] and lam in (0, 1].

    q = 1 is symmetric in the sense of noisy classification, q -> 0 goes over into InfoNCE + log lam, which is what
    q = 0 returns.

    Args:
        positive: the score of the positive pair, any shape.
        negatives: the log-sum-exp of the scores of the negatives, same shape; -inf where there are none.
        q: from 0 to 1.
        lam: the weight of the negatives, in (0, 1].

    Returns:
        The loss of every anchor, same shape.

    Example:
        >>> rince.objectives.rince(torch.tensor(0.0), torch.tensor(0.0), q=1.0, lam=0.5)
        tensor(0.)
    """
    return _Rince.apply(positive, negatives, _positive(q), lam.log() if isinstance(lam, Tensor) else math.log(lam))


def gce(positive: Tensor, negatives: Tensor, q: float | Tensor = 0.7) -> Tensor:
    """(1 - p^q) / q with p = pos / (pos + neg), for q in [0, 1]: generalised cross-entropy of the softmax over a batch.

    q = 1 is 1 - p ("MAE"), q -> 0 goes over into InfoNCE, which is what q = 0 returns.

    Args:
        positive: the score of the positive pair, any shape.
        negatives: the log-sum-exp of the scores of the negatives, same shape; -inf where there are none.
        q: from 0 to 1.

    Returns:
        The loss of every anchor, same shape.

    Example:
        >>> rince.objectives.gce(torch.tensor(0.0), torch.tensor(0.0), q=1.0)
        tensor(0.5000)
    """
    q = _positive(q)
    info = info_nce(positive, negatives)
    x = q * info
    series = info * (1 - x / 2 * (1 - x / 3))  # exact for small x, which may be too small to be divided by q
    return torch.where(x < 1e-5, series, _below_one(x) * (1 / q)).to(positive.dtype)


def symmetric_cross_entropy(
    positive: Tensor, negatives: Tensor, alpha: float = 1.0, beta: float = 1.0, log_zero: float = -4.0
) -> Tensor:
    """alpha * -log p + beta * -log_zero * (1 - p): cross-entropy, and cross-entropy with the two sides exchanged.

    The second one would take the logarithm of a target of 0, which counts as ``log_zero``.

    Args:
        positive: the score of the positive pair, any shape.
        negatives: the log-sum-exp of the scores of the negatives, same shape; -inf where there are none.
        alpha: weight of the cross-entropy.
        beta: weight of the reversed cross-entropy.
        log_zero: what the logarithm of 0 counts as, below 0.

    Returns:
        The loss of every anchor, same shape.

    Example:
        >>> rince.objectives.symmetric_cross_entropy(torch.tensor(0.0), torch.tensor(0.0), alpha=0.0)
        tensor(2.)
    """
    info = info_nce(positive, negatives)
    return alpha * info - (beta * log_zero) * _below_one(info)


def debiased(scores: Scores, tau_plus: float, temperature: float | Tensor) -> Tensor:
    """InfoNCE with (neg - tau_plus N pos) / (1 - tau_plus), at least N exp(-1 / temperature), in place of neg.

    That is what N true negatives would give if a share ``tau_plus`` of what is taken for negatives were of the
    anchor's own class.

    Args:
        scores: of every anchor.
        tau_plus: the chance that something taken for a negative is of the anchor's class, in [0, 1).
        temperature: what the cosines were divided by.

    Returns:
        The loss of every anchor.

    Example:
        >>> scores = rince.losses.Scores(torch.tensor([1.0]), torch.tensor([1.0]), torch.tensor([2.0]))
        >>> rince.objectives.debiased(scores, tau_plus=0.0, temperature=1.0)
        tensor([0.6931])
    """
    return _debiased(scores.positive, scores.negatives, scores.number, tau_plus, temperature)


def hard_negatives(scores: Scores, tau_plus: float, temperature: float | Tensor) -> Tensor:
    """``debiased``, with negatives weighted by exp(beta score): N times the weighted mean of exp(score) for neg.

    Args:
        scores: of every anchor, with the second reduction ``"tilted"``, which brings beta; without one, all weights are
            equal.
        tau_plus: the chance that something taken for a negative is of the anchor's class, in [0, 1).
        temperature: what the cosines were divided by.

    Returns:
        The loss of every anchor.

    Example:
        >>> two = torch.tensor([1.0]), torch.tensor([1.0]), torch.tensor([2.0])
        >>> hard = rince.losses.Scores(*two, second=torch.tensor([0.9]))  # one of the two negatives is much harder
        >>> rince.objectives.hard_negatives(hard, tau_plus=0.0, temperature=1.0)
        tensor([1.0331])
    """
    if scores.second is None:
        return debiased(scores, tau_plus, temperature)
    number = scores.number
    negatives = scores.second + number.clamp_min(1).log()
    return _debiased(scores.positive, negatives, number, tau_plus, temperature)


def mil_nce(scores: Scores) -> Tensor:
    """-log(bag / (bag + neg)): the bag of an anchor's positives has to win; which one of them does, is left open.

    Args:
        scores: of every anchor, with the second reduction ``"bag"``.

    Returns:
        The loss of every anchor.

    Example:
        >>> bag = rince.losses.Scores(torch.zeros(1), torch.zeros(1), torch.ones(1), second=torch.tensor([2.0]))
        >>> rince.objectives.mil_nce(bag)
        tensor([0.1269])
    """
    assert scores.second is not None, "mil_nce needs Second('bag')"
    return info_nce(scores.second, scores.negatives)


def sigmoid(scores: Scores, bias: float | Tensor) -> Tensor:
    """log(1 + exp(-(positive + bias))) + the sum of log(1 + exp(score + bias)) over negatives: each pair by itself.

    Args:
        scores: of every anchor, with the second reduction ``"softplus"``, whose shift is the same bias.
        bias: added to every score.

    Returns:
        The loss of every anchor.

    Example:
        >>> one = rince.losses.Scores(torch.zeros(1), torch.zeros(1), torch.ones(1), second=torch.tensor([0.5]))
        >>> rince.objectives.sigmoid(one, bias=0.0)
        tensor([1.1931])
    """
    assert scores.second is not None, "sigmoid needs Second('softplus')"
    return softplus(-(scores.positive + bias), threshold=40) + scores.second


def _debiased(
    positive: Tensor, negatives: Tensor, number: Tensor, tau_plus: float, temperature: float | Tensor
) -> Tensor:
    """In logarithms; differences of exponentials are only formed where they are positive.

    A difference of two sums amplifies what rounding did to them, so it is taken in float64: one number per anchor, for
    which that is cheap.
    """
    dtype = positive.dtype
    if positive.device.type != "mps":  # which has no float64
        positive, negatives, number = positive.double(), negatives.double(), number.double()
    alone = number == 0
    log_number = number.clamp_min(1).log()
    share = log_number + math.log(tau_plus) if tau_plus else torch.full_like(log_number, -torch.inf)
    gap = negatives - positive
    above = (gap > share) & ~alone
    gap = torch.where(above, gap, share.clamp_min(-1.0) + 1)  # any number above the share will do where it is not used
    rest = gap + torch.log(-torch.expm1(share - gap)) - math.log1p(-tau_plus)
    least = log_number - 1 / temperature - positive
    rest = torch.where(above, torch.maximum(rest, least), least)
    return softplus(rest.masked_fill(alone, -torch.inf), threshold=40).to(dtype)


def _below_one(x: Tensor) -> Tensor:
    """1 - exp(-x), precise near 0; and for large x in its gradient, which torch takes from the result for expm1."""
    return torch.where(x > 0.5, 1 - torch.exp(-x), -torch.expm1(-x))


def _positive(q: float | Tensor) -> float | Tensor:
    # Numbers are quicker than scalar tensors, but a compiled loss takes a tensor's new value without compiling again.
    if isinstance(q, Tensor) and q.device.type == "cpu" and not torch.compiler.is_compiling():
        q = float(q)
    return q.clamp_min(SMALLEST_Q) if isinstance(q, Tensor) else max(q, SMALLEST_Q)


class _Rince(torch.autograd.Function):
    """With u = log(lam (pos + neg) / pos) the loss is pos^q (e^{qu} - 1) / q: nothing cancels as q -> 0.

    The larger of the two powers is taken out of the difference, half of it in front and half behind, so that nothing
    overflows that would fit. Gradients are written out for the same reasons, and because it takes half the time.
    """

    @staticmethod
    def forward(positive: Tensor, negatives: Tensor, q: float | Tensor, log_lam: float | Tensor) -> Tensor:
        u = info_nce(positive, negatives) + log_lam
        half = torch.exp(q / 2 * (positive + u.relu()))
        return (half * torch.expm1(-q * u.abs()) * (u.sign() * (-1 / q)) * half).to(positive.dtype)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
        positive, negatives, *others = inputs
        ctx.numbers = [None if isinstance(x, Tensor) else x for x in others]
        ctx.save_for_backward(positive, negatives, *(x if isinstance(x, Tensor) else None for x in others))

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        positive, negatives, *tensors = ctx.saved_tensors
        q, log_lam = (x if number is None else number for x, number in zip(tensors, ctx.numbers, strict=True))
        info = info_nce(positive, negatives)
        powers = q * log_lam - (1 - q) * info
        half = torch.exp(q / 2 * positive)
        pull = half * torch.expm1(powers) * half
        push = torch.exp(powers + negatives - (1 - q) * positive)
        to_lam = gradient * torch.exp(q * (positive + info + log_lam)) if ctx.needs_input_grad[3] else None
        return gradient * pull, gradient * push, None, to_lam
