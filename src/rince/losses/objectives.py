"""Objectives: the loss of an anchor as a function of its scores.

``positive`` is the score of the positive pair (cosine over temperature), ``negatives`` the log-sum-exp of the scores of
the negatives, without the positive. Both have any shape, the result has the same; ``negatives = -inf`` means that there
are none. Objectives that need more take ``Scores``, which also hold the number of negatives and, on request, one more
reduction over them (``ExtraReduction``).
"""

import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus

from rince.errors import UsageError, WrongType

__all__ = [
    "ExtraReduction",
    "Objective",
    "Scores",
    "dcl",
    "debiased",
    "gce",
    "hard_negatives",
    "info_nce",
    "mil_nce",
    "rince",
    "sigmoid",
    "symmetric_cross_entropy",
]


class Scores(NamedTuple):
    """Inputs of an objective, one value per anchor.

    Args:
        positive: Score of the positive pair: cosine over temperature.
        negatives: Log-sum-exp of the scores of the negatives; ``-inf`` without negatives.
        num_negatives: Number of negatives.
        extra: The ``ExtraReduction`` over the negatives that the objective asked for, else ``None``.

    Example:
        >>> scores = rince.CrossView()(torch.randn(8, 4), torch.randn(8, 4), temperature=0.2)
        >>> scores.positive.shape, scores.num_negatives[0]
        (torch.Size([16]), tensor(7.))
    """

    positive: Tensor
    negatives: Tensor
    num_negatives: Tensor
    extra: Tensor | None = None

    @property
    def number(self) -> Tensor:
        """Deprecated name of ``num_negatives``."""
        return self.num_negatives

    @property
    def second(self) -> Tensor | None:
        """Deprecated name of ``extra``."""
        return self.extra


class ExtraReduction(NamedTuple):
    """One more reduction over the negatives of an anchor, computed in the same pass as the log-sum-exp.

    Args:
        kind: ``"hard_negatives"``: log of the mean of exp(score), weighted by exp(beta * score). ``"softplus"``: sum of
            log(1 + exp(score + shift)). ``"bag"``: log-sum-exp over the candidates with the anchor's id, including its
            positive and without the anchor itself.
        beta: Weight exponent of ``"hard_negatives"``.
        shift: Shift of ``"softplus"``: a scalar tensor, differentiable.

    Example:
        >>> ExtraReduction("hard_negatives", beta=1.0).kind
        'hard_negatives'
    """

    kind: Literal["hard_negatives", "softplus", "bag"]
    beta: float = 0.0
    shift: Tensor | None = None


Gradient = Callable[[Tensor, Tensor, "float | Tensor"], tuple[Tensor, Tensor, Tensor]]
"""From positive, negatives and number of negatives to the loss and its derivatives by positive and negatives.

Shapes may broadcast.
"""


class Objective:
    """An elementwise function from the scores of an anchor to its loss, and what it needs.

    Args:
        function: From ``Scores`` to one loss per anchor.
        extra: The reduction that ``scores.extra`` holds. Default: ``None``, none.
        one_positive: Whether the objective is undefined if an anchor has several positives, as in ``Supervised``.
        gradient: The objective together with its derivatives by positive and negatives, as tensors without graph. With
            it, small batches are computed in one step; a custom objective does not need it. Default: None.
        needs_count: Whether ``gradient`` uses the number of negatives.

    Example:
        InfoNCE with more weight on hard negatives:

        >>> def hard(scores):
        ...     return torch.nn.functional.softplus(scores.extra + scores.num_negatives.log() - scores.positive)
        >>> objective = rince.losses.Objective(hard, rince.losses.ExtraReduction("hard_negatives", beta=0.5))
        >>> loss = rince.ContrastiveLoss(objective, temperature=0.2)
    """

    def __init__(
        self,
        function: Callable[[Scores], Tensor],
        extra: ExtraReduction | None = None,
        one_positive: bool = False,
        gradient: Gradient | None = None,
        needs_count: bool = False,
    ):
        self.function, self.extra, self.one_positive = function, extra, one_positive
        self.gradient, self.needs_count = gradient, needs_count

    def __call__(self, scores: Scores) -> Tensor:
        return self.function(scores)


def as_objective(function: Any) -> Objective:
    """An ``Objective`` from a function of ``Scores`` or of ``(positive, negatives)``.

    Raises:
        WrongType: If it is not callable.
        UsageError: If it needs neither one nor two arguments.
    """
    if isinstance(function, Objective):
        return function
    if not callable(function):
        raise WrongType(
            f"objective must be a function of (positive, negatives) or of Scores, got {type(function).__name__}"
        )
    num_arguments = _needed_arguments(function)
    if num_arguments not in (1, 2):
        raise UsageError(
            f"objective must take (positive, negatives), or Scores alone, but needs {num_arguments} arguments: "
            "bind the others with functools.partial or give them defaults"
        )
    return Objective(function if num_arguments == 1 else partial(_of_two, function))


def refuse_extra(extra: ExtraReduction | None, contrast: str) -> None:
    """For contrasts without extra reductions."""
    if extra is not None:
        raise UsageError(
            f"{contrast} does not support extra reductions over negatives: use TwoView, CrossView or Queue"
        )


def _of_two(function: Callable[[Tensor, Tensor], Tensor], scores: Scores) -> Tensor:
    return function(scores.positive, scores.negatives)


def _needed_arguments(function: Callable[..., Any]) -> int:
    """Number of required positional arguments; 2 if unknown."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 2
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return 2
    return sum(p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) for p in parameters)


SMALLEST_Q = 1e-30  # equivalent to 0 in the formulas


def info_nce(positive: Tensor, negatives: Tensor) -> Tensor:
    """-log(pos / (pos + neg)): cross-entropy of the softmax over the positive and all negatives.

    Args:
        positive: Score of the positive pair, any shape.
        negatives: Log-sum-exp of the scores of the negatives, same shape; -inf without negatives.

    Returns:
        The loss of every anchor, same shape.

    Example:
        >>> rince.objectives.info_nce(torch.tensor(0.0), torch.tensor(0.0))
        tensor(0.6931)
    """
    return softplus(negatives - positive, threshold=40)


def dcl(positive: Tensor, negatives: Tensor) -> Tensor:
    """-log(pos / neg): decoupled, with the positive left out of the denominator; GraphCL's published form.

    Args:
        positive: Score of the positive pair, any shape.
        negatives: Log-sum-exp of the scores of the negatives, same shape; -inf without negatives.

    Returns:
        The loss of every anchor, same shape. Unbounded below; an anchor without negatives has loss 0, not -inf.

    Example:
        >>> rince.objectives.dcl(torch.tensor(2.0), torch.tensor(1.0))
        tensor(-1.)
    """
    alone = torch.isneginf(negatives)
    return torch.where(alone, 0, torch.where(alone, positive, negatives) - positive)


def rince(positive: Tensor, negatives: Tensor, q: float | Tensor = 0.5, lam: float | Tensor = 0.01) -> Tensor:
    """-pos^q / q + (lam (pos + neg))^q / q, for q in [0, 1] and lam in (0, 1].

    q = 1 is symmetric in the sense of classification with noisy labels. The limit for q -> 0 is InfoNCE + log lam,
    which is the value at q = 0.

    Args:
        positive: Score of the positive pair, any shape.
        negatives: Log-sum-exp of the scores of the negatives, same shape; -inf without negatives.
        q: Robustness in [0, 1].
        lam: Weight of the negatives in (0, 1].

    Returns:
        The loss of every anchor, same shape.

    Example:
        >>> rince.objectives.rince(torch.tensor(0.0), torch.tensor(0.0), q=1.0, lam=0.5)
        tensor(0.)
    """
    return _Rince.apply(positive, negatives, _positive(q), lam.log() if isinstance(lam, Tensor) else math.log(lam))


def gce(positive: Tensor, negatives: Tensor, q: float | Tensor = 0.7) -> Tensor:
    """(1 - p^q) / q with p = pos / (pos + neg), for q in [0, 1]: generalized cross-entropy of the softmax over a batch.

    q = 1 is 1 - p ("MAE"). The limit for q -> 0 is InfoNCE, which is the value at q = 0.

    Args:
        positive: Score of the positive pair, any shape.
        negatives: Log-sum-exp of the scores of the negatives, same shape; -inf without negatives.
        q: Robustness in [0, 1].

    Returns:
        The loss of every anchor, same shape.

    Example:
        >>> rince.objectives.gce(torch.tensor(0.0), torch.tensor(0.0), q=1.0)
        tensor(0.5000)
    """
    q = _positive(q)
    info = info_nce(positive, negatives)
    x = q * info
    series = info * (1 - x / 2 * (1 - x / 3))  # accurate for small x, which may underflow
    return torch.where(x < 1e-5, series, _below_one(x) * (1 / q)).to(positive.dtype)


def symmetric_cross_entropy(
    positive: Tensor, negatives: Tensor, alpha: float = 1.0, beta: float = 1.0, log_zero: float = -4.0
) -> Tensor:
    """alpha * -log p + beta * -log_zero * (1 - p): cross-entropy plus reversed cross-entropy.

    The reversed one needs the logarithm of a target of 0, which is replaced by ``log_zero``.

    Args:
        positive: Score of the positive pair, any shape.
        negatives: Log-sum-exp of the scores of the negatives, same shape; -inf without negatives.
        alpha: Weight of the cross-entropy.
        beta: Weight of the reversed cross-entropy.
        log_zero: Replacement for log(0), negative.

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

    This estimates the sum over N true negatives if a share ``tau_plus`` of the sampled ones has the anchor's class.

    Args:
        scores: Scores of every anchor.
        tau_plus: Probability that a sampled negative has the anchor's class, in [0, 1).
        temperature: Temperature of the scores.

    Returns:
        The loss of every anchor.

    Example:
        >>> scores = rince.losses.Scores(torch.tensor([1.0]), torch.tensor([1.0]), torch.tensor([2.0]))
        >>> rince.objectives.debiased(scores, tau_plus=0.0, temperature=1.0)
        tensor([0.6931])
    """
    return _debiased(scores.positive, scores.negatives, scores.num_negatives, tau_plus, temperature)


def hard_negatives(scores: Scores, tau_plus: float, temperature: float | Tensor) -> Tensor:
    """``debiased``, with negatives weighted by exp(beta score): N times the weighted mean of exp(score) for neg.

    Args:
        scores: Scores of every anchor, with the extra reduction ``"hard_negatives"``, which sets beta. Without it, all
            weights are equal.
        tau_plus: Probability that a sampled negative has the anchor's class, in [0, 1).
        temperature: Temperature of the scores.

    Returns:
        The loss of every anchor.

    Example:
        >>> two = torch.tensor([1.0]), torch.tensor([1.0]), torch.tensor([2.0])
        >>> hard = rince.losses.Scores(*two, extra=torch.tensor([0.9]))  # one of the two negatives is much harder
        >>> rince.objectives.hard_negatives(hard, tau_plus=0.0, temperature=1.0)
        tensor([1.0331])
    """
    if scores.extra is None:
        return debiased(scores, tau_plus, temperature)
    number = scores.num_negatives
    negatives = scores.extra + number.clamp_min(1).log()
    return _debiased(scores.positive, negatives, number, tau_plus, temperature)


def mil_nce(scores: Scores) -> Tensor:
    """-log(bag / (bag + neg)): at least one positive of the bag has to score above the negatives.

    Args:
        scores: Scores of every anchor, with the extra reduction ``"bag"``.

    Returns:
        The loss of every anchor.

    Example:
        >>> bag = rince.losses.Scores(torch.zeros(1), torch.zeros(1), torch.ones(1), extra=torch.tensor([2.0]))
        >>> rince.objectives.mil_nce(bag)
        tensor([0.1269])
    """
    assert scores.extra is not None, "mil_nce needs ExtraReduction('bag')"
    return info_nce(scores.extra, scores.negatives)


def sigmoid(scores: Scores, bias: float | Tensor) -> Tensor:
    """log(1 + exp(-(positive + bias))) + sum over negatives of log(1 + exp(score + bias)): binary cross-entropy.

    Args:
        scores: Scores of every anchor, with the extra reduction ``"softplus"``, whose shift is the same bias.
        bias: Added to every score.

    Returns:
        The loss of every anchor.

    Example:
        >>> one = rince.losses.Scores(torch.zeros(1), torch.zeros(1), torch.ones(1), extra=torch.tensor([0.5]))
        >>> rince.objectives.sigmoid(one, bias=0.0)
        tensor([1.1931])
    """
    assert scores.extra is not None, "sigmoid needs ExtraReduction('softplus')"
    return softplus(-(scores.positive + bias), threshold=40) + scores.extra


def info_nce_gradient(
    positive: Tensor, negatives: Tensor, num_negatives: float | Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """``info_nce`` and its derivatives by positive and negatives (``Gradient``)."""
    difference = negatives - positive
    slope = difference.sigmoid()
    return softplus(difference, threshold=40), -slope, slope


def gce_gradient(
    positive: Tensor, negatives: Tensor, num_negatives: float | Tensor, q: float | Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """``gce`` and its derivatives by positive and negatives (``Gradient``)."""
    difference = negatives - positive
    info = softplus(difference, threshold=40)
    x = info * -q
    slope = difference.sigmoid_().mul_(x.exp())
    # The series is accurate for small x, which may underflow.
    if isinstance(q, Tensor):  # in compiled code
        value = torch.where(q < 1e-6, info * (1 + x / 2 * (1 + x / 3)), x.expm1() * (-1 / q.clamp_min(1e-6)))
    else:
        value = info * (1 + x / 2 * (1 + x / 3)) if q < 1e-6 else x.expm1_().mul_(-1 / q)
    return value, -slope, slope


def rince_gradient(
    positive: Tensor,
    negatives: Tensor,
    num_negatives: float | Tensor,
    q: float | Tensor,
    lam: float,
    density_ratio: float | None,
    shift: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """``rince`` of scores minus ``shift``, with ``lam`` or that of a density ratio, and its derivatives."""
    q = _positive(q)
    difference = negatives - positive
    # The formulas of ``_Rince`` without its precautions: scores are bounded here, and nothing overflows.
    growth = softplus(difference, threshold=40)
    if density_ratio is not None and isinstance(num_negatives, Tensor):
        growth = growth.sub_((num_negatives / density_ratio).log1p_()).mul_(q).expm1_()
    else:
        log_lam = math.log(lam) if density_ratio is None else -math.log1p(num_negatives / density_ratio)
        growth = _affine(growth, q, log_lam * q).expm1_()
    power = _affine(positive, q, -shift * q).exp_()
    scaled = growth.mul_(power)
    d_negatives = (scaled + power).mul_(difference.sigmoid_())
    return scaled * (1 / q), scaled - d_negatives, d_negatives


def _affine(x: Tensor, factor: float | Tensor, shift: float | Tensor) -> Tensor:
    """factor * x + shift, in one operation unless the numbers are tensors."""
    return x * factor + shift if isinstance(factor, Tensor) else torch.rsub(x, shift, alpha=-factor)


def _debiased(
    positive: Tensor, negatives: Tensor, number: Tensor, tau_plus: float, temperature: float | Tensor
) -> Tensor:
    """In logarithms, and in float64: a difference of two sums amplifies their rounding errors."""
    dtype = positive.dtype
    if positive.device.type != "mps":  # MPS has no float64
        positive, negatives, number = positive.double(), negatives.double(), number.double()
    alone = number == 0
    log_number = number.clamp_min(1).log()
    share = log_number + math.log(tau_plus) if tau_plus else torch.full_like(log_number, -torch.inf)
    gap = negatives - positive
    above = (gap > share) & ~alone
    gap = torch.where(above, gap, share.clamp_min(-1.0) + 1)  # unused there; any value above the share
    rest = gap + torch.log(-torch.expm1(share - gap)) - math.log1p(-tau_plus)
    floor = log_number - 1 / temperature - positive
    rest = torch.where(above, torch.maximum(rest, floor), floor)
    return softplus(rest.masked_fill(alone, -torch.inf), threshold=40).to(dtype)


def _below_one(x: Tensor) -> Tensor:
    """1 - exp(-x), accurate near 0, with an accurate gradient for large x (expm1 loses it to cancellation)."""
    return torch.where(x > 0.5, 1 - torch.exp(-x), -torch.expm1(-x))


def _positive(q: float | Tensor) -> float | Tensor:
    # Floats are faster than scalar tensors; in a compiled loss, a tensor takes a new value without recompiling.
    if isinstance(q, Tensor) and q.device.type == "cpu" and not torch.compiler.is_compiling():
        q = float(q)
    return q.clamp_min(SMALLEST_Q) if isinstance(q, Tensor) else max(q, SMALLEST_Q)


def _rince_value(positive: Tensor, info: Tensor, q: float | Tensor, log_lam: float | Tensor) -> Tensor:
    u = info + log_lam
    half = torch.exp(q / 2 * (positive + u.relu()))
    return half * torch.expm1(-q * u.abs()) * (u.sign() * (-1 / q)) * half


def _rince_slopes(
    positive: Tensor, negatives: Tensor, info: Tensor, q: float | Tensor, log_lam: float | Tensor
) -> tuple[Tensor, Tensor]:
    powers = q * log_lam - (1 - q) * info
    half = torch.exp(q / 2 * positive)
    return half * torch.expm1(powers) * half, torch.exp(powers + negatives - (1 - q) * positive)


class _Rince(torch.autograd.Function):
    """With u = log(lam (pos + neg) / pos) the loss is pos^q (e^{qu} - 1) / q, without cancellation as q -> 0.

    The larger of the two powers is factored out, half of it on either side, so that intermediate results overflow only
    if the loss does. The gradient is written out for the same reason, and because that takes half the time.
    """

    @staticmethod
    def forward(positive: Tensor, negatives: Tensor, q: float | Tensor, log_lam: float | Tensor) -> Tensor:
        return _rince_value(positive, info_nce(positive, negatives), q, log_lam).to(positive.dtype)

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
        pull, push = _rince_slopes(positive, negatives, info, q, log_lam)
        to_lam = gradient * torch.exp(q * (positive + info + log_lam)) if ctx.needs_input_grad[3] else None
        return gradient * pull, gradient * push, None, to_lam
