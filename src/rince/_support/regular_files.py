"""Files named by data: regular files only, of a bounded size, inside the folder of the data."""

import os
import re
import stat
from pathlib import Path

from rince.errors import FileError, MissingFile


class Unreadable(ValueError):
    """A file that is missing, not a regular file, too large, or outside of its folder."""


def read_regular(path: Path, max_bytes: int, root: Path | None = None) -> bytes:
    """The content of a regular file of at most ``max_bytes`` bytes.

    Pipes and devices are rejected without reading them: they could block forever or never end.

    Args:
        path: The file.
        max_bytes: Maximum size in bytes.
        root: Folder that must contain the file after symbolic links are resolved. Default: None.

    Raises:
        Unreadable: The file is missing, too large, not a regular file, or outside of ``root``.
    """
    if root is not None and not lies_below(path, root):
        raise Unreadable(f"{path.name} lies outside of {root}")
    try:
        # Opening a pipe without O_NONBLOCK waits for a writer.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except (OSError, ValueError) as error:
        raise Unreadable(f"{path.name} cannot be read") from error
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise Unreadable(f"{path.name} is not a regular file")
        if status.st_size > max_bytes:
            raise Unreadable(f"{path.name} is larger than {max_bytes / 1e6:g} MB")
        with os.fdopen(handle, "rb", closefd=False) as file:
            return file.read(max_bytes)
    except OSError as error:
        raise Unreadable(f"{path.name} cannot be read") from error
    finally:
        os.close(handle)


def check_regular(path: Path) -> None:
    """Reject paths that are missing or not regular files."""
    if not path.exists():
        raise MissingFile(f"{path} does not exist")
    if not path.is_file():
        raise FileError(f"{path} is not a regular file")


def lies_below(path: Path, root: Path) -> bool:
    """Whether a path is inside a folder, with symbolic links resolved."""
    try:
        return path.resolve().is_relative_to(root.resolve())
    except (OSError, RuntimeError, ValueError):  # a circle of links, or not a valid path
        return False


def natural(file: Path) -> list[tuple[int, int, str]]:
    """Sort key in natural order: part2 before part10."""
    parts = re.split(r"([0-9]+)", file.name)
    return [(0, int(part), part) if i % 2 else (1, 0, part) for i, part in enumerate(parts)]
