"""Noise that is put in on purpose: seeded, and every function says which items it hit."""

from rince.noise.pairs import WrongPairs, wrong_pairs

__all__ = ["WrongPairs", "wrong_pairs"]
