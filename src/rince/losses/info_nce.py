"""Losses for pairs that can be trusted."""

from torch import Tensor

from rince.losses import objectives
from rince.losses.contrast import Contrast
from rince.losses.loss import ContrastiveLoss, Reduction


class InfoNCE(ContrastiveLoss):
    """-log(pos / (pos + neg)): the usual contrastive loss, best where pairs can be trusted.

    Hard pairs pull most, so wrong pairs are memorised. Its relatives for pairs that may be wrong are ``RINCE``
    and ``GCE``, which go over into it as q goes to 0.

    Args:
        temperature: what cosines are divided by: a positive number, or a parameter to learn it.
        contrast: who is whose positive and negative; ``TwoView()`` if nothing is said.
        reduction: ``"mean"`` over anchors, ``"sum"``, or ``"none"`` for one loss per anchor.

    Example:
        >>> z1, z2 = torch.randn(2, 8, 16)
        >>> rince.InfoNCE(temperature=0.1)(z1, z2).shape
        torch.Size([])
    """

    def __init__(
        self, temperature: float | Tensor = 0.5, contrast: Contrast | None = None, reduction: Reduction = "mean"
    ):
        super().__init__(objectives.info_nce, temperature, contrast, reduction)


class DCL(ContrastiveLoss):
    """-log(pos / neg): InfoNCE with the positive left out of the denominator (decoupled contrastive learning).

    Take it for small batches, where InfoNCE's gradient fades as soon as the positive dominates the denominator, and to
    reproduce GraphCL's published code. It has no lower bound and is as easily misled by wrong pairs as InfoNCE.

    Args:
        temperature: what cosines are divided by: a positive number, or a parameter to learn it.
        contrast: who is whose positive and negative; ``TwoView()`` if nothing is said.
        reduction: ``"mean"`` over anchors, ``"sum"``, or ``"none"`` for one loss per anchor.

    Example:
        >>> z1, z2 = torch.randn(2, 8, 16)
        >>> bool(rince.DCL(0.1)(z1, z2) < rince.InfoNCE(0.1)(z1, z2))
        True
    """

    def __init__(
        self, temperature: float | Tensor = 0.1, contrast: Contrast | None = None, reduction: Reduction = "mean"
    ):
        super().__init__(objectives.dcl, temperature, contrast, reduction)
