"""Encoders of clips (R(2+1)D) and of spectrograms."""

from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from rince.encoders.images import norm_of


class AudioConvNet(nn.Module):
    """Encoder of spectrograms, (n, 1, frames, bins) to (n, 8 * width): nine convolutions and global max pooling.

    A 7 x 7 convolution of stride 2, then four blocks of two 3 x 3 convolutions. The width doubles from block to block,
    and the first convolution of the first three blocks has stride 2. All have a norm and a ReLU. The default has 512
    features and 4.7 million parameters.

    Example:
        >>> rince.encoders.AudioConvNet(width=8)(torch.randn(2, 1, 64, 65)).shape
        torch.Size([2, 64])
    """

    def __init__(self, width: int = 64, channels: int = 1, norm: Literal["batch", "group", "none"] = "batch"):
        """
        Args:
            width: Channels of the first convolution and the first block, doubled in each further block.
            channels: Channels of the spectrograms.
            norm: Normalization after every convolution. "group" is independent of the other sounds in the batch.
        """
        super().__init__()
        layers = convolution(channels, width, 7, 2, norm)
        before = width
        for block in range(4):
            after = width * 2**block
            layers += convolution(before, after, 3, 2 if block < 3 else 1, norm)
            layers += convolution(after, after, 3, 1, norm)
            before = after
        # Channels last makes narrow networks a third faster on a CPU.
        stack: Any = nn.Sequential(*layers)
        self.layers: nn.Sequential = stack.to(memory_format=torch.channels_last)
        self.features = before
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, spectrograms: Tensor) -> Tensor:
        return self.layers(spectrograms.contiguous(memory_format=torch.channels_last)).amax((2, 3))


def convolution(before: int, after: int, size: int, stride: int, norm: str) -> list[nn.Module]:
    return [
        nn.Conv2d(before, after, size, stride, size // 2, bias=norm == "none"),
        norm_of(norm, after),
        nn.ReLU(inplace=True),
    ]


class R2Plus1D(nn.Module):
    """Encoder of clips, (n, 3, frames, height, width) to (n, 8 * width): by default R(2+1)D-18 with 512 features.

    A full 3 x 7 x 7 convolution and a max-pool, both with stride 2 in space, then four stages of residual blocks with
    stride 2 in space and time from the second on, and global max pooling. Each 3 x 3 x 3 convolution is factored into
    one over space (1 x 3 x 3) and one over time (3 x 1 x 1) of the *same* width, not of the width that keeps the number
    of parameters.

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

    def __init__(
        self,
        width: int = 64,
        blocks: Sequence[int] = (2, 2, 2, 2),
        channels: int = 3,
        norm: Literal["per_branch", "after_sum"] = "per_branch",
    ):
        """
        Args:
            width: Channels of the stem and the first stage, doubled in each further stage.
            blocks: Residual blocks per stage, of two factored convolutions each.
            channels: Channels of the clips.
            norm: Last batch norm of a residual block: "per_branch" in the branch and in the shortcut, or "after_sum" as
                in AVID, with a shortcut without batch norm.
        """
        super().__init__()
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
            first = Block(before, after, stride, norm == "after_sum")
            further = (Block(after, after, 1, norm == "after_sum") for _ in range(count - 1))
            stages.append(nn.Sequential(first, *further))
            before = after
        self.stages = nn.Sequential(*stages)
        self.features = before
        for module in self.modules():
            if isinstance(module, nn.Conv3d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, clips: Tensor) -> Tensor:
        return self.stages(self.stem(clips)).amax((2, 3, 4))


class Block(nn.Module):
    """Residual block of two convolutions, each over space and then over time."""

    def __init__(self, before: int, after: int, stride: int = 1, norm_after_sum: bool = False):
        super().__init__()
        second = space_and_time(after, after, 1)
        self.norm: nn.Module = nn.Identity()
        if norm_after_sum:
            self.norm = second.pop()
        self.branch = nn.Sequential(*space_and_time(before, after, stride), nn.ReLU(inplace=True), *second)
        self.shortcut: nn.Module = nn.Identity()
        if before != after or stride != 1:
            bare = nn.Conv3d(before, after, 1, stride, bias=False)
            self.shortcut = bare if norm_after_sum else nn.Sequential(bare, nn.BatchNorm3d(after))

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.relu(self.norm(self.branch(x) + self.shortcut(x)), inplace=True)


class TimeConvolution(nn.Conv3d):
    """A Conv3d over time that computes two frames on a CPU in float32, also under autocast.

    In bfloat16, oneDNN (torch 2.13) leaves a part of the weight gradient of the middle tap uninitialized when a
    3 x 1 x 1 kernel meets exactly two frames.
    """

    def forward(self, x: Tensor) -> Tensor:
        if x.device.type == "cpu" and x.shape[2] == 2 and torch.is_autocast_enabled("cpu"):
            with torch.autocast("cpu", enabled=False):
                return super().forward(x.float())
        return super().forward(x)


def space_and_time(before: int, after: int, stride: int) -> list[nn.Module]:
    """A 3 x 3 x 3 convolution factored into two, each with batch norm, and a ReLU between them."""
    return [
        nn.Conv3d(before, after, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False),
        nn.BatchNorm3d(after),
        nn.ReLU(inplace=True),
        TimeConvolution(after, after, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False),
        nn.BatchNorm3d(after),
    ]
