"""A raw column as a matrix: decoded and encoded in batches, and kept for the next time."""

import hashlib
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from rince._support.atomic_files import FULL, written_whole
from rince._support.progress import track
from rince._support.regular_files import Unreadable
from rince.audit.encode.decode import decode
from rince.audit.encode.encoder import Encoder
from rince.audit.input.raw import Raw
from rince.errors import UsageError

SAMPLE = 20_000  # items that an encoder learns from
KEPT = 8  # encoded columns that stay in a cache
STALE = 24 * 3600  # seconds after which an unfinished file is nobody's


class Encoded(NamedTuple):
    """The rows of a column, and how they came to be.

    Attributes:
        rows: (items, width), NaN where an item is missing or cannot be read.
        from_cache: Whether they were read from the cache.
        unreadable: What is wrong with the items that cannot be read.

    Example:
        >>> from rince.audit.encode import Encoded
        >>> Encoded(np.zeros((3, 8), np.float32), from_cache=False).rows.shape
        (3, 8)
    """

    rows: NDArray[np.float32]
    from_cache: bool
    unreadable: tuple[str, ...] = ()


def encoded(
    raw: Raw, encoder: Encoder, cache: Path | None = None, *, drop_bad: bool = False, progress: bool | None = None
) -> Encoded:
    """The items of a raw column as rows.

    Args:
        raw: The column.
        encoder: What makes rows of its items.
        cache: A folder in which the rows are kept, under a key of the items and the encoder; a second call with the
            same items and encoder reads them from there. None keeps them in memory.
        drop_bad: Make NaN of items that cannot be read instead of refusing the column.
        progress: Show a bar; by default on a terminal.

    Returns:
        One row per item, NaN where an item is missing or cannot be read.

    Raises:
        UsageError: Items are missing or cannot be read, and ``drop_bad`` is not set.

    Example:
        >>> from rince.audit.encode import encoded, encoder_for
        >>> from rince.audit.input.raw import as_raw
        >>> texts = as_raw([f"text number {i}" for i in range(60)], "texts", None, None)
        >>> encoded(texts, encoder_for("texts")).rows.shape[0]
        60
    """
    if cache is None:
        rows, bad = _encode(raw, encoder, None, progress)
        _check(raw, rows, bad, drop_bad)
        return Encoded(rows, False, tuple(bad))
    key = hashlib.blake2b(f"{raw.fingerprint()} {encoder.identity()}".encode(), digest_size=12).hexdigest()
    place = cache / f"{key}.npy"
    kept = _kept(place, len(raw))
    if kept is not None:
        _check(raw, kept, [], drop_bad)
        return Encoded(kept, True)
    _sweep(cache)
    with written_whole(place) as temporary:
        rows, bad = _encode(raw, encoder, temporary, progress)
        _check(raw, rows, bad, drop_bad)
        cast(np.memmap[Any, Any], rows).flush()
    return Encoded(np.load(place, mmap_mode="r", allow_pickle=False), False, tuple(bad))


def _kept(place: Path, n: int) -> NDArray[np.float32] | None:
    """Rows that were kept, if they are there and whole."""
    try:
        rows = np.load(place, mmap_mode="r", allow_pickle=False)
        os.utime(place)  # the ones that are used stay
    except (OSError, ValueError, EOFError):
        return None
    return rows if rows.ndim == 2 and len(rows) == n else None


def _encode(raw: Raw, encoder: Encoder, place: Path | None, progress: bool | None) -> tuple[NDArray[Any], list[str]]:
    """All rows, in a file if ``place`` names one, and what could not be read."""
    if encoder.learns:
        encoder.learn(_sample(raw))
    starts = range(0, len(raw), encoder.batch)
    rows: NDArray[Any] | None = None
    bad: list[str] = []
    for start in track(list(starts), f"encoding {raw.kind}", show=progress):
        index = range(start, min(len(raw), start + encoder.batch))
        items, reasons = decoded(raw, index)
        bad += reasons
        there = [k for k, item in enumerate(items) if item is not None]
        if not there:
            continue
        part = encoder.encode([items[k] for k in there])
        rows = _room(place, len(raw), part.shape[1]) if rows is None else rows
        if part.shape[1] != rows.shape[1]:
            raise UsageError(f"{encoder.name} gave rows of {rows.shape[1]} and of {part.shape[1]} numbers")
        rows[np.array(there) + start] = part
    if rows is None:
        raise UsageError(f"nothing in {raw.name} can be read{f', the first: {bad[0]}' if bad else ''}")
    return rows, bad


def decoded(raw: Raw, index: Sequence[int]) -> tuple[list[Any], list[str]]:
    """Items with None for those that are missing or broken, and what is wrong with the broken ones."""
    reasons: list[str] = []

    def one(k: int) -> Any:
        try:
            return decode(raw, k)
        except Unreadable as error:
            reasons.append(f"{error} (row {k})")
            return None

    if raw.kind in ("texts", "videos"):
        return [one(k) for k in index], reasons
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        return list(pool.map(one, index)), reasons


def _sample(raw: Raw) -> list[Any]:
    """Some items to learn from, the same ones every time."""
    most = SAMPLE if raw.kind == "texts" else 4000
    chosen = np.random.default_rng(0).permutation(len(raw))[:most]
    items, _ = decoded(raw, np.sort(chosen).tolist())
    there = [item for item in items if item is not None]
    if len(there) < 50:
        raise UsageError(f"{raw.name} holds {len(there)} items that can be read: an encoder needs at least 50")
    return there


def _room(place: Path | None, n: int, width: int) -> NDArray[Any]:
    if place is None:
        return np.full((n, width), np.nan, dtype=np.float32)
    rows = np.lib.format.open_memmap(place, mode="w+", dtype=np.float32, shape=(n, width))
    _reserve(place)
    rows[:] = np.nan
    return rows


def _reserve(place: Path) -> None:
    """Have the disk say now that it has no room: found out through the mapped memory, it would end the process."""
    if hasattr(os, "posix_fallocate"):
        with open(place, "r+b") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, place.stat().st_size)
            except OSError as error:
                if error.errno in FULL:
                    raise


def _check(raw: Raw, rows: NDArray[Any], bad: list[str], drop_bad: bool) -> None:
    if drop_bad:
        return
    if bad:
        raise UsageError(
            f"{len(bad):,} of {len(raw):,} {raw.kind} of {raw.name} cannot be used, the first: {bad[0]}; mend them, or "
            "leave such pairs out with drop_bad=True (--drop-bad)"
        )
    missing = [k for k in range(len(raw)) if raw.items[k] is None] if np.isnan(rows[:, 0]).any() else []
    if missing:
        raise UsageError(
            f"{len(missing):,} of {len(raw):,} {raw.kind} of {raw.name} are missing, the first in row {missing[0]}; "
            "leave such pairs out with drop_bad=True (--drop-bad)"
        )


def _sweep(cache: Path) -> None:
    """Forget the oldest columns beyond the last few, and what killed runs left behind."""
    if not cache.is_dir():
        return
    finished = sorted(_named(cache, "????????????????????????.npy"), key=lambda file: file.stat().st_mtime)
    unfinished = [file for file in _named(cache, ".*.npy") if time.time() - file.stat().st_mtime > STALE]
    for file in [*finished[: 1 - KEPT], *unfinished]:
        file.unlink(missing_ok=True)


def _named(cache: Path, pattern: str) -> Iterator[Path]:
    return (file for file in cache.glob(pattern) if file.is_file())
