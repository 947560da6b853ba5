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
    an image's (:class:`rince.views.image.Recipe`), a clip's, a sound's, :class:`Unchanged`, or yours.
    """

    def __init__(self, a: nn.Module, b: nn.Module):
        """
        Args:
            a: Recipe of the first side.
            b: Recipe of the second side.
        """
        super().__init__()
        self.a, self.b = a, b

    def forward(self, a: Tensor, b: Tensor, draw: Draws, cropped: bool = False) -> tuple[Tensor, Tensor]:
        """``cropped`` says that pictures in ``a`` have been cropped at random already; it does not concern ``b``."""
        return self.a(a, draw, cropped), self.b(b, draw, False)

    def about(self) -> dict[str, Any]:
        return {"a": about_views(self.a), "b": about_views(self.b)}


class Unchanged(Views):
    """Items as they are, for what is features already: rows of a table, embeddings of texts.

    ``mean`` and ``std`` normalise them; numbers of whatever kind become floats.
    """

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
        items = items if items.is_floating_point() else items.to(torch.get_default_dtype())
        return (items - self.mean) / self.std
