"""Data sets, one room for each kind: images, graphs, pairs, video, and what is generated."""

from typing import TYPE_CHECKING

from rince._support.lazy import lazy_names

if TYPE_CHECKING:
    from rince.data.graphs.graph_data import GraphData
    from rince.data.graphs.graphs import Graphs
    from rince.data.graphs.tu_graphs import TUGraphs
    from rince.data.graphs.tudataset import tudataset
    from rince.data.images.arrays import Arrays
    from rince.data.images.cifar10 import CIFAR10
    from rince.data.images.digit_images import DigitImages
    from rince.data.images.folder import ImageFolder
    from rince.data.images.in_memory import Images
    from rince.data.images.stem_features import StemFeatures
    from rince.data.module import DataModule
    from rince.data.pairs.arrays import PairedArrays
    from rince.data.pairs.digit_halves import digit_pairs
    from rince.data.pairs.hf_datasets import HuggingFacePairs
    from rince.data.pairs.in_memory import Pairs
    from rince.data.pairs.spoken_digits import SpokenDigits
    from rince.data.synthetic.generated_video import GeneratedVideo
    from rince.data.video.acav100m import ACAV100M
    from rince.data.video.decode import read_clip
    from rince.data.video.hmdb51 import HMDB51
    from rince.data.video.kinetics400 import Kinetics400
    from rince.data.video.ucf101 import UCF101
    from rince.data.video.videos import Videos

HOMES = {  # public name: the module that defines it
    "DigitImages": "images.digit_images",
    "CIFAR10": "images.cifar10",
    "ImageFolder": "images.folder",
    "Arrays": "images.arrays",
    "DataModule": "module",
    "Images": "images.in_memory",
    "StemFeatures": "images.stem_features",
    "TUGraphs": "graphs.tu_graphs",
    "GraphData": "graphs.graph_data",
    "Graphs": "graphs.graphs",
    "tudataset": "graphs.tudataset",
    "Pairs": "pairs.in_memory",
    "PairedArrays": "pairs.arrays",
    "HuggingFacePairs": "pairs.hf_datasets",
    "SpokenDigits": "pairs.spoken_digits",
    "digit_pairs": "pairs.digit_halves",
    "Videos": "video.videos",
    "Kinetics400": "video.kinetics400",
    "ACAV100M": "video.acav100m",
    "UCF101": "video.ucf101",
    "HMDB51": "video.hmdb51",
    "read_clip": "video.decode",
    "GeneratedVideo": "synthetic.generated_video",
}

__all__ = [
    "ACAV100M",
    "CIFAR10",
    "HMDB51",
    "UCF101",
    "Arrays",
    "DataModule",
    "DigitImages",
    "GeneratedVideo",
    "GraphData",
    "Graphs",
    "HuggingFacePairs",
    "ImageFolder",
    "Images",
    "Kinetics400",
    "PairedArrays",
    "Pairs",
    "SpokenDigits",
    "StemFeatures",
    "TUGraphs",
    "Videos",
    "digit_pairs",
    "read_clip",
    "tudataset",
]

__getattr__, __dir__ = lazy_names(__name__, HOMES)
