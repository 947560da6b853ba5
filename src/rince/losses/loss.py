"""The losses: a contrast, an objective, and how the losses of the anchors become one number."""

import math
import numbers
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from torch import Tensor, nn

from rince.losses import objectives
from rince.losses.contrast import Contrast, Supervised, TwoView
from rince.losses.contrast.contrast import Objective
from rince.losses.contrast.gather import processes, total
from rince.losses.contrast.kernel import can_look
from rince.losses.temperature import LEAST_TEMPERATURE, check_temperature, in_use, number_of

Reduction = Literal["mean", "sum", "none"]
Scale = Literal["paper", "unit"]

LARGE = 1e4
"""Gradients of the paper's form grow like exp(q / temperature); above this they are worth a word."""


class ContrastiveLoss(nn.Module):
    """Any objective on any contrast.

    Args:
        objective: a function of ``(positive, negatives)``, elementwise; see ``rince.losses.objectives``.
        temperature: what cosines are divided by: a positive number, or a parameter to learn it. A learned one counts
            as at least ``rince.losses.temperature.LEAST_TEMPERATURE``, 0.01, and can rise again from there.
        contrast: who is whose positive and negative; ``TwoView()`` if nothing is said.
        reduction: ``"mean"`` over anchors, ``"sum"``, or ``"none"`` for one loss an anchor.

    Call it with two matrices of embeddings, one pair a row, of any scale: ``loss(z1, z2)``. Optional, one value a pair:
    ``labels`` (integers, for ``Supervised``), ``ids`` (integers; pairs of equal id are no negatives of each other) and
    ``weights`` (numbers from 0 up, which get no gradient; the mean is then a weighted one).

    On several processes every process gives its own pairs, as many as it has, and candidates come from all of them. The
    average of the returned losses over the processes, and so the gradient that DistributedDataParallel forms, is what
    one process would get for the joined batch; ``"none"`` gives the anchors of this process. All processes have to call
    the loss, also to evaluate it, and all or none of them ``backward``.
    """

    def __init__(
        self,
        objective: Callable[[Tensor, Tensor], Tensor],
        temperature: float | Tensor = 0.5,
        contrast: Contrast | None = None,
        reduction: Reduction = "mean",
    ):
        super().__init__()
        if not callable(objective):
            raise TypeError(f"objective must be a function of (positive, negatives), got {type(objective).__name__}")
        if contrast is not None and not isinstance(contrast, Contrast):
            raise TypeError(f"contrast must be a rince contrast such as rince.TwoView(), got {type(contrast).__name__}")
        if reduction not in ("mean", "sum", "none"):
            raise ValueError(f"reduction must be 'mean', 'sum' or 'none', got {reduction!r}")
        self._objective = objective
        self._noted = self._noted_temperature = False
        self.temperature = check_temperature(temperature)
        self.contrast = TwoView() if contrast is None else contrast
        self.reduction = reduction

    def objective(self, temperature: float | Tensor) -> Objective:
        """The objective with the settings of this moment: parts are computed again in the backward pass, unchanged."""
        return partial(_without_number, self._objective)

    def forward(
        self,
        a: Tensor,
        b: Tensor | None = None,
        *,
        labels: Tensor | None = None,
        ids: Tensor | None = None,
        weights: Tensor | None = None,
    ) -> Tensor:
        if labels is not None and not isinstance(self.contrast, Supervised):
            self._note_labels()
        temperature = in_use(self.temperature)
        self._note_temperature()
        with _full_precision(a):
            loss, takes_part = self.contrast.losses(self.objective(temperature), a, b, temperature, labels, ids)
            weights = _check_weights(weights, a)
            if weights is not None:
                weights = weights.to(loss).repeat(loss.shape[0] // max(1, a.shape[0]))
            if takes_part is not None:
                weights = takes_part.to(loss.dtype) if weights is None else weights * takes_part
            return self._reduce(loss, weights)

    def _note_labels(self) -> None:
        if not self._noted:
            self._noted = True
            warnings.warn(f"labels mean nothing to {type(self.contrast).__name__}: did you want rince.Supervised()?")

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
    ) -> tuple[Tensor, Tensor]:
        """The two halves of the loss for every anchor: the positive score, and the log-sum-exp of the negative ones.

        Both are over the temperature. (``Supervised``: for every pair of anchor and positive.)
        """
        with _full_precision(a):
            scores = self.contrast(a, b, in_use(self.temperature), labels, ids)
        return scores.positive, scores.negatives

    def extra_repr(self) -> str:
        return f"temperature={number_of(in_use(self.temperature)):g}, reduction={self.reduction!r}"


class InfoNCE(ContrastiveLoss):
    """-log(pos / (pos + neg)): the usual contrastive loss, best where pairs can be trusted."""

    def __init__(
        self, temperature: float | Tensor = 0.5, contrast: Contrast | None = None, reduction: Reduction = "mean"
    ):
        super().__init__(objectives.info_nce, temperature, contrast, reduction)


@dataclass(frozen=True)
class DensityRatio:
    """lam = r / (r + K) for an anchor with K negatives.

    A fixed lam changes its meaning with the batch. This does not: at q = 1 a pair attracts only if it is ``r`` times
    likelier than chance.
    """

    r: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.r, numbers.Real) or not 0 < self.r < math.inf:
            raise ValueError(f"the density ratio r must be a positive number, got {self.r!r}")

    def __call__(self, number: Tensor) -> Tensor:
        return self.r / (self.r + number)


class RINCE(ContrastiveLoss):
    """-pos^q / q + (lam (pos + neg))^q / q: a drop-in for InfoNCE that survives wrong pairs.

    Args:
        q: from 0 (InfoNCE: hard pairs pull most) to 1 (symmetric: pairs that look wrong hardly pull). It can be set
            between steps, ``loss.q = 0.3``; see ``rince.losses.schedules``.
        lam: the weight of the negatives in (0, 1]; or ``DensityRatio(r)``, or ``"balanced"`` for ``DensityRatio(1)``,
            which follow the number of negatives.
        temperature: what cosines are divided by: a positive number, or a parameter to learn it.
        contrast: who is whose positive and negative; ``TwoView()`` if nothing is said.
        scale: ``"paper"``, or ``"unit"`` for the same times exp(-q / temperature), which keeps gradients of the size of
            InfoNCE's: a learning rate carries over, and no temperature is too low.
        reduction: ``"mean"`` over anchors, ``"sum"``, or ``"none"`` for one loss an anchor.
    """

    def __init__(
        self,
        q: float = 0.5,
        lam: float | DensityRatio | Literal["balanced"] = 0.01,
        temperature: float | Tensor = 0.5,
        contrast: Contrast | None = None,
        scale: Scale = "paper",
        reduction: Reduction = "mean",
    ):
        super().__init__(objectives.rince, temperature, contrast, reduction)
        if scale not in ("paper", "unit"):
            raise ValueError(f"scale must be 'paper' or 'unit', got {scale!r}")
        self.scale = scale
        self.lam = _check_lam(lam)
        self._warned = False
        self._q = _check_q(q)
        self._warn_if_large()

    @property
    def q(self) -> float:
        return float(self._q)

    @q.setter
    def q(self, value: float) -> None:
        self._q = _check_q(value)
        self._warn_if_large()

    def objective(self, temperature: float | Tensor) -> Objective:
        # A shift of both scores by c is a factor exp(-q c), and keeps everything in range.
        shift = 1 / temperature if self.scale == "unit" else 0.0
        return partial(_shifted_rince, self._q, self.lam, shift)

    def _warn_if_large(self) -> None:
        exponent = self.q / number_of(in_use(self.temperature))
        if self.scale == "unit" or self._warned:
            return
        if self.q > 0 and isinstance(self.temperature, Tensor) and self.temperature.requires_grad:
            self._warned = True
            warnings.warn(
                "RINCE with scale='paper' falls without bound as a learned temperature goes to 0, and will drive it "
                "there: use scale='unit'",
                stacklevel=3,
            )
            return
        if exponent <= math.log(LARGE):
            return
        self._warned = True
        warnings.warn(
            f"RINCE with q={self.q:g} and temperature={number_of(self.temperature):g} has gradients of the size "
            f"exp(q/temperature) = 1e{exponent / math.log(10):.0f}: "
            "use scale='unit', a smaller q or a higher temperature",
            stacklevel=3,
        )

    def extra_repr(self) -> str:
        return f"q={self.q:g}, lam={self.lam}, scale={self.scale!r}, {super().extra_repr()}"


def _without_number(
    objective: Callable[[Tensor, Tensor], Tensor], positive: Tensor, negatives: Tensor, _: Tensor
) -> Tensor:
    return objective(positive, negatives)


def _shifted_rince(
    q: Tensor, lam: float | DensityRatio, shift: float | Tensor, positive: Tensor, negatives: Tensor, number: Tensor
) -> Tensor:
    lam_of_anchor = lam(number) if isinstance(lam, DensityRatio) else lam
    return objectives.rince(positive - shift, negatives - shift, q, lam_of_anchor)


def _check_q(q: float) -> Tensor:
    if not isinstance(q, numbers.Real):
        raise TypeError(f"q must be a number in [0, 1], got {type(q).__name__}")
    if not 0 <= q <= 1:
        raise ValueError(f"q must lie in [0, 1], got {q!r}")
    return torch.tensor(float(q), dtype=torch.float64, device="cpu")


def _check_lam(lam: float | DensityRatio | str) -> float | DensityRatio:
    if isinstance(lam, DensityRatio):
        return lam
    if isinstance(lam, str) and lam == "balanced":
        return DensityRatio(1)
    if not isinstance(lam, numbers.Real) or not 0 < lam <= 1:
        raise ValueError(f"lam must lie in (0, 1], or be rince.DensityRatio(r) or 'balanced', got {lam!r}")
    return float(lam)


def _check_weights(weights: Tensor | None, a: Tensor) -> Tensor | None:
    if weights is None:
        return None
    if not isinstance(weights, Tensor):
        raise TypeError(f"weights must be a tensor, got {type(weights).__name__}")
    if weights.shape != a.shape[:1]:
        raise ValueError(f"weights must have one value a pair: expected ({a.shape[0]},), got {tuple(weights.shape)}")
    if weights.is_complex():
        raise TypeError(f"weights must be real numbers, got {weights.dtype}")
    if can_look(weights):
        bad = weights[~((weights >= 0) & (weights < torch.inf))]
        if len(bad):
            raise ValueError(f"weights must be finite and not negative, got {float(bad[0]):g}")
    return weights.detach()


def _full_precision(a: Tensor) -> torch.autocast:
    """Scores need float32: at temperature 0.05 a bfloat16 cosine is off by a factor of 1.1 after the exponential."""
    device = a.device.type if isinstance(a, Tensor) else "cpu"
    return torch.autocast(device, enabled=False)
