"""What torch.optim lacks: LARS, and a learning rate that warms up and falls like a cosine."""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

from rince.errors import UsageError


class LARS(torch.optim.Optimizer):
    """SGD with momentum whose steps are scaled to the size of each weight matrix.

    Biases and norms (parameters of one dimension) get neither the scaling nor weight decay, unless ``scale_all``.

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
            params: What is trained.
            lr: Learning rate.
            momentum: Of the steps.
            weight_decay: Of what is scaled.
            trust: Size of a step as a share of the size of the weights.
            scale_all: Scale and decay biases and norms too, as the SimCLR code that the paper builds on does.

        Raises:
            UsageError: If a number is negative, or the momentum does not lie in [0, 1).
        """
        for name, value in (("lr", lr), ("weight_decay", weight_decay), ("trust", trust)):
            if value < 0:
                raise UsageError(f"{name} of LARS must not be negative, got {value}")
        if not 0 <= momentum < 1:
            raise UsageError(f"momentum of LARS must lie in [0, 1), got {momentum}")
        defaults = {
            "lr": lr, "momentum": momentum, "weight_decay": weight_decay, "trust": trust, "scale_all": scale_all,
        }  # fmt: skip
        super().__init__(params, defaults)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One step, as every optimizer of torch takes it."""
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
    """The share of the learning rate at a step: a line up to 1 over ``warmup`` steps, then half a cosine down to 0.

    Args:
        step: From 0.
        total: Steps of the whole training.
        warmup: Steps of the line.

    Returns:
        A share from 0 to 1.

    Example:
        >>> [round(rince.optimizers.warmup_cosine(step, total=100, warmup=10), 2) for step in (5, 10, 55, 100)]
        [0.6, 1.0, 0.5, 0.0]
    """
    if step < warmup:
        return (step + 1) / warmup
    progress = (step - warmup) / max(1, total - warmup)
    return 0.5 * (1 + math.cos(math.pi * min(progress, 1.0)))
