"""BYOL: each view predicts the momentum projection of the other view; there are no negatives."""

from typing import Any

from torch import Tensor, nn

from rince.encoders.heads import mlp
from rince.methods.method import OptimiserFactory, width_of
from rince.methods.moco_v3 import MoCoV3
from rince.methods.momentum import frozen_copy
from rince.views.batch import ImageBatch


class NegativeCosine(nn.Module):
    """Minus the mean cosine of predictions and targets; targets get no gradient.

    Example:
        >>> NegativeCosine()(torch.eye(2), torch.eye(2))
        tensor(-1.)
    """

    def forward(self, predictions: Tensor, targets: Tensor) -> Tensor:
        return -nn.functional.cosine_similarity(predictions.float(), targets.detach().float()).mean()


class BYOL(MoCoV3):
    """MoCo v3 with batch norm in the hidden layers only. Meant for the loss ``rince.methods.byol.NegativeCosine``.

    Both directions are added and counted twice, which is the squared distance of unit vectors up to a constant.

    Example:
        >>> from rince.methods.byol import NegativeCosine
        >>> encoder, views = rince.encoders.ConvNet(width=8), rince.views.SimCLRViews(size=32)
        >>> method = rince.methods.BYOL(encoder, NegativeCosine(), views, torch.optim.Adam, hidden=256)
    """

    def __init__(
        self,
        encoder: nn.Module,
        loss: nn.Module,
        views: nn.Module,
        optimiser: OptimiserFactory,
        hidden: int = 4096,
        width: int = 256,
        momentum: float = 0.996,
        **schedules: Any,
    ):
        """
        Args:
            hidden: Width of the hidden layers of projector and predictor.
            width: Width of the embeddings.
            momentum: Of the momentum encoder at the start; it rises to 1 by a cosine schedule.
        """
        super().__init__(encoder, loss, views, optimiser, hidden, width, momentum, **schedules)
        self.projector, self.predictor = mlp([width_of(encoder), hidden, width]), mlp([width, hidden, width])
        self.slow_projector = frozen_copy(self.projector)

    def both_ways(self, forth: tuple[Tensor, Tensor], back: tuple[Tensor, Tensor], batch: ImageBatch) -> Tensor:
        return 2 * (self.contrastive(*forth) + self.contrastive(*back))
