"""A second network that follows the first one slowly."""

import copy

import torch
from torch import nn


def frozen_copy(network: nn.Module) -> nn.Module:
    """A copy without gradients. Its batch norms still follow the batches they see."""
    return copy.deepcopy(network).requires_grad_(False)


@torch.no_grad()
def follow(slow: nn.Module, fast: nn.Module, momentum: float) -> None:
    """slow <- momentum * slow + (1 - momentum) * fast, for all parameters."""
    mine, theirs = [p.data for p in slow.parameters()], [p.data for p in fast.parameters()]
    torch._foreach_lerp_(mine, theirs, 1 - momentum)
