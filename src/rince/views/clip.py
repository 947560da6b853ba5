"""A random view of every clip of a batch: what happens to one frame happens to all of them."""

from collections.abc import Sequence

import torch
from torch import Tensor

from rince._support import image_operations as op
from rince._support.step_seeds import Draws
from rince.errors import UsageError
from rince.views.recipe import IMAGENET_MEAN, IMAGENET_STD, PIXELS_AT_A_TIME, Recipe

TEST_CROP = 0.875  # of the shorter side: the same as resizing it to size / 0.875 and cutting out the middle


class ClipRecipe(Recipe):
    """Crop, flip and colours, the same for all frames of a clip; bytes (n, frames, height, width, 3) to floats.

    The views are (n, 3, frames, size, size) and normalised. Contrast is changed around the mean grey of the whole clip:
    with a mean for every frame, a change of brightness within the clip would be weakened or blown up frame by frame.

    Example:
        >>> clips = torch.randint(256, (2, 8, 24, 32, 3), dtype=torch.uint8)
        >>> recipe = rince.views.ClipRecipe(size=16)
        >>> recipe(clips, rince.views.Draws(torch.Generator().manual_seed(0), items=2)).shape
        torch.Size([2, 3, 8, 16, 16])
    """

    makes = "one view of a clip"

    def __init__(
        self,
        size: int = 224,
        crop: tuple[float, float] | None = (0.08, 1.0),
        flip: float = 0.5,
        jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.2),
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
        jitter_chance: float = 1.0,
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
    ):
        """
        Args:
            size: Height and width of the views.
            crop: Smallest and largest area of a crop, as a share of the image; None for no crop.
            flip: Probability of a left-right flip.
            jitter: Strength of brightness, contrast, saturation and hue.
            mean: Mean of each colour, subtracted at the end.
            std: Standard deviation of each colour, divided by at the end.
            jitter_chance: Probability of the colour jitter.
            ratio: Smallest and largest ratio of width to height of a crop.
        """
        super().__init__(
            size=size, crop=crop, ratio=ratio, flip=flip, jitter=jitter, jitter_chance=jitter_chance,
            grey_chance=0.0, blur_chance=0.0, mean=mean, std=std,
        )  # fmt: skip

    @torch.no_grad()
    def forward(self, clips: Tensor, draw: Draws, cropped: bool = False) -> Tensor:
        """One random view of every clip.

        Args:
            clips: (n, frames, height, width, 3) bytes.
            draw: Where random numbers come from.
            cropped: Whether the clips have been cropped at random already.

        Returns:
            (n, 3, frames, size, size) normalised floats.
        """
        n, frames, height, width, channels = _shape(clips)
        self.check(channels)
        numbers = self._numbers(draw, n, height, width, cropped)
        numbers = {name: value.to(clips.device) for name, value in numbers.items()}
        at_a_time = n if clips.device.type != "cpu" else max(1, PIXELS_AT_A_TIME // (frames * self.size**2))
        whole = (cropped or self.crop is None) and (height, width) == (self.size, self.size)
        views = clips.new_empty((n, channels, frames, self.size, self.size), dtype=self.mean.dtype)
        for start in range(0, n, at_a_time):
            part = slice(start, start + at_a_time)
            own = {name: value[part] for name, value in numbers.items()}
            x = self._only_flipped(clips[part], own["flip"]) if whole else self._cut(clips[part], own)
            if any(self.jitter) and self.jitter_chance > 0:
                tall = x.view(channels, -1, frames * self.size, self.size)  # all frames of a clip as one tall image
                x = op.jitter(tall, own["factors"], own["hue"], own["order"]).view_as(x)
            views[part] = self._normalised(x).transpose(0, 1)
        return views

    def plain(self, clips: Tensor) -> Tensor:
        """The clips as evaluation sees them: the middle 0.875 of the shorter side, resized; or all if the size fits."""
        n, _, height, width, channels = _shape(clips)
        self.check(channels)
        flip = torch.zeros(n, dtype=torch.bool, device=clips.device)
        if (height, width) == (self.size, self.size):
            return self._normalised(self._only_flipped(clips, flip)).transpose(0, 1)
        side = torch.full((n,), TEST_CROP * min(height, width), device=clips.device)
        box = {"top": (height - side) / 2, "left": (width - side) / 2, "height": side, "width": side, "flip": flip}
        return self._normalised(self._cut(clips, box)).transpose(0, 1)

    def _cut(self, clips: Tensor, numbers: dict[str, Tensor]) -> Tensor:
        """Planes (channels, n, frames, size, size), each clip with one box for all its frames."""
        n, frames, height, width, channels = clips.shape
        rows = op.resize_weights(numbers["top"], numbers["height"], height, self.size)
        columns = op.resize_weights(numbers["left"], numbers["width"], width, self.size, numbers["flip"])
        images = clips.permute(0, 4, 1, 2, 3).reshape(n, channels * frames, height, width)
        x = op.resize(images, rows, columns).view(channels, frames, n, self.size, self.size)
        return x.transpose(1, 2).contiguous()

    def _only_flipped(self, clips: Tensor, flip: Tensor) -> Tensor:
        x = clips.permute(4, 0, 1, 2, 3).to(self.mean.dtype, memory_format=torch.contiguous_format)
        x = x.div_(255) if clips.dtype == torch.uint8 else x.clone()
        if len(chosen := flip.nonzero().squeeze(1)):
            x[:, chosen] = x[:, chosen].flip(-1)
        return x

    def _normalised(self, x: Tensor) -> Tensor:
        return (x - self.mean[:, None, None, None, None]) / self.std[:, None, None, None, None]


def _shape(clips: Tensor) -> torch.Size:
    if clips.dim() != 5:
        raise UsageError(f"clips must have the shape (n, frames, height, width, 3), got {tuple(clips.shape)}")
    return clips.shape
