"""Encoders as plain modules, and their files."""

from typing import TYPE_CHECKING

from rince._support.lazy import lazy_names

if TYPE_CHECKING:
    from rince.encoders.files import load_encoder, save_encoder
    from rince.encoders.gin import GIN, Pooled
    from rince.encoders.heads import Towers
    from rince.encoders.images import MLP, ConvNet, PatchStem, ResNet
    from rince.encoders.video import AudioConvNet, R2Plus1D

__all__ = [
    "GIN",
    "MLP",
    "AudioConvNet",
    "ConvNet",
    "PatchStem",
    "Pooled",
    "R2Plus1D",
    "ResNet",
    "Towers",
    "load_encoder",
    "save_encoder",
]

__getattr__, __dir__, HOMES = lazy_names(__name__, __file__)
