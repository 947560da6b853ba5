"""Zip files: damaged, encrypted and extremely compressed ones are rejected."""

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
MAX_SIZE = 256 << 20  # bytes of the content that are always accepted
MAX_RATIO = 100  # of content to file size, beyond that


@contextlib.contextmanager
def opened_zip(path: Path, file: IO[bytes] | None = None) -> Iterator[zipfile.ZipFile]:
    """Open a zip file. Damage raises a ``UsageError`` that names it."""
    if file is None and not path.is_file():
        raise MissingFile(f"{path} does not exist")
    try:
        with zipfile.ZipFile(file or path) as archive:
            _check(path, archive, path.stat().st_size if file is None else file.seek(0, io.SEEK_END))
            yield archive
    except (zipfile.BadZipFile, EOFError, zlib.error, lzma.LZMAError, struct.error, NotImplementedError) as error:
        raise UsageError(f"{path} is not a valid zip file ({error}): download it again") from error
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        raise UsageError(f"{path} is not a valid zip file (invalid offsets): download it again") from error


def check_zip(path: Path) -> None:
    """Reject damaged, encrypted and extremely compressed zip files."""
    with opened_zip(path):
        pass


def _check(path: Path, archive: zipfile.ZipFile, size: int) -> None:
    entries = archive.infolist()
    if locked := [entry.filename for entry in entries if entry.flag_bits & 1]:
        raise UsageError(f"{path} is encrypted ({locked[0]}): unpack it first")
    if unsupported := [entry.filename for entry in entries if entry.compress_type not in COMPRESSIONS]:
        raise UsageError(f"{path} has an unsupported compression ({unsupported[0]}): pack it again")
    unpacked_size = sum(entry.file_size for entry in entries)
    if unpacked_size > max(MAX_SIZE, MAX_RATIO * size):
        raise UsageError(
            f"{path} has {size / 1e6:.1f} MB and would unpack to {unpacked_size / 1e9:.1f} GB, "
            f"{unpacked_size / max(size, 1):.0f} times: unpack it yourself if you trust it"
        )
