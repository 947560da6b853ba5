"""Two encoders side by side, one for each kind of thing."""

from torch import Tensor, nn


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
