"""Losses for negatives that are none: other items of the anchor's class, drawn by chance."""

from functools import partial
from typing import ClassVar

from torch import Tensor

from rince.losses import objectives
from rince.losses.contrast import Contrast, Objective, Second
from rince.losses.loss import Checks, ContrastiveLoss, Reduction, check_number

_check_beta = partial(check_number, "beta", least=0)
_check_tau_plus = partial(check_number, "tau_plus", least=0, below=1)


class Debiased(ContrastiveLoss):
    """InfoNCE corrected for negatives of the anchor's own class (Chuang et al. 2020).

    In place of neg stands (neg - tau_plus N pos) / (1 - tau_plus), at least N exp(-1 / temperature), for N negatives.
    Take it where classes are few and the share of a class is known roughly, as with ten classes in balance (0.1). It
    is about wrong negatives, not about wrong pairs: for those see ``GCE`` and ``RINCE``. Has no meaning on
    ``Supervised``: where labels are known, give them as ids.

    Args:
        tau_plus: the chance that something taken for a negative is of the anchor's class, in [0, 1); 0 is ``InfoNCE``.
        temperature: what cosines are divided by: a positive number, or a parameter to learn it.
        contrast: who is whose positive and negative; ``TwoView()`` if nothing is said.
        reduction: ``"mean"`` over anchors, ``"sum"``, or ``"none"`` for one loss per anchor.

    Raises:
        UsageError: if tau_plus does not lie in [0, 1).

    Example:
        >>> z1, z2 = torch.randn(2, 8, 16)
        >>> bool(rince.Debiased(0.1)(z1, z2) < rince.InfoNCE()(z1, z2))
        True
    """

    _checks: ClassVar[Checks] = {**ContrastiveLoss._checks, "tau_plus": _check_tau_plus}

    def __init__(
        self,
        tau_plus: float = 0.1,
        temperature: float | Tensor = 0.5,
        contrast: Contrast | None = None,
        reduction: Reduction = "mean",
    ):
        super().__init__(objectives.info_nce, temperature, contrast, reduction)
        self.tau_plus = tau_plus

    def objective(self, temperature: float | Tensor) -> Objective:
        function = partial(objectives.debiased, tau_plus=self.tau_plus, temperature=temperature)
        return Objective(function, one_positive=True)

    def extra_repr(self) -> str:
        return f"tau_plus={self.tau_plus:g}, {super().extra_repr()}"


class HardNegatives(ContrastiveLoss):
    """InfoNCE with negatives weighted by exp(beta score), so that hard ones count for more (Robinson et al. 2021).

    In place of neg stands N times the weighted mean of exp(score), debiased as in ``Debiased`` if tau_plus > 0. Take it
    where most negatives are too easy to teach anything. Hard negatives are also where items of the anchor's class
    hide, hence the debiasing; with captions or products that come up twice, give ids as well. Has no meaning on
    ``Supervised``: where labels are known, give them as ids.

    Args:
        beta: how much harder negatives count for more; 0 is ``Debiased``. The published values are 0.5 to 2.
        tau_plus: the chance that something taken for a negative is of the anchor's class, in [0, 1); 0 does not debias.
        temperature: what cosines are divided by: a positive number, or a parameter to learn it.
        contrast: who is whose positive and negative; ``TwoView()`` if nothing is said.
        reduction: ``"mean"`` over anchors, ``"sum"``, or ``"none"`` for one loss per anchor.

    Raises:
        UsageError: if beta is negative or tau_plus does not lie in [0, 1).

    Example:
        >>> z1, z2 = torch.randn(2, 8, 16)
        >>> bool(rince.HardNegatives(1.0, tau_plus=0)(z1, z2) > rince.InfoNCE()(z1, z2))
        True
    """

    _checks: ClassVar[Checks] = {**ContrastiveLoss._checks, "beta": _check_beta, "tau_plus": _check_tau_plus}

    def __init__(
        self,
        beta: float = 1.0,
        tau_plus: float = 0.1,
        temperature: float | Tensor = 0.5,
        contrast: Contrast | None = None,
        reduction: Reduction = "mean",
    ):
        super().__init__(objectives.info_nce, temperature, contrast, reduction)
        self.beta, self.tau_plus = beta, tau_plus

    def objective(self, temperature: float | Tensor) -> Objective:
        function = partial(objectives.hard_negatives, tau_plus=self.tau_plus, temperature=temperature)
        return Objective(function, Second("tilted", beta=self.beta) if self.beta else None, one_positive=True)

    def extra_repr(self) -> str:
        return f"beta={self.beta:g}, tau_plus={self.tau_plus:g}, {super().extra_repr()}"
