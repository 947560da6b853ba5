"""ResNets whose state dicts have torchvision's names, so that its checkpoints load."""

from typing import Any, Literal

from torch import Tensor, nn

from rince.errors import UsageError

LAYERS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}


class ResNet(nn.Module):
    """ResNet-18, -34 or -50 without its classifier: images (n, channels, height, width) to (n, 512 or 2048).

    Names in the state dict are torchvision's, so its checkpoints load.

    Example:
        >>> rince.encoders.ResNet(18, stem="cifar")(torch.randn(2, 3, 32, 32)).shape
        torch.Size([2, 512])
    """

    def __init__(
        self,
        depth: Literal[18, 34, 50] = 18,
        stem: Literal["imagenet", "cifar"] = "imagenet",
        channels: int = 3,
        zero_last: bool = False,
    ):
        """
        Args:
            depth: Number of layers.
            stem: "imagenet" is a 7 x 7 convolution of stride 2 and a max-pool, "cifar" a 3 x 3 convolution.
            channels: Channels of the images.
            zero_last: Initialise residual branches so that they add nothing.

        Raises:
            UsageError: If there is no ResNet of that depth.
        """
        super().__init__()
        if depth not in LAYERS:
            raise UsageError(f"depth of a ResNet must be one of {', '.join(map(str, LAYERS))}, got {depth}")
        block = Bottleneck if depth >= 50 else Block
        large = stem == "imagenet"
        self.conv1 = nn.Conv2d(channels, 64, 7 if large else 3, 2 if large else 1, 3 if large else 1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, 2, 1) if large else nn.Identity()
        before = 64
        for i, count in enumerate(LAYERS[depth]):
            width = 64 * 2**i
            blocks = [block(before, width, 1 if i == 0 else 2)]
            before = width * block.expansion
            blocks += [block(before, width, 1) for _ in range(count - 1)]
            self.add_module(f"layer{i + 1}", nn.Sequential(*blocks))
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.features = before
        self._start(zero_last)

    def _start(self, zero_last: bool) -> None:
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif zero_last and isinstance(module, Block | Bottleneck):
                nn.init.zeros_(module.last_norm().weight)

    def forward(self, images: Tensor) -> Tensor:
        x = self.maxpool(self.relu(self.bn1(self.conv1(images))))
        for name in ("layer1", "layer2", "layer3", "layer4"):
            x = self.get_submodule(name)(x)
        return self.avgpool(x).flatten(1)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *args: Any) -> None:
        for name in ("fc.weight", "fc.bias"):  # a torchvision checkpoint brings a classifier that has no place here
            state_dict.pop(prefix + name, None)
        super()._load_from_state_dict(state_dict, prefix, *args)


class Block(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut."""

    expansion = 1

    def __init__(self, before: int, width: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = shortcut(before, width, stride)

    def last_norm(self) -> nn.BatchNorm2d:
        return self.bn2

    def forward(self, x: Tensor) -> Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 (with the stride) and 1 x 1 convolutions beside a shortcut."""

    expansion = 4

    def __init__(self, before: int, width: int, stride: int):
        super().__init__()
        self.conv1 = nn.Conv2d(before, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, width * self.expansion, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * self.expansion)
        self.relu = nn.ReLU(inplace=True)
        self.downsample = shortcut(before, width * self.expansion, stride)

    def last_norm(self) -> nn.BatchNorm2d:
        return self.bn3

    def forward(self, x: Tensor) -> Tensor:
        y = self.relu(self.bn1(self.conv1(x)))
        y = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(y)))))
        return self.relu(y + (x if self.downsample is None else self.downsample(x)))


def shortcut(before: int, after: int, stride: int) -> nn.Sequential | None:
    if before == after and stride == 1:
        return None
    return nn.Sequential(nn.Conv2d(before, after, 1, stride, bias=False), nn.BatchNorm2d(after))
