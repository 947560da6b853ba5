"""Seeded synthetic noise on pairs, labels and views. Every function reports the changed items."""

from typing import TYPE_CHECKING

from rince._support.lazy import lazy_names

if TYPE_CHECKING:
    from rince.noise.crops import ExtraCrop
    from rince.noise.labels import LabelFlips, PaperFlips, UniformFlips
    from rince.noise.pairs import Overdub, Shift, Silence, WrongPairs, wrong_pairs

__all__ = [
    "ExtraCrop",
    "LabelFlips",
    "Overdub",
    "PaperFlips",
    "Shift",
    "Silence",
    "UniformFlips",
    "WrongPairs",
    "wrong_pairs",
]

__getattr__, __dir__, HOMES = lazy_names(__name__, __file__)
