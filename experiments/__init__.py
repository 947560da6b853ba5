"""Reproductions of the paper and evidence for the library's claims. Not part of the wheel: see README.md."""
