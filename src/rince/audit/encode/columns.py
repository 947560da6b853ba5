"""The audit of two columns: numbers, or raw texts, images and audio that are encoded first."""

import dataclasses
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince._support.atomic_files import naming_full
from rince.audit.api import audit_pairs
from rince.audit.encode.encoders import Encoder, encoder_for
from rince.audit.encode.run import encoded
from rince.audit.near_duplicates import ALIKE, near_duplicates
from rince.audit.result import Audit, kept_rows
from rince.audit.units import joined
from rince.errors import UsageError
from rince.pairs.arrow_files import ArrowTable, as_arrow, number_columns, open_arrow, value_column
from rince.pairs.columns import column_source, mapped_npy, matrix, values
from rince.pairs.fingerprint import SidePrint, item_codes, sums_of
from rince.pairs.format import naming
from rince.pairs.matrix import Matrix, codes
from rince.pairs.raw import Raw, lines_of, raw_column, raw_of_table
from rince.pairs.source import FOLDER, LINES, Source, source
from rince.report.gallery import Arrays, Gallery, Texts

Columns = str | Sequence[str]


class Side(NamedTuple):
    """One side of the pairs.

    Attributes:
        numbers: Reads the matrix of a side that holds numbers.
        folder: Folder that the paths of raw items are relative to.
        raw: Raw items; None if the side holds numbers.
        encoder: Encoder of the raw items.
        spec: The encoder as the user named it; None for the default.
    """

    numbers: Callable[[], Matrix]
    folder: Path
    raw: Raw | None = None
    encoder: Encoder | None = None
    spec: str | None = None

    @property
    def description(self) -> str:
        """How its rows are made, such as "texts encoded with hashed n-grams"; empty if it holds numbers."""
        return "" if self.raw is None or self.encoder is None else f"{self.raw.kind} encoded with {self.encoder.name}"

    @property
    def gallery(self) -> Gallery | None:
        """The raw items, for the page."""
        return None if self.raw is None else self.raw.gallery

    def rows(self, cache: Path | None, skip_invalid: bool, progress: bool | None) -> tuple[Matrix, str]:
        """The rows of this side, and a description of how they were made."""
        if self.raw is None or self.encoder is None:
            return self.numbers(), ""
        result = encoded(self.raw, self.encoder, cache, skip_invalid=skip_invalid, progress=progress)
        bad = f", {len(result.unreadable):,} could not be read" if result.unreadable else ""
        return result.rows, f"{self.description}{bad}{' (from the cache)' if result.from_cache else ''}"


def file_side(
    column: Source, encode: bool, spec: str | None, ids: Any, root: Path | None, scratch: Path, seed: int = 0
) -> Side:
    """A column of a file as a side.

    Args:
        column: The column.
        encode: Whether raw items are to be encoded.
        spec: Encoder; None for the default of the kind.
        ids: Names of the pairs, which the files of a folder are found by.
        root: Folder that must contain media files named in a table.
        scratch: Folder for temporary files.
        seed: Seed of encoders that learn from the items.
    """

    def numbers() -> Matrix:
        with naming_full(f"a temporary file in {scratch}"):
            return matrix(column, scratch)

    raw = raw_column(column, root, ids) if encode else None
    return _side(numbers, column.folder, raw, spec, seed, str(column))


def _side(numbers: Callable[[], Matrix], folder: Path, raw: Raw | None, spec: str | None, seed: int, name: str) -> Side:
    if raw is None:
        if spec is not None:
            raise UsageError(f"{name} holds numbers, which need no encoder: leave out {spec}")
        return Side(numbers, folder)
    return Side(numbers, folder, raw, encoder_for(raw.kind, spec, seed), spec)


class AuditedSides(NamedTuple):
    """The audit of two sides, how their rows were made, and the rows."""

    result: Audit
    how: tuple[str, str]
    rows: tuple[Matrix, Matrix]


def audit_sides(
    a: Side,
    b: Side,
    *,
    fit: bool | None = None,
    ids: Any = None,
    duplicates: Any = None,
    near: float | None = None,
    seed: int = 0,
    skip_invalid: bool = False,
    cache: Path | None = None,
    progress: bool | None = None,
    lengths: Mapping[str, Any] | None = None,
    held_out: Sequence[Side] | None = None,
    remarks: Sequence[str] = (),
    **options: Any,
) -> AuditedSides:
    """Encode both sides and audit them.

    Args:
        a, b: The sides; see ``audit_table`` for the other arguments.
        lengths: Items by name, one per pair, whose number is checked before the audit starts.
        held_out: Sides of pairs that the encoder has not seen.
        remarks: Further remarks.
        options: Further arguments of ``audit_pairs``.

    """
    (rows_a, how_a), (rows_b, how_b) = (side.rows(cache, skip_invalid, progress) for side in (a, b))
    check_lengths(len(rows_a), lengths or {})
    notes = [f"{name}: {how}" for name, how in (("A", how_a), ("B", how_b)) if how]
    keys = [] if duplicates is None else [codes(duplicates, "duplicates", len(rows_a))]
    if near is not None:
        clusters = near_duplicates(rows_a, rows_b, near, seed)
        sizes = np.zeros(0, int) if clusters is None else np.bincount(np.unique(clusters, return_inverse=True)[1])
        copies = sizes[sizes > 1]
        notes.append(f"{copies.sum():,} pairs are near-duplicates of others, in {len(copies):,} clusters")
        keys += [] if clusters is None else [clusters]
    if fit is None:  # unless both sides hold numbers or are encoded by one model, there is no common space yet
        same = a.spec is not None and a.spec == b.spec and a.encoder is not None and a.encoder.comparable
        fit = (a.encoder is not None or b.encoder is not None) and not same
    if all(side.encoder is not None and side.encoder.built_in for side in (a, b)):
        options["embeddings"] = options.get("embeddings") or "unseen"  # such an encoder looks at one side at a time
    if held_out is not None:
        if fit:
            raise UsageError("held-out pairs are compared by cosine: leave them out (--held-out), or give --no-fit")
        options["held_out"] = tuple(side.rows(cache, skip_invalid, progress)[0] for side in held_out)
    result = audit_pairs(
        rows_a,
        rows_b,
        fit=fit,
        ids=ids,
        duplicates=joined(keys) if len(keys) > 1 else keys[0] if keys else None,
        seed=seed,
        skip_invalid=skip_invalid,
        progress=progress,
        **options,
    )
    if result.fingerprint is not None:  # raw items identify the data better than their rows
        judged = kept_rows(len(result), result.dropped)
        prints = [result.fingerprint.a, result.fingerprint.b]
        for k, side in enumerate((a, b)):
            if side.raw is not None:
                items = side.raw.items
                sums = sums_of(item_codes((items[row] for row in judged), side.folder), 0)
                prints[k] = SidePrint(side.raw.kind, 0, sums)
        fingerprint = result.fingerprint._replace(a=prints[0], b=prints[1])
        result = dataclasses.replace(result, fingerprint=fingerprint)
    result = dataclasses.replace(result, remarks=(*result.remarks, *dict.fromkeys([*notes, *remarks])))
    return AuditedSides(result, (how_a, how_b), (rows_a, rows_b))


def check_lengths(n: int, columns: Mapping[str, Any]) -> None:
    """Raise unless everything given has one item per pair."""
    for name, items in columns.items():
        if items is not None and len(items) != n:
            remark = getattr(items, "remark", "")
            why = f"; {remark}" if remark else ""
            raise UsageError(f"{name} must have one item per pair: expected {n:,}, got {len(items):,}{why}")


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
    groups: str | None = None,
    find_near_duplicates: bool | float = False,
    seed: int = 0,
    skip_invalid: bool = False,
    cache: str | os.PathLike[str] | None = None,
    media_root: str | os.PathLike[str] | None = None,
    progress: bool | None = None,
    drop_bad: bool | None = None,
    **options: Any,
) -> Audit:
    """Find the unrelated pairs of two columns of a table.

    Args:
        table: A pandas, polars, Arrow or Hugging Face datasets table, or the name of a Parquet or Arrow file, of a
            glob of them (``"data/*.parquet"``) or of a datasets folder.
        a, b: Columns: one of texts, paths or media (which are encoded), one of lists of numbers, or the names of
            several columns of numbers.
        encoder: Encoder of both sides, see :func:`rince.audit.encode.encoder_for`.
        encoder_a, encoder_b: Encoder of one side.
        fit: Learn a common space. Default: only if the two sides are not encoded by one model.
        ids: Column with the names of the pairs; pairs with equal ids are never used as mismatched pairs.
        duplicates: Column with equal values for pairs that show the same thing.
        groups: Column such as language or source, for the check for groups.
        find_near_duplicates: Find rows that are nearly equal; a number is the smallest cosine.
        seed: Random seed. Default: 0.
        skip_invalid: Leave out pairs with missing or unreadable items. Default: False.
        cache: Folder for encoded columns. Default: None, no cache.
        media_root: Folder that must contain the files named in the table. Default: the folder of the table.
        progress: Show progress. Default: on a terminal only.
        drop_bad: Former name of ``skip_invalid``.
        options: Further arguments of :func:`rince.audit_pairs`, such as ``embeddings="unseen"``.

    Returns:
        The audit; ``result.save(folder, show_a=frame["question"], show_b=frame["answer"])`` writes table and page.

    Raises:
        UsageError: A column does not exist, has the wrong type, or cannot be read.

    Example:
        >>> import pyarrow
        >>> words = ["apple", "river", "engine", "violin", "desert", "planet", "button", "garden", "window", "tiger"]
        >>> texts = [f"{x} {y} {z}" for x in words for y in words for z in words[:3]]
        >>> table = pyarrow.table({"question": texts, "answer": texts})
        >>> result = rince.audit.audit_table(table, "question", "answer", encoder="ngrams", fit=False)
        >>> result.verdict.value
        'none found'
    """
    if drop_bad is not None:
        message = "audit_table(drop_bad=) is called skip_invalid; the old name goes in version 0.4"
        warnings.warn(message, DeprecationWarning, stacklevel=2)
        skip_invalid = drop_bad
    folder = Path()
    if isinstance(table, (str, os.PathLike)):
        table_source = source(str(table))
        opened, folder = open_arrow(table_source), table_source.folder
    else:
        opened = as_arrow(table)
    root = None if media_root is None else Path(media_root)
    near = None if find_near_duplicates is False else ALIKE if find_near_duplicates is True else find_near_duplicates
    return audit_sides(
        _table_side(opened, a, encoder_a or encoder, folder, root, seed),
        _table_side(opened, b, encoder_b or encoder, folder, root, seed),
        fit=fit,
        ids=_table_values(opened, ids),
        duplicates=_table_values(opened, duplicates),
        groups=_table_values(opened, groups),
        near=near,
        seed=seed,
        skip_invalid=skip_invalid,
        cache=None if cache is None else Path(cache),
        progress=progress,
        **options,
    ).result


def _table_side(
    table: ArrowTable, columns: Columns, spec: str | None, folder: Path, root: Path | None, seed: int
) -> Side:
    names = [columns] if isinstance(columns, str) else list(columns)
    _check_columns(table, names)

    def numbers() -> Matrix:
        blocks = [
            np.hstack([np.asarray(part, dtype=np.float32).reshape(len(part), -1) for part in batch])
            for _, batch in number_columns(table, names)
        ]
        return np.concatenate(blocks) if blocks else np.empty((0, len(names)), dtype=np.float32)

    raw = raw_of_table(table, columns, folder, root) if isinstance(columns, str) else None
    return _side(numbers, folder, raw, spec, seed, f"{table.name}:{','.join(names)}")


def _table_values(table: ArrowTable, name: str | None) -> NDArray[Any] | None:
    if name is None:
        return None
    _check_columns(table, [name])
    return np.concatenate([np.asarray(part, dtype=object) for part in value_column(table, name)])


def _check_columns(table: ArrowTable, names: list[str]) -> None:
    existing = list(table.schema.names)
    for name in names:
        if name not in existing:
            raise UsageError(f"{table.name} has no column {name}; it has {', '.join(existing[:20])}")


def column_values(text: str | None, beside: Source) -> NDArray[Any] | None:
    """One value per pair, such as ids: ``FILE[:COLUMN]``, or the name of a column of the file ``beside``."""
    if text is None:
        return None
    column = column_source(text, beside, raw=True)
    if column.kind == LINES:
        return np.array(lines_of(column), dtype=object)
    if column.kind == FOLDER:
        raise UsageError(f"{column.path} is a folder: name a file with one value per pair, as FILE:COLUMN")
    return values(column)


def shown_column(text: str | None, beside: Source, root: Path | None = None, ids: Any = None) -> Gallery | None:
    """What a page shows of one side: a folder of media, a column of texts or paths, a .txt file or .npy images."""
    if text is None:
        return None
    column = column_source(text, beside, raw=True)
    if column.kind == ".npy":
        with naming(column.path):
            array = mapped_npy(column.path)
        if array.ndim > 1:
            return Arrays(array)
    raw = raw_column(column, root, ids)
    return Texts(values(column)) if raw is None else raw.gallery
