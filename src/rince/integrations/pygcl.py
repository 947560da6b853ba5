"""Losses for PyGCL's ``DualBranchContrast`` and ``SingleBranchContrast``.

    from rince.integrations.pygcl import RINCE
    contrast_model = DualBranchContrast(loss=RINCE(tau=0.2), mode="G2G")

PyGCL itself is not imported. It calls a loss with masks, and these losses accept them.
"""

from typing import Any

import torch
from torch import Tensor

import rince.losses
from rince.errors import UsageError
from rince.integrations._shared import DEFAULT_LAM, Lam, WithQ, rince_objective
from rince.losses import ContrastiveLoss, Scores
from rince.losses.contrasts import over_temperature
from rince.losses.logsumexp import logsumexp
from rince.losses.loss import _full_precision
from rince.losses.temperature import Temperature, in_use, number_of


class _MaskedLoss:
    """The loss of every pair of anchor and positive, averaged over an anchor's positives, then over anchors."""

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
            raise UsageError("this loss needs pos_mask: use it with DualBranchContrast or SingleBranchContrast")
        if anchor.shape[1] != sample.shape[1]:
            raise UsageError(f"anchors and samples must have one width, got {anchor.shape[1]} and {sample.shape[1]}")
        if neg_mask is None:
            neg_mask = pos_mask <= 0
        shape = (len(anchor), len(sample))
        for name, mask in (("pos_mask", pos_mask), ("neg_mask", neg_mask)):
            if tuple(mask.shape) != shape:
                raise UsageError(
                    f"{name} must have a row per anchor and a column per sample, {shape}, got {tuple(mask.shape)}"
                )
        return self.compute(anchor, sample, pos_mask, neg_mask)

    def compute(self, anchor: Tensor, sample: Tensor, pos_mask: Tensor, neg_mask: Tensor, *_: Any, **__: Any) -> Tensor:
        """Every positive is compared with the negatives and the other positives of its anchor, as ``InfoNCE`` there."""
        with _full_precision(anchor):
            temperature = in_use(self.contrastive.temperature)
            rows, columns = over_temperature(temperature, anchor, sample)
            scores = rows @ columns.T
            positives, negatives = pos_mask > 0, neg_mask > 0
            row, column = positives.nonzero(as_tuple=True)
            candidates = scores.masked_fill(~(positives | negatives), -torch.inf)[row]
            others = candidates.scatter(1, column[:, None], -torch.inf)
            number = (positives | negatives).sum(1)[row] - 1
            found = Scores(scores[row, column], logsumexp(others, 1), number.to(scores))
            losses = self.contrastive.objective(temperature)(found)
            count = torch.bincount(row, minlength=len(anchor)).clamp_min(1)
            return (losses / count[row]).sum() / len(anchor)


class InfoNCE(_MaskedLoss):
    """PyGCL's ``InfoNCE``.

    Args:
        tau: The temperature: cosines are divided by it.

    Example:
        >>> from rince.integrations.pygcl import InfoNCE
        >>> loss = InfoNCE(tau=0.2)
        >>> loss(torch.randn(8, 16), torch.randn(8, 16), pos_mask=torch.eye(8)).shape
        torch.Size([])
    """

    def __init__(self, tau: Temperature = 0.2):
        super().__init__(rince.losses.InfoNCE(temperature=tau))


class RINCE(WithQ, _MaskedLoss):
    """``InfoNCE`` on views that may not belong together.

    Args:
        tau: The temperature: cosines are divided by it.
        q: From 0 (the same as ``InfoNCE``) to 1 (most robust); it can be set between steps.
        lam: The weight of the negatives: a number, ``rince.DensityRatio(r)`` or ``"balanced"``.
        unit: Whether the loss is divided by exp(q / tau), so that you can keep the learning rate.

    Example:
        >>> from rince.integrations.pygcl import RINCE
        >>> loss = RINCE(tau=0.2, q=0.1)
        >>> loss(torch.randn(8, 16), torch.randn(8, 16), pos_mask=torch.eye(8)).shape
        torch.Size([])
    """

    def __init__(self, tau: Temperature = 0.2, q: float = 0.5, lam: Lam = DEFAULT_LAM, unit: bool = True):
        super().__init__(rince_objective(q, lam, tau, unit))


class GCE(WithQ, _MaskedLoss):
    """``InfoNCE`` on views that may not belong together, by generalized cross-entropy.

    Args:
        tau: The temperature: cosines are divided by it.
        q: From 0 (the same as ``InfoNCE``) to 1 (most robust); it can be set between steps.

    Example:
        >>> from rince.integrations.pygcl import GCE
        >>> loss = GCE(tau=0.2)
        >>> loss(torch.randn(8, 16), torch.randn(8, 16), pos_mask=torch.eye(8)).shape
        torch.Size([])
    """

    def __init__(self, tau: Temperature = 0.2, q: float = 1.0):
        super().__init__(rince.losses.GCE(q=q, temperature=tau))
