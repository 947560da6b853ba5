"""LARS, and a cosine schedule of the learning rate with warmup."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from rince.errors import UsageError


class LARS(torch.optim.Optimizer):
    """LARS: SGD with momentum and a learning rate scaled by the norm of each weight.

    Parameters of one dimension, such as biases, have neither scaling nor weight decay, unless ``scale_all``.

    Example:
        >>> optimizer = rince.optimizers.LARS(nn.Linear(8, 4).parameters(), lr=0.3)
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 0.3,
        momentum: float = 0.9,
        weight_decay: float = 1e-6,
        trust: float = 0.001,
        scale_all: bool = False,
    ):
        """
        Args:
            params: Parameters or parameter groups.
            lr: Learning rate.
            momentum: Momentum factor.
            weight_decay: Weight decay of the scaled parameters.
            trust: Trust coefficient: norm of a step relative to the norm of the weights.
            scale_all: Scale and decay all parameters, as the SimCLR code that the paper builds on. Default: False.

        Raises:
            UsageError: If a number is negative, or the momentum is not in [0, 1).
        """
        for name, value in (("lr", lr), ("weight_decay", weight_decay), ("trust", trust)):
            if value < 0:
                raise UsageError(f"{name} of LARS must not be negative, got {value}")
        if not 0 <= momentum < 1:
            raise UsageError(f"momentum of LARS must be in [0, 1), got {momentum}")
        defaults = {
            "lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust, "scale_all": scale_all,
        }  # fmt: skip
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Perform one optimization step."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._step(parameter, group)
        return loss

    def _step(self, parameter: Tensor, group: dict[str, Any]) -> None:
        direction = parameter.grad
        assert direction is not None
        if parameter.ndim > 1 or group["scale_all"]:
            direction = direction + group["weight_decay"] * parameter
            size, slope = parameter.norm(), direction.norm()
            usable = (size > 0) & (slope > 0)
            direction = direction * torch.where(usable, group["trust"] * size / slope, 1.0)
        state = self.state[parameter]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(parameter)
        state["momentum"].mul_(group["momentum"]).add_(direction)
        parameter.add_(state["momentum"], alpha=-group["lr"])


def warmup_cosine(step: int, total: int, warmup: int) -> float:
    """Factor of the learning rate: linear warmup to 1, then a cosine decay to 0.

    Args:
        step: Current step, from 0.
        total: Number of steps.
        warmup: Number of warmup steps.

    Returns:
        Factor in [0, 1].

    Example:
        >>> [round(rince.optimizers.warmup_cosine(step, total=100, warmup=10), 2) for step in (5, 10, 55, 100)]
        [0.6, 1.0, 0.5, 0.0]
    """
    if step < warmup:
        return (step + 1) / warmup
    progress = (step - warmup) / max(1, total - warmup)
    return 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
