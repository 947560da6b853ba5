"""Losses for sentence-transformers: what MultipleNegativesRankingLoss does, on pairs that may be wrong.

from rince.integrations.sentence_transformers import RINCELoss
loss = RINCELoss(model)
trainer = SentenceTransformerTrainer(model=model, train_dataset=pairs, loss=loss)
"""

from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor

from rince._support.optional_imports import peer
from rince.errors import UsageError
from rince.integrations.objective import Lam, WithQ, rince_objective
from rince.integrations.ranking import Direction, Hardness, Partition
from rince.integrations.sentence_transformers_base import (
    GCE_CITATION,
    CachedRanking,
    RankingLoss,
    temperature_of,
)
from rince.losses import GCE, InfoNCE
from rince.losses.schedules import Schedule

_library = peer("sentence_transformers", "sentence-transformers")
_merged = peer("sentence_transformers.base.losses.merged_forward", "'sentence-transformers>=6'")
_gradcache = peer("sentence_transformers.base.losses.gradcache", "'sentence-transformers>=6'")
_trainer = peer("transformers", "transformers")
SIMILARITIES = {"cos_sim": True, "dot_score": False}


class RINCELoss(WithQ, RankingLoss):
    """MultipleNegativesRankingLoss on pairs that may be wrong.

    Columns, hard negatives and options are those of ``MultipleNegativesRankingLoss``; with q = 0 so are values and
    gradients. Larger q gives pairs that look wrong less pull.

    Args:
        model: A SentenceTransformer.
        q: From 0 (every pair is believed) to 1; see ``rince.RINCE``.
        lam: The weight of the negatives: a number, ``rince.DensityRatio(r)`` or ``"balanced"``.
        scale: What cosines are multiplied with: 20 is temperature 0.05.
        temperature: The inverse of ``scale``; give one of them. 0.2 if neither is given.
        unit: Whether the loss is divided by exp(q / temperature), so that a learning rate that suits
            ``MultipleNegativesRankingLoss`` suits this loss, too. False is the published form.
        similarity_fct: ``cos_sim`` or ``dot_score`` of ``sentence_transformers.util``.
        gather_across_devices: Whether candidates come from all processes, with exact gradients.
        directions: ``query_to_doc`` and, where wanted, ``query_to_query``, ``doc_to_query``, ``doc_to_doc``.
        partition_mode: One denominator over all directions (``joint``), or one per direction, averaged.
        hardness_mode: Which negatives count for more the harder they are; None for none.
        hardness_strength: By how much.
        weighted: Whether the label column holds a weight per pair, such as the trust an audit gives it.

    Example:
        >>> loss = RINCELoss(model, q=0.5, temperature=0.2)  # doctest: +SKIP
        >>> trainer = SentenceTransformerTrainer(model=model, train_dataset=pairs, loss=loss)  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Any,
        q: float = 0.5,
        lam: Lam = "balanced",
        scale: float | None = None,
        temperature: float | None = None,
        unit: bool = True,
        similarity_fct: Callable[[Tensor, Tensor], Tensor] | None = None,
        gather_across_devices: bool = False,
        directions: Sequence[Direction] = ("query_to_doc",),
        partition_mode: Partition = "joint",
        hardness_mode: Hardness = None,
        hardness_strength: float = 0.0,
        weighted: bool = False,
    ):
        super().__init__(
            model,
            rince_objective(q, lam, temperature_of(scale, temperature), unit),
            similarity_fct,
            gather_across_devices,
            directions,
            partition_mode,
            hardness_mode,
            hardness_strength,
            weighted,
        )


class GCELoss(WithQ, RankingLoss):
    """MultipleNegativesRankingLoss on pairs that may be wrong, by generalised cross-entropy: (1 - p^q) / q.

    Args:
        model: A SentenceTransformer.
        q: From 0 (every pair is believed: ``MultipleNegativesRankingLoss``) to 1; see ``rince.GCE``.
        scale: What cosines are multiplied with: 20 is temperature 0.05.
        temperature: The inverse of ``scale``; give one of them. 0.2 if neither is given.
        **options: ``similarity_fct``, ``gather_across_devices``, ``directions``, ``partition_mode``,
            ``hardness_mode``, ``hardness_strength`` and ``weighted``, as in ``RINCELoss``.

    Example:
        >>> loss = GCELoss(model, q=0.7)  # doctest: +SKIP
    """

    def __init__(
        self, model: Any, q: float = 0.7, scale: float | None = None, temperature: float | None = None, **options: Any
    ):
        super().__init__(model, GCE(q, temperature_of(scale, temperature)), **options)

    @property
    def citation(self) -> str:
        return GCE_CITATION


class CachedRINCELoss(CachedRanking, RINCELoss):
    """``RINCELoss`` with gradient caching: any batch size in the memory of a mini-batch, and the same gradient.

    Args:
        model: A SentenceTransformer, not a static one.
        q: As in ``RINCELoss``.
        lam: As in ``RINCELoss``.
        scale: As in ``RINCELoss``.
        temperature: As in ``RINCELoss``.
        mini_batch_size: Rows that are encoded at a time.
        mini_batch_num_tokens: Where given, mini-batches are packed by their number of tokens instead.
        show_progress_bar: Whether encoding shows its progress.
        **options: The other arguments of ``RINCELoss``.

    Example:
        >>> loss = CachedRINCELoss(model, q=0.5, mini_batch_size=32)  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Any,
        q: float = 0.5,
        lam: Lam = "balanced",
        scale: float | None = None,
        temperature: float | None = None,
        mini_batch_size: int = 32,
        mini_batch_num_tokens: int | None = None,
        show_progress_bar: bool = False,
        **options: Any,
    ):
        RINCELoss.__init__(self, model, q, lam, scale, temperature, **options)
        self.set_mini_batch(model, mini_batch_size, mini_batch_num_tokens, show_progress_bar)


class CachedGCELoss(CachedRanking, GCELoss):
    """``GCELoss`` with gradient caching: any batch size in the memory of a mini-batch, and the same gradient.

    Args:
        model: A SentenceTransformer, not a static one.
        q: As in ``GCELoss``.
        scale: As in ``GCELoss``.
        temperature: As in ``GCELoss``.
        mini_batch_size: Rows that are encoded at a time.
        mini_batch_num_tokens: Where given, mini-batches are packed by their number of tokens instead.
        show_progress_bar: Whether encoding shows its progress.
        **options: The other arguments of ``GCELoss``.

    Example:
        >>> loss = CachedGCELoss(model, q=0.7, mini_batch_size=32)  # doctest: +SKIP
    """

    def __init__(
        self,
        model: Any,
        q: float = 0.7,
        scale: float | None = None,
        temperature: float | None = None,
        mini_batch_size: int = 32,
        mini_batch_num_tokens: int | None = None,
        show_progress_bar: bool = False,
        **options: Any,
    ):
        GCELoss.__init__(self, model, q, scale, temperature, **options)
        self.set_mini_batch(model, mini_batch_size, mini_batch_num_tokens, show_progress_bar)


class InfoNCELoss(RankingLoss):
    """MultipleNegativesRankingLoss itself, in memory that grows with the batch instead of its square.

    Args:
        model: A SentenceTransformer.
        scale: What cosines are multiplied with; 20, as there, if neither this nor ``temperature`` is given.
        temperature: The inverse of ``scale``.
        **options: ``similarity_fct``, ``gather_across_devices``, ``directions``, ``partition_mode``,
            ``hardness_mode``, ``hardness_strength`` and ``weighted``, as in ``RINCELoss``.

    Example:
        >>> loss = InfoNCELoss(model, scale=20)  # doctest: +SKIP
    """

    def __init__(self, model: Any, scale: float | None = None, temperature: float | None = None, **options: Any):
        super().__init__(model, InfoNCE(temperature_of(scale, temperature, 0.05)), **options)


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
