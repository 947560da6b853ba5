"""SimCLR, and SupCon: SimCLR with positives from labels."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from rince.encoders.heads import mlp
from rince.losses import Contrast, Supervised, TwoView
from rince.methods.method import Method, OptimizerFactory, width_of
from rince.views.views import ImageBatch


class SimCLR(Method):
    """SimCLR: encoder and projection head on two views; 2N anchors with 2N - 2 negatives each.

    Example:
        >>> from rince.encoders import ConvNet
        >>> views = rince.views.SimCLRViews(size=32)
        >>> method = rince.methods.SimCLR(ConvNet(width=8), rince.RINCE(q=0.5), views, torch.optim.Adam)
    """

    two_views_each = True

    def __init__(
        self,
        encoder: nn.Module,
        loss: nn.Module,
        views: nn.Module,
        optimizer: OptimizerFactory,
        hidden: int = 512,
        width: int = 128,
        head_norm: bool = True,
        head_bias: bool = True,
        batch_norm: Literal["both_views", "per_view"] = "both_views",
        **schedules: Any,
    ):
        """
        Args:
            hidden: Width of the hidden layer of the head; 0 for a head of one layer. Default: 512.
            width: Width of the embeddings; 0 for no head. Default: 128.
            head_norm: Batch norm in the head. Default: True.
            head_bias: Bias in the last layer of the head. Default: True.
            batch_norm: Batch statistics over both views together (default), or per view.
        """
        super().__init__(encoder, loss, views, optimizer, **schedules)
        self.compare_by(self.own_contrast())
        features = width_of(encoder)
        widths = [features, hidden, width] if hidden else [features, width]
        if width:
            self.head = mlp(widths, norm=head_norm, last_bias=head_bias)
        self.per_view = batch_norm == "per_view"

    def batch_loss(self, batch: ImageBatch) -> Tensor:
        first, second = self.two_views(batch)
        passes = (first, second) if self.per_view else (torch.cat([first, second]),)
        outputs = [self.encoder(views) for views in passes]
        features = torch.cat(outputs)
        z1, z2 = torch.cat([self.head(output) for output in outputs]).chunk(2)
        self.note(features, batch.labels)
        self.note_similarity(z1, z2)
        return self.compare(z1, z2, batch)

    def own_contrast(self) -> Contrast:
        """The contrast of this method."""
        return TwoView()

    def compare(self, z1: Tensor, z2: Tensor, batch: ImageBatch) -> Tensor:
        """The loss of the embeddings of both views."""
        return self.compare_pairs(z1, z2, batch)


class SupCon(SimCLR):
    """SimCLR with positives of the same label: one drawn per anchor, or all of the batch.

    ``positives="one"`` is the form of the paper's label-noise experiments. ``"several"`` is supervised contrastive
    learning with the sum outside the logarithm, on two views of every image.

    Weights refer to labels. With ``"one"`` a pair has the product of two weights. With ``"several"`` an image whose
    label weighs less than 0.5 has its own other view as its only positive.

    Example:
        >>> from rince.encoders import ConvNet
        >>> views = rince.views.SimCLRViews(size=32)
        >>> method = rince.methods.SupCon(ConvNet(width=8), rince.RINCE(), views, torch.optim.Adam, positives="several")
    """

    weights_for = "labels"

    def __init__(
        self,
        encoder: nn.Module,
        loss: nn.Module,
        views: nn.Module,
        optimizer: OptimizerFactory,
        positives: Literal["one", "several"] = "one",
        **simclr: Any,
    ):
        """
        Args:
            positives: One random image of the same label (default), or all views of the batch with it.
        """
        self.several = positives == "several"  # used by own_contrast
        super().__init__(encoder, loss, views, optimizer, **simclr)
        self.pairing = "self" if self.several else "label"

    def own_contrast(self) -> Contrast:
        return Supervised() if self.several else TwoView()

    def compare(self, z1: Tensor, z2: Tensor, batch: ImageBatch) -> Tensor:
        if not self.several:
            return self.compare_pairs(z1, z2, batch)
        # Images without a label (-1) have their other view as the only positive: each gets a label of its own.
        alone = batch.labels < 0
        if batch.weights is not None:
            # So do images whose label is more likely wrong than right; the pair of their two views is right anyway.
            alone = alone | (batch.weights < 0.5)
            batch = batch._replace(weights=torch.where(alone, 1.0, batch.weights))
        return self.compare_pairs(z1, z2, batch, labels=torch.where(alone, -1 - batch.ids, batch.labels))
