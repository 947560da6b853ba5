"""MoCo v1 and v2: queries against a queue of keys from a momentum encoder."""

from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from rince._support.step_seeds import generator
from rince.encoders.heads import mlp
from rince.errors import UsageError
from rince.losses.contrast import Queue
from rince.methods.method import Method, OptimiserFactory, width_of
from rince.methods.momentum import follow, frozen_copy
from rince.views.batch import ImageBatch


class MoCo(Method):
    """Queries are first views, keys are second views by a momentum encoder; negatives are the newest earlier keys.

    ``hidden=0`` is v1's head of a single layer; v2 has a hidden layer, and also its own views and a cosine schedule.

    Example:
        >>> from rince.encoders import ConvNet
        >>> views = rince.views.SimCLRViews(size=32)
        >>> method = rince.methods.MoCo(ConvNet(width=8), rince.InfoNCE(0.2), views, torch.optim.Adam, queue=4096)
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
        queue: int = 65536,
        momentum: float = 0.999,
        batch_norm: Literal["shuffled", "as_is"] = "shuffled",
        **schedules: Any,
    ):
        """
        Args:
            hidden: Width of the head's hidden layer; 0 for a head of a single layer.
            width: Width of the embeddings.
            queue: Number of keys in the queue, which are the negatives.
            momentum: Of the momentum encoder.
            batch_norm: "shuffled" lets keys be encoded by another process than their queries, so that batch statistics
                leak nothing; "as_is" does not shuffle, for synchronised batch norm (trainer.sync_batchnorm) or none.

        Raises:
            UsageError: If the momentum does not lie in [0, 1).
        """
        super().__init__(encoder, loss, views, optimiser, **schedules)
        if not 0 <= momentum < 1:
            raise UsageError(f"momentum of the slow encoder must lie in [0, 1), got {momentum}")
        self.compare_by(Queue(width, queue))
        features = width_of(encoder)
        self.head = mlp([features, hidden, width] if hidden else [features, width], norm=False)
        self.slow_encoder, self.slow_head = frozen_copy(encoder), frozen_copy(self.head)
        self.momentum, self.shuffled = momentum, batch_norm == "shuffled"

    def batch_loss(self, batch: ImageBatch) -> Tensor:
        first, second = self.views(batch.images, self.draw(len(batch.images)), batch.partners, batch.cropped)
        features = self.encoder(first)
        query = self.head(features)
        with torch.no_grad():
            follow(self.slow_encoder, self.encoder, self.momentum)
            follow(self.slow_head, self.head, self.momentum)
            key = self.keys(second)
        self.note(features, batch.labels)
        self.note_similarity(query, key)
        return self.compare_pairs(query, key, batch)

    def keys(self, views: Tensor) -> Tensor:
        """Embeddings of the second views by the slow encoder, which get no gradient."""
        if not self.shuffled or self.trainer.world_size == 1:
            return self.slow_head(self.slow_encoder(views))
        size, rank = len(views), self.global_rank
        everything = _from_all(views)
        order = torch.randperm(len(everything), generator=generator(self.seed, self.batches_seen(), 20)).to(
            views.device
        )
        mine = order[rank * size : (rank + 1) * size]
        keys = _from_all(self.slow_head(self.slow_encoder(everything[mine])))
        return keys[order.argsort()[rank * size : (rank + 1) * size]]


def _from_all(tensor: Tensor) -> Tensor:
    """The rows of all processes, which have equally many, without gradient."""
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor.contiguous())
    return torch.cat(parts)
