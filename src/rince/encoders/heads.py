"""Projection heads, and two encoders as one module."""

import itertools

from torch import Tensor, nn

from rince.errors import UsageError


def mlp(widths: list[int], norm: bool = True, last_norm: bool = False, last_bias: bool = True) -> nn.Sequential:
    """Linear layers with ReLU between them.

    Args:
        widths: Widths of input, hidden layers and output.
        norm: Batch norm, and no bias, before every ReLU.
        last_norm: Batch norm without scale and shift at the end, as in MoCo v3.
        last_bias: Bias in the last layer.
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


class Towers(nn.Module):
    """Two encoders: ``towers(xa, xb)`` returns the features of both sides.

    Example:
        >>> towers = rince.encoders.Towers(rince.encoders.MLP([40, 32]), rince.encoders.MLP([24, 32]))
        >>> a, b = towers(torch.randn(4, 40), torch.randn(4, 24))
        >>> a.shape, b.shape
        (torch.Size([4, 32]), torch.Size([4, 32]))
    """

    def __init__(self, a: nn.Module, b: nn.Module):
        """
        Args:
            a: Encoder of the first side, with an attribute ``features``, the width of its output.
            b: Encoder of the second side.
        """
        super().__init__()
        self.a, self.b = a, b

    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return self.a(a), self.b(b)
