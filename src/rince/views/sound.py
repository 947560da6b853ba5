"""A view of every sound of a batch: its log power spectrogram, a little louder or softer, sooner or later."""

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor, nn

from rince._support.step_seeds import Draws
from rince.errors import UsageError
from rince.views.views import Views


class SoundRecipe(Views):
    """Sounds (n, samples) to normalised log power spectrograms (n, 1, frames, bins).

    2 s at 24 kHz give 200 x 257 numbers: there is one frame for every whole hop, centred on it. For that the sound is
    mirrored at both ends by half of what a window is longer than a hop. There are window / 2 + 1 bins; with
    ``pair_bins`` all but the first are averaged in pairs, so that a window of 1024 gives 257 of them too.

    The power is in decibels; a sine of amplitude 1 has -6 dB. What is more than ``floor`` below the loudest point of a
    sound is raised to that, and what is below ``quietest`` to ``quietest``. Then every bin is normalised by ``mean``
    and ``std`` (a number for all bins or one for each; see :func:`bin_statistics`), or by what the first batch of
    training measures of them (``normalise="data"``). Otherwise a sound is normalised by itself, bin by bin over its own
    time or as a whole, and then the volume no longer matters.

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
        normalise: Literal["bin", "sound", "data"] = "bin",
        shift: float = 0.0,
        pair_bins: bool = False,
        quietest: float = -160.0,
    ):
        """
        Args:
            volume: Largest relative change of the volume, up or down.
            sample_rate: Samples per second.
            window: Samples under the Hann window of a frame.
            hop: Seconds from frame to frame.
            floor: Decibels below the loudest point of a sound that are kept.
            mean: Mean of every bin in decibels.
            std: Standard deviation of every bin in decibels.
            normalise: Without mean and std: each bin by its own mean and deviation over time, the sound as a whole, or
                each bin by mean and deviation over the first batch of training (of all processes), which checkpoints
                keep.
            shift: Largest shift in time in seconds, either way; silence fills the gap.
            pair_bins: Average the power of neighbouring bins, as AVID does with a window of 1024.
            quietest: Decibels at which silence lies, however loud the sound is; AVID's is -154.2.

        Raises:
            UsageError: If a number is out of range, a hop is longer than the window, or mean and std do not go
                together.
        """
        super().__init__()
        if not 0 <= volume < 1:
            raise UsageError(f"volume must be a share in [0, 1), got {volume}")
        if shift < 0:
            raise UsageError(f"shift must not be negative, got {shift}")
        if not -300 <= quietest < 0:
            raise UsageError(f"quietest must lie in [-300, 0) decibels, got {quietest}")
        if sample_rate < 1 or window < 2 or floor <= 0:
            raise UsageError(
                f"sample_rate must be at least 1, window at least 2 and floor positive, "
                f"got {sample_rate}, {window} and {floor}"
            )
        self.hop = round(hop * sample_rate)
        if not 1 <= self.hop <= window:
            raise UsageError(
                f"a hop of {hop} s is {self.hop} samples, which must lie between 1 and the window of {window}"
            )
        if (mean is None) != (std is None):
            raise UsageError("mean and std of the bins go together: give both or none")
        if pair_bins and window % 4:
            raise UsageError(f"pairs of bins need a window that is a multiple of 4 samples, got {window}")
        if mean is not None and normalise == "data":
            raise UsageError("normalise: data measures mean and std of the bins: leave these out")
        self.volume, self.sample_rate, self.window = volume, sample_rate, window
        self.floor, self.quietest = floor, quietest
        self.normalise, self.shift, self.pair_bins = normalise, shift, pair_bins
        self.bins = window // (4 if pair_bins else 2) + 1
        from_data = normalise == "data"  # then they are learnt, in a way, and belong to a checkpoint
        own = (torch.zeros(self.bins), torch.ones(self.bins)) if from_data else (mean, std)
        for name, values in zip(("mean", "std"), own, strict=True):
            self.register_buffer(name, _bins(values, self.bins, name), persistent=from_data)
        self.register_buffer("measured", torch.tensor(not from_data), persistent=from_data)
        self.register_buffer("taper", torch.hann_window(window, dtype=torch.float64), persistent=False)

    def about(self) -> dict[str, Any]:
        bins = {} if self.mean is None or self.std is None else {"mean": self.mean.tolist(), "std": self.std.tolist()}
        names = ("sample_rate", "window", "hop", "floor", "normalise", "pair_bins", "quietest")
        return {**bins, **{name: getattr(self, name) for name in names}}

    @torch.no_grad()
    def forward(self, sounds: Tensor, draw: Draws, cropped: bool = False) -> Tensor:
        factor, shift = draw.uniform(1 - self.volume, 1 + self.volume), draw.uniform(-self.shift, self.shift)
        if self.shift:
            sounds = shifted(sounds, (shift * self.sample_rate).round().long().to(sounds.device))
        if self.normalise == "data" and self.training and not self.measured:
            self._measure(sounds)
        return self.plain(sounds * factor[:, None].to(sounds))

    def _measure(self, sounds: Tensor) -> None:
        """Mean and deviation of every bin over this batch, of all processes."""
        x = self.decibels(sounds).double().flatten(0, 1)
        sums = torch.stack([x.sum(0), x.square().sum(0), torch.full_like(x[0], len(x))])
        if dist.is_available() and dist.is_initialized():
            dist.all_reduce(sums)
        mean, std = _moments(*sums)
        assert self.mean is not None and self.std is not None
        self.mean.copy_(mean), self.std.copy_(std), self.measured.fill_(True)

    @torch.no_grad()
    def plain(self, sounds: Tensor) -> Tensor:
        """The sounds as evaluation hears them: as loud as they are."""
        x = self.decibels(sounds)
        known = self.normalise != "data" or bool(self.measured)  # asked only where needed: a GPU would have to wait
        if known and self.mean is not None and self.std is not None:
            x = (x - self.mean) / self.std
        else:
            over = (1, 2) if self.normalise == "sound" else 1
            x = (x - x.mean(over, keepdim=True)) / (x.std(over, keepdim=True, correction=0) + 1e-5)
        return x[:, None]

    def decibels(self, sounds: Tensor) -> Tensor:
        """(n, samples) -> (n, frames, bins): log power, not yet normalised."""
        if sounds.dim() != 2 or not sounds.is_floating_point():
            raise UsageError(
                f"sounds must be floats (n, samples), got {sounds.dtype} of the shape {tuple(sounds.shape)}"
            )
        if sounds.shape[1] < self.window:
            raise UsageError(f"a sound must be at least one window of {self.window} samples, got {sounds.shape[1]}")
        before = (self.window - self.hop) // 2
        # In single precision a bin 80 dB below its neighbours is off by some 0.002 dB.
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
    """Sounds (n, samples), each later by its number of samples (n,), sooner where it is negative; silence comes in."""
    samples = sounds.shape[1]
    source = torch.arange(samples, device=sounds.device) - by[:, None]
    inside = (source >= 0) & (source < samples)
    return sounds.gather(1, source.clamp(0, samples - 1)) * inside


@torch.no_grad()
def bin_statistics(
    recipe: SoundRecipe, sounds: Tensor | Iterable[Tensor], batch_size: int = 256
) -> tuple[list[float], list[float]]:
    """Mean and standard deviation of every bin over all frames of all sounds (n, samples), for ``mean`` and ``std``;
    the sounds may come batch by batch."""
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
    given = torch.atleast_1d(torch.as_tensor(values, dtype=torch.float32))
    if given.dim() != 1 or len(given) not in (1, bins):
        raise UsageError(f"{name} must be one number or one per bin, {bins}, got {len(given)}")
    if name == "std" and not (given > 0).all():
        raise UsageError(f"std must be positive, got {float(given.min())}")
    return given
