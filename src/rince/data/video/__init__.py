"""Clips and sounds out of video files."""

from typing import TYPE_CHECKING

from rince._support.lazy import lazy_names

if TYPE_CHECKING:
    from rince.data.video.decode import read_clip
    from rince.data.video.videos import ACAV100M, HMDB51, UCF101, Kinetics400, Videos

HOMES = {  # public name: the module that defines it
    "read_clip": "decode",
    "Videos": "videos",
    "Kinetics400": "videos",
    "ACAV100M": "videos",
    "UCF101": "videos",
    "HMDB51": "videos",
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
