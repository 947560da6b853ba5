"""MoCo v3: no queue; each view's prediction against the momentum projections of the other view in the batch."""

from typing import Any

import torch
from torch import Tensor, nn

from rince.encoders.heads import mlp
from rince.errors import UsageError
from rince.losses import schedules as over_training
from rince.losses.contrast import CrossView
from rince.methods.method import Method, OptimiserFactory, width_of
from rince.methods.momentum import follow, frozen_copy
from rince.views.batch import ImageBatch


class MoCoV3(Method):
    """Encoder, projector and predictor, and a momentum copy without predictor; the sum of both directions, times 2t.

    Example:
        >>> from rince.encoders import ConvNet
        >>> views = rince.views.SimCLRViews(size=32)
        >>> method = rince.methods.MoCoV3(ConvNet(width=8), rince.InfoNCE(0.2), views, torch.optim.Adam, hidden=256)
    """

    two_views_each = True

    def __init__(
        self,
        encoder: nn.Module,
        loss: nn.Module,
        views: nn.Module,
        optimiser: OptimiserFactory,
        hidden: int = 4096,
        width: int = 256,
        momentum: float = 0.996,
        head_norm: bool = True,
        predictor_norm: bool = False,
        **schedules: Any,
    ):
        """
        Args:
            hidden: Width of the hidden layers of projector and predictor.
            width: Width of the embeddings.
            momentum: Of the momentum encoder at the start; it rises to 1 by a cosine schedule.
            head_norm: Batch norm in projector and predictor.
            predictor_norm: The predictor ends with batch norm too. MoCo v3 has it so for vision transformers, not for
                ResNets.

        Raises:
            UsageError: If the momentum does not lie in [0, 1].
        """
        super().__init__(encoder, loss, views, optimiser, **schedules)
        if not 0 <= momentum <= 1:
            raise UsageError(f"momentum of the slow encoder must lie in [0, 1], got {momentum}")
        self.compare_by(CrossView(symmetric=False))
        self.projector = mlp([width_of(encoder), hidden, width], norm=head_norm, last_norm=head_norm)
        self.predictor = mlp(
            [width, hidden, width], norm=head_norm, last_norm=head_norm and predictor_norm, last_bias=not head_norm
        )
        self.slow_encoder, self.slow_projector = frozen_copy(encoder), frozen_copy(self.projector)
        self.momentum_of = over_training.cosine(momentum, 1.0)

    def batch_loss(self, batch: ImageBatch) -> Tensor:
        first, second = self.views(batch.images, self.draw(len(batch.images)), batch.partners, batch.cropped)
        features = self.encoder(first), self.encoder(second)
        query1, query2 = (self.predictor(self.projector(x)) for x in features)
        with torch.no_grad():
            momentum = self.momentum_of(self.progress)
            follow(self.slow_encoder, self.encoder, momentum)
            follow(self.slow_projector, self.projector, momentum)
            key1, key2 = (self.slow_projector(self.slow_encoder(view)) for view in (first, second))
        self.note(features[0], batch.labels)
        self.note_similarity(query1, key2)
        return self.both_ways((query1, key2), (query2, key1), batch)

    def both_ways(self, forth: tuple[Tensor, Tensor], back: tuple[Tensor, Tensor], batch: ImageBatch) -> Tensor:
        """The losses of both directions, added and scaled."""
        temperature = self.temperature(otherwise=0.5)
        if isinstance(temperature, Tensor):  # as a factor it would be learned to be 0, and the loss with it
            temperature = temperature.detach()
        return 2 * temperature * (self.compare_pairs(*forth, batch) + self.compare_pairs(*back, batch))

    def project(self, features: Tensor) -> Tensor:
        return self.projector(features)
