"""Cross-modal instance discrimination with a memory bank (xID), the video baseline of AVID."""

import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize, softplus

from rince.errors import UsageError
from rince.losses.ranks import gather, total
from rince.methods.cross_modal import CrossModal
from rince.methods.method import OptimizerFactory
from rince.views.views import PairBatch


class NoiseContrastiveEstimation(nn.Module):
    """Binary classification of each anchor's positive and K negatives, with K times the mean exponential score as the
    odds of a negative.

    The mean is that of the negatives of the first batch, over all ranks.

    Example:
        >>> NoiseContrastiveEstimation()(torch.zeros(2), torch.zeros(2, 1))  # 2 log(2)
        tensor(1.3863)
    """

    def __init__(self, temperature: float = 0.07):
        """
        Args:
            temperature: Divisor of the cosines.
        """
        super().__init__()
        self.temperature = temperature
        self.register_buffer("log_mean", torch.tensor(math.nan))

    def forward(self, positive: Tensor, negatives: Tensor) -> Tensor:
        """Mean loss of cosines with the positives (n,) and with the negatives (n, K)."""
        positive, negatives = positive.float() / self.temperature, negatives.float() / self.temperature
        if self.log_mean.isnan():
            exponentials = negatives.detach().exp()
            summed, number = total(torch.stack([exponentials.sum(), exponentials.new_tensor(exponentials.numel())]))
            self.log_mean = (summed / number).log()
        log_odds = self.log_mean + math.log(negatives.shape[1])
        return (softplus(log_odds - positive) + softplus(negatives - log_odds).sum(1)).mean()


class InstanceDiscrimination(CrossModal):
    """A clip against the remembered embeddings of its sound and of other sounds, and the other way round. Meant for the
    loss ``NoiseContrastiveEstimation``.

    The memory holds an exponential moving average of the unit embeddings of both sides of every item. It starts with
    random vectors.

    Example:
        >>> from rince.encoders import MLP, Towers
        >>> from rince.views import PairViews, Unchanged
        >>> towers, views = Towers(MLP([40, 32]), MLP([24, 32])), PairViews(Unchanged(), Unchanged())
        >>> method = InstanceDiscrimination(towers, NoiseContrastiveEstimation(), views, torch.optim.Adam, items=1000)
    """

    weights_for = None
    memory_a: Tensor
    memory_b: Tensor

    def __init__(
        self,
        encoder: nn.Module,
        loss: nn.Module,
        views: nn.Module,
        optimizer: OptimizerFactory,
        items: int,
        hidden: int = 512,
        width: int = 128,
        layers: int = 3,
        head_norm: bool = False,
        num_negatives: int = 1024,
        momentum: float = 0.5,
        **schedules: Any,
    ):
        """
        Args:
            items: Number of training pairs.
            hidden: Width of the heads' hidden layers.
            width: Width of the embeddings.
            layers: Linear layers in a head.
            head_norm: Batch norm in the heads.
            num_negatives: Negatives of each anchor, drawn from all other items.
            momentum: Share of the old embedding in the memory.
        """
        super().__init__(encoder, loss, views, optimizer, hidden, width, layers, head_norm, **schedules)
        if items < 2:
            raise UsageError(f"items must be at least 2, got {items}")
        self.num_negatives, self.momentum = num_negatives, momentum
        for side in "ab":
            self.register_buffer(f"memory_{side}", normalize(torch.randn(items, width), dim=1))

    def batch_loss(self, batch: PairBatch) -> Tensor:
        views = self.views(batch.a, batch.b, self.draw(len(batch.a)), batch.cropped)
        features = self.encoder(*views)
        a, b = (normalize(side.float(), dim=1) for side in self.project(features))
        self.note(features[0], batch.labels)
        self.note_similarity(a, b)
        others = self.other_items(batch.ids)
        loss = (self.contrast_with(self.memory_b, a, batch.ids, others)
                + self.contrast_with(self.memory_a, b, batch.ids, others)) / 2  # fmt: skip
        self.remember(batch.ids, a, b)
        return loss

    def contrast_with(self, memory: Tensor, anchors: Tensor, own: Tensor, others: Tensor) -> Tensor:
        """Loss of anchors against their own item in a memory and against other items."""
        return self.loss((anchors * memory[own]).sum(1), torch.einsum("nd,nkd->nk", anchors, memory[others]))

    def other_items(self, ids: Tensor) -> Tensor:
        """(n, negatives): items other than the anchor's, uniformly drawn."""
        drawn = self.draw(len(ids), stream=1).uniform(shape=(self.num_negatives,)).to(ids.device)
        others = (drawn * (len(self.memory_a) - 1)).long()
        return others + (others >= ids[:, None])

    @torch.no_grad()
    def remember(self, ids: Tensor, a: Tensor, b: Tensor) -> None:
        """Move the memory towards the embeddings of all ranks."""
        (a, b), all_ids, *_ = gather([a, b], ids)
        for memory, new in ((self.memory_a, a), (self.memory_b, b)):
            memory[all_ids] = normalize(self.momentum * memory[all_ids] + (1 - self.momentum) * new, dim=1)
