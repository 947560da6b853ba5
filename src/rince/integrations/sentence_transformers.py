"""Losses for sentence-transformers, with the columns and options of ``MultipleNegativesRankingLoss``.

from rince.integrations.sentence_transformers import GCELoss
loss = GCELoss(model)
trainer = SentenceTransformerTrainer(model=model, train_dataset=pairs, loss=loss)
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor, nn

from rince._support.optional_imports import import_library
from rince.errors import UsageError
from rince.integrations._shared import (
    DEFAULT_LAM,
    Lam,
    WithQ,
    diagonal_scores,
    rince_objective,
    settings_of,
    small,
)
from rince.losses import GCE, ContrastiveLoss, InfoNCE, Objective, Scores
from rince.losses.contrasts import unit
from rince.losses.inputs import check_weights, full_precision
from rince.losses.logsumexp import negative_scores, negative_scores_both, score_dtype
from rince.losses.objectives import refuse_extra
from rince.losses.ranks import gather, processes, total
from rince.losses.schedules import Schedule
from rince.losses.temperature import Temperature, in_use, number_of

_library = import_library("sentence_transformers", "sentence-transformers")
_merged = import_library("sentence_transformers.base.losses.merged_forward", "'sentence-transformers>=6'")
_gradcache = import_library("sentence_transformers.base.losses.gradcache", "'sentence-transformers>=6'")
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
_trainer = import_library("transformers", "transformers")

Direction = Literal["query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc"]
DIRECTIONS = ("query_to_doc", "query_to_query", "doc_to_query", "doc_to_doc")
Partition = Literal["joint", "per_direction"]
Hardness = Literal["in_batch_negatives", "hard_negatives", "all_negatives"] | None
HARDNESS = (None, "in_batch_negatives", "hard_negatives", "all_negatives")


class _Batch:
    """The embeddings of a batch, scaled so that products are scores, on this rank and on all ranks."""

    def __init__(self, loss: "RankingLoss", temperature: float | Tensor, columns: Sequence[Tensor]):
        self.loss, self.temperature = loss, temperature
        dtype, directions = score_dtype(*columns), set(loss.directions)
        columns = [unit(z, dtype) if SIMILARITIES[loss.similarity] else z.to(dtype) for z in columns]
        if directions <= {"query_to_doc", "doc_to_query"} and not self._penalized():
            columns[0] = columns[0] / temperature  # one side of every product
        else:
            columns = [z * temperature**-0.5 for z in columns]
        self.query, self.doc, self.hard = columns[0], columns[1], columns[2:]
        gathered, *_, self.start = gather(columns) if loss.gather_across_devices else (columns, 0)
        self.queries, self.docs = gathered[0], gathered[1:]
        self.count, size = self.queries.shape[0], self.query.shape[0]
        self.candidates = self.docs[0] if len(self.docs) == 1 else torch.cat(self.docs)
        self.both = directions == {"query_to_doc", "doc_to_query"} and not self.hard and self.count == size
        self.both = self.both and not self._penalized("in_batch_negatives")
        # In a small batch where every candidate but the positive is a plain negative: all scores at once.
        self.dense: tuple[Tensor, Tensor, Tensor] | None = None
        if not self._penalized() and small(self.query, self.candidates):
            self.dense = diagonal_scores(self.query, self.candidates, self.start, self.both)
        self.positive = (self.query * self.doc).sum(1) if self.dense is None else self.dense[0]

    @cached_property
    def all_keys(self) -> Tensor:
        return torch.arange(self.count, device=self.query.device)

    @property
    def keys(self) -> Tensor:
        return self.all_keys[self.start : self.start + self.query.shape[0]]

    def losses(self, objective: Objective) -> Tensor:
        """Loss of every pair of this rank."""
        parts = self._negatives()
        if len(parts) == 1:
            return objective(Scores(self.positive, *parts[0]))
        if self.loss.partition_mode == "per_direction":
            return torch.stack([objective(Scores(self.positive, *part)) for part in parts]).mean(0)
        negatives, numbers = (torch.stack(values) for values in zip(*parts, strict=True))
        return objective(Scores(self.positive, negatives.logsumexp(0), numbers.sum(0)))

    def _negatives(self) -> list[tuple[Tensor, Tensor]]:
        """Log-sum-exp of the negatives and their number, for every direction."""
        if not self.both:
            return [getattr(self, f"_{name}")() for name in DIRECTIONS if name in self.loss.directions]
        if self.dense is not None:
            rows, columns = self.dense[1:]
        else:
            rows, columns = (side.lse for side in negative_scores_both(self.query, self.doc, self.keys, self.keys))
        number = self._number(self.count - 1)
        return [(rows, number), self._with_positive(columns, number)]

    def _query_to_doc(self) -> tuple[Tensor, Tensor]:
        number = self._number(len(self.docs) * self.count - 1)
        if self.dense is not None:
            return self.dense[1], number
        if not self._penalized():  # hard negatives are candidates like any other, and positives of no query
            no_key = self.all_keys.new_full((self.count * (len(self.docs) - 1),), -1)
            keys = torch.cat([self.all_keys, no_key])
            return negative_scores(self.query, self.candidates, self.keys, keys).lse, number
        rows, columns, strength = self.query, self.candidates, self.loss.hardness_strength * self.temperature
        if self._penalized("in_batch_negatives"):  # wider rows whose products are scores plus their penalty
            rows, columns = (torch.cat([z, z.detach() * strength**0.5], 1) for z in (rows, columns))
        parts = [negative_scores(rows, columns, self.keys, self.all_keys.repeat(len(self.docs))).lse]
        for hard in self.hard:
            score = (self.query * hard).sum(1)
            parts.append(score + score.detach() * strength if self._penalized("hard_negatives") else score)
        return torch.stack(parts).logsumexp(0), number

    def _query_to_query(self) -> tuple[Tensor, Tensor]:
        others = negative_scores(self.query, self.queries, self.keys, self.all_keys).lse
        return others, self._number(self.count - 1)

    def _doc_to_query(self) -> tuple[Tensor, Tensor]:
        others = negative_scores(self.doc, self.queries, self.keys, self.all_keys).lse
        return self._with_positive(others, self._number(self.count - 1))

    def _doc_to_doc(self) -> tuple[Tensor, Tensor]:
        keys = self.all_keys.repeat(len(self.docs))
        others = negative_scores(self.doc, self.candidates, self.keys, keys).lse
        return others, self._number(len(self.docs) * (self.count - 1))

    def _with_positive(self, others: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
        """In a joint partition, as published, the pair is also a candidate of its document."""
        if self.loss.partition_mode == "joint":
            return torch.logaddexp(others, self.positive), number + 1
        return others, number

    def _number(self, count: int) -> Tensor:
        return self.positive.new_full(self.positive.shape, count)

    def _penalized(self, kind: str | None = None) -> bool:
        """Whether negatives of a kind (any if None) have a penalty that grows with their score."""
        mode = self.loss.hardness_mode
        return (
            mode is not None and self.loss.hardness_strength > 0 and (kind is None or mode in (kind, "all_negatives"))
        )


class RankingLoss(nn.Module):
    """Base class of the losses for sentence-transformers: the loss of a batch of columns.

    Args:
        model: A SentenceTransformer.
        contrastive: A loss of rince, for its objective and temperature.
        similarity_fct: ``cos_sim`` or ``dot_score`` of ``sentence_transformers.util``.
        gather_across_devices: Use candidates of all ranks, with exact gradients. Default: False.
        directions: ``"query_to_doc"``, and optionally ``"query_to_query"``, ``"doc_to_query"`` and ``"doc_to_doc"``.
        partition_mode: One denominator over all directions (``"joint"``), or one per direction, averaged.
        hardness_mode: Negatives whose scores get a penalty that grows with the score. Default: None.
        hardness_strength: Size of the penalty relative to the cosine. Default: 0.
        weighted: Whether the label column holds a weight per pair, as from ``rince.estimate_weights``. With
            a module that maps row numbers to weights, such as ``rince.trust.WarmUpWeights``, it holds the row number
            of every pair; see ``WarmUpCallback``.

    Raises:
        UsageError: If settings, columns or labels are invalid.

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
        weighted: bool | nn.Module = False,
    ):
        super().__init__()
        self.model = model
        self.contrastive = contrastive
        refuse_extra(contrastive.objective(self.temperature).extra, type(self).__name__)
        name = "cos_sim" if similarity_fct is None else getattr(similarity_fct, "__name__", str(similarity_fct))
        if name not in SIMILARITIES:
            raise UsageError(f"similarity_fct must be cos_sim or dot_score of sentence_transformers.util, got {name}")
        self.similarity = name
        self.gather_across_devices, self.weighted = gather_across_devices, bool(weighted)
        self.warm_up = weighted if isinstance(weighted, nn.Module) else None
        self.directions = (directions,) if isinstance(directions, str) else tuple(directions)
        self.partition_mode = partition_mode
        self.hardness_mode, self.hardness_strength = hardness_mode, hardness_strength
        unknown = [direction for direction in self.directions if direction not in DIRECTIONS]
        if unknown:
            raise UsageError(f"directions must be out of {', '.join(DIRECTIONS)}, got {unknown[0]!r}")
        if "query_to_doc" not in self.directions:
            raise UsageError("directions must contain 'query_to_doc', which holds the positive pair")
        if partition_mode not in ("joint", "per_direction"):
            raise UsageError(f"partition_mode must be 'joint' or 'per_direction', got {partition_mode!r}")
        if partition_mode == "per_direction" and {"query_to_query", "doc_to_doc"} & set(self.directions):
            raise UsageError(
                "partition_mode 'per_direction' needs the positive pair in every direction, which 'query_to_query' and "
                "'doc_to_doc' do not hold: use partition_mode='joint'"
            )
        if hardness_mode not in HARDNESS:
            raise UsageError(f"hardness_mode must be one of {HARDNESS}, got {hardness_mode!r}")
        if not hardness_strength >= 0:
            raise UsageError(f"hardness_strength must not be negative, got {hardness_strength!r}")

    @property
    def temperature(self) -> float:
        return number_of(self.contrastive.temperature)

    @property
    def scale(self) -> float:
        return 1 / self.temperature

    def forward(self, sentence_features: Iterable[dict[str, Tensor]], labels: Tensor | None = None) -> Tensor:
        features = list(sentence_features)
        self.check_columns(len(features), labels)
        return self.compute_loss_from_embeddings(_merged.embed_columns(self.model, features), labels)

    def check_columns(self, columns: int, labels: Tensor | None) -> None:
        """Check the columns before they are encoded. Without labels, the library passes zeros."""
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
        if self.warm_up is not None and labels is not None:
            labels = self.warm_up(labels)
        weights = check_weights(labels, anchor) if self.weighted else None
        with full_precision(anchor):
            temperature = in_use(self.contrastive.temperature)
            losses = _Batch(self, temperature, embeddings).losses(self.contrastive.objective(temperature))
            return self._mean(losses, None if weights is None else weights.to(losses))

    def _mean(self, losses: Tensor, weights: Tensor | None) -> Tensor:
        """Mean over the pairs of this rank, as in the library; a weighted one counts the weights of all ranks."""
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
        """Citation for model cards."""
        return INFO_NCE_CITATION


class CachedRanking(_gradcache.CachedLossMixin):  # type: ignore[name-defined, misc]
    """Gradient caching for a ranking loss: batches of any size in the memory of ``mini_batch_size`` rows.

    Args:
        model: A SentenceTransformer, not a static one.
        *settings: Arguments of the loss.
        mini_batch_size: Rows per mini-batch. Default: 32.
        mini_batch_num_tokens: Tokens per mini-batch, in place of ``mini_batch_size``. Default: None.
        show_progress_bar: Show the progress of encoding. Default: False.
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
        """The loss of mini-batches of embeddings; ``with_backward``: and their gradient."""
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
        """Citation for model cards."""
        return super().citation + GRADCACHE_CITATION


def temperature_of(scale: float | None, temperature: Temperature | None, default: float = 0.2) -> Temperature:
    if scale is not None and temperature is not None:
        raise UsageError(f"give scale or temperature, which is its inverse, not both: got {scale} and {temperature}")
    if scale is None:
        return default if temperature is None else temperature
    if not scale > 0:
        raise UsageError(f"scale must be positive, got {scale!r}")
    return 1 / scale


class RINCELoss(WithQ, RankingLoss):
    """RINCE for mismatched pairs.

    Columns, hard negatives and options are those of ``MultipleNegativesRankingLoss``. With q = 0, values and gradients
    are the same up to a constant. The larger q, the smaller the gradient of pairs that look wrong.

    Args:
        model: A SentenceTransformer.
        q: Robustness, from 0 (InfoNCE) to 1; see ``rince.RINCE``. Default: 0.5.
        lam: Weight of the negatives: a float, ``rince.DensityRatio(r)`` or ``"balanced"``.
        scale: Inverse temperature: 20 is temperature 0.05.
        temperature: Softmax temperature, the inverse of ``scale``. Default: 0.2.
        unit: Divide the loss by exp(q / temperature), to keep the learning rate of ``MultipleNegativesRankingLoss``.
            ``False``: the published form. Default: True.
        **options: Options of ``RankingLoss``: ``similarity_fct``, ``gather_across_devices``, ``directions``,
            ``partition_mode``, ``hardness_mode``, ``hardness_strength`` and ``weighted``.

    Example:
        >>> loss = RINCELoss(model, q=0.5, temperature=0.2)  # doctest: +SKIP
        >>> trainer = SentenceTransformerTrainer(model=model, train_dataset=pairs, loss=loss)  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Any,
        q: float = 0.5,
        lam: Lam = DEFAULT_LAM,
        scale: float | None = None,
        temperature: Temperature | None = None,
        unit: bool = True,
        **options: Any,
    ):
        super().__init__(model, rince_objective(q, lam, temperature_of(scale, temperature), unit), **options)

    @property
    def citation(self) -> str:
        """Citation for model cards."""
        return RINCE_CITATION


class GCELoss(WithQ, RankingLoss):
    """Generalized cross-entropy for mismatched pairs: (1 - p^q) / q. Recommended.

    Args:
        model: A SentenceTransformer.
        q: Robustness, from 0 (``MultipleNegativesRankingLoss``) to 1; see ``rince.GCE``. Default: 1.
        scale: Inverse temperature: 20 is temperature 0.05.
        temperature: Softmax temperature, the inverse of ``scale``. Default: 0.2.
        **options: Options of ``RankingLoss``, as in ``RINCELoss``.

    Example:
        >>> loss = GCELoss(model)  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Any,
        q: float = 1.0,
        scale: float | None = None,
        temperature: Temperature | None = None,
        **options: Any,
    ):
        super().__init__(model, GCE(q=q, temperature=temperature_of(scale, temperature)), **options)

    @property
    def citation(self) -> str:
        """Citation for model cards."""
        return GCE_CITATION


class CachedRINCELoss(CachedRanking, RINCELoss):
    """``RINCELoss`` with gradient caching: the same gradient in the memory of a mini-batch.

    Args:
        model: A SentenceTransformer, not a static one.
        *settings: Arguments of ``RINCELoss``.
        mini_batch_size: Rows per mini-batch. Default: 32.
        mini_batch_num_tokens: Tokens per mini-batch, in place of ``mini_batch_size``. Default: None.
        show_progress_bar: Show the progress of encoding. Default: False.
        **options: Other arguments of ``RINCELoss``.

    Example:
        >>> loss = CachedRINCELoss(model, q=0.5, temperature=0.2, mini_batch_size=64)  # doctest: +SKIP
    """


class CachedGCELoss(CachedRanking, GCELoss):
    """``GCELoss`` with gradient caching: the same gradient in the memory of a mini-batch.

    Args:
        model: A SentenceTransformer, not a static one.
        *settings: Arguments of ``GCELoss``.
        **options: Other arguments of ``GCELoss``, and the mini-batch options of ``CachedRINCELoss``.

    Example:
        >>> loss = CachedGCELoss(model, mini_batch_size=32)  # doctest: +SKIP
    """


class InfoNCELoss(RankingLoss):
    """The library's ``MultipleNegativesRankingLoss`` with memory linear in the batch size.

    Args:
        model: A SentenceTransformer.
        scale: Inverse temperature. Default: 20, as in the library.
        temperature: Softmax temperature, the inverse of ``scale``.
        **options: Options of ``RankingLoss``, as in ``RINCELoss``.

    Example:
        >>> loss = InfoNCELoss(model, scale=20)  # doctest: +SKIP
    """

    def __init__(self, model: Any, scale: float | None = None, temperature: Temperature | None = None, **options: Any):
        super().__init__(model, InfoNCE(temperature=temperature_of(scale, temperature, 0.05)), **options)


class CachedInfoNCELoss(CachedRanking, InfoNCELoss):
    """The library's ``CachedMultipleNegativesRankingLoss`` with memory linear in the batch size.

    Args:
        model: A SentenceTransformer, not a static one.
        *settings: Arguments of ``InfoNCELoss``.
        **options: Other arguments of ``InfoNCELoss``, and the mini-batch options of ``CachedRINCELoss``.

    Example:
        >>> loss = CachedInfoNCELoss(model, scale=20, mini_batch_size=32)  # doctest: +SKIP
    """


class QScheduleCallback(_trainer.TrainerCallback):  # type: ignore[name-defined, misc]
    """Sets q at every step of a Trainer.

    Args:
        loss: A loss with a ``q``, or several, or a wrapper around one such as ``MatryoshkaLoss``.
        schedule: q as a function of progress from 0 to 1: ``rince.losses.schedules.linear(0.01, 0.4)``.

    Example:
        >>> loss = rince.RINCE()  # any loss with a q
        >>> callbacks = [QScheduleCallback(loss, rince.schedules.linear(0.01, 0.5))]
    """

    def __init__(self, loss: Any, schedule: Schedule):
        losses = list(loss.values()) if isinstance(loss, dict) else loss if isinstance(loss, Sequence) else [loss]
        self.losses = [_with_q(part) for part in losses]
        self.schedule = schedule

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        for loss in self.losses:
            loss.q = self.schedule(state.global_step / max(1, state.max_steps - 1))


def _with_q(loss: Any) -> Any:
    inner = loss
    while inner is not None and not hasattr(inner, "q"):
        inner = getattr(inner, "loss", None)
    if inner is None:
        raise UsageError(f"{type(loss).__name__} has no q to change")
    return inner


class WarmUpCallback(_trainer.TrainerCallback):  # type: ignore[name-defined, misc]
    """Estimates the weights of all pairs once, from the model's embeddings after a warm-up.

    Use it where n-grams are uninformative, such as for two languages without common words. A run that resumes after the
    warm-up estimates the weights again, from the model of its checkpoint.

    Args:
        weights: ``rince.trust.WarmUpWeights``, also given to the loss as ``weighted``. Column ``label``: row numbers.
        model: The SentenceTransformer that is trained.
        a, b: Texts of both sides, in the order of their row numbers.

    Example:
        >>> weights = rince.trust.WarmUpWeights(pairs=600, at_step=20)
        >>> loss = GCELoss(model, weighted=weights)  # doctest: +SKIP
        >>> callbacks = [WarmUpCallback(weights, model, english, german)]  # doctest: +SKIP
    """

    def __init__(self, weights: Any, model: Any, a: Sequence[str], b: Sequence[str]):
        self.weights, self.model, self.sides = weights, model, (list(a), list(b))

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        if state.global_step >= self.weights.at_step and self.weights.estimate is None:
            training = self.model.training
            embeddings = [
                self.model.encode(side, convert_to_tensor=True, show_progress_bar=False) for side in self.sides
            ]
            self.model.train(training)
            self.weights.update(*(z.cpu() for z in embeddings))
