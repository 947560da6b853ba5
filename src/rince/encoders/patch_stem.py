"""Features without training: random whitened patches as filters. And a small network on top of such features."""

import torch
from torch import Tensor, nn

from rince._support.step_seeds import generator
from rince.errors import UsageError


class PatchStem(nn.Module):
    """A fixed first layer for small images: what a patch looks like, in terms of other patches of the same images.

    ``fit`` draws patches from images, whitens them (ZCA) and keeps them as filters; responses are split into what is
    above and below zero, averaged over the quarters of the image, and reduced to ``features`` principal components. On
    CIFAR-10 a linear classifier on this is right about two times out of three, and all further training is quick.

    Args:
        features: How many principal components are kept.
        patches: How many filters there are.
        patch: Height and width of a patch.
        channels: Channels of the images.

    Example:
        >>> images = torch.randint(256, (64, 3, 16, 16), dtype=torch.uint8)
        >>> stem = rince.encoders.PatchStem(features=32, patches=48).fit(images)
        >>> stem(images).shape
        torch.Size([64, 32])
    """

    filters: Tensor
    centre: Tensor
    components: Tensor

    def __init__(self, features: int = 512, patches: int = 384, patch: int = 6, channels: int = 3):
        super().__init__()
        self.features, self.patch = features, patch
        self.register_buffer("filters", torch.zeros(patches, channels, patch, patch))
        self.register_buffer("centre", torch.zeros(8 * patches))
        self.register_buffer("components", torch.zeros(features, 8 * patches))

    @torch.no_grad()
    def fit(self, images: Tensor, seed: int = 0, regular: float = 0.1) -> "PatchStem":
        """Take filters and components from images.

        Args:
            images: (n, channels, height, width) bytes.
            seed: The same seed draws the same patches.
            regular: Added to the eigenvalues of the patches before they are whitened.

        Returns:
            The stem itself.
        """
        if len(images) <= self.features:
            raise UsageError(f"a patch stem of {self.features} features needs more images than that, got {len(images)}")
        source = generator(seed, 40)
        count, channels, size = len(self.filters), images.shape[1], self.patch
        drawn = images[torch.randint(len(images), (20_000,), generator=source)]
        top = torch.randint(images.shape[2] - size + 1, (20_000,), generator=source)
        left = torch.randint(images.shape[3] - size + 1, (20_000,), generator=source)
        rows = (top[:, None] + torch.arange(size))[:, None, :, None]
        columns = (left[:, None] + torch.arange(size))[:, None, None, :]
        place = torch.arange(20_000)[:, None, None, None], torch.arange(channels)[None, :, None, None]
        patches = drawn[place[0], place[1], rows, columns].flatten(1).double() / 255
        patches = (patches - patches.mean(1, keepdim=True)) / (patches.var(1, keepdim=True) + 1e-3).sqrt()
        values, vectors = torch.linalg.eigh(patches.T @ patches / len(patches))
        whiten = vectors @ torch.diag((values.clamp_min(0) + regular).rsqrt()) @ vectors.T
        chosen = nn.functional.normalize(patches[:count] @ whiten, dim=1) @ whiten
        chosen = chosen - chosen.mean(1, keepdim=True)  # so that the mean of a patch never counts
        self.filters.copy_(chosen.view_as(self.filters))
        sample = self.pooled(images[:2000]).double()
        self.centre.copy_(sample.mean(0))
        _, lengths, directions = torch.linalg.svd(sample - self.centre, full_matrices=False)
        kept = lengths[: self.features]
        # One scale for all: components of little variance are mostly noise and had better stay small.
        self.components.copy_(directions[: self.features] * (len(sample) * len(kept)) ** 0.5 / kept.norm())
        return self

    def pooled(self, images: Tensor) -> Tensor:
        """Mean responses above and below zero in each quarter; few images at a time, so that they stay in the cache."""
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
        """Bytes, or floats in [0, 1], (n, channels, height, width) -> (n, features), centred and of unit variance."""
        return (self.pooled(images) - self.centre) @ self.components.T


class MLP(nn.Module):
    """Linear layers with batch norm and ReLU between them, and dropout on the input.

    Example:
        >>> rince.encoders.MLP([40, 128, 32])(torch.randn(4, 40)).shape
        torch.Size([4, 32])
    """

    def __init__(self, widths: list[int], dropout: float = 0.0, norm: bool = True, relu_last: bool = False):
        """
        Args:
            widths: Of the input, the hidden layers and the features.
            dropout: Share of the inputs that is left out at random.
            norm: Batch norm before every ReLU.
            relu_last: End with batch norm and ReLU, for a head to follow.

        Raises:
            UsageError: If there are fewer than two widths.
        """
        super().__init__()
        from rince.encoders.heads import mlp

        if len(widths) < 2:
            raise UsageError(f"an MLP needs at least the widths of its input and output, got {widths}")
        self.dropout = nn.Dropout(dropout)
        self.layers = mlp(list(widths), norm=norm)
        if relu_last:
            self.layers.extend([nn.BatchNorm1d(widths[-1]), nn.ReLU()] if norm else [nn.ReLU()])
        self.features = widths[-1]

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(self.dropout(x.flatten(1)))
