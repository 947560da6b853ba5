"""Views of an image, clip, sound, graph, or of both sides of a pair, made for whole batches."""

from typing import TYPE_CHECKING

from rince._support.lazy import lazy_names

if TYPE_CHECKING:
    from rince.views.batch import ClipBatch, ImageBatch, PairBatch
    from rince.views.clip import ClipRecipe
    from rince.views.graph import GraphViews
    from rince.views.image import MoCoV3Views, OwnViews, SimCLRViews, TwoViews
    from rince.views.mirror import MirrorViews
    from rince.views.pair import PairViews, Unchanged
    from rince.views.recipe import Recipe
    from rince.views.sound import SoundRecipe
    from rince.views.views import Draws, Views

HOMES = {  # public name: the module that defines it
    "SimCLRViews": "image",
    "MoCoV3Views": "image",
    "OwnViews": "image",
    "TwoViews": "image",
    "Recipe": "recipe",
    "ClipRecipe": "clip",
    "SoundRecipe": "sound",
    "PairViews": "pair",
    "Unchanged": "pair",
    "GraphViews": "graph",
    "MirrorViews": "mirror",
    "ImageBatch": "batch",
    "PairBatch": "batch",
    "ClipBatch": "batch",
    "Views": "views",
    "Draws": "views",
}

__all__ = [
    "ClipBatch",
    "ClipRecipe",
    "Draws",
    "GraphViews",
    "ImageBatch",
    "MirrorViews",
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

__getattr__, __dir__ = lazy_names(__name__, HOMES)
