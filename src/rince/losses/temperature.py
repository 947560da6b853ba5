"""The temperature of a loss: a number, or a parameter that must not be driven to zero."""

import math
import numbers
from typing import Any

import torch
from torch import Tensor, nn

from rince.errors import UsageError, WrongType
from rince.losses.contrast.kernel import can_look

LEAST_TEMPERATURE = 0.01
"""A learned temperature counts as at least this; one that training drives to 0 would divide by it."""

LEAST_NUMBER = 1e-4
"""The least temperature that is a fixed number: over a lower one, the rounding of a float32 cosine counts for much."""


def check_temperature(temperature: float | Tensor) -> float | Tensor:
    """A temperature that a loss can start with."""
    _check_kind(temperature)
    value = number_of(temperature)
    _check_positive(value)
    if isinstance(temperature, Tensor):
        if value < 0.999 * LEAST_TEMPERATURE:
            raise UsageError(
                f"a learned temperature must start at {LEAST_TEMPERATURE} or above, got {value:g}: "
                "a lower one can only be a fixed number"
            )
        return temperature
    if value < LEAST_NUMBER:
        raise UsageError(
            f"temperature must be at least {LEAST_NUMBER}, got {value:g}: scores over a lower one are mostly rounding"
        )
    return value


def check_new_temperature(temperature: float | Tensor) -> float | Tensor:
    """A temperature that is set later. One that is computed, as from CLIP's ``logit_scale``, may have any value."""
    if isinstance(temperature, Tensor) and temperature.numel() == 0:
        return temperature  # sharded: another process holds it
    if not isinstance(temperature, Tensor) or (isinstance(temperature, nn.Parameter) and can_look(temperature)):
        return check_temperature(temperature)
    _check_kind(temperature)
    if temperature.is_leaf and can_look(temperature):
        _check_positive(number_of(temperature))
    return temperature


def _check_kind(temperature: float | Tensor) -> None:
    if isinstance(temperature, Tensor):
        if temperature.is_complex():
            raise WrongType(f"temperature must be a real number, got {temperature.dtype}")
        if temperature.numel() != 1:
            raise UsageError(f"temperature must be one number, got a tensor of shape {tuple(temperature.shape)}")
    elif not isinstance(temperature, numbers.Real):
        raise WrongType(f"temperature must be a positive number or a parameter, got {type(temperature).__name__}")


def _check_positive(value: float) -> None:
    if not 0 < value < math.inf:
        raise UsageError(f"temperature must be positive, got {value}")


def in_use(temperature: float | Tensor) -> float | Tensor:
    """A temperature as losses use it: a learned one as a scalar in full precision, and never below the least."""
    if not isinstance(temperature, Tensor):
        return temperature
    full = temperature.reshape(()) if temperature.dtype == torch.float64 else temperature.reshape(()).float()
    return _AtLeast.apply(full, LEAST_TEMPERATURE)


class _AtLeast(torch.autograd.Function):
    """The larger of a value and a bound. Below the bound, only a gradient that raises the value gets through.

    A plain clamp has no gradient below its bound: what has fallen there never comes back.
    """

    @staticmethod
    def forward(value: Tensor, bound: float) -> Tensor:
        return value.clamp_min(bound)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float], output: Tensor) -> None:
        ctx.save_for_backward(inputs[0] < inputs[1])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (below,) = ctx.saved_tensors
        return torch.where(below, gradient.clamp_max(0), gradient), None


def number_of(temperature: float | Tensor) -> float:
    return float(temperature.detach() if isinstance(temperature, Tensor) else temperature)
