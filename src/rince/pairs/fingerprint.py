"""Fingerprints of audited data: sums over hashes of all rows, so that fingerprints of parts add up.

Row hashes are computed anyway, to find equal rows. Each side has two 64-bit sums: with row positions and without.
"""

import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince._support.fingerprints import row_codes

VERSION = 1
NUMBERS = "numbers"
Words = NDArray[np.uint64]


class Sums(NamedTuple):
    """Sums over rows of one side: of their hashes mixed with their positions, and of their hashes alone."""

    ordered: int = 0
    any_order: int = 0

    def plus(self, other: "Sums") -> "Sums":
        """Sums over these rows and others."""
        return Sums((self.ordered + other.ordered) % 2**64, (self.any_order + other.any_order) % 2**64)


class SidePrint(NamedTuple):
    """One side of the pairs.

    Attributes:
        kind: ``"numbers"``, or the kind of the encoded items: ``"texts"``, ``"pictures"``, ...
        width: Numbers per row; 0 for items.
        sums: Sums over all judged rows.
    """

    kind: str
    width: int
    sums: Sums


class Fingerprint(NamedTuple):
    """Number of audited pairs, and fingerprints of both sides.

    Example:
        >>> random = np.random.default_rng(0)
        >>> a, b = random.normal(size=(2, 100, 16))
        >>> first, second = rince.audit_pairs(a, b).fingerprint, rince.audit_pairs(a[::-1], b[::-1]).fingerprint
        >>> first.a.sums.ordered == second.a.sums.ordered, first.a.sums.any_order == second.a.sums.any_order
        (False, True)
    """

    rows: int
    a: SidePrint
    b: SidePrint

    def record(self) -> dict[str, Any]:
        """The fingerprint as JSON, for ``audit.json``."""
        sides = {name: _written(side) for name, side in (("a", self.a), ("b", self.b))}
        return {"version": VERSION, "codes": code_check(), "rows": self.rows, **sides}


def from_record(record: Mapping[str, Any]) -> Fingerprint | None:
    """The fingerprint in an ``audit.json``; None if it is missing or of another version."""
    saved = record.get("fingerprint")
    try:
        if saved["version"] != VERSION or saved["codes"] != code_check():  # type: ignore[index]
            return None
        return Fingerprint(int(saved["rows"]), _read(saved["a"]), _read(saved["b"]))  # type: ignore[index]
    except (TypeError, KeyError, ValueError):
        return None


def _written(side: SidePrint) -> dict[str, Any]:
    ordered, any_order = (f"{number:016x}" for number in side.sums)
    return {"kind": side.kind, "width": side.width, "ordered": ordered, "any_order": any_order}


def _read(side: Mapping[str, Any]) -> SidePrint:
    return SidePrint(str(side["kind"]), int(side["width"]), Sums(int(side["ordered"], 16), int(side["any_order"], 16)))


def code_check() -> str:
    """Hash of a fixed row. Fingerprints are comparable only if it matches."""
    return f"{int(row_codes(np.arange(1.0, 4.0)[None])[0]) % 2**64:016x}"


def sums_of(codes: NDArray[np.int64], start: int) -> Sums:
    """Sums over rows with these hashes; ``start`` is the number of the first row."""
    own = _mixed(codes.astype(np.uint64))
    placed = _mixed(own + _mixed(np.arange(start, start + len(codes), dtype=np.uint64)))
    return Sums(int(placed.sum()), int(own.sum()))


def _mixed(words: Words) -> Words:
    """The mixer of SplitMix64; words are overwritten."""
    words += np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        words ^= words >> np.uint64(shift)
        words *= np.uint64(factor)
    words ^= words >> np.uint64(31)
    return words


def added_sums(parts: Iterable[Sums]) -> Sums:
    """Sums over all parts."""
    total = Sums()
    for part in parts:
        total = total.plus(part)
    return total


def item_codes(items: Iterable[Any], folder: Path) -> NDArray[np.int64]:
    """A code of every item: of a text or of bytes, and of a file by its name as seen from ``folder``."""
    return np.fromiter((_item_code(item, folder) for item in items), dtype=np.int64)


def _item_code(item: Any, folder: Path) -> int:
    if isinstance(item, Path):
        item = (item.relative_to(folder) if item.is_relative_to(folder) else item).as_posix()
    content = item if isinstance(item, bytes) else str(item).encode("utf-8", "surrogatepass")
    return int.from_bytes(hashlib.blake2b(content, digest_size=8).digest(), "little", signed=True)
