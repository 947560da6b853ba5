"""Clips and sounds out of video files."""

from typing import TYPE_CHECKING

from rince._support.lazy import lazy_names

if TYPE_CHECKING:
    from rince.data.video.acav100m import ACAV100M
    from rince.data.video.decode import read_clip
    from rince.data.video.hmdb51 import HMDB51
    from rince.data.video.kinetics400 import Kinetics400
    from rince.data.video.ucf101 import UCF101
    from rince.data.video.videos import Videos

HOMES = {  # public name: the module that defines it
    "read_clip": "decode",
    "Videos": "videos",
    "Kinetics400": "kinetics400",
    "ACAV100M": "acav100m",
    "UCF101": "ucf101",
    "HMDB51": "hmdb51",
}

__all__ = [
    "ACAV100M",
    "HMDB51",
    "UCF101",
    "Kinetics400",
    "Videos",
    "read_clip",
]

__getattr__, __dir__ = lazy_names(__name__, HOMES)
