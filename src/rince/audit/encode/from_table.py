"""The audit of two columns of a table in memory or on disk: numbers, or raw texts, pictures and sounds."""

import dataclasses
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from rince.audit.columns import Matrix, codes
from rince.audit.encode import encoder_for
from rince.audit.encode.prepare import Side, combined, needs_fit, with_items
from rince.audit.encode.run import encoded
from rince.audit.input.arrow_tables import ArrowTable, as_arrow, number_columns, open_arrow, value_column
from rince.audit.input.near_duplicates import ALIKE, near_duplicates
from rince.audit.input.raw import Raw, raw_of_table
from rince.audit.input.source import source
from rince.audit.result import Audit
from rince.audit.run import audit
from rince.errors import UsageError

Columns = str | Sequence[str]


def audit_table(
    table: Any,
    a: Columns,
    b: Columns,
    *,
    encoder: str | None = None,
    encoder_a: str | None = None,
    encoder_b: str | None = None,
    fit: bool | None = None,
    ids: str | None = None,
    duplicates: str | None = None,
    find_near_duplicates: bool | float = False,
    seed: int = 0,
    drop_bad: bool = False,
    cache: str | os.PathLike[str] | None = None,
    media_root: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
) -> Audit:
    """Find the wrong pairs of two columns of a table.

    Args:
        table: A table of pandas, polars, Arrow or Hugging Face datasets, or the name of a Parquet or Arrow file, of a
            pattern of them (``"data/*.parquet"``) or of a folder of datasets.
        a, b: Columns: one of texts, of paths or of media (which are encoded), one of lists of numbers, or the names of
            several columns of numbers.
        encoder: The encoder of both sides, see :func:`rince.audit.encode.encoder_for`.
        encoder_a, encoder_b: The encoder of one side.
        fit: Learn a common space. By default, only where the two sides are not encoded by one model.
        ids: The column that names the pairs; equal ids never make a mismatched pair.
        duplicates: A column of equal values for pairs that are the same thing.
        find_near_duplicates: Find rows that are nearly the same; a number is the least cosine.
        seed: The same seed gives the same audit.
        drop_bad: Leave out pairs with missing or unreadable items.
        cache: A folder in which encoded columns are kept.
        media_root: The folder that files named in the table must lie below; by default the current one, or that of the
            file.
        progress: Show a bar; by default on a terminal.

    Returns:
        The audit; ``found.save(folder, show_a=frame["question"], show_b=frame["answer"])`` writes table and page.

    Raises:
        UsageError: A column is not there, holds something else, or cannot be read.

    Example:
        >>> import pyarrow
        >>> words = ["apple", "river", "engine", "violin", "desert", "planet", "button", "garden", "window", "tiger"]
        >>> texts = [f"{x} {y} {z}" for x in words for y in words for z in words[:3]]
        >>> table = pyarrow.table({"question": texts, "answer": texts})
        >>> found = rince.audit.audit_table(table, "question", "answer", encoder="ngrams", fit=False)
        >>> found.verdict
        'none found'
    """
    folder = Path()
    if isinstance(table, (str, os.PathLike)):
        where = source(str(table))
        opened, folder = open_arrow(where), where.folder
    else:
        opened = as_arrow(table)
    root = None if media_root is None else Path(media_root)
    sides = [
        _side(opened, columns, spec or encoder, folder, root, seed)
        for columns, spec in ((a, encoder_a), (b, encoder_b))
    ]
    kept = None if cache is None else Path(cache)
    rows = [_rows(opened, columns, one, kept, drop_bad, progress) for columns, one in zip((a, b), sides, strict=True)]
    named, same = (None if name is None else _values(opened, name) for name in (ids, duplicates))
    keys = [None if same is None else codes(same, "duplicates", len(rows[0]))]
    if find_near_duplicates:
        alike = ALIKE if find_near_duplicates is True else float(find_near_duplicates)
        keys.append(near_duplicates(rows[0], rows[1], alike, seed))
    found = audit(
        *rows,
        fit=needs_fit(*sides) if fit is None else fit,
        ids=named,
        duplicates=combined(*keys),
        seed=seed,
        drop_bad=drop_bad,
        progress=progress,
    )
    said = [f"{name} is {one.how}" for name, one in zip("AB", sides, strict=True) if one.how]
    found = with_items(found, sides, (folder, folder))
    return dataclasses.replace(found, remarks=(*found.remarks, *said))


def _side(table: ArrowTable, columns: Columns, spec: str | None, folder: Path, root: Path | None, seed: int) -> Side:
    _check(table, [columns] if isinstance(columns, str) else list(columns))
    raw: Raw | None = raw_of_table(table, columns, folder, root) if isinstance(columns, str) else None
    where: Any = None
    return Side(where) if raw is None else Side(where, raw, encoder_for(raw.kind, spec, seed), spec)


def _rows(
    table: ArrowTable, columns: Columns, side: Side, cache: Path | None, drop_bad: bool, progress: bool | None
) -> Matrix:
    if side.raw is not None and side.encoder is not None:
        return encoded(side.raw, side.encoder, cache, drop_bad=drop_bad, progress=progress).rows
    names = [columns] if isinstance(columns, str) else list(columns)
    blocks = [
        np.hstack([np.asarray(part, dtype=np.float32).reshape(len(part), -1) for part in batch])
        for batch in number_columns(table, names)
    ]
    return np.concatenate(blocks) if blocks else np.empty((0, len(names)), dtype=np.float32)


def _values(table: ArrowTable, name: str) -> Any:
    _check(table, [name])
    return np.concatenate([np.asarray(part, dtype=object) for part in value_column(table, name)])


def _check(table: ArrowTable, names: list[str]) -> None:
    there = list(table.schema.names)
    for name in names:
        if name not in there:
            raise UsageError(f"{table.name} has no column {name}; it has {', '.join(there[:20])}")
