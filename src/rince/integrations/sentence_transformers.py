"""Losses for sentence-transformers: what MultipleNegativesRankingLoss does, on pairs that may be wrong.

from rince.integrations.sentence_transformers import RINCELoss
loss = RINCELoss(model)
trainer = SentenceTransformerTrainer(model=model, train_dataset=pairs, loss=loss)
"""

from collections.abc import Sequence
from typing import Any

from rince._support.optional_imports import peer
from rince.errors import UsageError
from rince.integrations.objective import Lam, WithQ, rince_objective
from rince.integrations.sentence_transformers_base import (
    GCE_CITATION,
    RINCE_CITATION,
    CachedRanking,
    RankingLoss,
    temperature_of,
)
from rince.losses import GCE, InfoNCE
from rince.losses.schedules import Schedule

_trainer = peer("transformers", "transformers")


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
        lam: Lam = "balanced",
        scale: float | None = None,
        temperature: float | None = None,
        unit: bool = True,
        **options: Any,
    ):
        super().__init__(model, rince_objective(q, lam, temperature_of(scale, temperature), unit), **options)

    @property
    def citation(self) -> str:
        """What to cite, for model cards."""
        return RINCE_CITATION


class GCELoss(WithQ, RankingLoss):
    """MultipleNegativesRankingLoss on pairs that may be wrong, by generalised cross-entropy: (1 - p^q) / q.

    Args:
        model: A SentenceTransformer.
        q: From 0 (the same as ``MultipleNegativesRankingLoss``) to 1 (most robust); see ``rince.GCE``.
        scale: What cosines are multiplied with: 20 is temperature 0.05.
        temperature: The inverse of ``scale``; give one of them. 0.2 if neither is given.
        **options: Those of ``RankingLoss``, as in ``RINCELoss``.

    Example:
        >>> loss = GCELoss(model, q=0.7)  # doctest: +SKIP
    """

    def __init__(
        self, model: Any, q: float = 0.7, scale: float | None = None, temperature: float | None = None, **options: Any
    ):
        super().__init__(model, GCE(q, temperature_of(scale, temperature)), **options)

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
        >>> loss = CachedGCELoss(model, q=0.7, mini_batch_size=32)  # doctest: +SKIP
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

    def __init__(self, model: Any, scale: float | None = None, temperature: float | None = None, **options: Any):
        super().__init__(model, InfoNCE(temperature_of(scale, temperature, 0.05)), **options)


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
