"""Noise under control: seeded, and it says which items it hit."""
