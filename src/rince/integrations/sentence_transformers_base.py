"""What the losses for sentence-transformers share: columns in, one loss out; plain and cached."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rince._support.optional_imports import peer
from rince.errors import UsageError
from rince.integrations.objective import settings_of
from rince.integrations.ranking import Direction, Hardness, Partition, Ranking, check_ranking
from rince.losses import ContrastiveLoss
from rince.losses.contrast.gather import processes, total
from rince.losses.contrast.scores import refuse_second
from rince.losses.loss import _check_weights, _full_precision

_library = peer("sentence_transformers", "sentence-transformers")
_merged = peer("sentence_transformers.base.losses.merged_forward", "'sentence-transformers>=6'")
_gradcache = peer("sentence_transformers.base.losses.gradcache", "'sentence-transformers>=6'")
SIMILARITIES = {"cos_sim": True, "dot_score": False}

RINCE_CITATION = """
@inproceedings{chuang2022robust,
    title={Robust Contrastive Learning against Noisy Views},
    author={Ching-Yao Chuang and R Devon Hjelm and Xin Wang and Vibhav Vineet and Neel Joshi and Antonio Torralba and Stefanie Jegelka and Yale Song},
    booktitle={Proceedings of the IEEE/CVF Conference on Computer Vision and Pattern Recognition},
    year={2022}
}
"""  # noqa: E501
INFO_NCE_CITATION = """
@misc{oord2018representation,
    title={Representation Learning with Contrastive Predictive Coding},
    author={Aaron van den Oord and Yazhe Li and Oriol Vinyals},
    year={2018},
    eprint={1807.03748},
    archivePrefix={arXiv},
    primaryClass={cs.LG}
}
"""
GCE_CITATION = """
@inproceedings{zhang2018generalized,
    title={Generalized Cross Entropy Loss for Training Deep Neural Networks with Noisy Labels},
    author={Zhilu Zhang and Mert R. Sabuncu},
    booktitle={Advances in Neural Information Processing Systems},
    year={2018}
}
"""
GRADCACHE_CITATION = """
@misc{gao2021scaling,
    title={Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup},
    author={Luyu Gao and Yunyi Zhang and Jiawei Han and Jamie Callan},
    year={2021},
    eprint={2101.06983},
    archivePrefix={arXiv},
    primaryClass={cs.LG}
}
"""


class RankingLoss(nn.Module):
    """Columns in, one loss out: what the losses for sentence-transformers share.

    Args:
        model: A SentenceTransformer.
        contrastive: Which objective: any loss of rince; of its parts only objective and temperature count.
        similarity_fct: ``cos_sim`` or ``dot_score`` of ``sentence_transformers.util``.
        gather_across_devices: Whether candidates come from all processes, with exact gradients.
        directions: ``query_to_doc`` and, where wanted, ``query_to_query``, ``doc_to_query``, ``doc_to_doc``.
        partition_mode: One denominator over all directions (``joint``), or one per direction, averaged.
        hardness_mode: Which negatives count for more the harder they are; None for none.
        hardness_strength: By how much.
        weighted: Whether the label column holds a weight per pair, such as the trust an audit gives it.

    Raises:
        UsageError: For settings that have no meaning, and for columns or labels that do not fit them.

    Example:
        >>> loss = RankingLoss(model, rince.SymmetricCrossEntropy(temperature=0.1))  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Any,
        contrastive: ContrastiveLoss,
        similarity_fct: Callable[[Tensor, Tensor], Tensor] | None = None,
        gather_across_devices: bool = False,
        directions: Direction | Sequence[Direction] = ("query_to_doc",),
        partition_mode: Partition = "joint",
        hardness_mode: Hardness = None,
        hardness_strength: float = 0.0,
        weighted: bool = False,
    ):
        super().__init__()
        self.model = model
        self.contrastive = contrastive
        refuse_second(contrastive.objective(self.temperature).second, type(self).__name__)
        name = "cos_sim" if similarity_fct is None else getattr(similarity_fct, "__name__", str(similarity_fct))
        if name not in SIMILARITIES:
            raise UsageError(f"similarity_fct must be cos_sim or dot_score of sentence_transformers.util, got {name}")
        self.similarity = name
        self.gather_across_devices, self.weighted = gather_across_devices, weighted
        self.directions = (directions,) if isinstance(directions, str) else tuple(directions)
        self.partition_mode = partition_mode
        self.hardness_mode, self.hardness_strength = hardness_mode, hardness_strength
        check_ranking(self.ranking())

    def ranking(self) -> Ranking:
        return Ranking(
            self.temperature,
            SIMILARITIES[self.similarity],
            self.directions,
            self.partition_mode,
            self.hardness_mode,
            self.hardness_strength,
            self.gather_across_devices,
        )

    @property
    def temperature(self) -> float:
        return float(self.contrastive.temperature)

    @property
    def scale(self) -> float:
        return 1 / self.temperature

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None = None) -> Tensor:
        features = list(sentence_features)
        self.check_columns(len(features), labels)
        return self.compute_loss_from_embeddings(_merged.embed_columns(self.model, features), labels)

    def check_columns(self, columns: int, labels: Tensor | None) -> None:
        """Complain before anything is encoded. Labels that are all 0 are what the library itself fills in."""
        name = type(self).__name__
        if columns < 2:
            raise UsageError(
                f"{name} needs at least the columns (anchor, positive), got {columns}: "
                "columns named label, labels, score or scores do not count"
            )
        if labels is None and self.weighted:
            raise UsageError(f"{name}(weighted=True) needs a weight per pair: name that column 'label' or 'score'")
        if labels is not None and not self.weighted and (labels.is_floating_point() or bool(labels.any())):
            raise UsageError(
                f"{name} takes no labels, but the data set has a column of them: drop it with remove_columns, or set "
                "weighted=True if it holds a weight per pair"
            )

    def compute_loss_from_embeddings(self, embeddings: Sequence[Tensor], labels: Tensor | None = None) -> Tensor:
        """The loss from the embeddings of (anchor, positive, negative_1, ...), each with one row per pair."""
        self.check_columns(len(embeddings), labels)
        shapes = {tuple(z.shape) for z in embeddings}
        if len(shapes) > 1:
            raise UsageError(
                f"all columns must have embeddings of one shape, got {', '.join(map(str, sorted(shapes)))}"
            )
        anchor = embeddings[0]
        weights = _check_weights(labels, anchor) if self.weighted else None
        with _full_precision(anchor):
            losses = self.ranking().losses(self.contrastive.objective(self.temperature), embeddings)
            return self._mean(losses, None if weights is None else weights.to(losses))

    def _mean(self, losses: Tensor, weights: Tensor | None) -> Tensor:
        """Over the pairs of this process, as there; weighted, the weights of all processes count."""
        if weights is None:
            return losses.mean()
        share = processes() if self.gather_across_devices else 1
        anchors = total(weights.sum()) if self.gather_across_devices else weights.sum()
        return (losses * weights).sum() * (share / torch.where(anchors == 0, 1, anchors))

    def get_config_dict(self) -> dict[str, Any]:
        return {
            **settings_of(self.contrastive),
            "scale": self.scale,
            "similarity_fct": self.similarity,
            "gather_across_devices": self.gather_across_devices,
            "directions": self.directions,
            "partition_mode": self.partition_mode,
            "hardness_mode": self.hardness_mode,
            "hardness_strength": self.hardness_strength,
            "weighted": self.weighted,
        }

    @property
    def citation(self) -> str:
        """What to cite, for model cards."""
        return INFO_NCE_CITATION


class CachedRanking(_gradcache.CachedLossMixin):  # type: ignore[name-defined, misc]
    """Gradient caching for a loss above: batches of any size in the memory of ``mini_batch_size`` rows.

    Args:
        model: A SentenceTransformer, not a static one.
        *settings: Those of the loss, by place or by name.
        mini_batch_size: Rows that are encoded at a time.
        mini_batch_num_tokens: Where given, mini-batches are packed by their number of tokens instead.
        show_progress_bar: Whether encoding shows its progress.
        **options: Further arguments of the loss.
    """

    def __init__(
        self,
        model: Any,
        *settings: Any,
        mini_batch_size: int = 32,
        mini_batch_num_tokens: int | None = None,
        show_progress_bar: bool = False,
        **options: Any,
    ):
        super().__init__(model, *settings, **options)
        if _gradcache.has_static_embedding_input(model):
            raise UsageError(
                f"{type(self).__name__} cannot split the inputs of a StaticEmbedding, which needs no caching: use "
                f"{type(self).__name__.removeprefix('Cached')}"
            )
        if mini_batch_size < 1:
            raise UsageError(f"mini_batch_size must be at least 1, got {mini_batch_size!r}")
        if mini_batch_num_tokens is not None and mini_batch_num_tokens < 1:
            raise UsageError(f"mini_batch_num_tokens must be at least 1 or None, got {mini_batch_num_tokens!r}")
        self.mini_batch_size, self.mini_batch_num_tokens = mini_batch_size, mini_batch_num_tokens
        self.show_progress_bar = show_progress_bar

    def forward(self: Any, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None = None) -> Tensor:
        features = list(sentence_features)
        self.check_columns(len(features), labels)
        return self.forward_cached(features, labels)

    def calculate_loss(
        self: Any, reps: list[list[Tensor]], labels: Tensor | None = None, *, with_backward: bool = False
    ) -> Tensor:
        """The loss from mini-batches of embeddings, and, where asked, its backward pass up to them."""
        loss = self.compute_loss_from_embeddings([torch.cat(column) for column in reps], labels)
        if with_backward:
            loss.backward()
            return loss.detach()
        return loss

    def get_config_dict(self: Any) -> dict[str, Any]:
        cached = {"mini_batch_size": self.mini_batch_size, "mini_batch_num_tokens": self.mini_batch_num_tokens}
        return {**super().get_config_dict(), **cached}

    @property
    def citation(self: Any) -> str:
        """What to cite, for model cards."""
        return super().citation + GRADCACHE_CITATION


def temperature_of(scale: float | None, temperature: float | None, default: float = 0.2) -> float:
    if scale is not None and temperature is not None:
        raise UsageError(f"give scale or temperature, which is its inverse, not both: got {scale} and {temperature}")
    if scale is None:
        return default if temperature is None else temperature
    if not scale > 0:
        raise UsageError(f"scale must be positive, got {scale!r}")
    return 1 / scale
