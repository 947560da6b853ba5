"""SwAV: each view predicts the prototypes of the other view; all prototypes are used equally often."""

from typing import Any

import torch
from torch import Tensor, nn

from rince.encoders.heads import mlp
from rince.losses.contrast.gather import total
from rince.methods.method import Method, OptimiserFactory, width_of
from rince.views.batch import ImageBatch


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
    """Two views, without multi-crop. Meant for the loss ``rince.methods.swav.SwappedPrediction``.

    Example:
        >>> loss, views = rince.methods.swav.SwappedPrediction(), rince.views.SimCLRViews(size=32)
        >>> method = rince.methods.SwAV(rince.encoders.ConvNet(width=8), loss, views, torch.optim.Adam, prototypes=100)
    """

    two_views_each = True

    def __init__(self, encoder: nn.Module, loss: nn.Module, views: nn.Module, optimiser: OptimiserFactory,
                 hidden: int = 2048, width: int = 128, prototypes: int = 3000, **schedules: Any):  # fmt: skip
        """
        Args:
            hidden: Width of the head's hidden layer.
            width: Width of the embeddings.
            prototypes: Number of prototypes.
        """
        super().__init__(encoder, loss, views, optimiser, **schedules)
        self.head = mlp([width_of(encoder), hidden, width])
        self.prototypes = nn.Parameter(nn.functional.normalize(torch.randn(prototypes, width), dim=1))

    def batch_loss(self, batch: ImageBatch) -> Tensor:
        views = self.views(batch.images, self.draw(len(batch.images)), batch.partners, batch.cropped)
        features = self.encoder(torch.cat(views))
        self.note(features, batch.labels)
        z, prototypes = (nn.functional.normalize(x, dim=1) for x in (self.head(features), self.prototypes))
        self.note_similarity(*z.chunk(2))
        return self.loss(*(z @ prototypes.T).chunk(2))
