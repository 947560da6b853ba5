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

    Hard pairs have the largest gradients, so wrong pairs are memorized. ``RINCE`` and ``GCE`` are robust to them, and
    equal to it (``RINCE`` up to a constant) in the limit of q to 0.

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

    Use it for small batches, where the gradient of InfoNCE vanishes once the positive dominates the denominator, and to
    reproduce GraphCL's published code. It has no lower bound and is as sensitive to wrong pairs as InfoNCE.

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

    With N negatives, neg is replaced by (neg - tau_plus N pos) / (1 - tau_plus), at least N exp(-1 / temperature).
    Use it with few classes whose share is roughly known, such as ten balanced classes (0.1). It corrects for wrong
    negatives; for wrong pairs use ``GCE`` or ``RINCE``. Not defined on ``Supervised``: pass known labels as ids.

    Args:
        tau_plus: Probability that a negative has the anchor's class, in [0, 1); 0 is ``InfoNCE``. Default: 0.1.
        temperature: Softmax temperature: a positive float, or ``LearnedTemperature()``.
        contrast: How positives and negatives are formed. Default: ``TwoView()``.
        reduction: ``"mean"`` over anchors, ``"sum"``, or ``"none"`` for one value per anchor.

    Raises:
        UsageError: If tau_plus does not lie in [0, 1).

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
        super().__init__(temperature=temperature, contrast=contrast, reduction=reduction)
        self.tau_plus = tau_plus

    def objective(self, temperature: float | Tensor) -> Objective:
        function = partial(objectives.debiased, tau_plus=self.tau_plus, temperature=temperature)
        return Objective(function, one_positive=True)

    def extra_repr(self) -> str:
        return f"tau_plus={self.tau_plus:g}, {super().extra_repr()}"


class HardNegatives(ContrastiveLoss):
    """InfoNCE with negatives weighted by exp(beta score), so that hard ones count for more (Robinson et al. 2021).

    neg is replaced by N times the weighted mean of exp(score), debiased as in ``Debiased`` if tau_plus > 0. Use it
    where most negatives are too easy. Hard negatives are more likely to have the anchor's class, hence the debiasing;
    pass ids for captions or products that occur twice. Not defined on ``Supervised``: pass known labels as ids.

    Args:
        beta: Exponent of the weights; 0 is ``Debiased``. The published values are 0.5 to 2. Default: 1.
        tau_plus: Probability that a negative has the anchor's class, in [0, 1); 0 does not debias. Default: 0.1.
        temperature: Softmax temperature: a positive float, or ``LearnedTemperature()``.
        contrast: How positives and negatives are formed. Default: ``TwoView()``.
        reduction: ``"mean"`` over anchors, ``"sum"``, or ``"none"`` for one value per anchor.

    Raises:
        UsageError: If beta is negative or tau_plus does not lie in [0, 1).

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
        super().__init__(temperature=temperature, contrast=contrast, reduction=reduction)
        self.beta, self.tau_plus = beta, tau_plus

    def objective(self, temperature: float | Tensor) -> Objective:
        function = partial(objectives.hard_negatives, tau_plus=self.tau_plus, temperature=temperature)
        return Objective(
            function, ExtraReduction("hard_negatives", beta=self.beta) if self.beta else None, one_positive=True
        )

    def extra_repr(self) -> str:
        return f"beta={self.beta:g}, tau_plus={self.tau_plus:g}, {super().extra_repr()}"


class MILNCE(ContrastiveLoss):
    """-log(bag / (bag + neg)): several candidate positives, at least one of them right (MIL-NCE, Miech et al. 2020).

    bag is the sum of exp(score) over all candidates with the anchor's id. Use it where a positive is known up to its
    neighborhood only, such as a clip and the sentences spoken around it. Rows of one bag share an id, ``loss(clips,
    sentences, ids=ids)``, with one row per pair of clip and sentence. The best candidate of a bag gets most of the
    gradient, so the others may be wrong. With distinct ids it is ``InfoNCE``. Each direction of ``CrossView`` has its
    own denominator; the published code shares one. Not defined on ``Supervised``: pass the labels as ids.

    Args:
        temperature: Softmax temperature: a positive float, or ``LearnedTemperature()``.
        contrast: How positives and negatives are formed. Default: ``TwoView()``.
        reduction: ``"mean"`` over anchors, ``"sum"``, or ``"none"`` for one value per anchor.

    Raises:
        UsageError: If called without ids.

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
