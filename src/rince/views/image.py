"""Two views of every image of a batch."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from rince._support.step_seeds import Draws
from rince.errors import UsageError
from rince.noise.crops import ExtraCrop
from rince.views.pair import PairViews
from rince.views.recipe import CIFAR10_MEAN, CIFAR10_STD, IMAGENET_MEAN, IMAGENET_STD, Recipe
from rince.views.views import Views


class TwoViews(Views):
    """The first and the second view of every image, by one recipe or by two different ones.

    Args:
        first: The recipe of the first view.
        second: The recipe of the second view; the same if none is given.

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
        """The images as evaluation sees them: resized and normalised, nothing random."""
        return self.first.plain(images)

    def about(self) -> dict[str, Any]:
        return self.first.about()

    def noise_record(self) -> dict[str, Any]:
        return self.first.noise_record()


class SimCLRViews(TwoViews):
    """SimCLR's recipe twice; the defaults are the paper's for CIFAR-10.

    Args:
        size: Height and width of the views.
        crop: Smallest and largest area of a crop, as a share of the image; None for no crop.
        flip: Probability of a left-right flip.
        jitter: Strength of brightness, contrast, saturation and hue.
        jitter_chance: Probability of the colour jitter.
        grey_chance: Probability of a grey image.
        blur_chance: Probability of a Gaussian blur.
        blur_taps: Size of the blur kernel in pixels, an odd number.
        blur_sigma: Smallest and largest sigma of the blur in pixels.
        mean: Mean of each channel, subtracted at the end.
        std: Standard deviation of each channel, divided by at the end.
        noise: Bad views that are added on purpose.

    Example:
        >>> views = rince.views.SimCLRViews(size=32)
        >>> draw = rince.views.Draws(torch.Generator().manual_seed(0), items=4)
        >>> first, second = views(torch.randint(256, (4, 3, 32, 32), dtype=torch.uint8), draw)
    """

    def __init__(
        self,
        size: int = 32,
        crop: tuple[float, float] | None = (0.08, 1.0),
        flip: float = 0.5,
        jitter: tuple[float, float, float, float] = (0.4, 0.4, 0.4, 0.1),
        jitter_chance: float = 0.8,
        grey_chance: float = 0.2,
        blur_chance: float = 0.5,
        blur_taps: int = 3,
        blur_sigma: tuple[float, float] = (0.1, 2.0),
        mean: Sequence[float] = CIFAR10_MEAN,
        std: Sequence[float] = CIFAR10_STD,
        noise: ExtraCrop | None = None,
    ):
        recipe = Recipe(
            size=size,
            crop=crop,
            flip=flip,
            jitter=jitter,
            jitter_chance=jitter_chance,
            grey_chance=grey_chance,
            blur_chance=blur_chance,
            blur_taps=blur_taps,
            blur_sigma=blur_sigma,
            mean=mean,
            std=std,
            noise=noise,
        )
        super().__init__(recipe)


class MoCoV3Views(TwoViews):
    """MoCo v3's asymmetric recipes: the first view is always blurred, the second rarely, but sometimes solarised.

    Args:
        size: Height and width of the views.
        crop: Smallest and largest area of a crop, as a share of the image.
        jitter: Strength of brightness, contrast, saturation and hue.
        blur_taps: Size of the blur kernel in pixels, an odd number.
        mean: Mean of each channel, subtracted at the end.
        std: Standard deviation of each channel, divided by at the end.

    Example:
        >>> views = rince.views.MoCoV3Views(size=32, blur_taps=5)
        >>> views.first.blur_chance, views.second.solarise_chance
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
        def recipe(blur: float, solarise: float) -> Recipe:
            return Recipe(
                size=size,
                crop=crop,
                jitter=jitter,
                blur_chance=blur,
                blur_taps=blur_taps,
                solarise_chance=solarise,
                mean=mean,
                std=std,
            )

        super().__init__(recipe(1.0, 0.0), recipe(0.1, 0.2))


class OwnViews(Views):
    """Your own transform as views: torchvision, albumentations, kornia, or any callable.

    Its random numbers come from torch's, numpy's or Python's global generators, which training seeds at every step.

    Args:
        transform: From one image or one batch to a view of it.
        each: Whether the transform takes one image (bytes, height x width x channels, as an array) or a whole batch of
            floats in [0, 1] (n, channels, height, width).

    Raises:
        UsageError: If the transform cannot be called.

    Example:
        >>> views = rince.views.OwnViews(lambda images: images + 0.1 * torch.randn_like(images))
        >>> first, second = views(torch.rand(4, 3, 8, 8), draw=None)
        >>> first.shape
        torch.Size([4, 3, 8, 8])
    """

    def __init__(self, transform: Callable[[Any], Any], each: bool = False):
        super().__init__()
        if not callable(transform):
            raise UsageError(f"transform must be something to call with images, got {type(transform).__name__}")
        self.transform, self.each = transform, each

    @torch.no_grad()
    def forward(
        self, images: Tensor, draw: Draws, partners: Tensor | None = None, cropped: bool = False
    ) -> tuple[Tensor, Tensor]:
        return self._apply_to(images), self._apply_to(images if partners is None else partners)

    def plain(self, images: Tensor) -> Tensor:
        """The images as evaluation sees them: floats in [0, 1]."""
        return images.float() / 255 if images.dtype == torch.uint8 else images

    def _apply_to(self, images: Tensor) -> Tensor:
        if not self.each:
            return self.transform(self.plain(images))
        views = [torch.as_tensor(self.transform(image.permute(1, 2, 0).cpu().numpy())) for image in images]
        return torch.stack(views).to(images.device)


def check_two_views(method: str, views: nn.Module) -> None:
    """Refuse what does not make two views of every image: recipes of one view, views of graphs or of pairs."""
    try:
        inspect.signature(views.forward).bind("images", "draw", "partners", "cropped")
        if not isinstance(views, PairViews):  # whose second argument is another one
            return
    except TypeError:
        pass
    makes = views.makes if isinstance(views, Views) else ""
    given = f"makes {makes}" if makes else "cannot be called with images, draw, partners and cropped"
    raise UsageError(
        f"{method} wants two views of every image, and {type(views).__name__} {given}: set views, such as "
        "SimCLRViews or TwoViews"
    )
