"""The loss of SigLIP: every pair is classified independently."""

import math
import numbers
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn

from rince.errors import UsageError
from rince.losses import objectives
from rince.losses.contrasts import Contrast
from rince.losses.loss import Checks, ContrastiveLoss, Reduction
from rince.losses.objectives import ExtraReduction, Objective
from rince.losses.temperature import Temperature, full_scalar, number_of, readable


def _check_new_bias(bias: Tensor) -> Tensor:
    """Check of a bias that is set later, without waiting for its value."""
    valid = isinstance(bias, Tensor) and bias.numel() <= 1 and not bias.is_complex()  # empty: another rank holds it
    if not valid or (bias.numel() and readable(bias) and not math.isfinite(number_of(bias))):
        raise UsageError(f"bias must be a tensor or a parameter of one finite number, got {bias!r}")
    return bias


class Sigmoid(ContrastiveLoss):
    """log(1 + exp(-(s + bias))) for a positive, log(1 + exp(s + bias)) for each negative (SigLIP, Zhai et al. 2023).

    A binary cross-entropy per pair instead of a softmax: the loss of an anchor is the sum over its positive and its
    negatives. Use it for image and text in large batches. With ``CrossView`` it is the published loss. The gradients of
    wrong pairs and of false negatives are bounded. Not defined on ``Supervised``.

    Args:
        temperature: Softmax temperature: a positive float, or ``LearnedTemperature()``, as SigLIP does.
        bias: Added to every score: a number, or a parameter shared with other modules. Default: -10, since there are
            many more negatives than positives.
        learn_bias: Whether a number becomes a parameter of the loss. Pass ``loss.parameters()`` to the optimizer then.
            Default: True.
        contrast: How positives and negatives are formed. Default: ``TwoView()``.
        reduction: ``"mean"`` over anchors, ``"sum"``, or ``"none"`` for one value per anchor.

    Raises:
        UsageError: If bias is not one finite number.

    Example:
        >>> images, texts = torch.randn(2, 8, 16)
        >>> loss = rince.Sigmoid(contrast=rince.CrossView())
        >>> loss(images, texts).backward()
        >>> [name for name, _ in loss.named_parameters()]
        ['bias']
    """

    bias: Tensor
    _checks: ClassVar[Checks] = {**ContrastiveLoss._checks, "bias": _check_new_bias}

    def __init__(
        self,
        *,
        temperature: Temperature = 0.1,
        bias: float | Tensor = -10.0,
        learn_bias: bool = True,
        contrast: Contrast | None = None,
        reduction: Reduction = "mean",
    ):
        super().__init__(temperature=temperature, contrast=contrast, reduction=reduction)
        if isinstance(bias, numbers.Real):
            start = torch.tensor(float(bias))
            bias = nn.Parameter(start) if learn_bias else start
        if not isinstance(bias, Tensor) or bias.numel() != 1 or not math.isfinite(number_of(bias)):
            raise UsageError(f"bias must be one finite number or a parameter of one, got {bias!r}")
        if isinstance(bias, nn.Parameter) or bias.requires_grad:
            self.bias = bias
        else:
            self.register_buffer("bias", bias)

    def objective(self, temperature: float | Tensor) -> Objective:
        full = full_scalar(self.bias)
        return Objective(
            partial(objectives.sigmoid, bias=full), ExtraReduction("softplus", shift=full), one_positive=True
        )

    def extra_repr(self) -> str:
        bias = f"{number_of(self.bias):g}" if readable(self.bias) else "learned"
        return f"bias={bias}, {super().extra_repr()}"
