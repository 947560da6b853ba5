"""Columns of files: matrices mapped into memory where possible, and one value per pair.

Numbers that cannot be mapped (a compressed .npz, a column of a table, several shards) are written once, row by row,
into an unnamed temporary file, so that they are never held in memory as a whole. A missing cell is NaN among numbers
and None among ids and texts.
"""

import fnmatch
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rince.errors import UsageError
from rince.pairs.arrow_files import ArrowTable, is_list, is_number, number_columns, open_arrow, value_column
from rince.pairs.files import is_url, location, suffix_of
from rince.pairs.format import format_of, naming
from rince.pairs.matrix import as_matrix, label_numbers
from rince.pairs.source import ARROW_TABLES, FOLDER, JSON_LINES, KINDS, TABLES, TAR, TEXT_TABLES, Source
from rince.pairs.source import source as parse_source
from rince.pairs.text_files import is_number as reads_as_number


def check_different(a: Source, b: Source) -> None:
    """Raise if A and B are the same column, which would look like a perfect match."""
    if a.path.resolve() != b.path.resolve() and not (a.path.exists() and b.path.exists() and a.path.samefile(b.path)):
        return
    with naming(a.path):
        names = [] if a.kind == FOLDER else format_of(a).fields
        if a.column != b.column and not (a.kind in TABLES and {*chosen(a, names)} & {*chosen(b, names)}):
            return
    hint = f"columns, such as {a.path}:{names[-1]}; it has {listed(names)}" if names else "files"
    both = f"A and B are both {a}" if a.column == b.column else f"{a} and {b} have columns in common"
    raise UsageError(f"{both}: name two different {hint}")


def matrix(source: Source, scratch: Path) -> NDArray[Any]:
    """A (pairs, width) array, mapped into memory.

    A column with one value per pair has one feature. A column may also hold labels: texts with few distinct values.

    Args:
        source: An array, or columns of a table.
        scratch: Folder for temporary files.
    """
    with naming(source.path):
        mapped = source.kind == ".npy" and source.part is None and len(source.files) == 1 and not is_url(source.path)
        if mapped and source.files[0].suffix.lower() == ".npy":
            array_name(source, [])
            array = mapped_npy(source.files[0])
        else:
            array = _collected(source, scratch)
    return as_matrix(array, str(source))


def mapped_npy(path: Path) -> NDArray[Any]:
    """The array of an .npy file, mapped into memory."""
    try:
        with np.errstate(over="ignore"):  # an impossible shape in the header raises a warning or a TypeError
            return np.load(path, mmap_mode="r", allow_pickle=False)
    except TypeError as error:
        raise ValueError("its header has an impossible shape") from error


def _collected(source: Source, scratch: Path) -> NDArray[np.float32]:
    """Numbers in a temporary float32 file, which is then mapped; labels as numbers."""
    file: Any = tempfile.TemporaryFile(dir=scratch)  # noqa: SIM115 (mapped below, and closed with the array)
    count, width = 0, 0
    try:
        for block in number_batches(source):
            file.write(np.ascontiguousarray(block).data)
            count, width = count + len(block), block.shape[1]
    except NoNumber:
        labels = None
        if source.kind not in TABLES or len(chosen(source, column_names(source))) == 1:
            labels = label_numbers(value_batches(source))
        if labels is None:
            raise
        return labels
    if not count:
        raise UsageError(f"{source} has no rows")
    file.flush()
    return np.memmap(file, dtype=np.float32, mode="r", shape=(count, width))


def values(source: Source) -> NDArray[Any]:
    """One value per pair, such as ids or texts: the only column of the file, or the named one."""
    with naming(source.path):
        array = np.concatenate([*value_batches(source)] or [np.empty(0, dtype=object)])
    if array.ndim != 1 or array.dtype.kind == "V":
        raise UsageError(f"{source} must hold one value per pair, got {array.dtype} of shape {array.shape}")
    return array


def column_source(text: str, beside: Source, raw: bool = False) -> Source:
    """``FILES[:COLUMN]``, or the name of a column of the files ``beside``."""
    if beside.kind in TABLES and ":" not in text and not Path(text).exists() and suffix_of(Path(text)) not in KINDS:
        return beside._replace(column=",".join(chosen(beside._replace(column=text), column_names(beside))))
    return parse_source(text, beside.header, raw)


def column_names(source: Source) -> list[str]:
    """All columns of a table."""
    return format_of(source).fields


class NoNumber(UsageError):
    """A cell is not a number where one is expected."""


def number_batches(source: Source) -> Iterator[NDArray[np.float32]]:
    """(rows, width) blocks of the chosen columns, side by side; a column of lists is as wide as its lists."""
    if source.kind in ARROW_TABLES:
        table = open_arrow(source)
        names = _number_names(source, table)
        batches: Iterator[tuple[Path | str, list[Any]]] = number_columns(table, names)
    else:
        content = format_of(source)
        names = chosen(source, content.fields) if source.kind in TABLES else array_name(source, content.fields)
        batches = content.batches(names)
    start, width = 0, 0
    for shard, batch in batches:
        columns = [_numbers(column, name, source, start) for name, column in zip(names or [""], batch, strict=True)]
        block = np.hstack(columns)
        if start and block.shape[1] != width:
            raise UsageError(
                f"{location(shard)} has rows of {block.shape[1]} numbers, and the rows before it (of {source}) {width}"
            )
        yield block
        start, width = start + len(block), block.shape[1]


def array_name(source: Source, names: list[str]) -> list[str]:
    """The chosen array of a file of named arrays; an empty list if arrays have no names."""
    if not names:
        if source.column is not None:
            raise UsageError(f"{source.path} holds one array without a name: leave out :{source.column}")
        return []
    if source.column is None and len(names) == 1:
        return names
    if source.column not in names:
        raise UsageError(f"{source.path} holds {listed(names)}: name one, as {source.path}:{names[0]}")
    return [source.column]


def value_batches(source: Source) -> Iterator[NDArray[Any]]:
    """Values of the chosen column, in batches."""
    if source.kind not in TABLES:
        content = format_of(source)
        for _, batch in content.batches(array_name(source, content.fields)):
            yield np.asarray(batch[0])
        return
    names = chosen(source, column_names(source))
    if len(names) != 1:
        raise UsageError(_which(source, names, names[0], "one"))
    if source.kind in ARROW_TABLES:
        yield from value_column(open_arrow(source), names[0])
        return
    for _, batch in format_of(source).batches(names):
        column = np.empty(len(batch[0]), dtype=object)
        column[:] = batch[0]
        yield column


def chosen(source: Source, available: list[str]) -> list[str]:
    """Names of the chosen columns, in the order given."""
    names = available if source.column is None else [source.column]
    if source.column is not None and source.column not in available:
        if source.kind in JSON_LINES or (source.kind == TAR and source.column.startswith("json.")):
            first = source.column.split(".")[0]
            if any(name.split(".")[0] == first for name in available):  # a field missing in the first record
                return [source.column]
        patterns = [pattern.strip() for pattern in source.column.split(",")]
        names = [name for pattern in patterns for name in available if fnmatch.fnmatchcase(name, pattern)]
    if not names and source.column is not None:
        hint = " (--no-header if its first line is data)" if source.kind in TEXT_TABLES and source.header else ""
        if source.kind == TAR and any(name.endswith(f".{source.column}") for name in available):
            hint = ": a key ends at the first dot of the file name, so keys must not have dots"
        raise UsageError(f"{location(source.path)} has no column {source.column}; it has {listed(available)}{hint}")
    counts = Counter(available)
    names = list(dict.fromkeys(names))
    if (duplicate := next((name for name in names if counts[name] > 1), None)) is not None:
        raise UsageError(
            f"{source.path} has {counts[duplicate]} columns called {duplicate}: give each a name of its own"
        )
    return names


def listed(names: list[str]) -> str:
    """Names of columns for a message; quoted where they have spaces around them."""
    quoted = (name if name == name.strip() else repr(name) for name in names[:20])
    return ", ".join(quoted) + (", ..." if len(names) > 20 else "")


def _which(source: Source, names: list[str], example: str, what: str = "those that hold the numbers") -> str:
    return f"{source.path} has the columns {listed(names)}: name {what} as FILE:COLUMN, such as {source.path}:{example}"


def _number_names(source: Source, table: ArrowTable) -> list[str]:
    schema = table.schema
    names = chosen(source, schema.names)
    lists = [name for name in names if is_list(schema.field(name).type)]
    if source.column is None and len(names) > 1 and not all(is_number(schema.field(name).type) for name in names):
        raise UsageError(_which(source, names, lists[0] if lists else names[0]))
    return names


def _numbers(column: Any, name: str, source: Source, start: int) -> NDArray[np.float32]:
    try:
        block = np.asarray(column, dtype=np.float32)
    except (ValueError, TypeError):
        column = [
            None if isinstance(cell, str) and cell.strip().lower() in MISSING_NUMBERS else cell for cell in column
        ]
        widths = [len(cell) if isinstance(cell, (list, tuple)) else -1 for cell in column]
        different = next((row for row, width in enumerate(widths) if width not in (-1, max(widths))), None)
        if different is not None:
            raise UsageError(
                f"{source} has lists that differ in length in column {name}: {widths[different]} numbers in row "
                f"{start + different}, {max(widths)} in others"
            ) from None
        gap: Any = np.nan if max(widths) < 0 else [np.nan] * max(widths)
        column = [gap if is_blank(cell) else cell for cell in column]
        for row, cell in enumerate(column):
            numbers = cell if isinstance(cell, (list, tuple)) else [cell]
            if not all(number is None or reads_as_number(number) for number in numbers):
                raise _no_number(cell, name, source, start + row) from None
        block = np.array(column, dtype=np.float32)
    if block.ndim > 2:
        raise UsageError(f"{source} must have the shape (pairs, width), got {block.shape}")
    return block.reshape(len(block), -1)


MISSING_NUMBERS = ("na", "n/a", "null", "none")  # of R, databases and Python; NaN and empty cells are missing, too


def _no_number(cell: Any, name: str, source: Source, row: int) -> UsageError:
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        return UsageError(
            f"{source.path} has lists written as text in column {name}: store them in a Parquet or .npy file instead, "
            "or one number per column"
        )
    cell_text = f"{len(cell):,} bytes" if isinstance(cell, bytes) else f"{cell!r:.40}"
    text = f"{location(source.path)} has {cell_text} in column {name}, row {row}, where a number should be"
    if isinstance(cell, str) and cell.count(",") == 1 and reads_as_number(cell.replace(",", ".")):
        return NoNumber(f"{text}: write numbers with decimal points")
    if source.column is None and source.kind in TABLES:
        names = column_names(source)
        return NoNumber(f"{text}; {_which(source, names, names[-1])}")  # non-numeric columns such as ids come first
    return NoNumber(f"{text} (add --encode to audit raw texts, pictures or sounds)")


def is_blank(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())
