"""Views of pairs of two modalities: clips, sounds, and features."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from rince._support import image_operations as op
from rince._support.step_seeds import Draws
from rince.errors import UsageError
from rince.views.image import IMAGENET_MEAN, IMAGENET_STD, PIXELS_AT_A_TIME, Recipe
from rince.views.views import Views, about_views


class PairViews(Views):
    """A recipe for each side: ``views(a, b, draw, cropped)`` returns one view of every item of ``a`` and ``b``.

    A recipe is an nn.Module called as ``recipe(items, draw, cropped)``, with ``recipe.plain(items)`` for evaluation:
    :class:`Recipe` for images, :class:`ClipRecipe`, :class:`SoundRecipe`, :class:`Unchanged`, or your own.

    Example:
        >>> views = rince.views.PairViews(rince.views.Unchanged(), rince.views.Unchanged(mean=1.0, std=2.0))
        >>> draw = rince.views.Draws(torch.Generator().manual_seed(0), items=4)
        >>> a, b = views(torch.randn(4, 40), torch.randn(4, 24), draw)
        >>> a.shape, b.shape
        (torch.Size([4, 40]), torch.Size([4, 24]))
    """

    makes = "one view of each side of a pair"

    def __init__(self, a: nn.Module, b: nn.Module):
        """
        Args:
            a: Recipe of the first side.
            b: Recipe of the second side.
        """
        super().__init__()
        self.a, self.b = a, b

    def forward(self, a: Tensor, b: Tensor, draw: Draws, cropped: bool = False) -> tuple[Tensor, Tensor]:
        """One view of every item.

        Args:
            a: Items of the first side.
            b: Their partners.
            draw: Source of random numbers.
            cropped: Whether the images or clips of ``a`` have been cropped at random already.

        Returns:
            The views of both sides.
        """
        return self.a(a, draw, cropped), self.b(b, draw, False)

    def about(self) -> dict[str, Any]:
        return {"a": about_views(self.a), "b": about_views(self.b)}


class Unchanged(Views):
    """Items without augmentation, as floats: ``(items - mean) / std``. For rows of a table or embeddings.

    Args:
        mean: Subtracted from every number.
        std: Divisor of every number.

    Example:
        >>> rince.views.Unchanged(mean=1.0, std=2.0).plain(torch.tensor([[3, 5]]))
        tensor([[1., 2.]])
    """

    makes = "one view, the item as it is"

    def __init__(self, mean: float = 0.0, std: float = 1.0):
        super().__init__()
        self.mean, self.std = mean, std

    def forward(self, items: Tensor, draw: Draws, cropped: bool = False) -> Tensor:
        return self.plain(items)

    def about(self) -> dict[str, Any]:
        return {"mean": self.mean, "std": self.std}

    def plain(self, items: Tensor) -> Tensor:
        """Items for evaluation."""
        items = items if items.is_floating_point() else items.to(torch.get_default_dtype())
        return (items - self.mean) / self.std


TEST_CROP = 0.875  # of the shorter side: the same as resizing it to size / 0.875 and cutting out the middle


class ClipRecipe(Recipe):
    """Crop, flip and colors, the same for all frames of a clip: bytes (n, frames, height, width, 3) to floats.

    Views are normalized and of shape (n, 3, frames, size, size). Contrast is changed around the mean gray of the whole
    clip, so that changes of brightness within a clip scale alike.

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
            crop: Smallest and largest area of a crop, as a share of the image. None: no crop.
            flip: Probability of a left-right flip.
            jitter: Strength of brightness, contrast, saturation and hue.
            mean: Mean of each color, subtracted at the end.
            std: Standard deviation of each color, divided by at the end.
            jitter_chance: Probability of the color jitter.
            ratio: Smallest and largest ratio of width to height of a crop.
        """
        super().__init__(
            size=size, crop=crop, ratio=ratio, flip=flip, jitter=jitter, jitter_chance=jitter_chance,
            gray_chance=0.0, blur_chance=0.0, mean=mean, std=std,
        )  # fmt: skip

    @torch.no_grad()
    def forward(self, clips: Tensor, draw: Draws, cropped: bool = False) -> Tensor:
        """One random view of every clip.

        Args:
            clips: (n, frames, height, width, 3) bytes.
            draw: Source of random numbers.
            cropped: Whether the clips have been cropped at random already.

        Returns:
            (n, 3, frames, size, size) normalized floats.
        """
        n, frames, height, width, channels = _shape(clips)
        self.check(channels)
        numbers = self._numbers(draw, n, height, width, cropped)
        numbers = {name: value.to(clips.device) for name, value in numbers.items()}
        at_a_time = n if clips.device.type != "cpu" else max(1, PIXELS_AT_A_TIME // (frames * self.size**2))
        full_frame = (cropped or self.crop is None) and (height, width) == (self.size, self.size)
        views = clips.new_empty((n, channels, frames, self.size, self.size), dtype=self.mean.dtype)
        for start in range(0, n, at_a_time):
            part = slice(start, start + at_a_time)
            own = {name: value[part] for name, value in numbers.items()}
            x = self._only_flipped(clips[part], own["flip"]) if full_frame else self._cut(clips[part], own)
            if any(self.jitter) and self.jitter_chance > 0:
                tall = x.view(channels, -1, frames * self.size, self.size)  # all frames of a clip as one tall image
                x = op.jitter(tall, own["factors"], own["hue"], own["order"]).view_as(x)
            views[part] = self._normalized(x).transpose(0, 1)
        return views

    def plain(self, clips: Tensor) -> Tensor:
        """Clips for evaluation: the central 0.875 of the shorter side, resized, unless they have the size already."""
        n, _, height, width, channels = _shape(clips)
        self.check(channels)
        flip = torch.zeros(n, dtype=torch.bool, device=clips.device)
        if (height, width) == (self.size, self.size):
            return self._normalized(self._only_flipped(clips, flip)).transpose(0, 1)
        side = torch.full((n,), TEST_CROP * min(height, width), device=clips.device)
        box = {"top": (height - side) / 2, "left": (width - side) / 2, "height": side, "width": side, "flip": flip}
        return self._normalized(self._cut(clips, box)).transpose(0, 1)

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

    def _normalized(self, x: Tensor) -> Tensor:
        return (x - self.mean[:, None, None, None, None]) / self.std[:, None, None, None, None]


def _shape(clips: Tensor) -> torch.Size:
    if clips.dim() != 5:
        raise UsageError(f"clips must have the shape (n, frames, height, width, 3), got {tuple(clips.shape)}")
    return clips.shape


class SoundRecipe(Views):
    """Sounds (n, samples) to normalized log power spectrograms (n, 1, frames, bins).

    2 s at 24 kHz become 200 frames of 257 bins: one frame for every hop, centered on it, with reflection at both ends,
    and window / 2 + 1 bins. With ``pair_bins`` all bins but the first are averaged in pairs, so that a window of 1024
    has 257 bins too.

    Power is in decibels; a sine of amplitude 1 has -6 dB. Values below ``quietest``, or more than ``floor`` below the
    loudest point of a sound, are clamped. Every bin is normalized by ``mean`` and ``std`` (one number or one per bin,
    see :func:`bin_statistics`), or by mean and deviation over the first training batch (``normalize="data"``).
    Otherwise a sound is normalized by itself, per bin or as a whole, and its volume has no effect.

    Example:
        >>> recipe = rince.views.SoundRecipe(sample_rate=8000, window=256)
        >>> recipe(torch.randn(2, 8000), rince.views.Draws(torch.Generator().manual_seed(0), items=2)).shape
        torch.Size([2, 1, 100, 129])
    """

    makes = "one view of a sound"

    mean: Tensor | None
    std: Tensor | None
    taper: Tensor
    measured: Tensor

    def __init__(
        self,
        volume: float = 0.1,
        sample_rate: int = 24000,
        window: int = 512,
        hop: float = 0.01,
        floor: float = 80.0,
        mean: float | Sequence[float] | None = None,
        std: float | Sequence[float] | None = None,
        normalize: Literal["bin", "sound", "data"] = "bin",
        shift: float = 0.0,
        pair_bins: bool = False,
        quietest: float = -160.0,
    ):
        """
        Args:
            volume: Largest relative change of the volume, up or down.
            sample_rate: Samples per second.
            window: Samples of the Hann window of a frame.
            hop: Seconds between frames.
            floor: Dynamic range in decibels, below the loudest point of a sound.
            mean: Mean of every bin in decibels.
            std: Standard deviation of every bin in decibels.
            normalize: Without mean and std: "bin" by mean and deviation of each bin over time, "sound" by those of the
                whole sound, "data" by those of each bin over the first training batch (of all processes), which are
                stored in checkpoints.
            shift: Largest random shift in seconds, in both directions. The gap is silent.
            pair_bins: Average the power of neighboring bins, as AVID does with a window of 1024.
            quietest: Smallest value in decibels. AVID's is -154.2.

        Raises:
            UsageError: If a hop is longer than the window, or mean, std and normalize contradict each other.
        """
        super().__init__()
        self.hop = round(hop * sample_rate)
        if not 1 <= self.hop <= window:
            raise UsageError(
                f"a hop of {hop} s is {self.hop} samples, which must lie between 1 and the window of {window}"
            )
        if (mean is None) != (std is None):
            raise UsageError("mean and std of the bins go together: set both or neither")
        if pair_bins and window % 4:
            raise UsageError(f"pairs of bins need a window that is a multiple of 4 samples, got {window}")
        if mean is not None and normalize == "data":
            raise UsageError("normalize: data measures mean and std of the bins: leave these out")
        self.volume, self.sample_rate, self.window = volume, sample_rate, window
        self.floor, self.quietest = floor, quietest
        self.normalize, self.shift, self.pair_bins = normalize, shift, pair_bins
        self.bins = window // (4 if pair_bins else 2) + 1
        from_data = normalize == "data"  # measured in training, so part of a checkpoint
        own = (torch.zeros(self.bins), torch.ones(self.bins)) if from_data else (mean, std)
        for name, values in zip(("mean", "std"), own, strict=True):
            self.register_buffer(name, _bins(values, self.bins, name), persistent=from_data)
        self.register_buffer("measured", torch.tensor(not from_data), persistent=from_data)
        self.register_buffer("taper", torch.hann_window(window, dtype=torch.float64), persistent=False)

    def about(self) -> dict[str, Any]:
        bins = {} if self.mean is None or self.std is None else {"mean": self.mean.tolist(), "std": self.std.tolist()}
        names = ("sample_rate", "window", "hop", "floor", "normalize", "pair_bins", "quietest")
        return {**bins, **{name: getattr(self, name) for name in names}}

    @torch.no_grad()
    def forward(self, sounds: Tensor, draw: Draws, cropped: bool = False) -> Tensor:
        factor, shift = draw.uniform(1 - self.volume, 1 + self.volume), draw.uniform(-self.shift, self.shift)
        if self.shift:
            sounds = shifted(sounds, (shift * self.sample_rate).round().long().to(sounds.device))
        if self.normalize == "data" and self.training and not self.measured:
            self._measure(sounds)
        return self.plain(sounds * factor[:, None].to(sounds))

    def _measure(self, sounds: Tensor) -> None:
        """Measure mean and deviation of every bin over this batch of all processes."""
        x = self.decibels(sounds).double().flatten(0, 1)
        sums = torch.stack([x.sum(0), x.square().sum(0), torch.full_like(x[0], len(x))])
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(sums)
        mean, std = _moments(*sums)
        assert self.mean is not None and self.std is not None
        self.mean.copy_(mean), self.std.copy_(std), self.measured.fill_(True)

    @torch.no_grad()
    def plain(self, sounds: Tensor) -> Tensor:
        """Sounds for evaluation, at their own volume."""
        x = self.decibels(sounds)
        is_measured = self.normalize != "data" or bool(self.measured)  # reading a tensor synchronizes the GPU
        if is_measured and self.mean is not None and self.std is not None:
            x = (x - self.mean) / self.std
        else:
            over = (1, 2) if self.normalize == "sound" else 1
            x = (x - x.mean(over, keepdim=True)) / (x.std(over, keepdim=True, correction=0) + 1e-5)
        return x[:, None]

    def decibels(self, sounds: Tensor) -> Tensor:
        """(n, samples) -> (n, frames, bins) log power, before normalization."""
        if sounds.dim() != 2 or not sounds.is_floating_point():
            raise UsageError(
                f"sounds must be floats (n, samples), got {sounds.dtype} of the shape {tuple(sounds.shape)}"
            )
        if sounds.shape[1] < self.window:
            raise UsageError(f"a sound must be at least one window of {self.window} samples, got {sounds.shape[1]}")
        before = (self.window - self.hop) // 2
        # In single precision a bin 80 dB below its neighbors is off by some 0.002 dB.
        exact = sounds.to(torch.float32 if sounds.device.type == "mps" else torch.float64)
        taper = self.taper.to(exact.dtype)
        padded = nn.functional.pad(exact, (before, self.window - self.hop - before), mode="reflect")
        spectrum = torch.stft(padded, self.window, self.hop, window=taper, center=False, return_complex=True)
        power = (spectrum.real.square() + spectrum.imag.square()) / taper.sum().square()
        if self.pair_bins:
            power = torch.cat([power[:, :1], power[:, 1:].unflatten(1, (-1, 2)).mean(2)], 1)
        x = power.clamp_min_(10 ** (self.quietest / 10)).log10_().mul_(10).transpose(1, 2).to(sounds.dtype).contiguous()
        return torch.maximum(x, x.amax((1, 2), keepdim=True) - self.floor)


def shifted(sounds: Tensor, by: Tensor) -> Tensor:
    """Sounds (n, samples), each delayed by its number of samples (n,), with silence in the gaps."""
    samples = sounds.shape[1]
    source = torch.arange(samples, device=sounds.device) - by[:, None]
    inside = (source >= 0) & (source < samples)
    return sounds.gather(1, source.clamp(0, samples - 1)) * inside


@torch.no_grad()
def bin_statistics(
    recipe: SoundRecipe, sounds: Tensor | Iterable[Tensor], batch_size: int = 256
) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of every bin over all frames of sounds (n, samples), or of batches of them."""
    total = square = torch.zeros(1, dtype=torch.float64)
    frames = 0
    for part in sounds.split(batch_size) if isinstance(sounds, Tensor) else sounds:
        x = recipe.decibels(part).double().flatten(0, 1)
        total, square, frames = total + x.sum(0), square + x.square().sum(0), frames + len(x)
    mean, std = _moments(total, square, torch.tensor(max(1, frames)))
    return mean.tolist(), std.tolist()


def _moments(total: Tensor, square: Tensor, count: Tensor) -> tuple[Tensor, Tensor]:
    mean = total / count
    return mean, (square / count - mean.square()).clamp_min(1e-6).sqrt()


def _bins(values: float | Sequence[float] | Tensor | None, bins: int, name: str) -> Tensor | None:
    if values is None:
        return None
    result = torch.atleast_1d(torch.as_tensor(values, dtype=torch.float32))
    if result.dim() != 1 or len(result) not in (1, bins):
        raise UsageError(f"{name} must be one number or one per bin, {bins}, got {len(result)}")
    return result
