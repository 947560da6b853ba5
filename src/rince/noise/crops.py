"""Views that go too far: a second crop so small that it may show nothing of the object."""

import hashlib
from typing import Any, Literal

import numpy as np
from torch import Tensor, nn

from rince._support.step_seeds import Draws
from rince.errors import UsageError


class Hits(nn.Module):
    """Which views the noise has hit so far: how many of how many, and a hash of all of them in their order.

    It is part of a checkpoint, so a resumed run counts like a run in one piece.
    """

    def __init__(self) -> None:
        super().__init__()
        self.views, self.hit, self.digest = 0, 0, ""

    def see(self, hit: Tensor) -> None:
        """Count a batch of views, each hit or not."""
        self.views, self.hit = self.views + len(hit), self.hit + int(hit.sum())
        packed = np.packbits(hit.cpu().numpy()).tobytes()
        self.digest = hashlib.sha256(self.digest.encode() + packed).hexdigest()

    def record(self) -> dict[str, Any]:
        """The counts and the hash, as plain values."""
        return {"views": self.views, "hit": self.hit, "sha256": self.digest}

    def get_extra_state(self) -> dict[str, Any]:
        return self.record()

    def set_extra_state(self, state: dict[str, Any]) -> None:
        self.views, self.hit, self.digest = state["views"], state["hit"], state["sha256"]


class ExtraCrop:
    """With probability ``rate`` a view is cropped once more, to ``area`` of its area, and enlarged again.

    Views are drawn again in every step. The recipe stores in ``last_hit`` which images were cropped in the last call,
    and in ``hits`` how many in all.

    Args:
        rate: The probability of a further crop.
        area: The share of the area that this crop keeps.
        when: After all other transformations ("last", the paper's text), or directly after the view's own crop, before
            colors and blur ("after_crop", the paper's listing).

    Raises:
        UsageError: If the rate is not in [0, 1], the area not in (0, 1], or ``when`` is neither.

    Example:
        >>> views = rince.views.SimCLRViews(noise=rince.noise.ExtraCrop(rate=0.4))
    """

    def __init__(self, rate: float, area: float = 0.2, when: Literal["last", "after_crop"] = "last"):
        if not 0 <= rate <= 1:
            raise UsageError(f"the rate of extra crops must lie in [0, 1], got {rate}")
        if not 0 < area <= 1:
            raise UsageError(f"the area of an extra crop must lie in (0, 1], got {area}")
        if when not in ("last", "after_crop"):
            raise UsageError(f"when must be 'last' or 'after_crop', got {when!r}")
        self.rate, self.area, self.when = rate, area, when

    def numbers(self, draw: Draws, size: int) -> dict[str, Tensor]:
        """Which views are hit, and the box of every crop."""
        from rince._support.image_operations import random_boxes

        boxes = random_boxes(draw, size, size, (self.area, self.area), (3 / 4, 4 / 3))
        names = ("noise_top", "noise_left", "noise_height", "noise_width")
        return {"noise_hit": draw.chance(self.rate), **dict(zip(names, boxes, strict=True))}

    def __call__(self, planes: Tensor, numbers: dict[str, Tensor]) -> Tensor:
        """Planes (channels, n, size, size) of which those marked in ``noise_hit`` are cropped."""
        from rince._support.image_operations import resize, resize_weights

        chosen = numbers["noise_hit"].nonzero().squeeze(1)
        if not len(chosen):
            return planes
        size = planes.shape[-1]
        top, left, height, width = (numbers[f"noise_{name}"][chosen] for name in ("top", "left", "height", "width"))
        rows, columns = resize_weights(top, height, size, size), resize_weights(left, width, size, size)
        planes[:, chosen] = resize(planes[:, chosen].transpose(0, 1), rows, columns)
        return planes
