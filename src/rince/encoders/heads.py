"""Projection heads, and two encoders as one module."""

import itertools

from torch import Tensor, nn

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


class Towers(nn.Module):
    """``towers(xa, xb)`` gives the features of both sides; ``towers.a`` and ``towers.b`` are encoders on their own.

    Example:
        >>> towers = rince.encoders.Towers(rince.encoders.MLP([40, 32]), rince.encoders.MLP([24, 32]))
        >>> a, b = towers(torch.randn(4, 40), torch.randn(4, 24))
        >>> a.shape, b.shape
        (torch.Size([4, 32]), torch.Size([4, 32]))
    """

    def __init__(self, a: nn.Module, b: nn.Module):
        """
        Args:
            a: Encoder of the first side; its attribute ``features`` is the number of its features.
            b: Encoder of the second side.
        """
        super().__init__()
        self.a, self.b = a, b

    def forward(self, a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
        return self.a(a), self.b(b)
