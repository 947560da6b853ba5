"""Losses for PyGCL's ``DualBranchContrast`` and ``SingleBranchContrast``.

    from rince.integrations.pygcl import RINCE
    contrast_model = DualBranchContrast(loss=RINCE(tau=0.2), mode="G2G")

PyGCL is not imported.
"""

from typing import Any

import torch
from torch import Tensor

import rince.losses
from rince.errors import UsageError
from rince.integrations._shared import DEFAULT_LAM, Lam, WithQ, rince_objective
from rince.losses import ContrastiveLoss, Scores
from rince.losses.contrasts import over_temperature
from rince.losses.inputs import full_precision
from rince.losses.logsumexp import logsumexp
from rince.losses.temperature import Temperature, in_use, number_of


class _MaskedLoss:
    """Loss per (anchor, positive), averaged over the positives of an anchor, then over anchors."""

    def __init__(self, contrastive: ContrastiveLoss):
        self.contrastive = contrastive

    @property
    def tau(self) -> float:
        return number_of(self.contrastive.temperature)

    def __call__(
        self,
        anchor: Tensor,
        sample: Tensor,
        pos_mask: Tensor | None = None,
        neg_mask: Tensor | None = None,
        *args: Any,
        **kwargs: Any,
    ) -> Tensor:
        if pos_mask is None:
            raise UsageError("pos_mask is required: use this loss with DualBranchContrast or SingleBranchContrast")
        if anchor.shape[1] != sample.shape[1]:
            raise UsageError(f"anchor and sample must have the same width, got {anchor.shape[1]} and {sample.shape[1]}")
        if neg_mask is None:
            neg_mask = pos_mask <= 0
        shape = (len(anchor), len(sample))
        for name, mask in (("pos_mask", pos_mask), ("neg_mask", neg_mask)):
            if tuple(mask.shape) != shape:
                raise UsageError(f"{name} must have the shape (anchors, samples) = {shape}, got {tuple(mask.shape)}")
        return self.compute(anchor, sample, pos_mask, neg_mask)

    def compute(self, anchor: Tensor, sample: Tensor, pos_mask: Tensor, neg_mask: Tensor, *_: Any, **__: Any) -> Tensor:
        """As PyGCL's ``InfoNCE``: candidates of a positive are the negatives and the other positives of its anchor."""
        with full_precision(anchor):
            temperature = in_use(self.contrastive.temperature)
            rows, columns = over_temperature(temperature, anchor, sample)
            scores = rows @ columns.T
            positives, negatives = pos_mask > 0, neg_mask > 0
            row, column = positives.nonzero(as_tuple=True)
            candidates = scores.masked_fill(~(positives | negatives), -torch.inf)[row]
            others = candidates.scatter(1, column[:, None], -torch.inf)
            number = (positives | negatives).sum(1)[row] - 1
            pair_scores = Scores(scores[row, column], logsumexp(others, 1), number.to(scores))
            losses = self.contrastive.objective(temperature)(pair_scores)
            count = torch.bincount(row, minlength=len(anchor)).clamp_min(1)
            return (losses / count[row]).sum() / len(anchor)


class InfoNCE(_MaskedLoss):
    """PyGCL's ``InfoNCE``.

    Args:
        tau: Softmax temperature.

    Example:
        >>> from rince.integrations.pygcl import InfoNCE
        >>> loss = InfoNCE(tau=0.2)
        >>> loss(torch.randn(8, 16), torch.randn(8, 16), pos_mask=torch.eye(8)).shape
        torch.Size([])
    """

    def __init__(self, tau: Temperature = 0.2):
        super().__init__(rince.losses.InfoNCE(temperature=tau))


class RINCE(WithQ, _MaskedLoss):
    """RINCE for mismatched views.

    Args:
        tau: Softmax temperature.
        q: Robustness in [0, 1]; 0 is ``InfoNCE``; may be changed between steps.
        lam: Weight of the negatives: a float, ``rince.DensityRatio(r)`` or ``"balanced"``.
        unit: Divide the loss by exp(q / tau), to keep the learning rate of InfoNCE. Default: True.

    Example:
        >>> from rince.integrations.pygcl import RINCE
        >>> loss = RINCE(tau=0.2, q=0.1)
        >>> loss(torch.randn(8, 16), torch.randn(8, 16), pos_mask=torch.eye(8)).shape
        torch.Size([])
    """

    def __init__(self, tau: Temperature = 0.2, q: float = 0.5, lam: Lam = DEFAULT_LAM, unit: bool = True):
        super().__init__(rince_objective(q, lam, tau, unit))


class GCE(WithQ, _MaskedLoss):
    """Generalized cross-entropy for mismatched views.

    Args:
        tau: Softmax temperature.
        q: Robustness in [0, 1]; 0 is ``InfoNCE``; may be changed between steps.

    Example:
        >>> from rince.integrations.pygcl import GCE
        >>> loss = GCE(tau=0.2)
        >>> loss(torch.randn(8, 16), torch.randn(8, 16), pos_mask=torch.eye(8)).shape
        torch.Size([])
    """

    def __init__(self, tau: Temperature = 0.2, q: float = 1.0):
        super().__init__(rince.losses.GCE(q=q, temperature=tau))
