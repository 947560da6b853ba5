"""Files on this machine or at an fsspec URL (``s3://``, ``gs://``, ``memory://``), compressed (.gz, .zst) or not.

URLs are kept as ``Path`` like local files: ``Path("s3://x/y")`` reads ``s3:/x/y``, and :func:`location` undoes that.
"""

import gzip
import io
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from rince._support.optional_imports import require
from rince._support.regular_files import natural
from rince.errors import UsageError

COMPRESSED = (".gz", ".zst")
_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(?=.)")  # two letters or more: C:/ is a drive


def is_url(path: str | os.PathLike[str]) -> bool:
    return _URL.match(os.fspath(path)) is not None


def location(path: str | os.PathLike[str]) -> str:
    """A local path, or the URL behind a ``Path`` of one."""
    text = os.fspath(path)
    match = _URL.match(text)
    return text if match is None else f"{match[1]}://{text[match.end() :]}"


def file_system(path: str | os.PathLike[str]) -> tuple[Any, str]:
    """The fsspec file system of a URL, and the path there."""
    try:
        return require("fsspec", "cluster").core.url_to_fs(location(path))
    except (ImportError, ValueError) as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(f"{location(path)} needs a package that is not installed: {error}") from error


def exists(path: Path) -> bool:
    if not is_url(path):
        return path.exists()
    files, name = file_system(path)
    return bool(files.exists(name))


def is_dir(path: Path) -> bool:
    if not is_url(path):
        return path.is_dir()
    files, name = file_system(path)
    return bool(files.isdir(name))


def matches(pattern: Path) -> list[Path]:
    """The files of a pattern with ``*``, ``?``, ``[...]`` or ``{00..99}``, part2 before part10; else an empty list."""
    text = location(pattern)
    if not any(letter in text for letter in "*?[{"):
        return []
    result: list[Path] = []
    for expanded in _braces(text):
        if not any(letter in expanded for letter in "*?["):
            result += [Path(expanded)]
        elif is_url(expanded):
            files, name = file_system(expanded)
            protocol = expanded.split("://")[0]
            result += by_number(Path(f"{protocol}://{file}") for file in files.glob(name))
        else:
            parts = Path(expanded).parts
            first = next(k for k, part in enumerate(parts) if any(letter in part for letter in "*?["))
            globbed = Path(*parts[:first]).glob(str(Path(*parts[first:])))
            result += by_number(file for file in globbed if file.is_file())
    return result if all(exists(file) for file in result) else []


def braces(pattern: Path) -> list[Path]:
    """The files of a pattern without wildcards, such as ``x{00..03}.tar``; an empty list for other paths."""
    names = _braces(location(pattern))
    return [] if len(names) == 1 or any(letter in names[0] for letter in "*?[") else [Path(name) for name in names]


def listed_files(folder: Path) -> list[Path]:
    """The files of a folder, in any order."""
    if not is_url(folder):
        return [Path(entry.path) for entry in os.scandir(folder) if entry.is_file()]
    files, name = file_system(folder)
    return [folder / Path(entry["name"]).name for entry in files.ls(name, detail=True) if entry["type"] == "file"]


def by_number(files: Iterable[Path]) -> list[Path]:
    """Paths in natural order."""
    return sorted(files, key=lambda file: [natural(Path(part)) for part in file.parts])


def _braces(text: str) -> list[str]:
    """``x{00..03}`` and ``x{a,b}`` expanded as a shell does."""
    match = re.search(r"\{(\d+)\.\.(\d+)\}|\{([^{}]*,[^{}]*)\}", text)
    if match is None:
        return [text]
    if match[3] is not None:
        middle = match[3].split(",")
    else:
        middle = [f"{k:0{len(match[1])}d}" for k in range(int(match[1]), int(match[2]) + 1)]
    return [name for part in middle for name in _braces(text[: match.start()] + part + text[match.end() :])]


def suffix_of(path: Path) -> str:
    """Suffix that decides the format: ``.csv`` for ``x.csv.gz``."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() if suffix in COMPRESSED else suffix


@contextmanager
def opened(path: str | os.PathLike[str], raw: bool = False) -> Iterator[IO[bytes]]:
    """A file to read from; decompressed according to its suffix unless ``raw``."""
    name = location(path)
    with require("fsspec", "cluster").open(name, "rb") if is_url(name) else open(name, "rb") as file:
        if raw or not name.lower().endswith(COMPRESSED):
            yield file
        elif name.lower().endswith(".gz"):
            with gzip.GzipFile(fileobj=file) as unpacked:
                yield unpacked  # type: ignore[misc]
        else:
            with require("pyarrow", "audit").CompressedInputStream(file, "zstd") as unpacked:
                yield io.BufferedReader(unpacked)


@contextmanager
def written(path: str | os.PathLike[str], raw: bool = False) -> Iterator[IO[bytes]]:
    """A new file to write to, compressed according to its suffix unless ``raw``; missing folders are created."""
    name = location(path)
    if is_url(name):
        handle = require("fsspec", "cluster").open(name, "wb", auto_mkdir=True)
    else:
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        handle = open(name, "wb")  # noqa: SIM115
    with handle as file:
        if raw or not name.lower().endswith(COMPRESSED):
            yield file
        elif name.lower().endswith(".gz"):
            with gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) as packed:
                yield packed  # type: ignore[misc]
        else:
            with require("pyarrow", "audit").CompressedOutputStream(file, "zstd") as packed:
                yield packed
