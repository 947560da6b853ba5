"""R(2+1)D: a residual network on clips whose convolutions look at space and at time in turn."""

from collections.abc import Sequence

from torch import Tensor, nn

from rince.errors import UsageError


class R2Plus1D(nn.Module):
    """Clips (n, 3, frames, height, width) to (n, 8 * width): R(2+1)D-18 with 512 features by default.

    A full 3 x 7 x 7 convolution and a max-pool halve the picture twice. Then come four stages of residual blocks, each
    but the first halving height, width and frames, and the largest value of what is left. Each 3 x 3 x 3 convolution is
    one over space (1 x 3 x 3) and one over time (3 x 1 x 1) of the *same* width; forms that widen the step between the
    two, so as to have as many weights as the whole convolution, are other networks.

    The default has 15,380,928 parameters. A convolution has its weights, a batch norm two numbers per channel:

    - stem, 3 to 64: 3 * 64 * (3 * 7 * 7) + 2 * 64 = 28,352
    - stage of width 64, twice a block of 2 * (9 + 3) c^2 + 8 c: 2 * 98,816 = 197,632
    - stages of width c = 128, 256, 512: the first block comes from c / 2 channels and has a 1 x 1 x 1 shortcut,
      (4.5 + 3 + 9 + 3 + 0.5) c^2 + 10 c, and the second is 24 c^2 + 8 c; together 44 c^2 + 18 c:
      723,200 + 2,888,192 + 11,543,552

    Example:
        >>> rince.encoders.R2Plus1D(width=4)(torch.randn(2, 3, 8, 32, 32)).shape
        torch.Size([2, 32])
    """

    def __init__(self, width: int = 64, blocks: Sequence[int] = (2, 2, 2, 2), channels: int = 3):
        """
        Args:
            width: Channels of the stem and the first stage; each further stage has twice as many.
            blocks: Residual blocks in each stage, two convolutions (of two halves each) in a block.
            channels: Channels of the clips.

        Raises:
            UsageError: If the width or a number of blocks is below 1.
        """
        super().__init__()
        if width < 1 or not blocks or min(blocks) < 1:
            raise UsageError(f"R2Plus1D needs a width and blocks of at least 1, got {width} and {tuple(blocks)}")
        self.stem = nn.Sequential(
            nn.Conv3d(channels, width, (3, 7, 7), (1, 2, 2), (1, 3, 3), bias=False),
            nn.BatchNorm3d(width),
            nn.ReLU(inplace=True),
            nn.MaxPool3d((1, 3, 3), (1, 2, 2), (0, 1, 1)),
        )
        before, stages = width, []
        for stage, count in enumerate(blocks):
            after = width * 2**stage
            stride = 1 if stage == 0 else 2
            stages.append(nn.Sequential(Block(before, after, stride), *(Block(after, after) for _ in range(count - 1))))
            before = after
        self.stages = nn.Sequential(*stages)
        self.features = before
        for module in self.modules():
            if isinstance(module, nn.Conv3d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, clips: Tensor) -> Tensor:
        return self.stages(self.stem(clips)).amax((2, 3, 4))


class Block(nn.Module):
    """Two convolutions, each over space and then over time, beside a shortcut."""

    def __init__(self, before: int, after: int, stride: int = 1):
        super().__init__()
        self.branch = nn.Sequential(
            *space_and_time(before, after, stride), nn.ReLU(inplace=True), *space_and_time(after, after, 1)
        )
        self.shortcut: nn.Module = nn.Identity()
        if before != after or stride != 1:
            self.shortcut = nn.Sequential(nn.Conv3d(before, after, 1, stride, bias=False), nn.BatchNorm3d(after))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.relu(self.branch(x) + self.shortcut(x), inplace=True)


def space_and_time(before: int, after: int, stride: int) -> list[nn.Module]:
    """A 3 x 3 x 3 convolution in two halves, each with its batch norm, and a ReLU between them."""
    return [
        nn.Conv3d(before, after, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False),
        nn.BatchNorm3d(after),
        nn.ReLU(inplace=True),
        nn.Conv3d(after, after, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False),
        nn.BatchNorm3d(after),
    ]
