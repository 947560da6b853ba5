"""Where a column is: ``PATH`` or ``PATH:COLUMN``; the path may be a pattern of Parquet files or a folder."""

import json
from pathlib import Path
from typing import NamedTuple

from rince._support.regular_files import natural
from rince.errors import MissingFile, UsageError

TEXT_TABLES = {".csv": ",", ".tsv": "\t"}
ARROW_TABLES = (".parquet", ".arrow", ".feather", "datasets")
TABLES = (*ARROW_TABLES, *TEXT_TABLES)
TENSORS = (".pt", ".pth", ".safetensors")
KINDS = (".npy", ".npz", ".parquet", ".arrow", ".feather", *TEXT_TABLES, *TENSORS)
LINES = ".txt"
FOLDER = "folder"


class Source(NamedTuple):
    """A file and, after a colon, what to take from it: an array of an .npz, columns of a table (comma, ``*``).

    Attributes:
        path: A file, a folder, or a pattern such as ``data/*.parquet``; a folder ``x.parquet`` of such files is one.
        column: What stands after the colon.
        header: Without one, the columns of a .csv or .tsv are called 0, 1, 2, ...
    """

    path: Path
    column: str | None
    header: bool = True

    def __str__(self) -> str:
        return f"{self.path}:{self.column}" if self.column else str(self.path)

    @property
    def kind(self) -> str:
        """The ending of the file, ``"datasets"`` (a folder written by Hugging Face datasets) or ``"folder"``."""
        suffix = self.path.suffix.lower()
        if self.path.is_dir() and not (suffix == ".parquet" and _parts(self.path)):
            return "datasets" if (self.path / "state.json").is_file() else FOLDER
        return suffix

    @property
    def folder(self) -> Path:
        """What paths in the column are relative to."""
        return self.path if self.path.is_dir() else self.path.parent

    @property
    def files(self) -> list[Path]:
        """The files behind the path, those of a pattern in the order of their names (part2 before part10)."""
        if self.kind == "datasets":
            return _dataset_files(self.path)
        if self.kind == ".parquet" and self.path.is_dir():
            return sorted(_parts(self.path), key=natural)
        return [self.path] if self.path.exists() else sorted(_matches(self.path), key=natural)


def source(text: str, header: bool = True, raw: bool = False) -> Source:
    """A file, folder or pattern that exists, and a column.

    Args:
        text: ``data.csv:image_*``, ``pairs.npz:image``, ``'data/*.parquet:text'``, ...
        header: Whether the first line of a .csv or .tsv names its columns.
        raw: Whether folders of media files and .txt files (one text per line) are allowed.

    Raises:
        MissingFile: There is no such file.
        UsageError: The file is of a kind that cannot be read.
    """
    path, column = Path(text), None
    if not _there(path) and ":" in text:
        # The last colon that leaves a file in front of it: names of columns may hold colons as well.
        cuts = [place for place, letter in enumerate(text) if letter == ":"][::-1]
        cut = next((place for place in cuts if _there(Path(text[:place]))), cuts[0])
        path, column = Path(text[:cut]), text[cut + 1 :]
    if not _there(path):
        raise MissingFile(f"there is no file {path}")
    if path.is_dir() and (path / "dataset_dict.json").is_file():
        raise UsageError(f"{path} holds several splits ({_splits(path)}): name one, as {path / 'train'}:COLUMN")
    found = Source(path, column or None, header)
    if path.exists() and not (path.is_file() or path.is_dir()):
        raise UsageError(f"{path} is no regular file")
    allowed = (*KINDS, "datasets", LINES, FOLDER) if raw else (*KINDS, "datasets")
    if found.kind not in allowed:
        if found.kind == FOLDER and path.suffix.lower() in KINDS:
            raise UsageError(f"{path} is a folder, and holds no table: name a file")
        if found.kind in (LINES, FOLDER):
            raise UsageError(f"{path} holds no numbers: add --encode to audit raw texts, pictures or sounds")
        raise UsageError(f"{path} cannot be read: files must end in {', '.join(KINDS)}")
    return found


def _parts(folder: Path) -> list[Path]:
    """The files of a table that was written as a folder: ``audit.parquet/part-000000.parquet``, ..."""
    return [file for file in folder.glob("*.parquet") if file.is_file()]


def _there(path: Path) -> bool:
    try:
        return path.exists() or bool(_matches(path))
    except (OSError, ValueError):  # a text that is no path
        return False


def _matches(pattern: Path) -> list[Path]:
    """Files of a pattern in the last part of a path, or in several parts."""
    parts = pattern.parts
    first = next((k for k, part in enumerate(parts) if any(c in part for c in "*?[")), None)
    if first is None:
        return []
    return [file for file in Path(*parts[:first]).glob(str(Path(*parts[first:]))) if file.is_file()]


def _splits(folder: Path) -> str:
    return ", ".join(sorted(entry.name for entry in folder.iterdir() if (entry / "state.json").is_file()))


def _dataset_files(folder: Path) -> list[Path]:
    """The Arrow files of a folder written by ``Dataset.save_to_disk``, in order."""
    try:
        state = json.loads((folder / "state.json").read_text(encoding="utf-8"))
        names = [str(entry["filename"]) for entry in state["_data_files"]]
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{folder} cannot be read: its state.json is not that of a saved dataset") from error
    if state.get("_indices_data_files"):
        raise UsageError(f"{folder} has an index over its rows: save it again with dataset.flatten_indices()")
    strange = [name for name in names if Path(name).name != name or not (folder / name).is_file()]
    if strange:
        raise UsageError(f"{folder} cannot be read: there is no file {strange[0]} in it")
    return [folder / name for name in names]
