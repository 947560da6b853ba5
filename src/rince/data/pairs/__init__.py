"""Pairs of two modalities, one pair per row."""

from typing import TYPE_CHECKING

from rince._support.lazy import lazy_names

if TYPE_CHECKING:
    from rince.data.pairs.arrays import PairedArrays
    from rince.data.pairs.digit_halves import digit_pairs
    from rince.data.pairs.hf_datasets import HuggingFacePairs
    from rince.data.pairs.in_memory import Pairs, Part
    from rince.data.pairs.spoken_digits import SpokenDigits

HOMES = {  # public name: the module that defines it
    "Pairs": "in_memory",
    "Part": "in_memory",
    "PairedArrays": "arrays",
    "HuggingFacePairs": "hf_datasets",
    "SpokenDigits": "spoken_digits",
    "digit_pairs": "digit_halves",
}

__all__ = [
    "HuggingFacePairs",
    "PairedArrays",
    "Pairs",
    "Part",
    "SpokenDigits",
    "digit_pairs",
]

__getattr__, __dir__ = lazy_names(__name__, HOMES)
