"""Zip files of users: whole, not encrypted, and no larger than they look."""

import contextlib
import errno
import io
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from rince.errors import MissingFile, UsageError

COMPRESSIONS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA)
HARMLESS = 256 << 20  # bytes that any archive may grow to
MOST_GROWTH = 100  # times, beyond that


@contextlib.contextmanager
def opened_zip(path: Path, file: IO[bytes] | None = None) -> Iterator[zipfile.ZipFile]:
    """A zip file, given by its path or as an open file; any damage is a ``UsageError`` that names it."""
    if file is None and not path.is_file():
        raise MissingFile(f"there is no file {path}")
    try:
        with zipfile.ZipFile(file or path) as archive:
            _check(path, archive, path.stat().st_size if file is None else file.seek(0, io.SEEK_END))
            yield archive
    except (zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, struct.error, NotImplementedError) as error:
        raise UsageError(f"{path} is not a whole zip file ({error}): fetch it again") from error
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise UsageError(f"{path} is not a whole zip file (it points outside of itself): fetch it again") from error


def check_zip(path: Path) -> None:
    """Refuse a zip file that cannot be read, or that fills the memory."""
    with opened_zip(path):
        pass


def _check(path: Path, archive: zipfile.ZipFile, size: int) -> None:
    entries = archive.infolist()
    if locked := [entry.filename for entry in entries if entry.flag_bits & 1]:
        raise UsageError(f"{path} is encrypted ({locked[0]}): unpack it with its password first")
    if odd := [entry.filename for entry in entries if entry.compress_type not in COMPRESSIONS]:
        raise UsageError(f"{path} is compressed in a way that cannot be read ({odd[0]}): pack it again as plain zip")
    grown = sum(entry.file_size for entry in entries)
    if grown > max(HARMLESS, MOST_GROWTH * size):
        raise UsageError(
            f"{path} has {size / 1e6:.1f} MB and would grow to {grown / 1e9:.1f} GB, {grown / max(size, 1):.0f} times: "
            "unpack it yourself if it is what you think it is"
        )
