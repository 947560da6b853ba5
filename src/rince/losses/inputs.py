"""Checks of the inputs of a loss, and the precision of its computations."""

import math
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor

from rince.errors import UsageError, WrongType


def check_pair(a: Tensor, b: Tensor | None) -> Tensor:
    """Check two matrices of embeddings with one pair per row; return the second."""
    if b is None:
        raise UsageError("this contrast compares two views: call loss(z1, z2)")
    for name, z in (("first", a), ("second", b)):
        if not isinstance(z, Tensor):
            raise WrongType(f"the {name} embeddings must be a tensor, got {type(z).__name__}")
        if not z.is_floating_point():
            raise WrongType(f"the {name} embeddings must be floating point, got {z.dtype}: convert them with .float()")
        if z.dim() != 2:
            raise UsageError(f"the {name} embeddings must have the shape (pairs, width), got {tuple(z.shape)}")
        if z.shape[1] == 0:
            raise UsageError(f"the {name} embeddings must be at least 1 wide, got {tuple(z.shape)}")
    if a.shape != b.shape:
        raise UsageError(f"the two embeddings must have the same shape, got {tuple(a.shape)} and {tuple(b.shape)}")
    if a.device != b.device:
        raise UsageError(f"the two embeddings must be on one device, got {a.device} and {b.device}")
    return b


def check_per_pair(name: str, values: Tensor | None, a: Tensor) -> Tensor | None:
    """One integer per pair (ids, labels), as int64 on the device of the embeddings."""
    if values is None:
        return None
    if not isinstance(values, Tensor):
        raise WrongType(f"{name} must be a tensor of integers, got {type(values).__name__}")
    if values.is_floating_point() or values.is_complex():
        raise WrongType(f"{name} must be integers, got {values.dtype}")
    if values.shape != a.shape[:1]:
        raise UsageError(f"{name} must have one value per pair: expected ({a.shape[0]},), got {tuple(values.shape)}")
    return values.to(a.device, torch.int64)


def check_weights(weights: Tensor | None, a: Tensor) -> Tensor | None:
    """One finite number of at least 0 per pair, without gradient, on the device of the embeddings."""
    if weights is None:
        return None
    if not isinstance(weights, Tensor):
        raise WrongType(f"weights must be a tensor, got {type(weights).__name__}")
    if weights.shape != a.shape[:1]:
        raise UsageError(f"weights must have one value per pair: expected ({a.shape[0]},), got {tuple(weights.shape)}")
    weights = weights.detach()
    if can_look(weights) and weights.numel():  # would synchronize a GPU
        low, high = (x.item() for x in weights.aminmax())
        if not (low >= 0 and high < math.inf):  # also for NaN
            bad = weights[~((weights >= 0) & (weights < torch.inf))]
            raise UsageError(f"weights must be finite and not negative, got {float(bad[0]):g}")
    return weights.to(a.device)


def full_precision(a: Tensor) -> AbstractContextManager[Any]:
    """Scores need float32: at temperature 0.05 a bfloat16 cosine is off by a factor of 1.1 after the exponential."""
    device = a.device.type if isinstance(a, Tensor) else "cpu"
    if not torch.amp.is_autocast_available(device):
        return nullcontext()
    if torch.compiler.is_compiling() or torch.is_autocast_enabled(device):
        return torch.autocast(device, enabled=False)
    return nullcontext()


def transformed() -> bool:
    """Whether a transform of torch.func (grad, vmap, ...) is active: it supports plain operations only."""
    return not torch.compiler.is_compiling() and torch._C._are_functorch_transforms_active()


def can_look(tensor: Tensor) -> bool:
    """Whether values can be read without a host synchronization: on a CPU, and not while compiling."""
    return not torch.compiler.is_compiling() and tensor.device.type == "cpu" and not transformed()
