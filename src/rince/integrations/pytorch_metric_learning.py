"""Losses for pytorch-metric-learning: with labels, miners, reducers, reference embeddings and its wrappers.

    from rince.integrations.pytorch_metric_learning import GCELoss
    loss_func = GCELoss()
    loss = loss_func(embeddings, labels, miner(embeddings, labels))

As in the library's ``NTXentLoss``, each positive of an anchor is compared with all negatives of the anchor. Without a
miner, and with cosine similarity, memory is linear in the batch size.
"""

from typing import Any

import torch
from torch import Tensor

from rince._support.optional_imports import import_library
from rince.errors import UsageError
from rince.integrations._shared import DEFAULT_LAM, Lam, WithQ, rince_objective
from rince.losses import GCE, ContrastiveLoss, InfoNCE, Scores
from rince.losses.contrasts import count_different, over_temperature
from rince.losses.inputs import check_weights, full_precision
from rince.losses.logsumexp import negative_scores
from rince.losses.temperature import Temperature, in_use, number_of

_losses: Any = import_library("pytorch_metric_learning.losses", "pytorch-metric-learning")
_distances: Any = import_library("pytorch_metric_learning.distances", "pytorch-metric-learning")
_tuples: Any = import_library("pytorch_metric_learning.utils.loss_and_miner_utils", "pytorch-metric-learning")


class _PairLoss(_losses.BaseMetricLossFunction):  # type: ignore[name-defined, misc]
    """Loss per (anchor, positive)."""

    def __init__(self, contrastive: ContrastiveLoss, **kwargs: Any):
        super().__init__(**kwargs)
        self.contrastive = contrastive
        self._weights: Tensor | None = None
        names = ["temperature", "q"] if isinstance(self, WithQ) else ["temperature"]
        self.add_to_recordable_attributes(list_of_names=names, is_stat=False)

    @property
    def temperature(self) -> float:
        return number_of(self.contrastive.temperature)

    def forward(
        self,
        embeddings: Tensor,
        labels: Tensor | None = None,
        indices_tuple: Any = None,
        ref_emb: Tensor | None = None,
        ref_labels: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        """The loss. ``weights`` (n,) are weights of the embeddings as anchors."""
        self._weights = check_weights(weights, embeddings)
        try:
            return super().forward(embeddings, labels, indices_tuple, ref_emb, ref_labels)  # type: ignore[no-any-return]
        finally:
            self._weights = None

    def _losses(self, positive: Tensor, negatives: Tensor, number: Tensor) -> Tensor:
        return self.contrastive.objective(in_use(self.contrastive.temperature))(
            Scores(positive, negatives, number.to(positive))
        )

    def compute_loss(
        self,
        embeddings: Tensor,
        labels: Tensor | None,
        indices_tuple: Any,
        ref_emb: Tensor | None,
        ref_labels: Tensor | None,
    ) -> dict[str, Any]:
        reference = embeddings if ref_emb is None else ref_emb
        if embeddings.dim() != 2 or reference.dim() != 2:
            raise UsageError(f"embeddings must be (n, d), got {tuple(embeddings.shape)} and {tuple(reference.shape)}")
        if embeddings.shape[1:] != reference.shape[1:]:
            raise UsageError(
                f"embeddings and ref_emb must have the same width, got {embeddings.shape[1]} and {reference.shape[1]}"
            )
        if ref_labels is None:  # as in the library
            ref_labels = labels
        if indices_tuple is None and ref_labels is not None and len(ref_labels) != len(reference):
            raise UsageError(
                f"ref_emb has {len(reference)} rows, but there are {len(ref_labels)} labels for it: pass ref_labels"
            )
        with full_precision(embeddings):
            if indices_tuple is None and labels is not None and ref_labels is not None and self._plain():
                result = self._by_labels(embeddings, labels, reference, ref_labels)
            else:
                result = self._by_pairs(embeddings, labels, indices_tuple, reference, ref_labels)
        if result is None:
            return self.zero_losses()
        losses, anchor, positive = result
        if self._weights is not None:
            weights = self._weights.to(losses)[anchor]
            total = weights.sum()
            losses = losses * (weights / torch.where(total == 0, 1, total)) * len(weights)
        return {"loss": {"losses": losses, "indices": (anchor, positive), "reduction_type": "pos_pair"}}

    def _plain(self) -> bool:
        """Whether the distance is plain cosine similarity."""
        distance = self.distance
        return type(distance) is _distances.CosineSimilarity and distance.power == 1 and distance.normalize_embeddings

    def _by_labels(
        self, embeddings: Tensor, labels: Tensor, reference: Tensor, ref_labels: Tensor
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        same = ref_labels is labels
        anchor, other = _pairs(labels, ref_labels.to(labels.device), same)
        number = count_different(labels, ref_labels.to(labels.device))
        if not len(anchor) or not bool((number > 0).any()):
            return None
        rows, columns = over_temperature(in_use(self.contrastive.temperature), embeddings, reference)
        negatives = negative_scores(rows, columns, labels, ref_labels.to(labels.device)).lse
        positive = (rows[anchor] * columns[other]).sum(1)
        return self._losses(positive, negatives[anchor], number[anchor]), anchor, other

    def _by_pairs(
        self, embeddings: Tensor, labels: Tensor | None, indices_tuple: Any, reference: Tensor, ref_labels: Any
    ) -> tuple[Tensor, Tensor, Tensor] | None:
        if labels is None and indices_tuple is None:
            raise UsageError("labels or indices_tuple is required: loss(embeddings, labels)")
        a1, p, a2, n = _tuples.convert_to_pairs(indices_tuple, labels, ref_labels)
        if not len(a1) or not len(a2):
            return None
        scores = self.distance(embeddings, reference)
        scores = (scores if self.distance.is_inverted else -scores).to(_full(embeddings))
        scores = scores / in_use(self.contrastive.temperature)
        negatives = _segment_logsumexp(scores[a2, n], a2, len(embeddings))
        number = torch.bincount(a2, minlength=len(embeddings))
        positive = scores[a1, p]
        return self._losses(positive, negatives[a1], number[a1]), a1, p

    def get_default_distance(self) -> Any:
        return _distances.CosineSimilarity()


class NTXentLoss(_PairLoss):
    """The library's ``NTXentLoss`` with memory linear in the batch size.

    Args:
        temperature: Softmax temperature.
        **kwargs: ``distance``, ``reducer``, ``embedding_regularizer`` and other options of the library.

    Example:
        >>> from rince.integrations.pytorch_metric_learning import NTXentLoss
        >>> loss = NTXentLoss(temperature=0.1)
        >>> loss(torch.randn(8, 16), torch.arange(8) % 4).shape
        torch.Size([])
    """

    def __init__(self, temperature: Temperature = 0.07, **kwargs: Any):
        super().__init__(InfoNCE(temperature=temperature), **kwargs)


class RINCELoss(WithQ, _PairLoss):
    """RINCE for wrong labels or mismatched pairs.

    Args:
        temperature: Softmax temperature.
        q: Robustness in [0, 1]; 0 is ``NTXentLoss``; may be changed between steps.
        lam: Weight of the negatives: a float, ``rince.DensityRatio(r)`` or ``"balanced"``.
        unit: Divide the loss by exp(q / temperature), to keep the learning rate of InfoNCE. Default: True.
        **kwargs: ``distance``, ``reducer``, ``embedding_regularizer`` and other options of the library.

    Example:
        >>> from rince.integrations.pytorch_metric_learning import RINCELoss
        >>> loss = RINCELoss(temperature=0.1, q=0.5)
        >>> loss(torch.randn(8, 16), torch.arange(8) % 4).shape
        torch.Size([])
    """

    def __init__(
        self, temperature: Temperature = 0.2, q: float = 0.5, lam: Lam = DEFAULT_LAM, unit: bool = True, **kwargs: Any
    ):
        super().__init__(rince_objective(q, lam, temperature, unit), **kwargs)


class GCELoss(WithQ, _PairLoss):
    """Generalized cross-entropy for wrong labels or mismatched pairs.

    Args:
        temperature: Softmax temperature.
        q: Robustness in [0, 1]; 0 is ``NTXentLoss``; may be changed between steps.
        **kwargs: ``distance``, ``reducer``, ``embedding_regularizer`` and other options of the library.

    Example:
        >>> from rince.integrations.pytorch_metric_learning import GCELoss
        >>> loss = GCELoss(temperature=0.2)
        >>> loss(torch.randn(8, 16), torch.arange(8) % 4).shape
        torch.Size([])
    """

    def __init__(self, temperature: Temperature = 0.2, q: float = 1.0, **kwargs: Any):
        super().__init__(GCE(q=q, temperature=temperature), **kwargs)


OURS = ["RINCELoss", "GCELoss"]


class CrossBatchMemory(_losses.CrossBatchMemory):  # type: ignore[name-defined, misc]
    """The library's wrapper, extended to the losses of this module, which it identifies by name.

    Args:
        loss: A loss of this module or of the library.
        embedding_size: Width of the embeddings.
        memory_size: Number of embeddings in the memory.
        miner: A tuple miner of the library.

    Example:
        >>> from rince.integrations.pytorch_metric_learning import CrossBatchMemory, RINCELoss
        >>> loss = CrossBatchMemory(RINCELoss(), embedding_size=16, memory_size=64)
        >>> loss(torch.randn(8, 16), torch.arange(8) % 4).shape
        torch.Size([])
    """

    @classmethod
    def supported_losses(cls) -> list[str]:
        """Names of the supported losses."""
        return [*super().supported_losses(), *OURS]


class SelfSupervisedLoss(_losses.SelfSupervisedLoss):  # type: ignore[name-defined, misc]
    """The library's wrapper, extended to the losses of this module, which it identifies by name.

    Args:
        loss: A loss of this module or of the library.
        symmetric: Use both views as anchors.

    Example:
        >>> from rince.integrations.pytorch_metric_learning import RINCELoss, SelfSupervisedLoss
        >>> SelfSupervisedLoss(RINCELoss())(torch.randn(8, 16), torch.randn(8, 16)).shape
        torch.Size([])
    """

    @classmethod
    def supported_losses(cls) -> list[str]:
        """Names of the supported losses."""
        return [*super().supported_losses(), *OURS]


def _pairs(labels: Tensor, others: Tensor, same: bool) -> tuple[Tensor, Tensor]:
    """Indices of all (anchor, other) with the same label, without (i, i) if ``same``."""
    order = others.argsort(stable=True)
    ordered = others[order]
    first = torch.searchsorted(ordered, labels)
    count = torch.searchsorted(ordered, labels, right=True) - first
    anchor = torch.arange(len(labels), device=labels.device).repeat_interleave(count)
    place = torch.arange(len(anchor), device=labels.device) - (count.cumsum(0) - count)[anchor]
    other = order[first[anchor] + place]
    if same:
        keep = anchor != other
        anchor, other = anchor[keep], other[keep]
    return anchor, other


def _segment_logsumexp(scores: Tensor, segment: Tensor, segments: int) -> Tensor:
    """Log-sum-exp of the scores of each segment, -inf for an empty one."""
    top = scores.detach().new_full((segments,), -torch.inf).scatter_reduce(0, segment, scores.detach(), "amax")
    empty = torch.isneginf(top)
    top = top.masked_fill(empty, 0)
    sums = scores.new_zeros(segments).index_add(0, segment, (scores - top[segment]).exp())
    return (sums.masked_fill(empty, 1).log() + top).masked_fill(empty, -torch.inf)


def _full(embeddings: Tensor) -> torch.dtype:
    return torch.promote_types(embeddings.dtype, torch.float32)
