"""The batches that flow from the data to the views, and the contract of views."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rince._support.step_seeds import Draws


class ImageBatch(NamedTuple):
    """Images as bytes, with labels, indices, partners and weights.

    Attributes:
        images: (n, channels, height, width) bytes.
        labels: (n,) classes, -1 if unknown.
        ids: (n,) indices of the images.
        partners: The images of the second view: another image of the same label, a mismatched one, or ``None`` for the
            image itself.
        cropped: Whether images and partners have been cropped at random already.
        weights: Weight of each pair in [0, 1] (for several positives per anchor: of each label);
            ``None`` if all have the same.

    Example:
        >>> images = torch.randint(256, (4, 3, 8, 8), dtype=torch.uint8)
        >>> batch = rince.views.ImageBatch(images, labels=torch.tensor([0, 1, -1, 0]), ids=torch.arange(4))
    """

    images: Tensor
    labels: Tensor
    ids: Tensor
    partners: Tensor | None = None
    cropped: bool = False
    weights: Tensor | None = None


class PairBatch(NamedTuple):
    """Pairs, one per row: clips and sounds, images and texts.

    Attributes:
        a: The items of the first side.
        b: Their partners.
        labels: (n,) classes, -1 if unknown.
        ids: (n,) indices of the pairs.
        cropped: Whether the pictures in ``a`` have been cropped at random already.
        weights: Weight of each pair in [0, 1]; ``None`` if all pairs weigh the same.

    Example:
        >>> batch = rince.views.PairBatch(torch.randn(4, 40), torch.randn(4, 24), torch.full((4,), -1), torch.arange(4))
    """

    a: Tensor
    b: Tensor
    labels: Tensor
    ids: Tensor
    cropped: bool = False
    weights: Tensor | None = None


class ClipBatch(NamedTuple):
    """Clips as bytes; several clips of one video have the same number in ``ids``.

    Attributes:
        clips: (n, frames, height, width, 3) bytes.
        labels: (n,) classes, -1 if unknown.
        ids: (n,) indices of the videos.
        cropped: Whether the clips have been cropped at random already.

    Example:
        >>> clips = torch.randint(256, (2, 8, 16, 16, 3), dtype=torch.uint8)
        >>> batch = rince.views.ClipBatch(clips, labels=torch.tensor([0, 1]), ids=torch.arange(2))
    """

    clips: Tensor
    labels: Tensor
    ids: Tensor
    cropped: bool = False


__all__ = ["Draws", "Views", "about_views"]


class Views(nn.Module):
    """Base class of views and of recipes for single views. Everything but ``forward`` has a default.

    ``plain(items)`` is what evaluation sees; views for graphs have none, since graphs are evaluated as they are.

    Example:
        >>> class Noisy(rince.views.Views):
        ...     def forward(self, items, draw, partners=None, cropped=False):
        ...         return items + 0.1 * torch.randn_like(items), items + 0.1 * torch.randn_like(items)
        ...
        ...     def plain(self, items):
        ...         return items
        >>> Noisy().about()
        {}
    """

    makes: str = ""
    """What it makes, where that is not two views of every image; for those who take it for that."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("forward", "plain"):
            if name in vars(cls):
                setattr(cls, name, without_autocast(vars(cls)[name]))

    def about(self) -> dict[str, Any]:
        """How inputs are normalized, in plain values, for somebody who gets the encoder alone."""
        return {}

    def noise_record(self) -> dict[str, Any]:
        """What noise made on purpose within the views has hit, in plain values; empty where there is none."""
        return {}


def without_autocast(function: Callable[..., Any]) -> Callable[..., Any]:
    """Run a function outside autocast: indexed writes of image operations fail on mixed dtypes."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with contextlib.ExitStack() as stack:
            for device in ("cpu", "cuda", "mps"):
                if torch.is_autocast_enabled(device):
                    stack.enter_context(torch.autocast(device, enabled=False))
            return function(*args, **kwargs)

    return wrapped


def about_views(views: nn.Module) -> dict[str, Any]:
    """What views say of themselves; nothing for a module that is no ``Views``."""
    return views.about() if isinstance(views, Views) else {}
