"""Downloads that go on where they stopped, and count only when their checksum fits."""

import hashlib
import os
import sys
import urllib.error
import urllib.request
from pathlib import Path

from rince.errors import FileError, UsageError

CHUNK = 1 << 20


def fetch(address: str, path: Path, md5: str) -> None:
    """Fetch ``address`` to ``path``. An interrupted download stays beside it as .part and is continued."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    print(f"fetching {address} to {path}", file=sys.stderr)
    try:
        _continue(address, part)
    except (urllib.error.URLError, ConnectionError, TimeoutError) as error:
        raise FileError(f"cannot fetch {address} ({error}): try again, what has arrived is kept in {part}") from error
    digest = hashlib.md5(part.read_bytes(), usedforsecurity=False).hexdigest()
    if digest != md5:
        part.unlink()
        raise UsageError(f"{address} came with md5 {digest}, expected {md5}: it was thrown away, try again")
    os.replace(part, path)


def _continue(address: str, part: Path) -> None:
    have = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(address, headers={"Range": f"bytes={have}-"} if have else {})
    try:
        answer = urllib.request.urlopen(request, timeout=60)
    except urllib.error.HTTPError as error:
        if error.code == 416:  # nothing left to send: the part is whole already
            return
        raise
    with answer, open(part, "ab" if answer.status == 206 else "wb") as file:
        while chunk := answer.read(CHUNK):
            file.write(chunk)
