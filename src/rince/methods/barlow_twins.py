"""Barlow Twins: features of two views agree with each other, and are independent of one another."""

from typing import Any

import torch
from torch import Tensor, nn

from rince.encoders.heads import mlp
from rince.losses.contrast.gather import gather
from rince.methods.method import Method, OptimiserFactory, width_of
from rince.views.batch import ImageBatch


class CrossCorrelation(nn.Module):
    """Squared distance of the correlations between two views' features from the identity, over all processes' rows."""

    def __init__(self, lam: float = 0.0051):
        """
        Args:
            lam: Weight of the correlations between different features.
        """
        super().__init__()
        self.lam = lam

    def forward(self, z1: Tensor, z2: Tensor) -> Tensor:
        (z1, z2), *_ = gather([z1.float(), z2.float()])
        z1, z2 = ((z - z.mean(0)) / (z.std(0, correction=0) + 1e-6) for z in (z1, z2))
        correlation = z1.T @ z2 / len(z1)
        own = correlation.diagonal()
        return (own - 1).square().sum() + self.lam * (correlation.square().sum() - own.square().sum())


class BarlowTwins(Method):
    """Both views through encoder and wide projector. Meant for ``rince.methods.barlow_twins.CrossCorrelation``.

    Example:
        >>> from rince.methods.barlow_twins import CrossCorrelation
        >>> encoder, views = rince.encoders.ConvNet(width=8), rince.views.SimCLRViews(size=32)
        >>> method = rince.methods.BarlowTwins(encoder, CrossCorrelation(), views, torch.optim.Adam, 256, width=256)
    """

    two_views_each = True

    def __init__(self, encoder: nn.Module, loss: nn.Module, views: nn.Module, optimiser: OptimiserFactory,
                 hidden: int = 8192, width: int = 8192, **schedules: Any):  # fmt: skip
        """
        Args:
            hidden: Width of the projector's hidden layers.
            width: Width of the embeddings.
        """
        super().__init__(encoder, loss, views, optimiser, **schedules)
        self.head = mlp([width_of(encoder), hidden, hidden, width], last_bias=False)

    def batch_loss(self, batch: ImageBatch) -> Tensor:
        views = self.views(batch.images, self.draw(len(batch.images)), batch.partners, batch.cropped)
        features = self.encoder(torch.cat(views))
        z1, z2 = self.head(features).chunk(2)
        self.note(features, batch.labels)
        self.note_similarity(z1, z2)
        return self.loss(z1, z2)
