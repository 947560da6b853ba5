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
    """Copy without gradients, in training mode: its batch norms update their statistics."""
    return copy.deepcopy(network).requires_grad_(False)


@torch.no_grad()
def follow(slow: nn.Module, fast: nn.Module, momentum: float) -> None:
    """slow <- momentum * slow + (1 - momentum) * fast, for all parameters."""
    mine, theirs = [p.data for p in slow.parameters()], [p.data for p in fast.parameters()]
    torch._foreach_lerp_(mine, theirs, 1 - momentum)


class MoCo(Method):
    """MoCo v1 and v2: keys from a momentum encoder, and a queue of earlier keys as negatives.

    First views are queries, second views are keys. ``hidden=0`` is the single-layer head of v1. v2 has a hidden layer,
    other views and a cosine schedule.

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
            hidden: Width of the hidden layer of the head; 0 for a head of one layer. Default: 512.
            width: Width of the embeddings. Default: 128.
            queue: Number of keys in the queue. Default: 65,536.
            momentum: Momentum of the key encoder, in [0, 1). Default: 0.999.
            batch_norm: "shuffled" (default) encodes keys on another rank than their queries, so that batch statistics
                do not leak. "as_is" does not, for synchronized batch norm (trainer.sync_batchnorm) or none.

        Raises:
            UsageError: If momentum is not in [0, 1).
        """
        super().__init__(encoder, loss, views, optimizer, **schedules)
        if not 0 <= momentum < 1:
            raise UsageError(f"momentum must be in [0, 1), got {momentum}")
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
        """Embeddings of the second views by the momentum encoder, without gradient."""
        if not self.shuffled or self.trainer.world_size == 1:
            return self.slow_head(self.slow_encoder(views))
        size, rank = len(views), self.global_rank
        all_views = _from_all(views)
        order = torch.randperm(len(all_views), generator=generator(self.seed, self.batches_seen(), 20)).to(views.device)
        mine = order[rank * size : (rank + 1) * size]
        keys = _from_all(self.slow_head(self.slow_encoder(all_views[mine])))
        return keys[order.argsort()[rank * size : (rank + 1) * size]]


def _from_all(tensor: Tensor) -> Tensor:
    """Rows of all ranks, which have equally many, without gradient."""
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor.contiguous())
    return torch.cat(parts)


class MoCoV3(Method):
    """MoCo v3: a predictor and a momentum encoder, no queue. The loss is the sum of both directions, times 2t.

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
            hidden: Width of the hidden layers of projector and predictor. Default: 4096.
            width: Width of the embeddings. Default: 256.
            momentum: Initial momentum, in [0, 1]; it rises to 1 by a cosine schedule. Default: 0.996.
            head_norm: Batch norm in projector and predictor. Default: True.
            predictor_norm: Batch norm after the predictor, as MoCo v3 has for vision transformers but not for ResNets.
                Default: False.

        Raises:
            UsageError: If momentum is not in [0, 1].
        """
        super().__init__(encoder, loss, views, optimizer, **schedules)
        if not 0 <= momentum <= 1:
            raise UsageError(f"momentum must be in [0, 1], got {momentum}")
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
        """Sum of the losses of both directions, times 2t."""
        temperature = self.temperature(otherwise=0.5)
        if isinstance(temperature, Tensor):  # otherwise it would be learned to be 0
            temperature = temperature.detach()
        return 2 * temperature * (self.compare_pairs(*forth, batch) + self.compare_pairs(*back, batch))

    def project(self, features: Tensor) -> Tensor:
        return self.projector(features)
