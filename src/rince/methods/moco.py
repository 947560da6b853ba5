"""MoCo v1/v2 with a queue of negatives, and MoCo v3 without one."""

import copy
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from rince._support.step_seeds import generator
from rince.encoders.heads import mlp
from rince.errors import UsageError
from rince.losses import CrossView, Queue
from rince.losses import schedules as over_training
from rince.methods.method import Method, OptimizerFactory, width_of
from rince.views.views import ImageBatch


def frozen_copy(network: nn.Module) -> nn.Module:
    """A copy without gradients. Its batch norms still follow the batches they see."""
    return copy.deepcopy(network).requires_grad_(False)


@torch.no_grad()
def follow(slow: nn.Module, fast: nn.Module, momentum: float) -> None:
    """slow <- momentum * slow + (1 - momentum) * fast, for all parameters."""
    mine, theirs = [p.data for p in slow.parameters()], [p.data for p in fast.parameters()]
    torch._foreach_lerp_(mine, theirs, 1 - momentum)


class MoCo(Method):
    """Queries are first views, keys are second views by a momentum encoder; negatives are the newest earlier keys.

    ``hidden=0`` is v1's head of a single layer; v2 has a hidden layer, and also its own views and a cosine schedule.

    Example:
        >>> from rince.encoders import ConvNet
        >>> views = rince.views.SimCLRViews(size=32)
        >>> method = rince.methods.MoCo(ConvNet(width=8), rince.InfoNCE(), views, torch.optim.Adam, queue=4096)
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
                leak nothing; "as_is" does not shuffle, for synchronized batch norm (trainer.sync_batchnorm) or none.

        Raises:
            UsageError: If the momentum does not lie in [0, 1).
        """
        super().__init__(encoder, loss, views, optimizer, **schedules)
        if not 0 <= momentum < 1:
            raise UsageError(f"momentum of the slow encoder must lie in [0, 1), got {momentum}")
        self.compare_by(Queue(width, queue))
        features = width_of(encoder)
        self.head = mlp([features, hidden, width] if hidden else [features, width], norm=False)
        self.slow_encoder, self.slow_head = frozen_copy(encoder), frozen_copy(self.head)
        self.momentum, self.shuffled = momentum, batch_norm == "shuffled"

    def batch_loss(self, batch: ImageBatch) -> Tensor:
        first, second = self.two_views(batch)
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


class MoCoV3(Method):
    """Encoder, projector and predictor, and a momentum copy without predictor; the sum of both directions, times 2t.

    Example:
        >>> from rince.encoders import ConvNet
        >>> views = rince.views.SimCLRViews(size=32)
        >>> method = rince.methods.MoCoV3(ConvNet(width=8), rince.InfoNCE(), views, torch.optim.Adam, hidden=256)
    """

    two_views_each = True

    def __init__(
        self,
        encoder: nn.Module,
        loss: nn.Module,
        views: nn.Module,
        optimizer: OptimizerFactory,
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
        super().__init__(encoder, loss, views, optimizer, **schedules)
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
        first, second = self.two_views(batch)
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
