"""Images: in memory, in arrays, or in folders of files."""

from typing import TYPE_CHECKING

from rince._support.lazy import lazy_names

if TYPE_CHECKING:
    from rince.data.images.arrays import Arrays
    from rince.data.images.cifar10 import CIFAR10
    from rince.data.images.digit_images import DigitImages
    from rince.data.images.folder import ImageFolder
    from rince.data.images.in_memory import Images
    from rince.data.images.stem_features import StemFeatures

HOMES = {  # public name: the module that defines it
    "Images": "in_memory",
    "Arrays": "arrays",
    "CIFAR10": "cifar10",
    "DigitImages": "digit_images",
    "ImageFolder": "folder",
    "StemFeatures": "stem_features",
}

__all__ = [
    "CIFAR10",
    "Arrays",
    "DigitImages",
    "ImageFolder",
    "Images",
    "StemFeatures",
]

__getattr__, __dir__ = lazy_names(__name__, HOMES)
