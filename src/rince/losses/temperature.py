"""The temperature of a loss: a number, or a parameter that must not be driven to zero."""

import math
import numbers
from typing import Any

import torch
from torch import Tensor

from rince.errors import UsageError, WrongType

LEAST_TEMPERATURE = 0.01
"""A learned temperature counts as at least this; one that training drives to 0 would divide by it."""


def check_temperature(temperature: float | Tensor) -> float | Tensor:
    if isinstance(temperature, Tensor):
        if temperature.numel() != 1:
            raise UsageError(f"temperature must be one number, got a tensor of shape {tuple(temperature.shape)}")
    elif not isinstance(temperature, numbers.Real):
        raise WrongType(f"temperature must be a positive number or a parameter, got {type(temperature).__name__}")
    if not 0 < number_of(temperature) < math.inf:
        raise UsageError(f"temperature must be positive, got {number_of(temperature)}")
    if isinstance(temperature, Tensor) and number_of(temperature) < 0.999 * LEAST_TEMPERATURE:
        raise UsageError(
            f"a learned temperature must start at {LEAST_TEMPERATURE} or above, got {number_of(temperature):g}: "
            "a lower one can only be a fixed number"
        )
    return temperature if isinstance(temperature, Tensor) else float(temperature)


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
