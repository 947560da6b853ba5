"""Image encoders: a small ConvNet, ResNets, and a fixed stem of random patches."""

from typing import Any, Literal

import torch
from torch import Tensor, nn

from rince._support.step_seeds import generator
from rince.encoders.heads import mlp
from rince.errors import UsageError

MAX_DEPTH = 1000  # limits the loading time of an untrusted encoder file


class ConvNet(nn.Module):
    """Three stages of 3 x 3 convolutions with stride 2 between them, and global average pooling.

    ``norm="group"`` is independent of the rest of the batch, so results do not depend on the number of processes.

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
            width: Channels of the first stage, doubled in each further stage.
            depth: Convolutions in each stage.
            norm: Normalization after every convolution.

        Raises:
            UsageError: If the depth is not in [1, 1000].
        """
        super().__init__()
        if not 1 <= depth <= MAX_DEPTH:
            raise UsageError(f"depth of a ConvNet must be in [1, {MAX_DEPTH}], got {depth}")
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
            zero_last: Initialize residual branches so that they add nothing.

        Raises:
            UsageError: If the depth is not 18, 34 or 50.
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
        for name in ("fc.weight", "fc.bias"):  # drop the classifier of a torchvision checkpoint
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
    """Residual block of 1 x 1, 3 x 3 (strided) and 1 x 1 convolutions."""

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


class PatchStem(nn.Module):
    """Fixed features of small images: responses to patches of the same images.

    ``fit`` draws patches from images, whitens them (ZCA) and uses them as filters. Positive and negative responses are
    averaged over the quarters of an image and reduced to ``features`` principal components. A linear
    classifier on them has an accuracy of about two thirds on CIFAR-10.

    Args:
        features: Number of principal components.
        patches: Number of filters.
        patch: Height and width of a patch.
        channels: Channels of the images.

    Example:
        >>> images = torch.randint(256, (64, 3, 16, 16), dtype=torch.uint8)
        >>> stem = rince.encoders.PatchStem(features=32, patches=48).fit(images)
        >>> stem(images).shape
        torch.Size([64, 32])
    """

    filters: Tensor
    center: Tensor
    components: Tensor

    def __init__(self, features: int = 512, patches: int = 384, patch: int = 6, channels: int = 3):
        super().__init__()
        self.features, self.patch = features, patch
        self.register_buffer("filters", torch.zeros(patches, channels, patch, patch))
        self.register_buffer("center", torch.zeros(8 * patches))
        self.register_buffer("components", torch.zeros(features, 8 * patches))

    @torch.no_grad()
    def fit(self, images: Tensor, seed: int = 0, regular: float = 0.1) -> "PatchStem":
        """Fit filters and components to images.

        Args:
            images: (n, channels, height, width) bytes.
            seed: Seed of the patches.
            regular: Regularization of the whitening, added to the eigenvalues of the patches.

        Returns:
            The stem itself.
        """
        if len(images) <= self.features:
            raise UsageError(
                f"a patch stem of {self.features} features needs more images than features, got {len(images)}"
            )
        source = generator(seed, 40)
        count, channels, size = len(self.filters), images.shape[1], self.patch
        drawn = images[torch.randint(len(images), (20_000,), generator=source)]
        top = torch.randint(images.shape[2] - size + 1, (20_000,), generator=source)
        left = torch.randint(images.shape[3] - size + 1, (20_000,), generator=source)
        rows = (top[:, None] + torch.arange(size))[:, None, :, None]
        columns = (left[:, None] + torch.arange(size))[:, None, None, :]
        index = torch.arange(20_000)[:, None, None, None], torch.arange(channels)[None, :, None, None]
        patches = drawn[index[0], index[1], rows, columns].flatten(1).double() / 255
        patches = (patches - patches.mean(1, keepdim=True)) / (patches.var(1, keepdim=True) + 1e-3).sqrt()
        values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
        whiten = vectors @ torch.diag((values.clamp_min(0) + regular).rsqrt()) @ vectors.T
        chosen = nn.functional.normalize(patches[:count] @ whiten, dim=1) @ whiten
        chosen = chosen - chosen.mean(1, keepdim=True)  # invariance to the mean of a patch
        self.filters.copy_(chosen.view_as(self.filters))
        sample = self.pooled(images[:2000]).double()
        self.center.copy_(sample.mean(0))
        _, lengths, directions = torch.linalg.svd(sample - self.center, full_matrices=False)
        scales = lengths[: self.features]
        # One scale for all components, since those of small variance are mostly noise.
        self.components.copy_(directions[: self.features] * (len(sample) * len(scales)) ** 0.5 / scales.norm())
        return self

    def pooled(self, images: Tensor) -> Tensor:
        """Mean positive and negative responses in each quarter, in cache-sized chunks of images."""
        return torch.cat([self._pooled(part) for part in images.split(16)])

    def _pooled(self, images: Tensor) -> Tensor:
        x = images.float() / 255 if images.dtype == torch.uint8 else images
        response = nn.functional.conv2d(x, self.filters)
        area, square = (nn.functional.avg_pool2d(v, self.patch, 1).mean(1, keepdim=True) for v in (x, x * x))
        response.div_((square - area * area).clamp_min_(0).add_(1e-3).sqrt_())
        mean = nn.functional.adaptive_avg_pool2d(response, 2)
        above = nn.functional.adaptive_avg_pool2d(response.clamp_min_(0), 2)
        return torch.cat([above, above - mean], 1).flatten(1)

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:
        """Bytes, or floats in [0, 1], (n, channels, height, width) -> (n, features), centered and of unit variance."""
        return (self.pooled(images) - self.center) @ self.components.T


class MLP(nn.Module):
    """Linear layers with batch norm and ReLU between them, and dropout of inputs.

    Example:
        >>> rince.encoders.MLP([40, 128, 32])(torch.randn(4, 40)).shape
        torch.Size([4, 32])
    """

    def __init__(self, widths: list[int], dropout: float = 0.0, norm: bool = True, relu_last: bool = False):
        """
        Args:
            widths: Widths of the input, the hidden layers and the features.
            dropout: Dropout rate of the inputs.
            norm: Batch norm before every ReLU.
            relu_last: Batch norm and ReLU after the last layer, for a head that follows.
        """
        super().__init__()
        self.dropout = nn.Dropout(dropout)
        self.layers = mlp(list(widths), norm=norm)
        if relu_last:
            self.layers.extend([nn.BatchNorm1d(widths[-1]), nn.ReLU()] if norm else [nn.ReLU()])
        self.features = widths[-1]

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(self.dropout(x.flatten(1)))
