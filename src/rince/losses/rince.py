"""RINCE, the loss of the paper, and the weight of the negatives in it."""

import math
import numbers
import warnings
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

import torch
from torch import Tensor

from rince.errors import UsageError
from rince.losses import objectives
from rince.losses.contrast import Contrast, Objective, Scores
from rince.losses.contrast.kernel import can_look
from rince.losses.loss import Checks, ContrastiveLoss, Reduction, check_q
from rince.losses.temperature import in_use, number_of

Scale = Literal["paper", "unit"]

LARGE = 1e4
"""Gradients of the paper's form grow like exp(q / temperature); above this they are worth a word."""


@dataclass(frozen=True)
class DensityRatio:
    """lam = r / (r + K) for an anchor with K negatives.

    A fixed lam changes its meaning with the batch. This does not: at q = 1 a pair attracts only if it is ``r`` times
    likelier than chance.

    Args:
        r: how many times likelier than chance; 1 is ``lam="balanced"``.

    Raises:
        UsageError: if r is not a positive number.

    Example:
        >>> rince.DensityRatio(1)(torch.tensor(255.0))  # 1 / 256
        tensor(0.0039)
        >>> loss = rince.RINCE(q=0.5, lam=rince.DensityRatio(2.5))
    """

    r: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.r, numbers.Real) or not 0 < self.r < math.inf:
            raise UsageError(f"the density ratio r must be a positive number, got {self.r!r}")

    def __call__(self, number: Tensor) -> Tensor:
        return self.r / (self.r + number)


def _check_lam(lam: float | DensityRatio | str) -> float | DensityRatio:
    if isinstance(lam, DensityRatio):
        return lam
    if isinstance(lam, str) and lam == "balanced":
        return DensityRatio(1)
    if not isinstance(lam, numbers.Real) or not 0 < lam <= 1:
        raise UsageError(f"lam must lie in (0, 1], or be rince.DensityRatio(r) or 'balanced', got {lam!r}")
    return float(lam)


def _check_scale(scale: Scale) -> Scale:
    if scale not in ("paper", "unit"):
        raise UsageError(f"scale must be 'paper' or 'unit', got {scale!r}")
    return scale


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
        reduction: ``"mean"`` over anchors, ``"sum"``, or ``"none"`` for one loss per anchor.

    Raises:
        UsageError: if q does not lie in [0, 1], lam not in (0, 1], or scale is neither ``"paper"`` nor ``"unit"``.

    Example:
        >>> z1, z2 = torch.randn(2, 8, 16)
        >>> rince.RINCE(q=0.5, lam="balanced", temperature=0.1, scale="unit")(z1, z2).shape
        torch.Size([])
    """

    _checks: ClassVar[Checks] = {**ContrastiveLoss._checks, "lam": _check_lam, "scale": _check_scale}

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
        self.scale, self.lam = scale, _check_lam(lam)
        self._warned = False
        self._q = check_q(q)
        self._warn_if_large()

    @property
    def q(self) -> float:
        """How little pairs that look wrong count, from 0 to 1. It can be set between steps."""
        return float(self._q)

    @q.setter
    def q(self, value: float) -> None:
        self._q = check_q(value)
        self._warn_if_large()

    def check_embeddings(self, a: Tensor) -> None:
        """Gradients of the size exp(q / temperature) / temperature have to fit into the type of the embeddings."""
        if self.scale == "unit" or not a.is_floating_point() or not can_look(self._q):
            return
        if isinstance(self.temperature, Tensor) and not can_look(self.temperature):
            return
        temperature, largest = number_of(in_use(self.temperature)), torch.finfo(a.dtype).max
        exponent = self.q / temperature - math.log(temperature)
        if exponent > math.log(largest):
            raise UsageError(
                f"RINCE with q={self.q:g} and temperature={number_of(self.temperature):g} has gradients of the size "
                f"exp(q/temperature)/temperature = {_power_of_ten(exponent)}, above the {largest:.0e} that {a.dtype} "
                "holds: use scale='unit', a smaller q or a higher temperature"
            )

    def objective(self, temperature: float | Tensor) -> Objective:
        # A shift of both scores by c is a factor exp(-q c), and keeps everything in range.
        shift = 1 / temperature if self.scale == "unit" else 0.0
        return Objective(partial(_shifted_rince, self._q, self.lam, shift))

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
            f"exp(q/temperature) = {_power_of_ten(exponent)}: "
            "use scale='unit', a smaller q or a higher temperature",
            stacklevel=3,
        )

    def extra_repr(self) -> str:
        return f"q={self.q:g}, lam={self.lam}, scale={self.scale!r}, {super().extra_repr()}"


def _shifted_rince(q: Tensor, lam: float | DensityRatio, shift: float | Tensor, scores: Scores) -> Tensor:
    lam_of_anchor = lam(scores.number) if isinstance(lam, DensityRatio) else lam
    return objectives.rince(scores.positive - shift, scores.negatives - shift, q, lam_of_anchor)


def _power_of_ten(exponent: float) -> str:
    return f"1e{exponent / math.log(10):.0f}"
