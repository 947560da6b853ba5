"""Videos with sounds that are generated on first use."""

from typing import TYPE_CHECKING

from rince._support.lazy import lazy_names

if TYPE_CHECKING:
    from rince.data.synthetic.generated_video import GeneratedVideo

HOMES = {  # public name: the module that defines it
    "GeneratedVideo": "generated_video",
}

__all__ = [
    "GeneratedVideo",
]

__getattr__, __dir__ = lazy_names(__name__, HOMES)
