"""The temperature of a loss: a number, a learned one within bounds, or a plain parameter."""

import math
import numbers
from typing import Any

import torch
from torch import Tensor, nn

from rince.errors import UsageError, WrongType
from rince.losses.inputs import can_look

LEAST_TEMPERATURE = 0.01
"""Lower bound of a learned temperature: training may drive it to 0, and scores are divided by it."""

LEAST_NUMBER = 1e-4
"""Lower bound of a fixed temperature: below it, scores are dominated by the rounding of float32 cosines."""


class LearnedTemperature(nn.Module):
    """A temperature that is learned in logarithm, within bounds.

    Pass it as ``temperature`` of a loss and give ``loss.parameters()`` to the optimizer. At a bound, only gradients
    that lead back inside have an effect. The parameter has shape (1,), so that ``fully_shard`` accepts it.

    A low temperature makes ``InfoNCE`` stricter, and learning it works there, as in CLIP. ``GCE`` and ``RINCE`` become
    less robust the lower it is, and gain from lowering it on wrong pairs: keep it fixed for them.

    Args:
        init: Initial temperature. Default: 0.2.
        min: Lower bound, at least 0.01. Default: 0.01.
        max: Upper bound. Default: 1.

    Raises:
        UsageError: If not 0.01 <= min <= init <= max.

    Example:
        >>> loss = rince.InfoNCE(temperature=rince.LearnedTemperature(0.1), contrast=rince.CrossView())
        >>> [name for name, _ in loss.named_parameters()]
        ['temperature.log_temperature']
        >>> round(float(loss.temperature()), 3)
        0.1
    """

    def __init__(self, init: float = 0.2, min: float = LEAST_TEMPERATURE, max: float = 1.0):
        super().__init__()
        if not LEAST_TEMPERATURE <= min <= init <= max < math.inf:
            raise UsageError(
                f"a learned temperature needs {LEAST_TEMPERATURE} <= min <= init <= max, got {min}, {init} and {max}"
            )
        self.min, self.max = float(min), float(max)
        self.log_temperature = nn.Parameter(torch.tensor([math.log(init)]))

    def forward(self) -> Tensor:
        """The temperature: a scalar tensor."""
        low, high = math.log(self.min), math.log(self.max)
        return _Clamp.apply(full_scalar(self.log_temperature), low, high).exp()

    def extra_repr(self) -> str:
        return f"min={self.min:g}, max={self.max:g}"


Temperature = float | Tensor | LearnedTemperature


def check_temperature(temperature: Temperature) -> Temperature:
    """A valid temperature. A computed one, as from CLIP's ``logit_scale``, may have any value."""
    if isinstance(temperature, LearnedTemperature):
        return temperature
    if not isinstance(temperature, Tensor):
        if not isinstance(temperature, numbers.Real):
            raise WrongType(
                "temperature must be a positive number, rince.LearnedTemperature() or a parameter, "
                f"got {type(temperature).__name__}"
            )
        value = float(temperature)
        _check_positive(value)
        if value < LEAST_NUMBER:
            raise UsageError(
                f"temperature must be at least {LEAST_NUMBER}, got {value:g}: "
                "scores over a lower one are mostly rounding"
            )
        return value
    if temperature.numel() > 1:  # empty: sharded, another rank holds it
        raise UsageError(f"temperature must be one number, got a tensor of shape {tuple(temperature.shape)}")
    if temperature.numel() and temperature.is_leaf and readable(temperature):
        value = number_of(temperature)
        _check_positive(value)
        if isinstance(temperature, nn.Parameter) and value < 0.999 * LEAST_TEMPERATURE:
            raise UsageError(
                f"a learned temperature must start at {LEAST_TEMPERATURE} or above, got {value:g}: "
                "a lower one can only be a fixed number"
            )
    return temperature


def _check_positive(value: float) -> None:
    if not 0 < value < math.inf:
        raise UsageError(f"temperature must be positive, got {value}")


def in_use(temperature: Temperature) -> float | Tensor:
    """The temperature of the scores: a float, or a scalar tensor of at least ``LEAST_TEMPERATURE``."""
    if isinstance(temperature, LearnedTemperature):
        return temperature()
    if not isinstance(temperature, Tensor):
        return temperature
    return _Clamp.apply(full_scalar(temperature), LEAST_TEMPERATURE, math.inf)


def readable(tensor: Tensor) -> bool:
    """Whether the value of a scalar can be read without communication or a host synchronization."""
    return can_look(tensor) and not hasattr(tensor, "full_tensor")


def full_scalar(tensor: Tensor) -> Tensor:
    """In full precision; a DTensor as a whole, with its gradient."""
    if hasattr(tensor, "full_tensor"):
        tensor = tensor.full_tensor()
    return tensor.reshape(()) if tensor.dtype == torch.float64 else tensor.reshape(()).float()


class _Clamp(torch.autograd.Function):
    """Clamp whose gradient, outside of the bounds, leads back inside.

    A plain clamp has no gradient there: a parameter that has left the bounds would never come back.
    """

    @staticmethod
    def forward(value: Tensor, low: float, high: float) -> Tensor:
        return value.clamp(low, high)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, float, float], output: Tensor) -> None:
        value, low, high = inputs
        ctx.save_for_backward(value < low, value > high)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        below, above = ctx.saved_tensors
        gradient = torch.where(below, gradient.clamp_max(0), gradient)
        return torch.where(above, gradient.clamp_min(0), gradient), None, None


def number_of(temperature: Temperature) -> float:
    """The value as a float; this waits for a device."""
    value = temperature() if isinstance(temperature, LearnedTemperature) else temperature
    return float(full_scalar(value.detach()) if isinstance(value, Tensor) else value)
