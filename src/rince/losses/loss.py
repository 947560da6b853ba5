"""The general loss: a contrast, an objective and a reduction."""

import importlib
import math
import numbers
import os
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from rince.errors import UsageError, WrongType
from rince.losses.contrasts import Contrast, CrossView, TwoView
from rince.losses.inputs import (
    check_pair,
    check_per_pair,
    check_weights,
    full_precision,
    transformed,
)
from rince.losses.objectives import ExtraReduction, Objective, Scores, as_objective, info_nce
from rince.losses.ranks import one_call, processes, total
from rince.losses.small_batches import SmallBatch, is_small, small_batch_loss
from rince.losses.supervised import Supervised
from rince.losses.temperature import (
    LEAST_TEMPERATURE,
    LearnedTemperature,
    Temperature,
    check_temperature,
    in_use,
    number_of,
    readable,
)

Reduction = Literal["mean", "sum", "none"]
Checks = Mapping[str, Callable[[Any], Any]]


def check_contrast(contrast: Contrast) -> Contrast:
    """Raise an error for the class or name of a contrast."""
    if not isinstance(contrast, Contrast):
        kind = contrast.__name__ if isinstance(contrast, type) else type(contrast).__name__
        raise WrongType(f"contrast must be a rince contrast such as rince.TwoView(), got {kind}")
    return contrast


def check_reduction(reduction: Reduction) -> Reduction:
    if reduction not in ("mean", "sum", "none"):
        raise UsageError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    return reduction


class ContrastiveLoss(nn.Module):
    """Any objective on any contrast.

    Call it with two matrices of embeddings, one row per pair, of any scale: ``loss(z1, z2)``. Optional, with one value
    per pair: ``labels`` (integers, for ``Supervised``), ``ids`` (integers; pairs with equal ids are not negatives of
    each other) and ``weights`` (in [0, 1], or any numbers from 0 up; no gradient; the mean is then weighted). A
    ``contrast`` in a call replaces that of the loss for this call, so that several models can share a loss.

    On several ranks, every rank passes its own pairs, of any number, and candidates come from all ranks. The average of
    the returned losses over the ranks, and so the gradient in DistributedDataParallel, is that of one process with the
    joined batch; ``"none"`` returns the anchors of this rank. All ranks have to call the loss, also for evaluation, and
    either all of them call ``backward`` or none.

    Args:
        objective: An elementwise function of ``(positive, negatives)`` or of ``Scores``, or an ``Objective``. See
            ``rince.losses.objectives``. Not needed by a subclass that overrides the method ``objective``.
        temperature: Softmax temperature: a positive float, ``LearnedTemperature()``, or an ``nn.Parameter``, which
            counts as at least 0.01. Default: 0.2.
        contrast: How positives and negatives are formed. Default: ``TwoView()``.
        reduction: ``"mean"`` over anchors, ``"sum"``, or ``"none"`` for one value per anchor.

    Raises:
        UsageError: If the temperature is not positive or the reduction is unknown, also if they are set later,
            ``loss.temperature = 0.1``.
        TypeError: If the contrast is not one of rince, or the objective is not callable.

    Example:
        A margin on top of InfoNCE:

        >>> def margin(positive, negatives):
        ...     return torch.nn.functional.softplus(negatives - positive + 0.5)
        >>> loss = rince.ContrastiveLoss(margin, temperature=0.1, contrast=rince.CrossView())
        >>> loss(torch.randn(8, 16), torch.randn(8, 16)).shape
        torch.Size([])
    """

    _checks: ClassVar[Checks] = {  # by setting, run at every assignment
        "temperature": check_temperature,
        "contrast": check_contrast,
        "reduction": check_reduction,
    }
    keep_components: bool = False
    _components: Scores | None = None
    _component_weights: Tensor | None = None

    def __init__(
        self,
        objective: Objective | Callable[[Tensor, Tensor], Tensor] | Callable[[Scores], Tensor] | None = None,
        *,
        temperature: Temperature = 0.2,
        contrast: Contrast | None = None,
        reduction: Reduction = "mean",
    ):
        super().__init__()
        self._objective = None if objective is None else as_objective(objective)
        self._noted = self._noted_temperature = False
        self.temperature = temperature
        self.chose_contrast = contrast is not None
        self.contrast = TwoView() if contrast is None else contrast
        self.reduction = reduction

    def __setattr__(self, name: str, value: Any) -> None:
        check = self._checks.get(name)
        if check is not None:
            value = check(value)
            if name == "temperature":  # a number, a parameter and a module are stored in three different places
                if not isinstance(value, nn.Parameter):  # replaced in place: fully_shard wants parameters in order
                    self._parameters.pop(name, None)
                self._modules.pop(name, None)
                self.__dict__.pop(name, None)
        super().__setattr__(name, value)
        if check is not None:
            self._settings_changed()

    def _settings_changed(self) -> None:
        """Called after a setting changes. Subclasses check combinations of settings."""

    def objective(self, temperature: float | Tensor) -> Objective:
        """The objective with the current settings, which stay fixed for recomputation in the backward pass."""
        if self._objective is None:
            raise WrongType(f"{type(self).__name__} needs an objective: pass one, or override its method objective()")
        return self._objective

    def forward(
        self,
        a: Tensor,
        b: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        ids: Tensor | None = None,
        weights: Tensor | None = None,
        contrast: Contrast | None = None,
    ) -> Tensor:
        if isinstance(a, Tensor) and a.dim() == 2 and b is not None and labels is None and processes() == 1:
            batch = self._small_batch(a, b, ids, weights, self.contrast if contrast is None else contrast)
            if batch is not None:
                with full_precision(a):
                    return small_batch_loss(a, b, batch)
        return self._forward(a, b, labels, ids, weights, contrast)

    def _small_batch(
        self, a: Tensor, b: Tensor, ids: Tensor | None, weights: Tensor | None, contrast: Contrast
    ) -> SmallBatch | None:
        """The batch, if value and gradient can be computed in one step."""
        kind, temperature = type(contrast), self.temperature
        two_view = kind is TwoView
        if not (two_view or kind is CrossView) or type(temperature) is not float or self.reduction == "none":
            return None
        if contrast.precision != "highest" or os.environ.get("RINCE_KERNEL") == "triton":
            return None
        if not is_small(a, temperature, two_view) or self.keep_components or transformed():
            return None
        objective = self.objective(temperature)
        if objective.gradient is None:
            return None
        check_pair(a, b)
        self.check_embeddings(a)
        return SmallBatch(
            gradient=objective.gradient,
            needs_count=objective.needs_count,
            temperature=temperature,
            two_view=two_view,
            symmetric=two_view or contrast.symmetric,  # type: ignore[arg-type]
            mean=self.reduction == "mean",
            ids=check_per_pair("ids", ids, a),
            weights=check_weights(weights, a),
            differentiable=partial(self._forward, labels=None, ids=ids, weights=weights, contrast=contrast),
        )

    def _forward(
        self,
        a: Tensor,
        b: Tensor | None,
        labels: Tensor | None,
        ids: Tensor | None,
        weights: Tensor | None,
        contrast: Contrast | None,
    ) -> Tensor:
        contrast = self.contrast if contrast is None else contrast
        with one_call(self, contrast, weights), full_precision(a):
            check_contrast(contrast)
            if labels is not None and not isinstance(contrast, Supervised):
                self._note_labels(contrast)
            temperature = in_use(self.temperature)
            self._note_temperature()
            if isinstance(a, Tensor):  # otherwise the contrast rejects it
                self.check_embeddings(a)
                weights = check_weights(weights, a)
            objective = self.objective(temperature)
            if self.keep_components:
                objective = self._recording(objective, contrast)
            loss, takes_part = contrast.losses(objective, a, b, temperature, labels, ids)
            if weights is not None:
                weights = weights.to(loss).repeat(loss.shape[0] // max(1, a.shape[0]))
            if takes_part is not None:
                weights = takes_part.to(loss.dtype) if weights is None else weights * takes_part
            if self.keep_components:
                self._component_weights = weights
            return self._reduce(loss, weights)

    def check_embeddings(self, a: Tensor) -> None:
        """Raise a ``UsageError`` for embeddings that the loss cannot handle."""

    def _note_labels(self, contrast: Contrast) -> None:
        if not self._noted:
            self._noted = True
            warnings.warn(f"{type(contrast).__name__} ignores labels: did you mean rince.Supervised()?")

    def _note_temperature(self) -> None:
        if not isinstance(self.temperature, Tensor) or not readable(self.temperature) or self._noted_temperature:
            return
        if number_of(self.temperature) < LEAST_TEMPERATURE:
            self._noted_temperature = True
            warnings.warn(
                f"the learned temperature has fallen to {number_of(self.temperature):g} and counts as "
                f"{LEAST_TEMPERATURE}: use rince.LearnedTemperature(), start it higher or lower its learning rate"
            )

    def _reduce(self, loss: Tensor, weights: Tensor | None) -> Tensor:
        if self.reduction == "none":
            return loss if weights is None else loss * weights
        # The factor makes up for the average over ranks that follows.
        if self.reduction == "sum":
            return (loss if weights is None else loss * weights).sum() * processes()
        anchors = total(loss.new_tensor(loss.shape[0]) if weights is None else weights.sum())
        anchors = torch.where(anchors == 0, 1, anchors)
        if weights is None:
            return loss.sum() * (processes() / anchors)
        return (loss * (weights / anchors)).sum() * processes()  # the inverse of a tiny sum would not be finite

    def scores(
        self,
        a: Tensor,
        b: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        ids: Tensor | None = None,
        contrast: Contrast | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Positive score and log-sum-exp of the negative scores of every anchor, both over the temperature.

        (``Supervised``: of every pair of anchor and positive.)
        """
        contrast = self.contrast if contrast is None else check_contrast(contrast)
        with full_precision(a):
            scores = contrast(a, b, in_use(self.temperature), labels, ids)
        return scores.positive, scores.negatives

    def _recording(self, objective: Objective, contrast: Contrast) -> Objective:
        """The same objective, which also records its scores."""
        self._components = None
        extra = objective.extra
        if extra is None and not isinstance(contrast, Supervised) and not objective.one_positive:
            extra = ExtraReduction("hard_negatives", beta=1.0)  # log of sum(e^2s) / sum(e^s)

        def record(scores: Scores) -> Tensor:
            if self._components is None or not isinstance(contrast, Supervised):
                self._components = Scores(*(None if x is None else x.detach() for x in scores))  # type: ignore[arg-type]
            return objective.function(scores._replace(extra=None) if objective.extra is None else scores)

        return Objective(record, extra, objective.one_positive)

    def components(self) -> dict[str, Tensor]:
        """Quantities of the last call for a logger, detached. Set ``loss.keep_components = True`` before that call.

        Returns:
            Scalars: ``positive`` and ``negative``, the mean scores (cosine over temperature; of negatives, the
            log-mean-exp); ``probability``, the mean softmax probability of the positive; ``weight``, the mean weight;
            ``effective_negatives``, the mean of (sum of e^s)^2 / (sum of e^2s) over negatives s, at most their number;
            ``downweighted``, the share of anchors whose weight in the gradient, compared with ``InfoNCE``, is below
            half of the largest one in the batch. ``Supervised``: of the first block of anchors, without
            ``effective_negatives``.

        Raises:
            UsageError: If ``keep_components`` was not set.

        Example:
            >>> loss = rince.GCE(contrast=rince.CrossView())
            >>> loss.keep_components = True
            >>> value = loss(torch.randn(8, 16), torch.randn(8, 16))
            >>> sorted(loss.components())
            ['downweighted', 'effective_negatives', 'negative', 'positive', 'probability', 'weight']
        """
        scores, weights = self._components, self._component_weights
        if scores is None:
            raise UsageError("no components are recorded: set loss.keep_components = True and call the loss")
        ones = torch.ones_like(scores.positive)
        weights = ones if weights is None or weights.shape != ones.shape else weights
        mean = scores.negatives - scores.num_negatives.clamp_min(1).log()
        has_negatives = scores.num_negatives > 0
        result = {
            "positive": scores.positive.mean(),
            "negative": torch.where(has_negatives, mean, 0).sum() / has_negatives.sum().clamp_min(1),
            "probability": (-info_nce(scores.positive, scores.negatives)).exp().mean(),
            "weight": weights.mean(),
        }
        objective = self.objective(in_use(self.temperature))
        if objective.extra is None and scores.extra is not None:
            result["effective_negatives"] = (scores.negatives - scores.extra).exp().nan_to_num(0.0).mean()
        with torch.enable_grad():
            positive = scores.positive.clone().requires_grad_()
            pull = torch.autograd.grad(objective.function(scores._replace(positive=positive)).sum(), positive)[0]
        usual = torch.sigmoid(scores.negatives - scores.positive)  # minus the derivative of InfoNCE
        share = torch.where(usual > 0, -pull / usual, 0) * weights
        result["downweighted"] = (share < 0.5 * share.max()).to(scores.positive.dtype).mean()
        return result

    def extra_repr(self) -> str:
        own = self.temperature
        value = f"{number_of(in_use(own)):g}" if not isinstance(own, Tensor) or readable(own) else "learned"
        prefix = "" if isinstance(own, LearnedTemperature) else f"temperature={value}, "
        return f"{prefix}reduction={self.reduction!r}"


def check_number(
    name: str, value: float, least: float | None = None, above: float | None = None, below: float = math.inf
) -> float:
    """A finite number of at least ``least`` (or above ``above``) and below ``below``."""
    if not isinstance(value, numbers.Real):
        raise WrongType(f"{name} must be a number, got {type(value).__name__}")
    low = above if least is None else least
    if low is None or not (low <= value < below) or value == above:
        bounds = "[" if least is not None else "("
        raise UsageError(f"{name} must be in {bounds}{low:g}, {below:g}), got {value!r}")
    return float(value)


class HasQ:
    """The setting q of a loss. It can be changed between steps."""

    _q_value: float
    _q: Tensor  # the same for compiled code, which takes a new value without recompiling
    _settings_changed: Callable[[], None]

    @property
    def q(self) -> float:
        """Robustness, from 0 (InfoNCE) to 1. It can be set between steps."""
        return self._q_value

    @q.setter
    def q(self, q: float) -> None:
        if not isinstance(q, numbers.Real):
            raise WrongType(f"q must be a number in [0, 1], got {type(q).__name__}")
        if not 0 <= q <= 1:
            raise UsageError(f"q must be in [0, 1], got {q!r}")
        self._q_value = float(q)
        self._q = torch.tensor(float(q), dtype=torch.float64, device="cpu")
        self._settings_changed()

    def _current_q(self) -> float | Tensor:
        return self._q if torch.compiler.is_compiling() else self._q_value


def named_loss(
    kind: str, arguments: Mapping[str, Any], temperature: float, contrast: Contrast | None = None
) -> ContrastiveLoss:
    """A loss from the name of its class and plain values, as tables and configurations hold them.

    Args:
        kind: Name of a class of ``rince.losses``, such as ``"GCE"``.
        arguments: Its other arguments; a ``lam`` may be written as in a configuration,
            ``{"class_path": "rince.DensityRatio", "init_args": {"r": 2.5}}``.
        temperature: Softmax temperature.
        contrast: How positives and negatives are formed. Default: that of the loss.

    Returns:
        The loss.

    Example:
        >>> rince.losses.named_loss("GCE", {"q": 0.5}, temperature=0.1).q
        0.5
    """
    losses = importlib.import_module("rince.losses")  # all losses are subclasses of the one above
    values = dict(arguments)
    if isinstance(lam := values.get("lam"), Mapping):
        values["lam"] = losses.DensityRatio(**lam["init_args"])
    loss: ContrastiveLoss = getattr(losses, kind)(**values, temperature=temperature, contrast=contrast)
    return loss
