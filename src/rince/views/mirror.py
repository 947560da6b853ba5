"""An image or its mirror image, for features of both."""

import torch
from torch import Tensor

from rince._support.step_seeds import Draws
from rince.views.views import Views


class MirrorViews(Views):
    """A view is an image or its mirror image, with equal chance; for features (n, 2, width) of both.

    Example:
        >>> draw = rince.views.Draws(torch.Generator().manual_seed(0), items=4)
        >>> first, second = rince.views.MirrorViews()(torch.randn(4, 2, 16), draw)
        >>> first.shape
        torch.Size([4, 16])
    """

    def forward(
        self, images: Tensor, draw: Draws, partners: Tensor | None = None, cropped: bool = False
    ) -> tuple[Tensor, Tensor]:
        return self._pick(images, draw), self._pick(images if partners is None else partners, draw)

    def plain(self, images: Tensor) -> Tensor:
        """The features of the images that are not mirrored."""
        return images[:, 0]

    def _pick(self, images: Tensor, draw: Draws) -> Tensor:
        side = draw.chance(0.5).long().to(images.device)
        return images[torch.arange(len(images), device=images.device), side]
