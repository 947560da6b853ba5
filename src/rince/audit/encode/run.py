"""A column of raw items as a matrix: decoded and encoded in batches, and cached."""

import hashlib
import io
import os
import time
import wave
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from rince._support.atomic_files import FULL, written_whole
from rince._support.optional_imports import require
from rince._support.progress import track, working
from rince._support.regular_files import Unreadable, read_regular
from rince.audit.encode.encoders import SAMPLE_RATE, Encoder
from rince.audit.scan import draw_rows
from rince.errors import UsageError
from rince.pairs.raw import Raw

MAX_SAMPLE_RATE = 200_000
MAX_SECONDS = 30  # of audio
MAX_FILE_BYTES = 200_000_000
MAX_IMAGE_SIDE = 512  # of a decoded image
MAX_LEARN_TEXTS, MAX_LEARN_MEDIA = 20_000, 4_000  # items that an encoder learns from
MIN_LEARN_ITEMS = 50
CACHED_COLUMNS = 8
STALE_SECONDS = 24 * 3600  # after which an unfinished file of the cache is removed


class Encoded(NamedTuple):
    """The rows of a column.

    Attributes:
        rows: (items, width), NaN where an item is missing or cannot be read.
        from_cache: Whether they were read from the cache.
        unreadable: One reason per item that cannot be read.

    Example:
        >>> from rince.audit.encode import Encoded
        >>> Encoded(np.zeros((3, 8), np.float32), from_cache=False).rows.shape
        (3, 8)
    """

    rows: NDArray[np.float32]
    from_cache: bool
    unreadable: tuple[str, ...] = ()


def encoded(
    raw: Raw, encoder: Encoder, cache: Path | None = None, *, skip_invalid: bool = False, progress: bool | None = None
) -> Encoded:
    """The items of a raw column as rows.

    Args:
        raw: The column.
        encoder: Encoder of its items.
        cache: Folder for the rows, under a key of the items and the encoder; the next call with the same items and
            encoder reads them from there. Default: None, keep them in memory.
        skip_invalid: Return NaN for items that are missing or cannot be read instead of raising. Default: False.
        progress: Show progress. Default: on a terminal only.

    Returns:
        One row per item, NaN where an item is missing or cannot be read.

    Raises:
        UsageError: Items are missing or cannot be read, and ``skip_invalid`` is not set.

    Example:
        >>> from rince.audit.encode import encoded, encoder_for
        >>> from rince.pairs.raw import as_raw
        >>> texts = as_raw([f"text number {i}" for i in range(60)], "texts", None, None)
        >>> encoded(texts, encoder_for("texts")).rows.shape[0]
        60
    """
    if cache is None:
        _learn(raw, encoder, progress)
        rows, bad = encode_rows(raw, encoder, None, progress)
        check_rows(raw, rows, bad, skip_invalid)
        return Encoded(rows, False, tuple(bad))
    key = hashlib.blake2b(f"{raw.fingerprint()} {encoder.identity()}".encode(), digest_size=12).hexdigest()
    path = cache / f"{key}.npy"
    cached_rows = _cached(path, len(raw))
    if cached_rows is not None:
        check_rows(raw, cached_rows, [], skip_invalid)
        return Encoded(cached_rows, True)
    _remove_old(cache)
    with written_whole(path) as temporary:
        _learn(raw, encoder, progress)
        rows, bad = encode_rows(raw, encoder, temporary, progress)
        check_rows(raw, rows, bad, skip_invalid)
        cast(np.memmap[Any, Any], rows).flush()
    return Encoded(np.load(path, mmap_mode="r", allow_pickle=False), False, tuple(bad))


def _learn(raw: Raw, encoder: Encoder, progress: bool | None) -> None:
    if encoder.learns:
        chosen = learning_rows(len(raw), raw.kind)
        with working(f"fitting {encoder.name} to {len(chosen):,} {raw.kind}", progress):
            learn(encoder, [learning_items(raw, encoder, chosen)], raw.name)


def learning_rows(count: int, kind: str) -> NDArray[np.int64]:
    """Rows of the items that an encoder learns from, of a column of ``count`` items."""
    return draw_rows(count, MAX_LEARN_TEXTS if kind == "texts" else MAX_LEARN_MEDIA, np.random.default_rng(0))


def learning_items(raw: Raw, encoder: Encoder, rows: NDArray[np.int64]) -> list[Any]:
    """The items of these rows that can be read, as the encoder learns from them."""
    items: list[Any] = []
    for start in range(0, len(rows), encoder.batch):
        part, _ = decoded(raw, rows[start : start + encoder.batch].tolist())
        items += encoder.sample([item for item in part if item is not None])
    return items


def learn(encoder: Encoder, parts: Sequence[list[Any]], name: str) -> Encoder:
    """Fit an encoder to the items of all parts of the column ``name``."""
    sample = [item for part in parts for item in part]
    if len(sample) < MIN_LEARN_ITEMS:
        raise UsageError(
            f"{name} has {len(sample)} items that can be read: an encoder needs at least {MIN_LEARN_ITEMS}"
        )
    encoder.learn(sample)
    return encoder


def encode_rows(
    raw: Raw, encoder: Encoder, path: Path | None = None, progress: bool | None = False
) -> tuple[NDArray[Any], list[str]]:
    """All rows, in the file ``path`` if given, and the reasons why items could not be read."""
    rows: NDArray[Any] | None = None
    bad: list[str] = []
    ends = sorted({0, *raw.ends, len(raw)})
    batches = [
        range(start, min(last, start + encoder.batch))
        for first, last in pairwise(ends)
        for start in range(first, last, encoder.batch)
    ]
    for batch in track(batches, f"encoding {raw.kind}", len(raw), progress, encoder.batch):
        items, reasons = decoded(raw, batch)
        bad += reasons
        readable = [k for k, item in enumerate(items) if item is not None]
        if not readable:
            continue
        part = encoder.encode([items[k] for k in readable])
        rows = _empty_rows(path, len(raw), part.shape[1]) if rows is None else rows
        if part.shape[1] != rows.shape[1]:
            raise UsageError(f"{encoder.name} returned rows of {rows.shape[1]} and of {part.shape[1]} numbers")
        rows[np.array(readable) + batch.start] = part
    if rows is None:
        raise UsageError(f"no item of {raw.name} can be read{f', the first: {bad[0]}' if bad else ''}")
    return rows, bad


def check_rows(raw: Raw, rows: NDArray[Any], bad: list[str], skip_invalid: bool) -> None:
    """Raise for items that are missing or cannot be read, unless they are to be skipped."""
    if skip_invalid:
        return
    if bad:
        raise UsageError(
            f"{len(bad):,} of {len(raw):,} {raw.kind} of {raw.name} cannot be used, the first: {bad[0]}; fix them, or "
            "leave such pairs out with skip_invalid=True (--skip-invalid)"
        )
    missing = [k for k in range(len(raw)) if raw.items[k] is None] if np.isnan(rows[:, 0]).any() else []
    if missing:
        raise UsageError(
            f"{len(missing):,} of {len(raw):,} {raw.kind} of {raw.name} are missing, the first in "
            f"{raw.describe(missing[0])}; leave such pairs out with skip_invalid=True (--skip-invalid)"
        )


# --- decoding ---------------------------------------------------------------------------------------------------------


def decoded(raw: Raw, index: Sequence[int]) -> tuple[list[Any], list[str]]:
    """Decoded items, None for those that are missing or broken, and one reason per broken item."""
    reasons: list[str] = []

    def item(k: int) -> Any:
        try:
            return _decode(raw, k)
        except Unreadable as error:
            reasons.append(f"{error} ({raw.describe(k)})")
            return None

    if raw.kind in ("texts", "videos"):
        return [item(k) for k in index], reasons
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as pool:
        return list(pool.map(item, index)), reasons


def _decode(raw: Raw, index: int) -> Any:
    item = raw.items[index]
    if item is None or raw.kind == "texts":
        return item
    name = item.name if isinstance(item, Path) else f"item {index}"
    if raw.kind == "videos":
        if not isinstance(item, Path):
            raise Unreadable(f"{name} is a video inside a table: store it as a file")
        return item
    content = read_regular(item, MAX_FILE_BYTES, raw.root) if isinstance(item, Path) else item
    return decode_image(content, name) if raw.kind == "pictures" else decode_audio(content, name)


def decode_image(content: bytes, name: str) -> Any:
    """A Pillow image in RGB of at most 512 x 512 pixels."""
    pillow = require("PIL.Image", "audit")
    try:
        with pillow.open(io.BytesIO(content)) as image:
            image.draft("RGB", (MAX_IMAGE_SIDE, MAX_IMAGE_SIDE))
            image.thumbnail((MAX_IMAGE_SIDE, MAX_IMAGE_SIDE))
            return image.convert("RGB")
    except Exception as error:  # Pillow raises many types of errors on damaged files
        raise Unreadable(f"{name} cannot be read as an image") from error


def decode_audio(content: bytes, name: str) -> NDArray[np.float32]:
    """Mono samples in [-1, 1] at 16 kHz, at most 30 seconds."""
    samples = None
    if content[:4] == b"RIFF":
        try:
            samples = _decode_wav(content)
        except Unreadable as error:
            raise Unreadable(f"{name} {error}") from error
        except Exception:  # float samples, or damaged: FFmpeg may read it
            samples = None
    if samples is None:
        samples = _decode_with_ffmpeg(content, name)
    if not len(samples):
        raise Unreadable(f"{name} has no audio")
    return samples


def _decode_wav(content: bytes) -> NDArray[np.float32]:
    """A WAV file of 8, 16, 24 or 32-bit integers."""
    with wave.open(io.BytesIO(content)) as file:
        rate, channels, width = file.getframerate(), file.getnchannels(), file.getsampwidth()
        if rate > MAX_SAMPLE_RATE:  # the resampling filter is as long as the rate
            raise Unreadable(f"has a sample rate of {rate}, more than {MAX_SAMPLE_RATE}")
        data = file.readframes(MAX_SECONDS * rate)
    data = data[: len(data) // (width * channels) * width * channels]
    if width == 1:
        values = np.frombuffer(data, np.uint8).astype(np.float32) - 128
    elif width == 3:
        wide = np.zeros((len(data) // 3, 4), np.uint8)
        wide[:, 1:] = np.frombuffer(data, np.uint8).reshape(-1, 3)
        values, width = wide.view("<i4")[:, 0].astype(np.float32), 4
    else:
        values = np.frombuffer(data, f"<i{width}").astype(np.float32)
    mono = (values / 2 ** (8 * width - 1)).reshape(-1, channels).mean(1)
    if rate == SAMPLE_RATE or not len(mono):
        return mono
    divisor = int(np.gcd(rate, SAMPLE_RATE))
    signal = require("scipy.signal", "audit")
    return signal.resample_poly(mono, SAMPLE_RATE // divisor, rate // divisor).astype(np.float32)


def _decode_with_ffmpeg(content: bytes, name: str) -> NDArray[np.float32]:
    av = require("av", "video")
    blocks: list[NDArray[np.float32]] = []
    try:
        with av.open(io.BytesIO(content)) as container:
            if not container.streams.audio:
                raise Unreadable(f"{name} has no audio")
            resampler = av.AudioResampler(format="flt", layout="mono", rate=SAMPLE_RATE)
            for frame in container.decode(container.streams.audio[0]):
                blocks += [part.to_ndarray()[0] for part in resampler.resample(frame)]
                if sum(map(len, blocks)) > MAX_SECONDS * SAMPLE_RATE:
                    break
    except Unreadable:
        raise
    except Exception as error:
        raise Unreadable(f"{name} cannot be read as audio") from error
    return np.concatenate([*blocks, np.empty(0, np.float32)])[: MAX_SECONDS * SAMPLE_RATE].astype(np.float32)


# --- the cache --------------------------------------------------------------------------------------------------------


def _cached(path: Path, n: int) -> NDArray[np.float32] | None:
    """Cached rows, if they exist and are complete."""
    try:
        rows = np.load(path, mmap_mode="r", allow_pickle=False)
        os.utime(path)  # the least recently used columns are removed first
    except (OSError, ValueError, EOFError):
        return None
    return rows if rows.ndim == 2 and len(rows) == n else None


def _empty_rows(path: Path | None, n: int, width: int) -> NDArray[Any]:
    """(n, width) of NaN, in memory or mapped to a file."""
    if path is None:
        return np.full((n, width), np.nan, dtype=np.float32)
    rows = np.lib.format.open_memmap(path, mode="w+", dtype=np.float32, shape=(n, width))
    if hasattr(os, "posix_fallocate"):  # a full disk must raise here: writing to mapped memory would kill the process
        with open(path, "r+b") as file:
            try:
                os.posix_fallocate(file.fileno(), 0, path.stat().st_size)
            except OSError as error:
                if error.errno in FULL:
                    raise
    rows[:] = np.nan
    return rows


def _remove_old(cache: Path) -> None:
    """Remove the least recently used columns, and unfinished files of killed runs."""
    finished = [file for file in cache.glob("?" * 24 + ".npy") if file.is_file()]
    finished.sort(key=lambda file: file.stat().st_mtime)
    unfinished = [file for file in cache.glob(".*.npy") if time.time() - file.stat().st_mtime > STALE_SECONDS]
    for file in [*finished[: 1 - CACHED_COLUMNS], *unfinished]:
        file.unlink(missing_ok=True)
