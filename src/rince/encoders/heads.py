"""Projection heads."""

import itertools

from torch import nn

from rince.errors import UsageError


def mlp(widths: list[int], norm: bool = True, last_norm: bool = False, last_bias: bool = True) -> nn.Sequential:
    """Linear layers with ReLU between them; ``norm`` puts batch norm (and no bias) before every ReLU.

    ``last_norm`` ends with a batch norm without scale and shift, as MoCo v3's heads do.
    """
    if min(widths) < 1:
        raise UsageError(f"the layers of a head must be at least 1 wide, got {min(widths)}: set hidden and width")
    layers: list[nn.Module] = []
    for i, (before, after) in enumerate(itertools.pairwise(widths)):
        last = i == len(widths) - 2
        layers.append(nn.Linear(before, after, bias=last_bias and not last_norm if last else not norm))
        if not last:
            layers += [nn.BatchNorm1d(after), nn.ReLU(inplace=True)] if norm else [nn.ReLU(inplace=True)]
        elif last_norm:
            layers.append(nn.BatchNorm1d(after, affine=False))
    return nn.Sequential(*layers)
