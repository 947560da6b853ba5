"""A small convolutional network for processors without a GPU."""

from typing import Literal

from torch import Tensor, nn

from rince.errors import UsageError

DEEPEST = 1000  # layers take a while to be built, and by far not that many can be trained


class ConvNet(nn.Module):
    """Three stages of 3 x 3 convolutions, halving the image between them, and global average pooling.

    ``norm="group"`` depends on no other image of the batch, so that one process and several compute the same.

    Example:
        >>> encoder = rince.encoders.ConvNet(width=16)
        >>> encoder(torch.randn(2, 3, 32, 32)).shape, encoder.features
        (torch.Size([2, 64]), 64)
    """

    def __init__(
        self, channels: int = 3, width: int = 32, depth: int = 1, norm: Literal["batch", "group", "none"] = "batch"
    ):
        """
        Args:
            channels: Channels of the images.
            width: Channels of the first stage; each further one has twice as many.
            depth: Convolutions in each stage.
            norm: Normalisation after every convolution.

        Raises:
            UsageError: If the depth is not between 1 and 1000.
        """
        super().__init__()
        if not 1 <= depth <= DEEPEST:
            raise UsageError(f"depth of a ConvNet must lie between 1 and {DEEPEST}, got {depth}")
        layers: list[nn.Module] = []
        before = channels
        for stage in range(3):
            after = width * 2**stage
            for i in range(depth):
                stride = 2 if stage and not i else 1
                layers += [
                    nn.Conv2d(before, after, 3, stride, padding=1, bias=norm == "none"),
                    norm_of(norm, after),
                    nn.ReLU(inplace=True),
                ]
                before = after
        self.layers = nn.Sequential(*layers)
        self.features = before

    def forward(self, images: Tensor) -> Tensor:
        return self.layers(images).mean((2, 3))


def norm_of(kind: str, channels: int) -> nn.Module:
    if kind == "batch":
        return nn.BatchNorm2d(channels)
    return nn.GroupNorm(min(8, channels), channels) if kind == "group" else nn.Identity()
