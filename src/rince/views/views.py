"""The contract of views: what a run asks of them besides the views themselves."""

from typing import Any

from torch import nn

from rince._support.step_seeds import Draws

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

    def about(self) -> dict[str, Any]:
        """How inputs are normalised, in plain values, for somebody who gets the encoder alone."""
        return {}

    def noise_record(self) -> dict[str, Any]:
        """What noise made on purpose within the views has hit, in plain values; empty where there is none."""
        return {}


def about_views(views: nn.Module) -> dict[str, Any]:
    """What views say of themselves; nothing for a module that is no ``Views``."""
    return views.about() if isinstance(views, Views) else {}
