"""SimCLR: two views of an image against all other views of the batch."""

from typing import Any

import torch
from torch import Tensor, nn

from rince.encoders.heads import mlp
from rince.losses.contrast import Contrast, TwoView
from rince.methods.method import Method, OptimiserFactory, width_of
from rince.views.batch import ImageBatch


class SimCLR(Method):
    """Both views through the encoder and a projection head; 2N anchors with 2N - 2 negatives each.

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
        optimiser: OptimiserFactory,
        hidden: int = 512,
        width: int = 128,
        head_norm: bool = True,
        **schedules: Any,
    ):
        """
        Args:
            hidden: Width of the head's hidden layer; 0 for a head of a single layer.
            width: Width of the embeddings; 0 for no head at all.
            head_norm: Batch norm in the head.
        """
        super().__init__(encoder, loss, views, optimiser, **schedules)
        self.compare_by(self.own_contrast())
        features = width_of(encoder)
        widths = [features, hidden, width] if hidden else [features, width]
        if width:
            self.head = mlp(widths, norm=head_norm)

    def batch_loss(self, batch: ImageBatch) -> Tensor:
        first, second = self.views(batch.images, self.draw(len(batch.images)), batch.partners, batch.cropped)
        # One pass over both views: half the calls, and batch norm sees them together.
        features = self.encoder(torch.cat([first, second]))
        z1, z2 = self.head(features).chunk(2)
        self.note(features, batch.labels)
        self.note_similarity(z1, z2)
        return self.compare(z1, z2, batch)

    def own_contrast(self) -> Contrast:
        """The contrast of this method."""
        return TwoView()

    def compare(self, z1: Tensor, z2: Tensor, batch: ImageBatch) -> Tensor:
        """The loss of the embeddings of both views."""
        return self.compare_pairs(z1, z2, batch)
