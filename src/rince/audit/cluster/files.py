"""Files on any file system that fsspec knows: this machine's, or an object store."""

from pathlib import Path
from typing import Any

from rince._support.optional_imports import require
from rince._support.regular_files import natural
from rince.errors import UsageError


def matching(pattern: str) -> list[str]:
    """The files of a pattern, in the order of their names (part2 before part10)."""
    fsspec = require("fsspec", "cluster")
    try:
        files, paths = fsspec.core.url_to_fs(pattern)
        found = files.glob(paths) if any(c in paths for c in "*?[") else [paths] * files.isfile(paths)
    except ImportError as error:
        raise UsageError(f"{pattern} needs a package that is not installed: {error}") from error
    except (OSError, ValueError):
        return []
    protocol = pattern.split("://")[0] + "://" if "://" in pattern else ""
    return sorted((f"{protocol}{path}" for path in found), key=lambda path: natural(Path(path)))


def opened(path: str) -> Any:
    """A file of any file system, to read from in a ``with`` block."""
    return require("fsspec", "cluster").open(path, "rb")


def parquet_file(file: Any, path: str) -> Any:
    """The Parquet file in an open file."""
    arrow, parquet = require("pyarrow", "cluster"), require("pyarrow.parquet", "cluster")
    try:
        return parquet.ParquetFile(file)
    except (arrow.ArrowException, OSError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
