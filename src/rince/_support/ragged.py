"""Rows of different lengths, concatenated in one tensor."""

import torch
from torch import Tensor


def spans(start: Tensor, count: Tensor) -> Tensor:
    """The numbers ``start[i] .. start[i] + count[i] - 1`` for every i, one after the other."""
    first = torch.cumsum(count, 0) - count
    shift = torch.repeat_interleave(start - first, count)
    return torch.arange(len(shift), device=start.device) + shift


def offsets(count: Tensor) -> Tensor:
    """``[0, count[0], count[0] + count[1], ...]``."""
    return torch.nn.functional.pad(torch.cumsum(count, 0), (1, 0))
