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
from rince.losses.contrasts import Contrast
from rince.losses.inputs import transformed
from rince.losses.loss import Checks, ContrastiveLoss, HasQ, Reduction
from rince.losses.objectives import Objective, Scores
from rince.losses.temperature import LearnedTemperature, Temperature, in_use, number_of, readable

Scale = Literal["paper", "unit"]

LARGE = 1e4
"""Gradients of the paper's form grow like exp(q / temperature); above this value, the loss warns."""


@dataclass(frozen=True)
class DensityRatio:
    """lam = r / (r + K) for an anchor with K negatives.

    The effect of a fixed lam depends on the batch size, that of a density ratio does not: at q = 1 a pair attracts only
    if it is at least ``r`` times likelier than chance.

    Args:
        r: Density ratio, positive. Default: 1, the same as ``lam="balanced"``.

    Raises:
        UsageError: If r is not positive.

    Example:
        >>> rince.DensityRatio(1)(torch.tensor(255.0))  # 1 / 256
        tensor(0.0039)
        >>> loss = rince.RINCE(q=0.5, lam=rince.DensityRatio(2.5))
    """

    r: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.r, numbers.Real) or not 0 < self.r < math.inf:
            raise UsageError(f"the density ratio r must be a positive number, got {self.r!r}")

    def __call__(self, num_negatives: float | Tensor) -> float | Tensor:
        return self.r / (self.r + num_negatives)


DEFAULT_LAM = DensityRatio(2.5)


def _check_lam(lam: float | DensityRatio | str) -> float | DensityRatio:
    if isinstance(lam, DensityRatio):
        return lam
    if isinstance(lam, str) and lam == "balanced":
        return DensityRatio(1)
    if not isinstance(lam, numbers.Real) or not 0 < lam <= 1:
        raise UsageError(f"lam must be in (0, 1], or be rince.DensityRatio(r) or 'balanced', got {lam!r}")
    return float(lam)


def _check_scale(scale: Scale) -> Scale:
    if scale not in ("paper", "unit"):
        raise UsageError(f"scale must be 'paper' or 'unit', got {scale!r}")
    return scale


class RINCE(HasQ, ContrastiveLoss):
    """-pos^q / q + (lam (pos + neg))^q / q: robust to wrong pairs (Chuang et al. 2022).

    The defaults train two towers and SimCLR out of the box. ``RINCE.paper()`` has the values of the paper.

    Args:
        q: Robustness, from 0 (InfoNCE: hard pairs get the largest gradients) to 1 (symmetric: pairs that look wrong get
            hardly any). It can be set between steps, ``loss.q = 0.3``; see ``rince.losses.schedules``. Default: 0.5.
        lam: Weight of the negatives in (0, 1]; or ``DensityRatio(r)``, or ``"balanced"`` for ``DensityRatio(1)``, which
            follow the number of negatives. Default: ``DensityRatio(2.5)``.
        temperature: Softmax temperature: a positive float, or ``LearnedTemperature()``. Keep it fixed if pairs may
            be wrong: the lower it is, the less robust the loss. Default: 0.2.
        contrast: How positives and negatives are formed. Default: ``TwoView()``.
        scale: ``"unit"``: gradients have the size of those of InfoNCE, so that a learning rate carries over.
            ``"paper"``: the formula above, larger by a factor exp(q / temperature). Default: ``"unit"``.
        reduction: ``"mean"`` over anchors, ``"sum"``, or ``"none"`` for one value per anchor.

    Raises:
        UsageError: If q is not in [0, 1], lam not in (0, 1], or scale is neither ``"paper"`` nor ``"unit"``.

    Example:
        >>> images, texts = torch.randn(2, 8, 16)
        >>> rince.RINCE(contrast=rince.CrossView())(images, texts).shape
        torch.Size([])
    """

    _warned: bool = False
    _checks: ClassVar[Checks] = {**ContrastiveLoss._checks, "lam": _check_lam, "scale": _check_scale}

    def __init__(
        self,
        *,
        q: float = 0.5,
        lam: float | DensityRatio | Literal["balanced"] = DEFAULT_LAM,
        temperature: Temperature = 0.2,
        contrast: Contrast | None = None,
        scale: Scale = "unit",
        reduction: Reduction = "mean",
    ):
        super().__init__(temperature=temperature, contrast=contrast, reduction=reduction)
        self.scale, self.lam = scale, _check_lam(lam)
        self.q = q

    @classmethod
    def paper(
        cls,
        *,
        q: float = 0.5,
        lam: float = 0.01,
        temperature: float = 0.5,
        contrast: Contrast | None = None,
        reduction: Reduction = "mean",
    ) -> "RINCE":
        """The loss with the values of the paper for CIFAR-10, and its scale.

        A fixed lam of 0.01 at this temperature is meant for ``TwoView`` and large batches. It can collapse two-tower
        training with ``CrossView``.

        Args:
            q: Robustness. Default: 0.5.
            lam: Weight of the negatives. Default: 0.01.
            temperature: Softmax temperature. Default: 0.5.
            contrast: How positives and negatives are formed. Default: ``TwoView()``.
            reduction: ``"mean"``, ``"sum"`` or ``"none"``.

        Returns:
            The loss.

        Example:
            >>> rince.RINCE.paper(q=0.1).scale
            'paper'
        """
        return cls(q=q, lam=lam, temperature=temperature, contrast=contrast, scale="paper", reduction=reduction)

    def check_embeddings(self, a: Tensor) -> None:
        """Gradients of the size exp(q / temperature) / temperature have to fit into the type of the embeddings."""
        if self.scale == "unit" or not a.is_floating_point() or torch.compiler.is_compiling() or transformed():
            return
        if isinstance(self.temperature, Tensor) and not readable(self.temperature):
            return
        if isinstance(self.temperature, LearnedTemperature) and not readable(self.temperature.log_temperature):
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
        # Shifting both scores by c is a factor exp(-q c), and keeps everything in range.
        shift = 1 / temperature if self.scale == "unit" else 0.0
        q, lam = self._current_q(), self.lam
        function, gradient = partial(_shifted_rince, q, lam, shift), None
        ratio, fixed_lam = (lam.r, 0.0) if isinstance(lam, DensityRatio) else (None, lam)
        if not isinstance(shift, Tensor):
            gradient = partial(objectives.rince_gradient, q=q, lam=fixed_lam, density_ratio=ratio, shift=shift)
        return Objective(function, gradient=gradient, needs_count=ratio is not None)

    def _settings_changed(self) -> None:
        """Warn of large gradients, once."""
        if self._warned or not hasattr(self, "_q_value") or self.scale == "unit":
            return
        own = self.temperature
        learned = isinstance(own, LearnedTemperature) or (isinstance(own, Tensor) and own.requires_grad)
        if self.q > 0 and learned:
            self._warned = True
            warnings.warn(
                "RINCE with scale='paper' falls without bound as a learned temperature goes to 0, and will drive it "
                "there: use scale='unit'",
                stacklevel=4,
            )
            return
        exponent = self.q / number_of(in_use(own))
        if exponent <= math.log(LARGE):
            return
        self._warned = True
        warnings.warn(
            f"RINCE with q={self.q:g} and temperature={number_of(own):g} has gradients of the size "
            f"exp(q/temperature) = {_power_of_ten(exponent)}: "
            "use scale='unit', a smaller q or a higher temperature",
            stacklevel=4,
        )

    def extra_repr(self) -> str:
        return f"q={self.q:g}, lam={self.lam}, scale={self.scale!r}, {super().extra_repr()}"


def _shifted_rince(q: float | Tensor, lam: float | DensityRatio, shift: float | Tensor, scores: Scores) -> Tensor:
    lam_of_anchor = lam(scores.num_negatives) if isinstance(lam, DensityRatio) else lam
    return objectives.rince(scores.positive - shift, scores.negatives - shift, q, lam_of_anchor)


def _power_of_ten(exponent: float) -> str:
    return f"1e{exponent / math.log(10):.0f}"
