"""An image or its mirror image, for features of both."""

import torch
from torch import Tensor

from rince._support.step_seeds import Draws
from rince.views.views import Views


class MirrorViews(Views):
    """A view is an image or its mirror image, with equal chance; for features (n, 2, width) of both."""

    def forward(
        self, images: Tensor, draw: Draws, partners: Tensor | None = None, cropped: bool = False
    ) -> tuple[Tensor, Tensor]:
        return self._pick(images, draw), self._pick(images if partners is None else partners, draw)

    def plain(self, images: Tensor) -> Tensor:
        return images[:, 0]

    def _pick(self, images: Tensor, draw: Draws) -> Tensor:
        side = draw.chance(0.5).long().to(images.device)
        return images[torch.arange(len(images), device=images.device), side]
