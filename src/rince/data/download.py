"""Downloads that resume and verify checksums."""

import hashlib
import os
import urllib.error
import urllib.request
import zipfile
from pathlib import Path

from rince._support.progress import note
from rince.errors import FileError, UsageError

CHUNK = 1 << 20


def fetch(address: str, path: Path, md5: str | None = None) -> None:
    """Download a file. Interrupted downloads are kept as .part and resumed.

    Args:
        address: URL.
        path: Target file.
        md5: Checksum. Default: None, the file must be a zip file.

    Raises:
        FileError: If the download fails.
        UsageError: If the checksum or file type does not match.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    note(f"downloading {address} to {path}")
    try:
        _continue(address, part)
    except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
        resume_note = f"; {part} is resumed" if part.exists() else ""
        raise FileError(f"cannot download {address} ({error}): try again{resume_note}") from error
    if problem := _problem(part, md5):
        part.unlink()
        raise UsageError(f"{address} {problem}: deleted, try again")
    os.replace(part, path)


def _problem(part: Path, md5: str | None) -> str | None:
    """Reason to reject a downloaded file, or None."""
    if md5 is None:
        return None if zipfile.is_zipfile(part) else "is not a zip file"
    digest = hashlib.md5(part.read_bytes(), usedforsecurity=False).hexdigest()
    return None if digest == md5 else f"has md5 {digest}, expected {md5}"


def _continue(address: str, part: Path) -> None:
    offset = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(address, headers={"Range": f"bytes={offset}-"} if offset else {})
    try:
        answer = urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # the part is already complete
            return
        raise
    with answer, open(part, "ab" if answer.status == 206 else "wb") as file:
        while chunk := answer.read(CHUNK):
            file.write(chunk)
