"""Robust losses of classification on the softmax over a batch: GCE and symmetric cross-entropy."""

from functools import partial
from typing import ClassVar

import torch
from torch import Tensor

from rince.errors import UsageError
from rince.losses import objectives
from rince.losses.contrasts import Contrast
from rince.losses.loss import Checks, ContrastiveLoss, HasQ, Reduction, check_number
from rince.losses.objectives import Objective, Scores
from rince.losses.temperature import Temperature


class GCE(HasQ, ContrastiveLoss):
    """(1 - p^q) / q with p = pos / (pos + neg): generalized cross-entropy, the first choice if pairs may be wrong.

    The contrastive form of Zhang and Sabuncu (2018). q = 0 is ``InfoNCE``, q = 1 is 1 - p. In contrast to ``RINCE`` it
    is bounded and depends on the scores through p alone. Its gradients have the size of those of InfoNCE, so that a
    learning rate carries over.

    Args:
        q: Robustness, from 0 (InfoNCE) to 1 ("MAE"). It can be set between steps, ``loss.q = 0.3``; see
            ``rince.losses.schedules``. Default: 1.
        temperature: Softmax temperature: a positive float, or ``LearnedTemperature()``. Keep it fixed if pairs may
            be wrong: a learned one falls, and robustness with it. Default: 0.2.
        contrast: How positives and negatives are formed. Default: ``TwoView()``.
        reduction: ``"mean"`` over anchors, ``"sum"``, or ``"none"`` for one value per anchor.

    Raises:
        UsageError: If q is not in [0, 1].

    Example:
        >>> images, texts = torch.randn(2, 8, 16)
        >>> bool(rince.GCE(contrast=rince.CrossView())(images, texts) <= 1)
        True
    """

    def __init__(
        self,
        *,
        q: float = 1.0,
        temperature: Temperature = 0.2,
        contrast: Contrast | None = None,
        reduction: Reduction = "mean",
    ):
        super().__init__(temperature=temperature, contrast=contrast, reduction=reduction)
        self.q = q

    def objective(self, temperature: float | Tensor) -> Objective:
        if torch.compiler.is_compiling():  # no guard on the value of q, which may change at every step
            return Objective(partial(_gce, self._q), gradient=partial(objectives.gce_gradient, q=self._q))
        return Objective(partial(_gce, self._q_value), gradient=partial(objectives.gce_gradient, q=self._q_value))

    def extra_repr(self) -> str:
        return f"q={self.q:g}, {super().extra_repr()}"


def _check_log_zero(log_zero: float) -> float:
    return -check_number("-log_zero", -log_zero, above=0)


class SymmetricCrossEntropy(ContrastiveLoss):
    """alpha * -log p + beta * -log_zero * (1 - p), p = pos / (pos + neg): InfoNCE and a bounded part.

    The contrastive form of Wang et al. (2019). The first part learns quickly and is misled by wrong pairs, the second
    one is ``GCE`` with q = 1 and is not. Use it where GCE alone learns too slowly.

    Args:
        alpha: Weight of the cross-entropy, which is ``InfoNCE``. Default: 1.
        beta: Weight of the reversed cross-entropy. Default: 1.
        log_zero: Replacement for log(0) in the reversed one, negative; only beta * log_zero matters. Default: -4.
        temperature: Softmax temperature: a positive float. A learned one makes the loss less robust.
        contrast: How positives and negatives are formed. Default: ``TwoView()``.
        reduction: ``"mean"`` over anchors, ``"sum"``, or ``"none"`` for one value per anchor.

    Raises:
        UsageError: If alpha or beta is negative, both are 0, or log_zero is not below 0.

    Example:
        >>> z1, z2 = torch.randn(2, 8, 16)
        >>> rince.SymmetricCrossEntropy(alpha=0.1, temperature=0.2)(z1, z2).shape
        torch.Size([])
    """

    _checks: ClassVar[Checks] = {
        **ContrastiveLoss._checks,
        "alpha": partial(check_number, "alpha", least=0),
        "beta": partial(check_number, "beta", least=0),
        "log_zero": _check_log_zero,
    }

    def __init__(
        self,
        *,
        alpha: float = 1.0,
        beta: float = 1.0,
        log_zero: float = -4.0,
        temperature: Temperature = 0.2,
        contrast: Contrast | None = None,
        reduction: Reduction = "mean",
    ):
        super().__init__(temperature=temperature, contrast=contrast, reduction=reduction)
        self.alpha, self.beta, self.log_zero = alpha, beta, log_zero
        if not self.alpha and not self.beta:
            raise UsageError("alpha and beta must not both be 0: the loss would be 0")

    def objective(self, temperature: float | Tensor) -> Objective:
        return Objective(partial(_symmetric_cross_entropy, self.alpha, self.beta, self.log_zero))

    def extra_repr(self) -> str:
        return f"alpha={self.alpha:g}, beta={self.beta:g}, log_zero={self.log_zero:g}, {super().extra_repr()}"


def _gce(q: float | Tensor, scores: Scores) -> Tensor:
    return objectives.gce(scores.positive, scores.negatives, q)


def _symmetric_cross_entropy(alpha: float, beta: float, log_zero: float, scores: Scores) -> Tensor:
    return objectives.symmetric_cross_entropy(scores.positive, scores.negatives, alpha, beta, log_zero)
