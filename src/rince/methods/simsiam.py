"""SimSiam: each view predicts the projection of the other view, which gets no gradient; no momentum encoder."""

from typing import Any

import torch
from torch import Tensor, nn

from rince.encoders.heads import mlp
from rince.methods.method import Method, OptimiserFactory, width_of
from rince.views.batch import ImageBatch


class SimSiam(Method):
    """Projector of three layers, predictor with a narrow middle. Meant for ``rince.methods.byol.NegativeCosine``.

    Example:
        >>> from rince.methods.byol import NegativeCosine
        >>> encoder, views = rince.encoders.ConvNet(width=8), rince.views.SimCLRViews(size=32)
        >>> method = rince.methods.SimSiam(encoder, NegativeCosine(), views, torch.optim.Adam, hidden=256, width=128)
    """

    two_views_each = True

    def __init__(
        self,
        encoder: nn.Module,
        loss: nn.Module,
        views: nn.Module,
        optimiser: OptimiserFactory,
        hidden: int = 2048,
        width: int = 2048,
        bottleneck: int = 512,
        **schedules: Any,
    ):
        """
        Args:
            hidden: Width of the projector's hidden layers.
            width: Width of the embeddings.
            bottleneck: Width of the predictor's hidden layer.
        """
        super().__init__(encoder, loss, views, optimiser, **schedules)
        self.head = mlp([width_of(encoder), hidden, hidden, width], last_norm=True)
        self.predictor = mlp([width, bottleneck, width])

    def batch_loss(self, batch: ImageBatch) -> Tensor:
        views = self.views(batch.images, self.draw(len(batch.images)), batch.partners, batch.cropped)
        features = self.encoder(torch.cat(views))
        z1, z2 = self.head(features).chunk(2)
        p1, p2 = self.predictor(torch.cat([z1, z2])).chunk(2)
        self.note(features, batch.labels)
        self.note_similarity(z1, z2)
        return (self.loss(p1, z2.detach()) + self.loss(p2, z1.detach())) / 2
