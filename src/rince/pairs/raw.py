"""Raw columns: texts, pictures, sounds or videos, one item per pair."""

import hashlib
import struct
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

import numpy as np

from rince._support.regular_files import lies_below
from rince.errors import UsageError
from rince.pairs.arrow_files import ArrowTable, is_list, is_number, open_arrow
from rince.pairs.columns import chosen, column_names, is_blank, listed, value_batches
from rince.pairs.files import is_url, location
from rince.pairs.format import format_of, naming
from rince.pairs.source import ARROW_TABLES, FOLDER, LINES, TABLES, TAR, Source
from rince.pairs.tar_files import Tar
from rince.pairs.text_files import is_number as reads_as_number
from rince.report.gallery import Contents, Files, Gallery, Texts, kind_of_name, media_type

Kind = Literal["texts", "pictures", "sounds", "videos"]
LOOKED_AT = 200
"""Number of items sampled to determine the kind of a column."""


class Raw(NamedTuple):
    """One item per pair: a text, the path of a media file or its content as bytes; None for a missing item.

    Attributes:
        kind: Kind of the items.
        items: The items.
        name: Name of the column in messages.
        root: Folder that must contain the files named by the column.
        remark: Note for the reader on how the items were found.
        ends: Row after the last row of each file. Network outputs depend slightly on the batch; batches that end with
            files are the same as those of shards.
        describe: Name of the item in a row, for error messages.
    """

    kind: Kind
    items: Sequence[Any]
    name: str
    root: Path | None = None
    remark: str = ""
    ends: tuple[int, ...] = ()
    describe: Callable[[int], str] = "row {}".format

    def __len__(self) -> int:
        return len(self.items)

    @property
    def gallery(self) -> Gallery:
        """The items, for a page."""
        if self.kind == "texts":
            return Texts(self.items)
        first = next((item for item in (self.items[k] for k in range(len(self))) if item is not None), None)
        if isinstance(first, bytes):
            return Contents(self.items, self.remark)
        return Files(self.items, self.remark, self.root)

    def fingerprint(self) -> str:
        """A code of all items: of texts and bytes by their content, of files by name, size and time of change."""
        code = hashlib.blake2b(self.kind.encode(), digest_size=16)
        for item in self.items:
            content = _stamp(item) if isinstance(item, Path) else item
            content = content.encode("utf-8", "surrogatepass") if isinstance(content, str) else content
            code.update(b"-" if content is None else struct.pack("<q", len(content)) + content)
        return code.hexdigest()


def raw_column(source: Source, root: Path | None = None, ids: Any = None) -> Raw | None:
    """The raw items of a source; None if it holds numbers, which need no encoder.

    Args:
        source: A table's column, a folder of media files, or a .txt file.
        root: Folder that must contain the media files. Default: the folder of the table.
        ids: Ids of the pairs, which name the files of a folder.

    Raises:
        UsageError: The column holds something else, or names files outside of ``root``.
    """
    raw = _raw_column(source, root, ids)
    if raw is None or source.kind == FOLDER or source.part is not None or len(source.files) < 2:
        return raw
    content = format_of(source)
    ends = np.cumsum([content.rows(file) for file in source.files]).tolist()
    return Raw(raw.kind, raw.items, raw.name, raw.root, raw.remark, tuple(ends), raw.describe)


def _raw_column(source: Source, root: Path | None, ids: Any) -> Raw | None:
    with naming(source.path):
        if source.kind == FOLDER:
            if source.part is None:
                return _of_folder(source.path, ids)
            return Raw(cast(Kind, kind_of_name(source.files[0].name)), source.files, str(source), source.path)
        if source.kind == LINES:
            return Raw("texts", lines_of(source), str(source))
        if source.kind in ARROW_TABLES:
            return raw_of_table(open_arrow(source), source.column, source.folder, root)
        if source.kind == TAR:
            return _of_tar(source)
        if source.kind not in TABLES:
            return None
        names = chosen(source, column_names(source))
        if len(names) > 1:
            return None
        cells: list[Any] = [cell for batch in value_batches(source) for cell in batch.tolist()]
    return as_raw([None if is_blank(cell) else cell for cell in cells], str(source), source.folder, root)


def _of_tar(source: Source) -> Raw | None:
    tar = cast(Tar, format_of(source))
    if source.column is None:
        raise UsageError(f"{source} has the fields {listed(tar.fields)}: name one, as {source}:{tar.fields[-1]}")
    items = tar.items(source.column, gaps=True)
    kind = kind_of_name(f"x.{source.column}")
    if kind is not None:
        return Raw(cast(Kind, kind), items, str(source), describe=items.describe)
    first = next((item for item in (items[k] for k in range(len(items))) if item is not None), None)
    if isinstance(first, (np.ndarray, int, float)):
        return None
    return Raw("texts", [items[k] for k in range(len(items))], str(source), describe=items.describe)


def lines_of(source: Source) -> list[str | None]:
    """Lines of a .txt file, split at line feeds only; None for an empty line."""
    return [line for _, batch in format_of(source).batches([]) for line in batch[0]]


def raw_of_table(table: ArrowTable, column: str | None, folder: Path | None, root: Path | None) -> Raw | None:
    """The raw items of a column of an Arrow table; datasets store media as structs of bytes and path."""
    arrow_names = list(table.schema.names)
    source = Source(Path(table.name), column)
    names = chosen(source, arrow_names)
    types = [table.schema.field(name).type for name in names]
    if all(is_number(kind) or is_list(kind) for kind in types):
        return None
    if len(names) > 1:
        raise UsageError(f"{table.name} has the columns {listed(names)}: name one, as FILE:{names[0]}")
    batches = list(table.batches(names))
    items = cast(Sequence[Any], ArrowItems([batch.column(0) for batch in batches]))
    return as_raw(items, f"{table.name}:{names[0]}", folder, root)


class ArrowItems(Sequence[Any]):
    """Items of an Arrow column, converted on access: media as bytes would fill the memory."""

    def __init__(self, columns: list[Any]):
        self.columns = columns
        self.starts = np.cumsum([0, *(len(column) for column in columns)])

    def __len__(self) -> int:
        return int(self.starts[-1])

    def __getitem__(self, index: Any) -> Any:
        if not 0 <= index < len(self):
            raise IndexError(index)
        part = int(np.searchsorted(self.starts, index, side="right")) - 1
        value = self.columns[part][int(index - self.starts[part])].as_py()
        if isinstance(value, dict):
            value = value.get("bytes") or value.get("path")
        return None if is_blank(value) else value


def as_raw(items: Sequence[Any], name: str, folder: Path | None, root: Path | None) -> Raw | None:
    """Items with their kind; names of media files become paths, relative to ``folder``."""
    sample = [item for item in (items[k] for k in range(min(len(items), 10 * LOOKED_AT))) if item is not None]
    sample = sample[:LOOKED_AT]
    if not len(items):
        raise UsageError(f"{name} has no rows")
    if not sample:
        raise UsageError(f"{name} holds nothing but missing values")
    if all(isinstance(item, bytes) for item in sample):
        media = media_type(sample[0])
        return Raw("pictures" if media is None else "sounds" if media.startswith("audio") else "videos", items, name)
    if all(isinstance(item, (int, float)) for item in sample) or all(reads_as_number(item) for item in sample):
        return None
    if not all(isinstance(item, str) for item in sample):
        raise UsageError(f"{name} must hold texts, names of files or their content, got {type(sample[0]).__name__}")
    kinds = {kind_of_name(item) for item in sample}
    if len(kinds) == 1 and None not in kinds:
        return _files(items, cast(Kind, kinds.pop()), name, folder or Path(), root)
    return Raw("texts", items if isinstance(items, list) else list(items), name)


def _files(items: Sequence[Any], kind: Kind, name: str, folder: Path, root: Path | None) -> Raw:
    paths = [None if item is None else folder / item for item in items]
    allowed = folder if root is None else root
    first = next((path for path in paths if path is not None), None)
    if first is not None and first.exists() and not lies_below(first, allowed):
        raise UsageError(
            f"{name} names files outside of {allowed}, such as {first}: say where they may lie with --media-root FOLDER"
        )
    return Raw(kind, paths, name, allowed)


def _of_folder(folder: Path, ids: Any) -> Raw:
    if is_url(folder):
        raise UsageError(
            f"{location(folder)} is a folder of media files at a URL: pack them into tars, which are read from there, "
            "or copy the folder to a disk"
        )
    files = Files.from_folder(folder, ids)
    kinds = {kind_of_name(Path(path).name) for path in files.paths if path is not None}
    if len(kinds) > 1:
        raise UsageError(f"{folder} holds {' and '.join(sorted(map(str, kinds)))}: keep one kind in a folder")
    return Raw(cast(Kind, kinds.pop()), list(files.paths), str(folder), folder, files.remark)


def _stamp(path: Path) -> str:
    try:
        status = path.stat()
        return f"{path.name} {status.st_size} {status.st_mtime_ns}"
    except (OSError, ValueError):
        return f"{path.name} missing"
