"""Losses of classification with wrong labels, on the softmax over a batch."""

from functools import partial
from typing import ClassVar

from torch import Tensor

from rince.errors import UsageError
from rince.losses import objectives
from rince.losses.contrast import Contrast, Objective, Scores
from rince.losses.loss import Checks, ContrastiveLoss, Reduction, check_number, check_q


class GCE(ContrastiveLoss):
    """(1 - p^q) / q with p = pos / (pos + neg): generalised cross-entropy, for pairs that may be wrong.

    The contrastive form of Zhang and Sabuncu (2018). q = 0 is ``InfoNCE``, q = 1 is 1 - p, which a wrong pair can pull
    on with a bounded force only. In contrast to ``RINCE`` it is bounded, depends on the scores through p alone, and its
    gradients have the size of InfoNCE's, so that a learning rate carries over. Try it first where pairs may be wrong.

    Args:
        q: from 0 (InfoNCE) to 1 ("MAE"). It can be set between steps, ``loss.q = 0.3``; see ``rince.losses.schedules``.
        temperature: what cosines are divided by: a positive number, or a parameter to learn it.
        contrast: who is whose positive and negative; ``TwoView()`` if nothing is said.
        reduction: ``"mean"`` over anchors, ``"sum"``, or ``"none"`` for one loss per anchor.

    Raises:
        UsageError: if q does not lie in [0, 1].

    Example:
        >>> z1, z2 = torch.randn(2, 8, 16)
        >>> bool(rince.GCE(q=1.0, temperature=0.2)(z1, z2) <= 1)
        True
    """

    def __init__(
        self,
        q: float = 0.7,
        temperature: float | Tensor = 0.2,
        contrast: Contrast | None = None,
        reduction: Reduction = "mean",
    ):
        super().__init__(objectives.gce, temperature, contrast, reduction)
        self._q = check_q(q)

    @property
    def q(self) -> float:
        """How little pairs that look wrong count, from 0 to 1. It can be set between steps."""
        return float(self._q)

    @q.setter
    def q(self, value: float) -> None:
        self._q = check_q(value)

    def objective(self, temperature: float | Tensor) -> Objective:
        return Objective(partial(_gce, self._q))

    def extra_repr(self) -> str:
        return f"q={self.q:g}, {super().extra_repr()}"


def _check_log_zero(log_zero: float) -> float:
    return -check_number("-log_zero", -log_zero, above=0)


class SymmetricCrossEntropy(ContrastiveLoss):
    """alpha * -log p + beta * -log_zero * (1 - p), p = pos / (pos + neg): InfoNCE and a bounded part.

    The contrastive form of Wang et al. (2019). The first part learns quickly and is misled by wrong pairs, the second
    one is ``GCE`` with q = 1 and is not. Take it where GCE alone learns too slowly.

    Args:
        alpha: weight of the cross-entropy, which is ``InfoNCE``.
        beta: weight of the reversed cross-entropy.
        log_zero: what the logarithm of 0 counts as in the reversed one, below 0: only beta * log_zero matters.
        temperature: what cosines are divided by: a positive number, or a parameter to learn it.
        contrast: who is whose positive and negative; ``TwoView()`` if nothing is said.
        reduction: ``"mean"`` over anchors, ``"sum"``, or ``"none"`` for one loss per anchor.

    Raises:
        UsageError: if alpha or beta is negative, both are 0, or log_zero is not below 0.

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
        alpha: float = 1.0,
        beta: float = 1.0,
        log_zero: float = -4.0,
        temperature: float | Tensor = 0.2,
        contrast: Contrast | None = None,
        reduction: Reduction = "mean",
    ):
        super().__init__(objectives.symmetric_cross_entropy, temperature, contrast, reduction)
        self.alpha, self.beta, self.log_zero = alpha, beta, log_zero
        if not self.alpha and not self.beta:
            raise UsageError("alpha and beta must not both be 0: nothing would be left of the loss")

    def objective(self, temperature: float | Tensor) -> Objective:
        return Objective(partial(_symmetric_cross_entropy, self.alpha, self.beta, self.log_zero))

    def extra_repr(self) -> str:
        return f"alpha={self.alpha:g}, beta={self.beta:g}, log_zero={self.log_zero:g}, {super().extra_repr()}"


def _gce(q: Tensor, scores: Scores) -> Tensor:
    return objectives.gce(scores.positive, scores.negatives, q)


def _symmetric_cross_entropy(alpha: float, beta: float, log_zero: float, scores: Scores) -> Tensor:
    return objectives.symmetric_cross_entropy(scores.positive, scores.negatives, alpha, beta, log_zero)
