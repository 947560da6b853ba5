"""Views of two kinds of things that belong together."""

from typing import Any

import torch
from torch import Tensor, nn

from rince._support.step_seeds import Draws
from rince.errors import UsageError
from rince.views.views import Views, about_views


class PairViews(Views):
    """A recipe for each side: ``views(a, b, draw, cropped)`` gives one view of every item in ``a`` and in ``b``.

    A recipe is an nn.Module called as ``recipe(items, draw, cropped)``, with ``recipe.plain(items)`` for evaluation:
    an image's (:class:`rince.views.recipe.Recipe`), a clip's, a sound's, :class:`Unchanged`, or yours.

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
            draw: Where random numbers come from.
            cropped: Whether pictures in ``a`` have been cropped at random already; it does not concern ``b``.

        Returns:
            The views of both sides.
        """
        return self.a(a, draw, cropped), self.b(b, draw, False)

    def about(self) -> dict[str, Any]:
        return {"a": about_views(self.a), "b": about_views(self.b)}


class Unchanged(Views):
    """Items as they are, for features: rows of a table, embeddings of texts.

    Numbers of whatever kind become floats.

    Args:
        mean: Subtracted from every number.
        std: What every number is then divided by.

    Raises:
        UsageError: If std is not positive.

    Example:
        >>> rince.views.Unchanged(mean=1.0, std=2.0).plain(torch.tensor([[3, 5]]))
        tensor([[1., 2.]])
    """

    makes = "one view, the item as it is"

    def __init__(self, mean: float = 0.0, std: float = 1.0):
        super().__init__()
        if std <= 0:
            raise UsageError(f"std must be positive, got {std}")
        self.mean, self.std = mean, std

    def forward(self, items: Tensor, draw: Draws, cropped: bool = False) -> Tensor:
        return self.plain(items)

    def about(self) -> dict[str, Any]:
        return {"mean": self.mean, "std": self.std}

    def plain(self, items: Tensor) -> Tensor:
        """The items as evaluation sees them."""
        items = items if items.is_floating_point() else items.to(torch.get_default_dtype())
        return (items - self.mean) / self.std
