"""Lists of video files with labels: from a folder with one folder per class, or from a CSV file."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rince.errors import MissingFile, UsageError

ENDINGS = {".mp4", ".m4v", ".mov", ".mkv", ".webm", ".avi", ".flv", ".wmv", ".mpg", ".mpeg", ".ts", ".ogv", ".3gp"}


class VideoList(NamedTuple):
    """Files, their labels (-1: unknown) and where their clips start in seconds (not a number: anywhere)."""

    paths: list[str]
    labels: NDArray[np.int64]
    starts: NDArray[np.float64]

    def take(self, places: ArrayLike) -> "VideoList":
        chosen = np.asarray(places, dtype=np.int64)
        return VideoList([self.paths[i] for i in chosen], self.labels[chosen], self.starts[chosen])


def video_list(paths: Sequence[Path | str], labels: Sequence[int] | None = None) -> VideoList:
    known = np.full(len(paths), -1) if labels is None else np.asarray(labels)
    return VideoList([str(path) for path in paths], known.astype(np.int64), np.full(len(paths), np.nan))


def list_folder(folder: Path) -> tuple[tuple[str, ...], VideoList]:
    """Class names and files of ``folder/CLASS/*.mp4``; of ``folder/*.mp4``, without labels, if there are no classes."""
    if not folder.is_dir():
        raise MissingFile(f"there is no folder {folder}: videos belong into {folder}/CLASS/")
    names = sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    paths: list[Path] = []
    labels: list[int] = []
    for label, name in enumerate(names):
        found = _videos(folder / name, "**/*")
        if not found:
            raise UsageError(f"the class folder {folder / name} holds no videos: fill it or remove it")
        paths += found
        labels += [label] * len(found)
    if names:
        return tuple(names), video_list(paths, labels)
    paths = _videos(folder, "*")
    if not paths:
        raise UsageError(f"{folder} holds no videos and no class folders: videos belong into {folder}/CLASS/")
    return (), video_list(paths)


def _videos(folder: Path, pattern: str) -> list[Path]:
    return sorted(path for path in folder.glob(pattern) if path.suffix.lower() in ENDINGS and path.is_file())


def list_table(table: Path, root: Path) -> tuple[list[str], VideoList]:
    """The names of the labels ('' where it is empty or -1) and the files of a CSV file with the column ``path`` and, if
    you like, ``label`` and ``start``; paths are seen from ``root``. Labels are left at -1."""
    try:
        with open(table, newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            if "path" not in (reader.fieldnames or []):
                raise UsageError(f"{table} has no column 'path': its first line must name the columns")
            rows = [row for row in reader if row["path"]]
    except UnicodeDecodeError as error:
        raise UsageError(f"{table} is not a text file with columns: {error.reason}") from error
    if not rows:
        raise UsageError(f"{table} lists no videos")
    found = video_list([root / row["path"] for row in rows])
    starts = np.array([_start(row, table, line) for line, row in enumerate(rows, start=2)])
    labels = [(row.get("label") or "").strip() for row in rows]
    return ["" if label == "-1" else label for label in labels], found._replace(starts=starts)


def _start(row: dict[str, Any], table: Path, line: int) -> float:
    text = row.get("start") or "nan"
    try:
        start = float(text)
    except ValueError:
        start = -1.0
    if start < 0 or np.isinf(start):
        raise UsageError(f"{table}, line {line}: start must be seconds from 0 on, got '{text}'")
    return start


def list_tables(tables: dict[str, Path], root: Path) -> tuple[tuple[str, ...], dict[str, VideoList]]:
    """Class names, in the order of the alphabet or of numbers, and lists of several CSV files that share them."""
    found = {part: list_table(table, root) for part, table in tables.items()}
    known = {name for labels, _ in found.values() for name in labels if name}
    numbers = all(name.isdecimal() for name in known)
    names = sorted(known, key=int) if numbers else sorted(known)
    label = {name: i for i, name in enumerate(names)} | {"": -1}
    lists = {
        part: listed._replace(labels=np.array([label[name] for name in labels], dtype=np.int64))
        for part, (labels, listed) in found.items()
    }
    return tuple(names), lists
