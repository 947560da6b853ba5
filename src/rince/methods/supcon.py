"""Supervised contrastive learning: a positive is another image with the same label, right or wrong."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from rince.losses.contrast import Contrast, Supervised, TwoView
from rince.methods.method import OptimiserFactory
from rince.methods.simclr import SimCLR
from rince.views.batch import ImageBatch


class SupCon(SimCLR):
    """One positive per anchor, drawn among the images of its label, or all of the batch that share it.

    "one" is the form of the paper's label-noise experiments; "several" is supervised contrastive learning with the sum
    outside the logarithm, with two views of every image.

    Trust is here a trust in labels: a pair of "one" counts as much as both labels are trusted; with "several" an image
    whose label is trusted less than half has its own other view as its only positive.

    Example:
        >>> from rince.encoders import ConvNet
        >>> views = rince.views.SimCLRViews(size=32)
        >>> method = rince.methods.SupCon(ConvNet(width=8), rince.RINCE(), views, torch.optim.Adam, positives="several")
    """

    trusts = "labels"

    def __init__(
        self,
        encoder: nn.Module,
        loss: nn.Module,
        views: nn.Module,
        optimiser: OptimiserFactory,
        positives: Literal["one", "several"] = "one",
        **simclr: Any,
    ):
        """
        Args:
            positives: One other image of the same label, or every view of the batch with it.
        """
        self.several = positives == "several"  # before the rest, which asks for the contrast
        super().__init__(encoder, loss, views, optimiser, **simclr)
        self.pairing = "self" if self.several else "label"

    def own_contrast(self) -> Contrast:
        return Supervised() if self.several else TwoView()

    def compare(self, z1: Tensor, z2: Tensor, batch: ImageBatch) -> Tensor:
        if not self.several:
            return self.compare_pairs(z1, z2, batch)
        # Where nobody knows the label (-1), the only positive is the other view: a label of its own for each.
        alone = batch.labels < 0
        if batch.weights is not None:
            # A label that is more likely wrong than right makes no pairs; the other view of an image is right anyway.
            alone = alone | (batch.weights < 0.5)
            batch = batch._replace(weights=torch.where(alone, 1.0, batch.weights))
        return self.compare_pairs(z1, z2, batch, labels=torch.where(alone, -1 - batch.ids, batch.labels))
