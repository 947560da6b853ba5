"""Names of a room that are imported on first use, so that importing the room costs nothing."""

import importlib
import sys
from collections.abc import Callable, Mapping
from typing import Any


def lazy_names(room: str, homes: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package whose public names live in modules of its own.

    Args:
        room: The package's ``__name__``.
        homes: Public name -> module that defines it, relative to the package (``"images.cifar10"``).
    """

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f"{room}.{homes[name]}"), name)
        setattr(sys.modules[room], name, value)
        return value

    return find, lambda: sorted({*vars(sys.modules[room]), *homes})
