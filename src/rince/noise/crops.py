"""Augmentation noise: an additional small crop."""

import hashlib
from typing import Any, Literal

import numpy as np
from torch import Tensor, nn

from rince._support.step_seeds import Draws
from rince.errors import UsageError


class Hits(nn.Module):
    """Count and hash of the views changed by the noise. Part of a checkpoint."""

    def __init__(self) -> None:
        super().__init__()
        self.views, self.hit, self.digest = 0, 0, ""

    def see(self, hit: Tensor) -> None:
        """Count a batch of views; ``hit`` is the mask of changed views."""
        self.views, self.hit = self.views + len(hit), self.hit + int(hit.sum())
        packed = np.packbits(hit.cpu().numpy()).tobytes()
        self.digest = hashlib.sha256(self.digest.encode() + packed).hexdigest()

    def record(self) -> dict[str, Any]:
        """Counts and hash as plain values."""
        return {"views": self.views, "hit": self.hit, "sha256": self.digest}

    def get_extra_state(self) -> dict[str, Any]:
        return self.record()

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.views, self.hit, self.digest = state["views"], state["hit"], state["sha256"]


class ExtraCrop:
    """Crop a view again with probability ``rate`` and resize it to its size.

    The recipe stores a mask of the cropped images of the last call in ``last_hit``, and counts them in ``hits``.

    Args:
        rate: Probability of the additional crop.
        area: Area of the crop as a share of the view.
        when: "last" after all other transformations (the paper's text), "after_crop" directly after the first crop (the
            paper's listing).

    Raises:
        UsageError: If the rate is not in [0, 1].

    Example:
        >>> views = rince.views.SimCLRViews(noise=rince.noise.ExtraCrop(rate=0.4))
    """

    def __init__(self, rate: float, area: float = 0.2, when: Literal["last", "after_crop"] = "last"):
        if not 0 <= rate <= 1:
            raise UsageError(f"rate of ExtraCrop must be in [0, 1], got {rate}")
        self.rate, self.area, self.when = rate, area, when

    def numbers(self, draw: Draws, size: int) -> dict[str, Tensor]:
        """Mask of the views to crop, and the crop boxes."""
        from rince._support.image_operations import random_boxes

        boxes = random_boxes(draw, size, size, (self.area, self.area), (3 / 4, 4 / 3))
        names = ("noise_top", "noise_left", "noise_height", "noise_width")
        return {"noise_hit": draw.chance(self.rate), **dict(zip(names, boxes, strict=True))}

    def __call__(self, planes: Tensor, numbers: dict[str, Tensor]) -> Tensor:
        """Crop the planes (channels, n, size, size) marked in ``noise_hit``."""
        from rince._support.image_operations import resize, resize_weights

        chosen = numbers["noise_hit"].nonzero().squeeze(1)
        if not len(chosen):
            return planes
        size = planes.shape[-1]
        top, left, height, width = (numbers[f"noise_{name}"][chosen] for name in ("top", "left", "height", "width"))
        rows, columns = resize_weights(top, height, size, size), resize_weights(left, width, size, size)
        planes[:, chosen] = resize(planes[:, chosen].transpose(0, 1), rows, columns)
        return planes
