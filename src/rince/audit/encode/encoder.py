"""What an encoder is: it may look at a sample first, and then turns items into rows, a batch at a time."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Encoder(ABC):
    """Turns decoded items into rows of numbers.

    Items are texts, pictures (RGB images of Pillow), sounds (mono float32 arrays at 16 kHz) or paths of videos.

    Attributes:
        name: What it is called in the summary.
        comparable: Whether two sides encoded by it lie in one space, so that their cosine says something. If not,
            small towers are fitted on the rows (``fit=True``).
        learns: Whether ``learn`` must see a sample before ``encode`` is called.
        batch: Items per call.

    Example:
        >>> from rince.audit.encode import Encoder
        >>> class Lengths(Encoder):
        ...     name = "lengths of texts"
        ...
        ...     def encode(self, items):
        ...         return np.array([[len(text), text.count(" ")] for text in items], np.float32)
        ...
        ...     def identity(self):
        ...         return "lengths 1"
        >>> Lengths().encode(["a b", "abcd"]).tolist()
        [[3.0, 1.0], [4.0, 0.0]]
    """

    name: str
    comparable: bool = False
    learns: bool = False
    batch: int = 256

    def learn(self, sample: Sequence[Any]) -> None:  # noqa: B027 (most have nothing to learn)
        """Look at a sample of the items that will come; whoever does, sets ``learns``."""

    @abstractmethod
    def encode(self, items: Sequence[Any]) -> NDArray[np.float32]:
        """Items as rows (len(items), width)."""

    @abstractmethod
    def identity(self) -> str:
        """All that the rows depend on besides the items, as a text: part of the key in the cache."""


def file_stamp(path: Path) -> str:
    """A text that changes with a file, or with any file of a folder."""
    files = sorted(file for file in path.rglob("*") if file.is_file()) if path.is_dir() else [path]
    facts = [f"{file.name} {file.stat().st_size} {file.stat().st_mtime_ns}" for file in files]
    return hashlib.blake2b("\n".join(facts).encode(), digest_size=8).hexdigest()
