"""Losses for sentence-transformers: what MultipleNegativesRankingLoss does, on pairs that may be wrong.

from rince.integrations.sentence_transformers import GCELoss
loss = GCELoss(model)
trainer = SentenceTransformerTrainer(model=model, train_dataset=pairs, loss=loss)
"""

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn

from rince._support.optional_imports import import_library
from rince.errors import UsageError
from rince.integrations._shared import (
    DEFAULT_LAM,
    Lam,
    WithQ,
    diagonal_scores,
    quick_unit,
    rince_objective,
    settings_of,
    small,
)
from rince.losses import GCE, ContrastiveLoss, InfoNCE, Objective, Scores
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


class Ranking(NamedTuple):
    """Who is compared with whom, and how."""

    temperature: float | Tensor
    cosine: bool = True
    directions: tuple[Direction, ...] = ("query_to_doc",)
    partition: Partition = "joint"
    hardness: Hardness = None
    strength: float = 0.0
    across_devices: bool = False

    def losses(self, objective: Objective, columns: Sequence[Tensor]) -> Tensor:
        """The loss of every pair of this process, from the embeddings of (anchor, positive, negative_1, ...)."""
        batch = _Batch(self, columns)
        parts = batch.parts()
        if len(parts) == 1:
            return objective(Scores(batch.positive, *parts[0]))
        if self.partition == "per_direction":
            return torch.stack([objective(Scores(batch.positive, *part)) for part in parts]).mean(0)
        negatives = torch.stack([part[0] for part in parts]).logsumexp(0)
        return objective(Scores(batch.positive, negatives, torch.stack([part[1] for part in parts]).sum(0)))


def check_ranking(ranking: Ranking) -> Ranking:
    """The settings, or one sentence about what is wrong with them."""
    wrong = [d for d in ranking.directions if d not in DIRECTIONS]
    if wrong:
        raise UsageError(f"directions must be out of {', '.join(DIRECTIONS)}, got {wrong[0]!r}")
    if "query_to_doc" not in ranking.directions:
        raise UsageError("directions must contain 'query_to_doc', which holds the positive pair")
    if ranking.partition not in ("joint", "per_direction"):
        raise UsageError(f"partition_mode must be 'joint' or 'per_direction', got {ranking.partition!r}")
    if ranking.partition == "per_direction" and set(ranking.directions) & {"query_to_query", "doc_to_doc"}:
        raise UsageError(
            "partition_mode 'per_direction' needs the positive pair in every direction, which 'query_to_query' and "
            "'doc_to_doc' do not hold: use partition_mode='joint'"
        )
    if ranking.hardness not in HARDNESS:
        raise UsageError(f"hardness_mode must be one of {HARDNESS}, got {ranking.hardness!r}")
    if not ranking.strength >= 0:
        raise UsageError(f"hardness_strength must not be negative, got {ranking.strength!r}")
    return ranking


class _Batch:
    """The embeddings of a batch, scaled so that products are scores, here and on all processes."""

    def __init__(self, ranking: Ranking, columns: Sequence[Tensor]):
        self.ranking = ranking
        dtype = score_dtype(*columns)
        columns = [quick_unit(z, dtype) if ranking.cosine else z.to(dtype) for z in columns]
        if set(ranking.directions) <= {"query_to_doc", "doc_to_query"} and not self._penalized(None):
            columns[0] = columns[0] / ranking.temperature  # one side of every product
        else:
            columns = [z * ranking.temperature**-0.5 for z in columns]
        self.query, self.doc, self.hard = columns[0], columns[1], list(columns[2:])
        everything, *_, start = (list(columns), 0) if not ranking.across_devices else gather(list(columns))
        self.queries, self.docs = everything[0], everything[1:]
        self.count, self.start = self.queries.shape[0], start
        self.quick = self._quick()
        self.positive = (self.query * self.doc).sum(1) if self.quick is None else self.quick[0]

    @cached_property
    def everyone(self) -> Tensor:
        return torch.arange(self.count, device=self.query.device)

    @cached_property
    def candidates(self) -> Tensor:
        return self.docs[0] if len(self.docs) == 1 else torch.cat(self.docs)

    @property
    def keys(self) -> Tensor:
        return self.everyone[self.start : self.start + self.query.shape[0]]

    def _quick(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """The scores of a small batch by the direct way, where every candidate but one's own is a plain negative."""
        if self._penalized(None):
            return None
        if not small(self.query, self.candidates):
            return None
        return diagonal_scores(self.query, self.candidates, self.start, self._both())

    def _both(self) -> bool:
        wanted = set(self.ranking.directions) == {"query_to_doc", "doc_to_query"}
        return wanted and self._one_matrix_serves_both()

    def parts(self) -> list[tuple[Tensor, Tensor]]:
        """For every direction the log-sum-exp over its negatives, and how many they are."""
        directions = [d for d in DIRECTIONS if d in self.ranking.directions]
        if self._both():
            if self.quick is not None:
                there, back = self.quick[1:]
            else:
                there, back = (side.lse for side in negative_scores_both(self.query, self.doc, self.keys, self.keys))
            number = self._number(self.count - 1)
            return [(there, number), self._way_back(back, number)]
        return [getattr(self, f"_{direction}")() for direction in directions]

    def _one_matrix_serves_both(self) -> bool:
        return not self.hard and self.count == self.query.shape[0] and not self._penalized("in_batch_negatives")

    def _query_to_doc(self) -> tuple[Tensor, Tensor]:
        number = self._number(len(self.docs) * self.count - 1)
        if self.quick is not None:
            return self.quick[1], number
        if not self._penalized(None):  # hard negatives are candidates like any other, and nobody's positive
            nobody = self.everyone.new_full((self.count * (len(self.docs) - 1),), -1)
            others = negative_scores(self.query, self.candidates, self.keys, torch.cat([self.everyone, nobody]))
            return others.lse, number
        rows, columns = self.query, self.candidates
        if self._penalized("in_batch_negatives"):
            rows, columns = self._with_penalty(rows), self._with_penalty(columns)
        owners = self.everyone.repeat(len(self.docs))
        parts = [negative_scores(rows, columns, self.keys, owners).lse]
        for hard in self.hard:
            score = (self.query * hard).sum(1)
            extra = self._penalty(score) if self._penalized("hard_negatives") else 0
            parts.append(score + extra)
        return torch.stack(parts).logsumexp(0), number

    def _query_to_query(self) -> tuple[Tensor, Tensor]:
        others = negative_scores(self.query, self.queries, self.keys, self.everyone).lse
        return others, self._number(self.count - 1)

    def _doc_to_query(self) -> tuple[Tensor, Tensor]:
        others = negative_scores(self.doc, self.queries, self.keys, self.everyone).lse
        return self._way_back(others, self._number(self.count - 1))

    def _doc_to_doc(self) -> tuple[Tensor, Tensor]:
        owners = self.everyone.repeat(len(self.docs))
        others = negative_scores(self.doc, self.candidates, self.keys, owners).lse
        return others, self._number(len(self.docs) * (self.count - 1))

    def _way_back(self, others: Tensor, number: Tensor) -> tuple[Tensor, Tensor]:
        """In a joint partition the pair stands once more among the candidates of its document, as published."""
        if self.ranking.partition == "joint":
            return torch.logaddexp(others, self.positive), number + 1
        return others, number

    def _number(self, count: int) -> Tensor:
        return self.positive.new_full(self.positive.shape, count)

    def _penalized(self, kind: str | None) -> bool:
        mode = self.ranking.hardness
        return mode is not None and self.ranking.strength > 0 and (kind is None or mode in (kind, "all_negatives"))

    def _penalty(self, score: Tensor) -> Tensor:
        return score.detach() * (self.ranking.strength * self.ranking.temperature)

    def _with_penalty(self, rows: Tensor) -> Tensor:
        """Wider rows whose products are scores plus their penalty, which has no gradient."""
        return torch.cat([rows, rows.detach() * (self.ranking.strength * self.ranking.temperature) ** 0.5], 1)


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
        weighted: Whether the label column holds a weight per pair, as from ``rince.estimate_weights``. With
            a module that maps row numbers to weights, such as ``rince.trust.WarmUpWeights``, it holds the row number
            of every pair; see ``WarmUpCallback``.

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
        check_ranking(self.ranking(self.temperature))

    def ranking(self, temperature: float | Tensor) -> Ranking:
        return Ranking(
            temperature,
            SIMILARITIES[self.similarity],
            self.directions,
            self.partition_mode,
            self.hardness_mode,
            self.hardness_strength,
            self.gather_across_devices,
        )

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
        if self.warm_up is not None and labels is not None:
            labels = self.warm_up(labels)
        weights = check_weights(labels, anchor) if self.weighted else None
        with full_precision(anchor):
            temperature = in_use(self.contrastive.temperature)
            losses = self.ranking(temperature).losses(self.contrastive.objective(temperature), embeddings)
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


def temperature_of(scale: float | None, temperature: Temperature | None, default: float = 0.2) -> Temperature:
    if scale is not None and temperature is not None:
        raise UsageError(f"give scale or temperature, which is its inverse, not both: got {scale} and {temperature}")
    if scale is None:
        return default if temperature is None else temperature
    if not scale > 0:
        raise UsageError(f"scale must be positive, got {scale!r}")
    return 1 / scale


class RINCELoss(WithQ, RankingLoss):
    """MultipleNegativesRankingLoss on pairs that may be wrong.

    Columns, hard negatives and options are those of ``MultipleNegativesRankingLoss``; with q = 0 so are values and
    gradients. Larger q gives pairs that look wrong less pull.

    Args:
        model: A SentenceTransformer.
        q: From 0 (InfoNCE) to 1 (most robust); see ``rince.RINCE``.
        lam: The weight of the negatives: a number, ``rince.DensityRatio(r)`` or ``"balanced"``.
        scale: What cosines are multiplied with: 20 is temperature 0.05.
        temperature: The inverse of ``scale``; give one of them. 0.2 if neither is given.
        unit: Whether the loss is divided by exp(q / temperature), so that a learning rate that suits
            ``MultipleNegativesRankingLoss`` suits this loss, too. False is the published form.
        **options: Those of ``RankingLoss``: ``similarity_fct``, ``gather_across_devices``, ``directions``,
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
        """What to cite, for model cards."""
        return RINCE_CITATION


class GCELoss(WithQ, RankingLoss):
    """MultipleNegativesRankingLoss on pairs that may be wrong, by generalized cross-entropy: (1 - p^q) / q.

    Args:
        model: A SentenceTransformer.
        q: From 0 (the same as ``MultipleNegativesRankingLoss``) to 1 (most robust); see ``rince.GCE``.
        scale: What cosines are multiplied with: 20 is temperature 0.05.
        temperature: The inverse of ``scale``; give one of them. 0.2 if neither is given.
        **options: Those of ``RankingLoss``, as in ``RINCELoss``.

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
        """What to cite, for model cards."""
        return GCE_CITATION


class CachedRINCELoss(CachedRanking, RINCELoss):
    """``RINCELoss`` with gradient caching: any batch size in the memory of a mini-batch, and the same gradient.

    Args:
        model: A SentenceTransformer, not a static one.
        *settings: Those of ``RINCELoss``, by place or by name.
        mini_batch_size: Rows that are encoded at a time.
        mini_batch_num_tokens: Where given, mini-batches are packed by their number of tokens instead.
        show_progress_bar: Whether encoding shows its progress.
        **options: The other arguments of ``RINCELoss``.

    Example:
        >>> loss = CachedRINCELoss(model, q=0.5, temperature=0.2, mini_batch_size=64)  # doctest: +SKIP
    """


class CachedGCELoss(CachedRanking, GCELoss):
    """``GCELoss`` with gradient caching: any batch size in the memory of a mini-batch, and the same gradient.

    Args:
        model: A SentenceTransformer, not a static one.
        *settings: Those of ``GCELoss``, by place or by name.
        **options: Those of ``GCELoss`` and, for the mini-batches, of ``CachedRINCELoss``.

    Example:
        >>> loss = CachedGCELoss(model, mini_batch_size=32)  # doctest: +SKIP
    """


class InfoNCELoss(RankingLoss):
    """MultipleNegativesRankingLoss itself, in memory that grows with the batch instead of its square.

    Args:
        model: A SentenceTransformer.
        scale: What cosines are multiplied with; 20, as there, if neither this nor ``temperature`` is given.
        temperature: The inverse of ``scale``.
        **options: Those of ``RankingLoss``, as in ``RINCELoss``.

    Example:
        >>> loss = InfoNCELoss(model, scale=20)  # doctest: +SKIP
    """

    def __init__(self, model: Any, scale: float | None = None, temperature: Temperature | None = None, **options: Any):
        super().__init__(model, InfoNCE(temperature=temperature_of(scale, temperature, 0.05)), **options)


class CachedInfoNCELoss(CachedRanking, InfoNCELoss):
    """``CachedMultipleNegativesRankingLoss`` itself, without blocks of scores.

    Args:
        model: A SentenceTransformer, not a static one.
        *settings: Those of ``InfoNCELoss``, by place or by name.
        **options: Those of ``InfoNCELoss`` and, for the mini-batches, of ``CachedRINCELoss``.

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
        given = list(loss.values()) if isinstance(loss, dict) else loss if isinstance(loss, Sequence) else [loss]
        self.losses = [_with_q(one) for one in given]
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

    For texts that n-grams say nothing about, such as two languages without common words. A run that resumes after the
    warm-up estimates them again, from the model of its checkpoint.

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
