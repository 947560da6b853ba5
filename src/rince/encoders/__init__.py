"""Networks from inputs to features, as plain modules, and their files."""

from typing import TYPE_CHECKING

from rince._support.lazy import lazy_names

if TYPE_CHECKING:
    from rince.encoders.audio import AudioConvNet
    from rince.encoders.convnet import ConvNet
    from rince.encoders.files import load_encoder, save_encoder
    from rince.encoders.gin import GIN, Pooled
    from rince.encoders.patch_stem import MLP, PatchStem
    from rince.encoders.r2plus1d import R2Plus1D
    from rince.encoders.resnet import ResNet
    from rince.encoders.towers import Towers

HOMES = {  # public name: the module that defines it
    "ConvNet": "convnet",
    "ResNet": "resnet",
    "R2Plus1D": "r2plus1d",
    "AudioConvNet": "audio",
    "GIN": "gin",
    "Pooled": "gin",
    "MLP": "patch_stem",
    "PatchStem": "patch_stem",
    "Towers": "towers",
    "load_encoder": "files",
    "save_encoder": "files",
}

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

__getattr__, __dir__ = lazy_names(__name__, HOMES)
