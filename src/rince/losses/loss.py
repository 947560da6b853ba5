"""The losses: a contrast, an objective, and how the losses of the anchors become one number."""

import math
import numbers
import warnings
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from rince.errors import UsageError, WrongType
from rince.losses.contrast import Contrast, Objective, Scores, Supervised, TwoView
from rince.losses.contrast.agreement import REDUCTIONS, one_call, processes
from rince.losses.contrast.contrast import check_dense
from rince.losses.contrast.gather import total
from rince.losses.contrast.kernel import can_look
from rince.losses.contrast.scores import as_objective
from rince.losses.facts import known_of
from rince.losses.temperature import LEAST_TEMPERATURE, check_new_temperature, check_temperature, in_use, number_of

Reduction = Literal["mean", "sum", "none"]
Checks = Mapping[str, Callable[[Any], Any]]

MOST_WEIGHT = 1e30
"""What the weights of a batch may add up to: float32 ends at 3e38, and losses times weights have to fit as well."""


def check_contrast(contrast: Contrast) -> Contrast:
    """A contrast, not its class or its name."""
    if not isinstance(contrast, Contrast):
        kind = contrast.__name__ if isinstance(contrast, type) else type(contrast).__name__
        raise WrongType(f"contrast must be a rince contrast such as rince.TwoView(), got {kind}")
    return contrast


def check_reduction(reduction: Reduction) -> Reduction:
    if reduction not in REDUCTIONS:
        raise UsageError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
    return reduction


class ContrastiveLoss(nn.Module):
    """Any objective on any contrast.

    Call it with two matrices of embeddings, one row per pair, of any scale: ``loss(z1, z2)``. Optional, with one value
    per pair: ``labels`` (integers, for ``Supervised``), ``ids`` (integers; pairs of equal id are no negatives of each
    other) and ``weights`` (numbers from 0 up, which get no gradient; the mean is then a weighted one). A ``contrast``
    in a call takes the place of the loss's own for that call, so that several models can share a loss.

    On several processes every process gives its own pairs, as many as it has, and candidates come from all of them. The
    average of the returned losses over the processes, and so the gradient that DistributedDataParallel forms, is what
    one process would get for the joined batch; ``"none"`` gives the anchors of this process. All processes have to call
    the loss, also to evaluate it, and all or none of them ``backward``.

    Args:
        objective: a function of ``(positive, negatives)`` or of ``Scores``, elementwise; or an ``Objective``, which
            also says what it needs. See ``rince.losses.objectives``.
        temperature: what cosines are divided by: a positive number, or a parameter to learn it. A learned one counts
            as at least ``rince.losses.temperature.LEAST_TEMPERATURE``, 0.01, and can rise again from there.
        contrast: who is whose positive and negative; ``TwoView()`` if nothing is said.
        reduction: ``"mean"`` over anchors, ``"sum"``, or ``"none"`` for one loss per anchor.

    Raises:
        UsageError: if the temperature is not positive or the reduction is none of the three, also where they are set
            later, ``loss.temperature = 0.2``.
        TypeError: if the contrast is not one of rince's, or the objective cannot be called.

    Example:
        A margin on top of InfoNCE:

        >>> def margin(positive, negatives):
        ...     return torch.nn.functional.softplus(negatives - positive + 0.5)
        >>> loss = rince.ContrastiveLoss(margin, temperature=0.1, contrast=rince.CrossView())
        >>> loss(torch.randn(8, 16), torch.randn(8, 16)).shape
        torch.Size([])
    """

    _checks: ClassVar[Checks] = {  # by setting, whenever it is set
        "temperature": check_new_temperature,
        "contrast": check_contrast,
        "reduction": check_reduction,
    }

    def __init__(
        self,
        objective: Objective | Callable[[Tensor, Tensor], Tensor] | Callable[[Scores], Tensor],
        temperature: float | Tensor = 0.5,
        contrast: Contrast | None = None,
        reduction: Reduction = "mean",
    ):
        super().__init__()
        self._objective = as_objective(objective)
        self._noted = self._noted_temperature = False
        self.temperature = check_temperature(temperature)
        self.chose_contrast = contrast is not None
        self.contrast = TwoView() if contrast is None else contrast
        self.reduction = reduction

    def __setattr__(self, name: str, value: Tensor | nn.Module) -> None:
        check = self._checks.get(name)
        super().__setattr__(name, value if check is None else check(value))

    def objective(self, temperature: float | Tensor) -> Objective:
        """The objective with the settings of this moment: parts are computed again in the backward pass, unchanged."""
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
        contrast = self.contrast if contrast is None else contrast
        with self._agreed(a, weights, contrast), _full_precision(a):
            check_contrast(contrast)
            if labels is not None and not isinstance(contrast, Supervised):
                self._note_labels(contrast)
            temperature = in_use(self.temperature)
            self._note_temperature()
            if isinstance(a, Tensor):  # the contrast refuses it otherwise
                check_dense("first", a)
                self.check_embeddings(a)
                weights = _check_weights(weights, a)
            loss, takes_part = contrast.losses(self.objective(temperature), a, b, temperature, labels, ids)
            if weights is not None:
                weights = weights.to(loss).repeat(loss.shape[0] // max(1, a.shape[0]))
            if takes_part is not None:
                weights = takes_part.to(loss.dtype) if weights is None else weights * takes_part
            return self._reduce(loss, weights)

    def check_embeddings(self, a: Tensor) -> None:
        """Refuses, by a ``UsageError``, embeddings that a loss cannot serve."""

    def _agreed(self, a: Tensor, weights: Tensor | None, contrast: Contrast) -> AbstractContextManager[None]:
        if processes() == 1:
            return nullcontext()
        return one_call(a.device if isinstance(a, Tensor) else None, partial(known_of, self, contrast, weights))

    def _note_labels(self, contrast: Contrast) -> None:
        if not self._noted:
            self._noted = True
            warnings.warn(f"labels mean nothing to {type(contrast).__name__}: did you want rince.Supervised()?")

    def _note_temperature(self) -> None:
        if not isinstance(self.temperature, Tensor) or not can_look(self.temperature) or self._noted_temperature:
            return
        if number_of(self.temperature) < LEAST_TEMPERATURE:
            self._noted_temperature = True
            warnings.warn(
                f"the learned temperature has fallen to {number_of(self.temperature):g} and counts as "
                f"{LEAST_TEMPERATURE}: start it higher or lower its learning rate"
            )

    def _reduce(self, loss: Tensor, weights: Tensor | None) -> Tensor:
        if weights is not None:
            loss = loss * weights
        if self.reduction == "none":
            return loss
        # The factor makes up for the average over processes that follows.
        if self.reduction == "sum":
            return loss.sum() * processes()
        anchors = total(loss.new_tensor(loss.shape[0]) if weights is None else weights.sum())
        return loss.sum() * (processes() / torch.where(anchors == 0, 1, anchors))

    def scores(
        self,
        a: Tensor,
        b: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        ids: Tensor | None = None,
        contrast: Contrast | None = None,
    ) -> tuple[Tensor, Tensor]:
        """The two halves of the loss for every anchor: the positive score, and the log-sum-exp of the negative ones.

        Both are over the temperature. (``Supervised``: for every pair of anchor and positive.)
        """
        contrast = self.contrast if contrast is None else check_contrast(contrast)
        with _full_precision(a):
            scores = contrast(a, b, in_use(self.temperature), labels, ids)
        return scores.positive, scores.negatives

    def extra_repr(self) -> str:
        return f"temperature={number_of(in_use(self.temperature)):g}, reduction={self.reduction!r}"


def check_number(
    name: str, value: float, least: float | None = None, above: float | None = None, below: float = math.inf
) -> float:
    """A finite number of at least ``least`` (or above ``above``) and below ``below``."""
    if not isinstance(value, numbers.Real):
        raise WrongType(f"{name} must be a number, got {type(value).__name__}")
    low = above if least is None else least
    if low is None or not (low <= value < below) or value == above:
        bounds = "[" if least is not None else "("
        raise UsageError(f"{name} must lie in {bounds}{low:g}, {below:g}), got {value!r}")
    return float(value)


def check_q(q: float) -> Tensor:
    """A q in [0, 1], as a tensor: a compiled loss takes its new value without compiling again."""
    if not isinstance(q, numbers.Real):
        raise WrongType(f"q must be a number in [0, 1], got {type(q).__name__}")
    if not 0 <= q <= 1:
        raise UsageError(f"q must lie in [0, 1], got {q!r}")
    return torch.tensor(float(q), dtype=torch.float64, device="cpu")


def _check_weights(weights: Tensor | None, a: Tensor) -> Tensor | None:
    if weights is None:
        return None
    if not isinstance(weights, Tensor):
        raise WrongType(f"weights must be a tensor, got {type(weights).__name__}")
    if weights.shape != a.shape[:1]:
        raise UsageError(f"weights must have one value per pair: expected ({a.shape[0]},), got {tuple(weights.shape)}")
    if weights.is_complex():
        raise WrongType(f"weights must be real numbers, got {weights.dtype}")
    if can_look(weights):
        bad = weights[~((weights >= 0) & (weights < torch.inf))]
        if len(bad):
            raise UsageError(f"weights must be finite and not negative, got {float(bad[0]):g}")
        whole = float(weights.detach().sum(dtype=torch.float64))
        if whole > MOST_WEIGHT:
            raise UsageError(
                f"weights must add up to {MOST_WEIGHT:g} at most, got {whole:g}: divide them by the largest"
            )
    return weights.detach()


def _full_precision(a: Tensor) -> AbstractContextManager[Any]:
    """Scores need float32: at temperature 0.05 a bfloat16 cosine is off by a factor of 1.1 after the exponential."""
    device = a.device.type if isinstance(a, Tensor) else "cpu"
    return torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()
