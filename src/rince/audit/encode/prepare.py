"""From the names of two columns to what an audit takes: rows of numbers, and what the page shows of them."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince._support.atomic_files import naming_full
from rince.audit.columns import Matrix
from rince.audit.encode import Encoder, encoded, encoder_for
from rince.audit.fingerprint import SidePrint, item_codes, sums_of
from rince.audit.input.arrays import matrix, values
from rince.audit.input.raw import Raw, lines_of, raw_column
from rince.audit.input.source import FOLDER, LINES, TABLES, Source, source
from rince.audit.input.tables import column_names
from rince.audit.result import Audit
from rince.audit.unusable import kept_rows
from rince.errors import UsageError
from rince.report.gallery import Contents, Files, Show, Texts


class Side(NamedTuple):
    """One side of the pairs: its raw items, if it has any, and the encoder for them."""

    where: Source
    raw: Raw | None = None
    encoder: Encoder | None = None
    spec: str | None = None

    @property
    def how(self) -> str:
        """How its numbers come to be, in words; empty if it holds numbers."""
        return "" if self.raw is None or self.encoder is None else f"{self.raw.kind} through {self.encoder.name}"

    def rows(self, scratch: Path, cache: Path, drop_bad: bool) -> tuple[Matrix, str]:
        """The numbers of this side, and how they came to be, in words."""
        if self.raw is None or self.encoder is None:
            with naming_full(f"a temporary file in {scratch}"):
                return matrix(self.where, scratch), ""
        found = encoded(self.raw, self.encoder, cache, drop_bad=drop_bad)
        bad = f", {len(found.unreadable):,} could not be read" if found.unreadable else ""
        return found.rows, f"{self.how}{bad}{' (kept)' if found.from_cache else ''}"


def side(where: Source, encode: bool, spec: str | None, ids: Any, root: Path | None, seed: int = 0) -> Side:
    """A side of the pairs; columns of numbers need no encoder.

    Args:
        where: The column.
        encode: Whether raw items are to be encoded.
        spec: The encoder; None for the default of its kind.
        ids: Names of the pairs, by which files of a folder are found.
        root: The folder that media files must lie below.
        seed: For encoders that learn from the items.
    """
    raw = raw_column(where, root, ids) if encode else None
    if raw is None:
        if spec is not None:
            raise UsageError(f"{where} holds numbers, which need no encoder: leave out {spec}")
        return Side(where)
    return Side(where, raw, encoder_for(raw.kind, spec, seed), spec)


def needs_fit(a: Side, b: Side) -> bool:
    """Whether the two sides have no common space, so that towers must learn one."""
    if a.encoder is None and b.encoder is None:
        return False
    same = a.spec is not None and a.spec == b.spec
    return not (same and a.encoder is not None and a.encoder.comparable)


def with_items(found: Audit, sides: Sequence[Side], folders: Sequence[Path]) -> Audit:
    """The audit, known by the items that were encoded; files by their names as seen from the folder of their side."""
    if found.fingerprint is None:
        return found
    judged = kept_rows(len(found), found.dropped)
    prints = [found.fingerprint.a, found.fingerprint.b]
    for k, (one, folder) in enumerate(zip(sides, folders, strict=True)):
        if one.raw is not None:
            items = one.raw.items
            codes = item_codes((items[row] for row in judged), folder)
            prints[k] = SidePrint(one.raw.kind, 0, sums_of(codes, 0))
    return dataclasses.replace(found, fingerprint=found.fingerprint._replace(a=prints[0], b=prints[1]))


def show_of(raw: Raw | None) -> Show | None:
    """What the page shows of raw items."""
    if raw is None:
        return None
    if raw.kind == "texts":
        return Texts(raw.items)
    first = next((item for item in (raw.items[k] for k in range(len(raw))) if item is not None), None)
    if isinstance(first, bytes):
        return Contents(raw.items, raw.remark)
    return Files(raw.items, raw.remark, raw.root)


def column_values(text: str | None, beside: Source, header: bool) -> NDArray[Any] | None:
    """One value per pair, such as ids: ``FILE[:COLUMN]``, or the name of a column of the first file."""
    if text is None:
        return None
    if not Path(text).exists() and ":" not in text and beside.kind in TABLES and text in column_names(beside):
        return values(beside._replace(column=text))
    where = source(text, header, raw=True)
    if where.kind == LINES:
        return np.array(lines_of(where), dtype=object)
    if where.kind == FOLDER:
        raise UsageError(f"{where.path} is a folder: name a file with one value per pair, as FILE:COLUMN")
    return values(where)


def combined(*keys: NDArray[np.int64] | None) -> NDArray[np.int64] | None:
    """Pairs that are linked by any of the keys, as one key."""
    from rince.audit.clusters import joined

    there = [key for key in keys if key is not None]
    if len(there) < 2:
        return there[0] if there else None
    return joined(there)
