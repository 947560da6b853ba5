"""Types of batches, and the base class of views."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from rince._support.step_seeds import Draws


class ImageBatch(NamedTuple):
    """Batch of images.

    Attributes:
        images: (n, channels, height, width) bytes.
        labels: (n,) classes, -1 if unknown.
        ids: (n,) indices of the images.
        partners: Images of the second views: others of the same label, or mismatched ones. None: the images themselves.
        cropped: Whether images and partners have been cropped at random already.
        weights: (n,) weights of the pairs in [0, 1] (with several positives per anchor, of the labels). None: equal.

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
    """Batch of pairs, such as clips and sounds, or images and texts.

    Attributes:
        a: Items of the first side.
        b: Their partners.
        labels: (n,) classes, -1 if unknown.
        ids: (n,) indices of the pairs.
        cropped: Whether the images or clips of ``a`` have been cropped at random already.
        weights: (n,) weights of the pairs in [0, 1]. None: equal.

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
    """Batch of clips. Clips of one video have the same id.

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
    """Base class of views, and of recipes for single views. A subclass defines ``forward``.

    It also defines ``plain(items)``, the items for evaluation, except for graphs, which are evaluated as they are.

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
    """Description of the views for errors, if not two views of every image."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for name in ("forward", "plain"):
            if name in vars(cls):
                setattr(cls, name, without_autocast(vars(cls)[name]))

    def about(self) -> dict[str, Any]:
        """Normalization of the inputs as plain values, stored with the encoder."""
        return {}

    def noise_record(self) -> dict[str, Any]:
        """Record of noise added by the views, as plain values."""
        return {}


def without_autocast(function: Callable[..., Any]) -> Callable[..., Any]:
    """Disable autocast in a function: indexed writes of image operations fail on mixed dtypes."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with contextlib.ExitStack() as stack:
            for device in ("cpu", "cuda", "mps"):
                if torch.is_autocast_enabled(device):
                    stack.enter_context(torch.autocast(device, enabled=False))
            return function(*args, **kwargs)

    return wrapped


def about_views(views: nn.Module) -> dict[str, Any]:
    """``views.about()``; empty for a module that is not a ``Views``."""
    return views.about() if isinstance(views, Views) else {}
