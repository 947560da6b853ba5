"""GraphCL: contrastive learning on graphs."""

from typing import TYPE_CHECKING, Any

from torch import Tensor, nn

from rince._support.step_seeds import generator
from rince.encoders.heads import mlp
from rince.losses import CrossView
from rince.methods.method import Method, OptimizerFactory, width_of

if TYPE_CHECKING:
    from torch_geometric.data import Batch


class GraphCL(Method):
    """GraphCL: encoder and head on a graph and its view; N anchors with N - 1 negatives each.

    Example:
        >>> views = rince.views.GraphViews()
        >>> method = rince.methods.GraphCL(rince.encoders.GIN(3), rince.RINCE(q=0.1), views, torch.optim.Adam)
    """

    def __init__(
        self,
        encoder: nn.Module,
        loss: nn.Module,
        views: nn.Module,
        optimizer: OptimizerFactory,
        symmetric: bool = False,
        **schedules: Any,
    ):
        """
        Args:
            symmetric: Use the views as anchors too. Default: False, as published.
        """
        super().__init__(encoder, loss, views, optimizer, **schedules)
        self.compare_by(CrossView(symmetric=symmetric))
        width = width_of(encoder)
        self.head = mlp([width, width, width], norm=False)

    def batch_loss(self, batch: "Batch") -> Tensor:
        features, z1, z2 = self.embeddings(*self.two_views(batch))
        self.note(features, batch.y)
        self.note_similarity(z1, z2)
        return self.compare_pairs(z1, z2, batch)

    def two_views(self, batch: "Batch") -> "tuple[Batch, Batch]":
        """Two views of every graph; the second one is of its partner if the batch has partners."""
        draws = generator(self.seed, self.batches_seen(), 10, self.global_rank)
        if not self.has_partners(batch):
            return self.views(batch, draws)
        return self.views(batch, draws)[0], self.views(batch.partners, draws)[1]

    def embeddings(self, first: "Batch", second: "Batch") -> tuple[Tensor, Tensor, Tensor]:
        """Features of the first view, and embeddings of both."""
        features = self.encoder(first)
        return features, self.head(features), self.head(self.encoder(second))

    def embed(self, batch: "Batch") -> Tensor:
        return self.encoder(batch)

    def pair_embeddings(self, batch: "Batch") -> tuple[Tensor, Tensor]:
        _, z1, z2 = self.embeddings(batch, batch.partners if self.has_partners(batch) else batch)
        return z1, z2

    def has_partners(self, batch: "Batch") -> bool:
        return batch.get("partners") is not None

    def pair_weights(self, batch: "Batch") -> Tensor | None:
        return batch.get("weights")
