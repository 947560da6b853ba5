"""InfoNCE and its variants: decoupled, debiased, hard negatives, several candidate positives."""

from functools import partial
from typing import ClassVar

from torch import Tensor

from rince.losses import objectives
from rince.losses.contrasts import Contrast
from rince.losses.loss import Checks, ContrastiveLoss, Reduction, check_number
from rince.losses.objectives import ExtraReduction, Objective, Scores
from rince.losses.temperature import Temperature


class InfoNCE(ContrastiveLoss):
    """-log(pos / (pos + neg)): the usual contrastive loss, best where pairs can be trusted.

    Hard pairs pull most, so wrong pairs are memorized. Its relatives for pairs that may be wrong are ``RINCE``
    and ``GCE``, which go over into it as q goes to 0.

    Args:
        temperature: Softmax temperature: a positive float, or ``LearnedTemperature()``.
        contrast: How positives and negatives are formed. Default: ``TwoView()``.
        reduction: ``"mean"`` over anchors, ``"sum"``, or ``"none"`` for one value per anchor.

    Example:
        >>> z1, z2 = torch.randn(2, 8, 16)
        >>> rince.InfoNCE(temperature=0.1)(z1, z2).shape
        torch.Size([])
    """

    def __init__(
        self, *, temperature: Temperature = 0.2, contrast: Contrast | None = None, reduction: Reduction = "mean"
    ):
        objective = Objective(_info_nce, gradient=objectives.info_nce_gradient)
        super().__init__(objective, temperature=temperature, contrast=contrast, reduction=reduction)


def _info_nce(scores: Scores) -> Tensor:
    return objectives.info_nce(scores.positive, scores.negatives)


class DCL(ContrastiveLoss):
    """-log(pos / neg): InfoNCE with the positive left out of the denominator (decoupled contrastive learning).

    Take it for small batches, where InfoNCE's gradient fades as soon as the positive dominates the denominator, and to
    reproduce GraphCL's published code. It has no lower bound and is as easily misled by wrong pairs as InfoNCE.

    Args:
        temperature: Softmax temperature: a positive float, or ``LearnedTemperature()``.
        contrast: How positives and negatives are formed. Default: ``TwoView()``.
        reduction: ``"mean"`` over anchors, ``"sum"``, or ``"none"`` for one value per anchor.

    Example:
        >>> z1, z2 = torch.randn(2, 8, 16)
        >>> bool(rince.DCL()(z1, z2) < rince.InfoNCE()(z1, z2))
        True
    """

    def __init__(
        self, *, temperature: Temperature = 0.2, contrast: Contrast | None = None, reduction: Reduction = "mean"
    ):
        super().__init__(objectives.dcl, temperature=temperature, contrast=contrast, reduction=reduction)


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
        temperature: Softmax temperature: a positive float, or ``LearnedTemperature()``.
        contrast: How positives and negatives are formed. Default: ``TwoView()``.
        reduction: ``"mean"`` over anchors, ``"sum"``, or ``"none"`` for one value per anchor.

    Raises:
        UsageError: if tau_plus does not lie in [0, 1).

    Example:
        >>> z1, z2 = torch.randn(2, 8, 16)
        >>> bool(rince.Debiased(tau_plus=0.1)(z1, z2) < rince.InfoNCE()(z1, z2))
        True
    """

    _checks: ClassVar[Checks] = {**ContrastiveLoss._checks, "tau_plus": _check_tau_plus}

    def __init__(
        self,
        *,
        tau_plus: float = 0.1,
        temperature: Temperature = 0.2,
        contrast: Contrast | None = None,
        reduction: Reduction = "mean",
    ):
        super().__init__(objectives.info_nce, temperature=temperature, contrast=contrast, reduction=reduction)
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
        temperature: Softmax temperature: a positive float, or ``LearnedTemperature()``.
        contrast: How positives and negatives are formed. Default: ``TwoView()``.
        reduction: ``"mean"`` over anchors, ``"sum"``, or ``"none"`` for one value per anchor.

    Raises:
        UsageError: if beta is negative or tau_plus does not lie in [0, 1).

    Example:
        >>> z1, z2 = torch.randn(2, 8, 16)
        >>> bool(rince.HardNegatives(beta=1.0, tau_plus=0)(z1, z2) > rince.InfoNCE()(z1, z2))
        True
    """

    _checks: ClassVar[Checks] = {**ContrastiveLoss._checks, "beta": _check_beta, "tau_plus": _check_tau_plus}

    def __init__(
        self,
        *,
        beta: float = 1.0,
        tau_plus: float = 0.1,
        temperature: Temperature = 0.2,
        contrast: Contrast | None = None,
        reduction: Reduction = "mean",
    ):
        super().__init__(objectives.info_nce, temperature=temperature, contrast=contrast, reduction=reduction)
        self.beta, self.tau_plus = beta, tau_plus

    def objective(self, temperature: float | Tensor) -> Objective:
        function = partial(objectives.hard_negatives, tau_plus=self.tau_plus, temperature=temperature)
        return Objective(
            function, ExtraReduction("hard_negatives", beta=self.beta) if self.beta else None, one_positive=True
        )

    def extra_repr(self) -> str:
        return f"beta={self.beta:g}, tau_plus={self.tau_plus:g}, {super().extra_repr()}"


class MILNCE(ContrastiveLoss):
    """-log(bag / (bag + neg)): one of several possible positives has to be right, which one is left open.

    MIL-NCE of Miech et al. (2020); bag is the sum of exp(score) over all candidates with the anchor's id. Take it where
    a positive is known up to its neighborhood only: a clip and the sentences said around it. Rows that belong together
    share an id, ``loss(clips, sentences, ids=ids)``: one row per pair of clip and sentence. The best of a bag gets most
    of the pull, so the others may be wrong. Without bags (ids that are all different) it is ``InfoNCE``. Each direction
    of ``CrossView`` has a denominator of its own here; the published code shares one. Has no meaning on ``Supervised``:
    give the labels as ids.

    Args:
        temperature: Softmax temperature: a positive float, or ``LearnedTemperature()``.
        contrast: How positives and negatives are formed. Default: ``TwoView()``.
        reduction: ``"mean"`` over anchors, ``"sum"``, or ``"none"`` for one value per anchor.

    Raises:
        UsageError: when called without ids.

    Example:
        >>> clips, sentences = torch.randn(2, 8, 16)
        >>> ids = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3])
        >>> rince.MILNCE(contrast=rince.CrossView())(clips, sentences, ids=ids).shape
        torch.Size([])
    """

    def __init__(
        self, *, temperature: Temperature = 0.2, contrast: Contrast | None = None, reduction: Reduction = "mean"
    ):
        function = Objective(objectives.mil_nce, ExtraReduction("bag"), one_positive=True)
        super().__init__(function, temperature=temperature, contrast=contrast, reduction=reduction)
