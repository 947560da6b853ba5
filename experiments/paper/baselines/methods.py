"""BYOL, SimSiam, Barlow Twins and SwAV, with their losses."""

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

from rince.encoders.heads import mlp
from rince.losses.ranks import gather, total
from rince.methods.method import Method, OptimizerFactory, width_of
from rince.methods.moco import MoCoV3, frozen_copy
from rince.optimizers import LARS
from rince.views.views import ImageBatch


class NegativeCosine(nn.Module):
    """Minus the mean cosine of predictions and targets; targets get no gradient.

    Example:
        >>> NegativeCosine()(torch.eye(2), torch.eye(2))
        tensor(-1.)
    """

    def forward(self, predictions: Tensor, targets: Tensor) -> Tensor:
        return -nn.functional.cosine_similarity(predictions.float(), targets.detach().float()).mean()


class BYOL(MoCoV3):
    """MoCo v3 with batch norm in the hidden layers only. Meant for the loss ``NegativeCosine``.

    Both directions are added and counted twice, which is the squared distance of unit vectors up to a constant.

    Example:
        >>> encoder, views = rince.encoders.ConvNet(width=8), rince.views.SimCLRViews(size=32)
        >>> method = BYOL(encoder, NegativeCosine(), views, torch.optim.Adam, hidden=256)
    """

    def __init__(
        self,
        encoder: nn.Module,
        loss: nn.Module,
        views: nn.Module,
        optimizer: OptimizerFactory,
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
        super().__init__(encoder, loss, views, optimizer, hidden, width, momentum, **schedules)
        self.projector, self.predictor = mlp([width_of(encoder), hidden, width]), mlp([width, hidden, width])
        self.slow_projector = frozen_copy(self.projector)

    def both_ways(self, forth: tuple[Tensor, Tensor], back: tuple[Tensor, Tensor], batch: ImageBatch) -> Tensor:
        return 2 * (self.contrastive(*forth) + self.contrastive(*back))


class SimSiam(Method):
    """Projector of three layers, predictor with a narrow middle. Meant for ``NegativeCosine``.

    Example:
        >>> encoder, views = rince.encoders.ConvNet(width=8), rince.views.SimCLRViews(size=32)
        >>> method = SimSiam(encoder, NegativeCosine(), views, torch.optim.Adam, hidden=256, width=128)
    """

    two_views_each = True

    def __init__(
        self,
        encoder: nn.Module,
        loss: nn.Module,
        views: nn.Module,
        optimizer: OptimizerFactory,
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
        super().__init__(encoder, loss, views, optimizer, **schedules)
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
    """Both views through encoder and wide projector. Meant for ``CrossCorrelation``.

    Example:
        >>> encoder, views = rince.encoders.ConvNet(width=8), rince.views.SimCLRViews(size=32)
        >>> method = BarlowTwins(encoder, CrossCorrelation(), views, torch.optim.Adam, 256, width=256)
    """

    two_views_each = True

    def __init__(self, encoder: nn.Module, loss: nn.Module, views: nn.Module, optimizer: OptimizerFactory,
                 hidden: int = 8192, width: int = 8192, **schedules: Any):  # fmt: skip
        """
        Args:
            hidden: Width of the projector's hidden layers.
            width: Width of the embeddings.
        """
        super().__init__(encoder, loss, views, optimizer, **schedules)
        self.head = mlp([width_of(encoder), hidden, hidden, width], last_bias=False)

    def batch_loss(self, batch: ImageBatch) -> Tensor:
        views = self.views(batch.images, self.draw(len(batch.images)), batch.partners, batch.cropped)
        features = self.encoder(torch.cat(views))
        z1, z2 = self.head(features).chunk(2)
        self.note(features, batch.labels)
        self.note_similarity(z1, z2)
        return self.loss(z1, z2)


class LARSWithBiasRate(LARS):
    """LARS with another learning rate for biases and norms, as Barlow Twins is trained."""

    def __init__(self, params: Iterable[Any], lr: float = 0.2, bias_lr: float = 0.0048, **settings: Any):
        """
        Args:
            params: What is trained.
            lr: Learning rate of weight matrices.
            bias_lr: Learning rate of parameters of one dimension.
        """
        params = list(params)
        matrices, others = [p for p in params if p.ndim > 1], [p for p in params if p.ndim <= 1]
        super().__init__([{"params": matrices}, {"params": others, "lr": bias_lr}], lr, **settings)


class SwappedPrediction(nn.Module):
    """Cross-entropy of each view's softmax against the other's assignment by Sinkhorn and Knopp, over all processes."""

    def __init__(self, temperature: float = 0.1, epsilon: float = 0.05, iterations: int = 3):
        super().__init__()
        self.temperature, self.epsilon, self.iterations = temperature, epsilon, iterations

    def forward(self, scores1: Tensor, scores2: Tensor) -> Tensor:
        logs = [(scores / self.temperature).log_softmax(1) for scores in (scores1, scores2)]
        both = zip((scores2, scores1), logs, strict=True)
        return -sum((self.assign(other) * log).sum(1).mean() for other, log in both) / 2  # type: ignore[return-value]

    @torch.no_grad()
    def assign(self, scores: Tensor) -> Tensor:
        """Rows of probabilities, such that all prototypes have the same share of all rows."""
        q = (scores.double() / self.epsilon).exp()  # cosines: at most exp(20)
        for _ in range(self.iterations):
            q = q / total(q.sum(0)).clamp_min(1e-30)
            q = q / q.sum(1, keepdim=True).clamp_min(1e-30)
        return q.to(scores.dtype)


class SwAV(Method):
    """Two views, without multi-crop. Meant for the loss ``SwappedPrediction``.

    Example:
        >>> loss, views = SwappedPrediction(), rince.views.SimCLRViews(size=32)
        >>> method = SwAV(rince.encoders.ConvNet(width=8), loss, views, torch.optim.Adam, prototypes=100)
    """

    two_views_each = True

    def __init__(self, encoder: nn.Module, loss: nn.Module, views: nn.Module, optimizer: OptimizerFactory,
                 hidden: int = 2048, width: int = 128, prototypes: int = 3000, **schedules: Any):  # fmt: skip
        """
        Args:
            hidden: Width of the head's hidden layer.
            width: Width of the embeddings.
            prototypes: Number of prototypes.
        """
        super().__init__(encoder, loss, views, optimizer, **schedules)
        self.head = mlp([width_of(encoder), hidden, width])
        self.prototypes = nn.Parameter(nn.functional.normalize(torch.randn(prototypes, width), dim=1))

    def batch_loss(self, batch: ImageBatch) -> Tensor:
        views = self.views(batch.images, self.draw(len(batch.images)), batch.partners, batch.cropped)
        features = self.encoder(torch.cat(views))
        self.note(features, batch.labels)
        z, prototypes = (nn.functional.normalize(x, dim=1) for x in (self.head(features), self.prototypes))
        self.note_similarity(*z.chunk(2))
        return self.loss(*(z @ prototypes.T).chunk(2))
