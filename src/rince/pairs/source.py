"""Sources of columns: ``PATH`` or ``PATH:COLUMN``, with a file, a pattern of shards, a folder or a URL."""

import json
from pathlib import Path
from typing import NamedTuple

from rince.errors import MissingFile, UsageError
from rince.pairs.files import (
    braces,
    by_number,
    exists,
    is_dir,
    is_url,
    listed_files,
    location,
    matches,
    opened,
    suffix_of,
)

FORMATS = {  # suffix: module and class, below rince.pairs
    ".npy": "array_files.Npy",
    ".npz": "array_files.Npz",
    ".parquet": "arrow_files.Arrow",
    ".arrow": "arrow_files.Arrow",
    ".feather": "arrow_files.Arrow",
    "datasets": "arrow_files.Arrow",  # a folder of Hugging Face datasets
    ".csv": "text_files.Csv",
    ".tsv": "text_files.Csv",
    ".jsonl": "text_files.JsonLines",
    ".ndjson": "text_files.JsonLines",
    ".json": "text_files.JsonLines",
    ".tar": "tar_files.Tar",
    ".tmx": "text_files.Tmx",
    ".pt": "array_files.Tensors",
    ".pth": "array_files.Tensors",
    ".safetensors": "array_files.Tensors",
    ".txt": "text_files.Lines",
}
LINES, FOLDER, TAR = ".txt", "folder", ".tar"
KINDS = tuple(suffix for suffix in FORMATS if suffix not in (LINES, "datasets"))
TABLES = tuple(suffix for suffix in FORMATS if not FORMATS[suffix].startswith("array_files") and suffix != LINES)
ARROW_TABLES = tuple(suffix for suffix in FORMATS if FORMATS[suffix] == "arrow_files.Arrow")
TEXT_TABLES = tuple(suffix for suffix in FORMATS if FORMATS[suffix] == "text_files.Csv")
JSON_LINES = tuple(suffix for suffix in FORMATS if FORMATS[suffix] == "text_files.JsonLines")
SHARDS = (".npy", ".npz", TAR, ".parquet")  # formats read from a folder; img2dataset writes tables beside its tars

Segment = tuple[Path, int, int | None]
"""Rows of a file: its path, the first row, and the row after the last one; None for all rows."""


class Source(NamedTuple):
    """A file and, after a colon, the part to read: an array of an .npz, columns of a table (comma, ``*``).

    Attributes:
        path: A file, a folder, or a pattern such as ``data/*.parquet``; a folder ``x.parquet`` of such files is one.
        column: The text after the colon.
        header: Whether a .csv or .tsv has a header; if False, its columns are named 0, 1, 2, ...
        part: Files to read, each with its first row and the row after its last one (None for all). Default: all
            files.
    """

    path: Path
    column: str | None
    header: bool = True
    part: tuple[Segment, ...] | None = None

    def __str__(self) -> str:
        return f"{location(self.path)}:{self.column}" if self.column else location(self.path)

    @property
    def kind(self) -> str:
        """The ending of the files, ``"datasets"`` (a folder written by Hugging Face datasets) or ``"folder"``."""
        if is_dir(self.path):
            parts = _parts(self.path)
            return suffix_of(parts[0]) if parts else "datasets" if exists(self.path / "state.json") else FOLDER
        suffix = suffix_of(self.path)
        return suffix if suffix in KINDS else LINES

    @property
    def folder(self) -> Path:
        """Folder that paths in the column are relative to."""
        return self.path if is_dir(self.path) else self.path.parent

    @property
    def files(self) -> list[Path]:
        """The files behind the path, those of a pattern in the order of their names (part2 before part10)."""
        if self.part is not None:
            return [file for file, _, _ in self.part]
        if is_dir(self.path):
            return _parts(self.path) or (_dataset_files(self.path) if self.kind == "datasets" else [])
        return [self.path] if exists(self.path) else matches(self.path)

    @property
    def segments(self) -> tuple[Segment, ...]:
        """The rows to read, file by file."""
        return tuple((file, 0, None) for file in self.files) if self.part is None else self.part


def source(text: str, header: bool = True, raw: bool = False) -> Source:
    """A file, folder or pattern that exists, and a column.

    Args:
        text: ``data.csv:image_*``, ``pairs.npz:image``, ``'data/*.parquet:text'``, ...
        header: Whether the first line of a .csv or .tsv names its columns.
        raw: Whether folders of media files and .txt files (one text per line) are allowed.

    Raises:
        MissingFile: The file does not exist.
        UsageError: The file is of a kind that cannot be read.
    """
    text = text.removeprefix("file://")
    path, column = Path(text), None
    if not _exists(path) and ":" in text:
        # The last colon after an existing file: column names may contain colons, too.
        colons = [index for index, letter in enumerate(text) if letter == ":"][::-1]
        end = colons[0] if "/" not in text[colons[0] :] else len(text)  # not the port of https://host:8080/x
        cut = next((index for index in colons if _exists(Path(text[:index]))), end)
        path, column = Path(text[:cut]), text[cut + 1 :]
    if not _exists(path):
        if missing := next((file for file in braces(path) if not exists(file)), None):
            raise MissingFile(f"{location(missing)}, one of {location(path)}, does not exist")
        pattern = any(letter in str(path) for letter in "*?[")
        raise MissingFile(f"no file matches {location(path)}" if pattern else f"{location(path)} does not exist")
    if is_dir(path) and exists(path / "dataset_dict.json"):
        raise UsageError(f"{path} holds several splits ({_splits(path)}): name one, as {path / 'train'}:COLUMN")
    result = Source(path, column or None, header)
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise UsageError(f"{path} is not a regular file")
    if result.column is not None and result.kind == FOLDER:
        raise UsageError(
            f"{location(path)} was taken for a folder of media files, which has no column {column}: name files by a "
            f"pattern, such as '{location(path)}/*.csv:{column}'"
        )
    if result.column is not None and result.kind == LINES:
        raise UsageError(
            f"{location(path)} was taken for a file with one text per line, since tables end in "
            f"{', '.join(filter(KINDS.__contains__, TABLES))}: rename it if it is one, or leave out :{column}"
        )
    if result.kind == FOLDER and not raw:
        if not listed_files(path):
            raise UsageError(f"{location(path)} holds no files: name files, a pattern or a folder of shards")
        raise UsageError(
            f"{location(path)} was taken for a folder of pictures, sounds or videos, since it holds no shards "
            f"({', '.join(SHARDS)}): add --encode to audit such files"
        )
    if result.kind == LINES:
        with opened(result.files[0]) as file:
            if b"\0" in file.read(4096):
                raise UsageError(f"{location(path)} cannot be read: files must end in {', '.join(KINDS)}")
        if not raw and path.suffix.lower() == LINES:
            raise UsageError(f"{location(path)} was taken for a file with one text per line: add --encode to audit it")
        if not raw:
            ends = ", ".join(KINDS)
            raise UsageError(
                f"{location(path)} cannot be read: files must end in {ends}; add --encode if it has one text per line"
            )
    return result


def _parts(folder: Path) -> list[Path]:
    """Shards of a folder: its files of the first format of ``SHARDS`` that it holds, or of the only format it holds."""
    files = [file for file in listed_files(folder) if not file.name.startswith((".", "_"))]
    suffixes = set(map(suffix_of, files))
    suffix = next((suffix for suffix in SHARDS if suffix in suffixes), None)
    if suffix is None and len(suffixes) == 1 and suffixes < {*TABLES} - {".json"} and not _has_folders(folder):
        (suffix,) = suffixes
    return by_number(file for file in files if suffix_of(file) == suffix)


def _has_folders(folder: Path) -> bool:
    """Whether a folder has subfolders: a table beside them may describe the media files in them."""
    return not is_url(folder) and any(entry.is_dir() and entry.name[0] not in "._" for entry in folder.iterdir())


def _exists(path: Path) -> bool:
    try:
        return exists(path) or bool(matches(path))
    except (OSError, ValueError) as error:  # not a valid path
        if isinstance(error, UsageError):
            raise
        return False


def _splits(folder: Path) -> str:
    return ", ".join(sorted(entry.name for entry in folder.iterdir() if (entry / "state.json").is_file()))


def _dataset_files(folder: Path) -> list[Path]:
    """The Arrow files of a folder written by ``Dataset.save_to_disk``, in order."""
    try:
        with opened(folder / "state.json") as file:
            state = json.loads(file.read())
        names = [str(entry["filename"]) for entry in state["_data_files"]]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{folder} cannot be read: its state.json is not that of a saved dataset") from error
    if state.get("_indices_data_files"):
        raise UsageError(f"{folder} has an index over its rows: save it again with dataset.flatten_indices()")
    invalid = [name for name in names if Path(name).name != name or not exists(folder / name)]
    if invalid:
        raise UsageError(f"{folder} cannot be read: it has no file {invalid[0]}")
    return [folder / name for name in names]
