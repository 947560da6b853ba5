"""Views of images, clips, sounds, graphs, or both sides of pairs, computed on batches."""

from typing import TYPE_CHECKING

from rince._support.lazy import lazy_names

if TYPE_CHECKING:
    from rince.views.graph import GraphViews
    from rince.views.image import MoCoV3Views, OwnViews, Recipe, SimCLRViews, TwoViews
    from rince.views.pair import ClipRecipe, PairViews, SoundRecipe, Unchanged
    from rince.views.views import ClipBatch, Draws, ImageBatch, PairBatch, Views

__all__ = [
    "ClipBatch",
    "ClipRecipe",
    "Draws",
    "GraphViews",
    "ImageBatch",
    "MoCoV3Views",
    "OwnViews",
    "PairBatch",
    "PairViews",
    "Recipe",
    "SimCLRViews",
    "SoundRecipe",
    "TwoViews",
    "Unchanged",
    "Views",
]

__getattr__, __dir__, HOMES = lazy_names(__name__, __file__)
