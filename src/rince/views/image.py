"""Random views of images, computed for whole batches."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rince._support import image_operations as op
from rince._support.step_seeds import Draws
from rince.errors import UsageError
from rince.noise.crops import ExtraCrop, Hits
from rince.views.views import Views

CIFAR10_MEAN, CIFAR10_STD = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)
IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)

# Pixels processed at a time on a CPU: as many as fit into the cache.
PIXELS_AT_A_TIME = 256 * 32 * 32


class Recipe(Views):
    """One random view of every image: crop, flip, colors, gray, blur, solarize, normalize.

    Called with bytes or floats in [0, 1] (n, channels, height, width); returns normalized floats of ``size``.

    Example:
        >>> recipe = rince.views.Recipe(size=16)
        >>> images = torch.randint(256, (4, 3, 32, 32), dtype=torch.uint8)
        >>> recipe(images, rince.views.Draws(torch.Generator().manual_seed(0), items=4)).shape
        torch.Size([4, 3, 16, 16])
    """

    makes = "one view of it"
    mean: Tensor
    std: Tensor

    def __init__(
        self,
        size: int = 32,
        crop: tuple[float, float] | None = (0.08, 1.0),
        ratio: tuple[float, float] = (3 / 4, 4 / 3),
        flip: float = 0.5,
        jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.1),
        jitter_chance: float = 0.8,
        gray_chance: float = 0.2,
        blur_chance: float = 0.5,
        blur_taps: int = 3,
        blur_sigma: tuple[float, float] = (0.1, 2.0),
        solarize_chance: float = 0.0,
        mean: Sequence[float] = CIFAR10_MEAN,
        std: Sequence[float] = CIFAR10_STD,
        noise: ExtraCrop | None = None,
    ):
        """
        Args:
            size: Height and width of the views.
            crop: Smallest and largest area of a crop, as a share of the image. None: no crop.
            ratio: Smallest and largest ratio of width to height of a crop.
            flip: Probability of a left-right flip.
            jitter: Strength of brightness, contrast, saturation and hue.
            jitter_chance: Probability of the color jitter.
            gray_chance: Probability of a gray image.
            blur_chance: Probability of a Gaussian blur.
            blur_taps: Size of the blur kernel in pixels, an odd number.
            blur_sigma: Smallest and largest sigma of the blur in pixels.
            solarize_chance: Probability that bright pixels are inverted.
            mean: Mean of each channel, subtracted at the end.
            std: Standard deviation of each channel, divided by at the end.
            noise: Noise on a share of the views.

        Raises:
            UsageError: If a probability, crop or blur_taps is out of range, or mean and std have different lengths.
        """
        super().__init__()
        chances = (flip, jitter_chance, gray_chance, blur_chance, solarize_chance)
        if not all(0 <= chance <= 1 for chance in chances):
            raise UsageError(f"flip and the *_chance options must be in [0, 1], got {chances}")
        if blur_taps % 2 == 0:
            raise UsageError(f"blur_taps must be odd, got {blur_taps}")
        op.check_crop(crop or (1, 1), ratio)
        if len(mean) != len(std):
            raise UsageError(f"mean and std must have one value per channel, got {len(mean)} and {len(std)}")
        self.size, self.crop, self.ratio, self.flip = size, crop, ratio, flip
        self.jitter, self.jitter_chance, self.gray_chance = jitter, jitter_chance, gray_chance
        self.blur_chance, self.blur_taps, self.blur_sigma = blur_chance, blur_taps, blur_sigma
        self.solarize_chance, self.noise = solarize_chance, noise
        self.last_hit: Tensor | None = None  # mask of the images changed by noise in the last call
        self.hits = None if noise is None else Hits()
        self.register_buffer("mean", torch.tensor(mean), persistent=False)
        self.register_buffer("std", torch.tensor(std), persistent=False)

    @torch.no_grad()
    def forward(self, images: Tensor, draw: Draws, cropped: bool = False) -> Tensor:
        n, channels, height, width = images.shape
        self.check(channels)
        numbers = self._numbers(draw, n, height, width, cropped)
        self.last_hit = numbers.get("noise_hit")
        if self.hits is not None and self.last_hit is not None:
            self.hits.see(self.last_hit)
        numbers = {name: value.to(images.device) for name, value in numbers.items()}
        at_a_time = n if images.device.type != "cpu" else max(4, PIXELS_AT_A_TIME // self.size**2)
        views = images.new_empty((n, channels, self.size, self.size), dtype=self.mean.dtype)
        for start in range(0, n, at_a_time):
            part = slice(start, start + at_a_time)
            view = self._view(images[part], {name: value[part] for name, value in numbers.items()})
            shift, scale = (-self.mean / self.std)[:, None, None, None], (1 / self.std)[:, None, None, None]
            torch.addcmul(shift, view, scale, out=views[part].transpose(0, 1))
        return views

    def plain(self, images: Tensor) -> Tensor:
        """Images for evaluation: resized and normalized, without random augmentation."""
        n, channels, height, width = images.shape
        self.check(channels)
        if (height, width) == (self.size, self.size):
            x = images.float() / 255 if images.dtype == torch.uint8 else images
        else:
            zeros, ones = torch.zeros(n, device=images.device), torch.ones(n, device=images.device)
            rows = op.resize_weights(zeros, ones * height, height, self.size)
            columns = op.resize_weights(zeros, ones * width, width, self.size)
            x = op.resize(images, rows, columns).transpose(0, 1)
        return (x - self.mean[:, None, None]) / self.std[:, None, None]

    def about(self) -> dict[str, Any]:
        return {"mean": self.mean.tolist(), "std": self.std.tolist(), "size": self.size}

    def noise_record(self) -> dict[str, Any]:
        return {} if self.hits is None else self.hits.record()

    def check(self, channels: int) -> None:
        """Reject images whose number of channels differs from mean and std."""
        if channels != len(self.mean):
            raise UsageError(
                f"these views normalize {len(self.mean)} channels, the images have {channels}: set mean and std"
            )

    def _numbers(self, draw: Draws, n: int, height: int, width: int, cropped: bool) -> dict[str, Tensor]:
        """All random numbers of a view. Unused ones are drawn too, so that options do not shift the random stream."""
        crop = (1.0, 1.0) if cropped or self.crop is None else self.crop
        ratio = (width / height,) * 2 if cropped or self.crop is None else self.ratio
        numbers = dict(
            zip(("top", "left", "height", "width"), op.random_boxes(draw, height, width, crop, ratio), strict=True)
        )
        numbers["flip"] = draw.chance(self.flip)
        applied = draw.chance(self.jitter_chance)[:, None]
        strength = torch.tensor(self.jitter)
        factors = 1 + draw.uniform(-1, 1, (4,)) * strength
        numbers["factors"] = torch.where(applied, factors[:, :3].clamp_min(0), 1.0)
        numbers["hue"] = torch.where(applied[:, 0], factors[:, 3] - 1, 0.0)
        numbers["order"] = draw.orders(4)
        numbers["gray"] = draw.chance(self.gray_chance)
        numbers["blur"] = draw.chance(self.blur_chance)
        numbers["sigma"] = draw.uniform(*self.blur_sigma)
        numbers["solarize"] = draw.chance(self.solarize_chance)
        if self.noise is not None:
            numbers |= self.noise.numbers(draw, self.size)
        return numbers

    def _view(self, images: Tensor, numbers: dict[str, Tensor]) -> Tensor:
        """Bytes (n, channels, height, width) to planes (channels, n, size, size), before normalization."""
        height, width = images.shape[2:]
        rows = op.resize_weights(numbers["top"], numbers["height"], height, self.size)
        columns = op.resize_weights(numbers["left"], numbers["width"], width, self.size, numbers["flip"])
        x = op.resize(images, rows, columns)
        if self.noise is not None and self.noise.when == "after_crop":
            x = self.noise(x, numbers)
        if any(self.jitter) and self.jitter_chance > 0:
            x = op.jitter(x, numbers["factors"], numbers["hue"], numbers["order"])
        if len(chosen := numbers["gray"].nonzero().squeeze(1)) and x.shape[0] == 3:
            x[:, chosen] = op.gray(x[:, chosen])
        if len(chosen := numbers["blur"].nonzero().squeeze(1)):
            x[:, chosen] = op.blur(x[:, chosen], numbers["sigma"][chosen], self.blur_taps)
        if len(chosen := numbers["solarize"].nonzero().squeeze(1)):
            x[:, chosen] = op.solarize(x[:, chosen])
        return self.noise(x, numbers) if self.noise is not None and self.noise.when == "last" else x


class TwoViews(Views):
    """Two views of every image, by one recipe or by two.

    Args:
        first: Recipe of the first view.
        second: Recipe of the second view. Default: None, the same.

    Example:
        >>> views = rince.views.TwoViews(rince.views.Recipe(size=16), rince.views.Recipe(size=16, blur_chance=0.0))
        >>> draw = rince.views.Draws(torch.Generator().manual_seed(0), items=4)
        >>> first, second = views(torch.randint(256, (4, 3, 32, 32), dtype=torch.uint8), draw)
        >>> first.shape
        torch.Size([4, 3, 16, 16])
    """

    def __init__(self, first: Recipe, second: Recipe | None = None):
        super().__init__()
        self.first, self.second = first, first if second is None else second

    def forward(
        self, images: Tensor, draw: Draws, partners: Tensor | None = None, cropped: bool = False
    ) -> tuple[Tensor, Tensor]:
        first = self.first(images, draw, cropped)
        return first, self.second(images if partners is None else partners, draw, cropped)

    def plain(self, images: Tensor) -> Tensor:
        """Images for evaluation: resized and normalized, without random augmentation."""
        return self.first.plain(images)

    def about(self) -> dict[str, Any]:
        return self.first.about()

    def noise_record(self) -> dict[str, Any]:
        return self.first.noise_record()


class SimCLRViews(TwoViews):
    """SimCLR's views. Defaults are those of the paper for CIFAR-10, options those of :class:`Recipe`.

    Example:
        >>> views = rince.views.SimCLRViews(size=32)
        >>> draw = rince.views.Draws(torch.Generator().manual_seed(0), items=4)
        >>> first, second = views(torch.randint(256, (4, 3, 32, 32), dtype=torch.uint8), draw)
    """

    def __init__(self, **recipe: Any):
        super().__init__(Recipe(**recipe))


class MoCoV3Views(TwoViews):
    """MoCo v3's asymmetric views: the first is always blurred, the second rarely blurred and sometimes solarized.

    Args:
        size: Height and width of the views.
        crop: Smallest and largest area of a crop, as a share of the image.
        jitter: Strength of brightness, contrast, saturation and hue.
        blur_taps: Size of the blur kernel in pixels, an odd number.
        mean: Mean of each channel, subtracted at the end.
        std: Standard deviation of each channel, divided by at the end.

    Example:
        >>> views = rince.views.MoCoV3Views(size=32, blur_taps=5)
        >>> views.first.blur_chance, views.second.solarize_chance
        (1.0, 0.2)
    """

    def __init__(
        self,
        size: int = 224,
        crop: tuple[float, float] = (0.2, 1.0),
        jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.2, 0.1),
        blur_taps: int = 23,
        mean: Sequence[float] = IMAGENET_MEAN,
        std: Sequence[float] = IMAGENET_STD,
    ):
        def recipe(blur: float, solarize: float) -> Recipe:
            return Recipe(
                size=size,
                crop=crop,
                jitter=jitter,
                blur_chance=blur,
                blur_taps=blur_taps,
                solarize_chance=solarize,
                mean=mean,
                std=std,
            )

        super().__init__(recipe(1.0, 0.0), recipe(0.1, 0.2))


class OwnViews(Views):
    """Views by your own transform: torchvision, albumentations, kornia, or any callable.

    Training seeds the global generators of torch, numpy and Python at every step.

    Args:
        transform: Maps a batch of floats in [0, 1] (n, channels, height, width) to views of it.
        each: The transform maps one image instead: an array of bytes (height, width, channels).

    Example:
        >>> views = rince.views.OwnViews(lambda images: images + 0.1 * torch.randn_like(images))
        >>> first, second = views(torch.rand(4, 3, 8, 8), draw=None)
        >>> first.shape
        torch.Size([4, 3, 8, 8])
    """

    def __init__(self, transform: Callable[[Any], Any], each: bool = False):
        super().__init__()
        self.transform, self.each = transform, each

    @torch.no_grad()
    def forward(
        self, images: Tensor, draw: Draws, partners: Tensor | None = None, cropped: bool = False
    ) -> tuple[Tensor, Tensor]:
        return self._apply_to(images), self._apply_to(images if partners is None else partners)

    def plain(self, images: Tensor) -> Tensor:
        """Images for evaluation: floats in [0, 1]."""
        return images.float() / 255 if images.dtype == torch.uint8 else images

    def _apply_to(self, images: Tensor) -> Tensor:
        if not self.each:
            return self.transform(self.plain(images))
        views = [torch.as_tensor(self.transform(image.permute(1, 2, 0).cpu().numpy())) for image in images]
        return torch.stack(views).to(images.device)


def check_two_views(method: str, views: nn.Module) -> None:
    """Reject views that are not two views of every image: recipes of one view, views of graphs or of pairs."""
    makes = views.makes if isinstance(views, Views) else ""
    if not makes:
        try:
            inspect.signature(views.forward).bind("images", "draw", "partners", "cropped")
            return
        except TypeError:
            pass
    problem = f"makes {makes}" if makes else "cannot be called with images, draw, partners and cropped"
    raise UsageError(
        f"{method} needs two views of every image, and {type(views).__name__} {problem}: set views, such as "
        "SimCLRViews or TwoViews"
    )
