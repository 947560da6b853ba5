"""Data sets: images, graphs, pairs and video."""

from typing import TYPE_CHECKING

from rince._support.lazy import lazy_names

if TYPE_CHECKING:
    from rince.data.digit_halves import digit_pairs
    from rince.data.graphs import GraphData, Graphs, TUGraphs, tudataset
    from rince.data.image_folder import ImageFolder
    from rince.data.images import CIFAR10, Arrays, DigitImages, Images
    from rince.data.module import DataModule
    from rince.data.pairs import HuggingFacePairs, PairedArrays, Pairs
    from rince.data.spoken_digits import SpokenDigits
    from rince.data.video.decode import read_clip
    from rince.data.video.videos import ACAV100M, HMDB51, UCF101, Kinetics400, Videos

__all__ = [
    "ACAV100M",
    "CIFAR10",
    "HMDB51",
    "UCF101",
    "Arrays",
    "DataModule",
    "DigitImages",
    "GraphData",
    "Graphs",
    "HuggingFacePairs",
    "ImageFolder",
    "Images",
    "Kinetics400",
    "PairedArrays",
    "Pairs",
    "SpokenDigits",
    "TUGraphs",
    "Videos",
    "digit_pairs",
    "read_clip",
    "tudataset",
]

__getattr__, __dir__, HOMES = lazy_names(__name__, __file__)
