"""Files are written whole or not at all."""

import errno
import os
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rince.errors import ExistingFile, FileError, NotAFolder

FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
ROOM = 16_384  # bytes that a disk has to have left for a result


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` that takes its place when the block ends without an error."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Not the whole name: it may be as long as names can be.
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}.", suffix=path.suffix[:20])
    except OSError as error:
        raise FileError(f"{path} cannot be written ({error.strerror})") from error
    os.close(handle)
    temporary = Path(name)
    try:
        with naming_full(path):
            yield temporary
            with open(temporary, "rb") as file:
                os.fsync(file.fileno())
        umask = os.umask(0)
        os.umask(umask)
        temporary.chmod(0o666 & ~umask)  # mkstemp makes private files
        if path.is_dir():
            raise FileError(f"{path} is a folder, where a file is to be written")
        os.replace(temporary, path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def naming_full(path: str | os.PathLike[str]) -> Iterator[None]:
    """Say which file it is that has no room: the system does not where bytes are written to an open one."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.errno not in FULL or error.filename is not None:
            raise
        raise FileError(f"{os.fspath(path)} cannot be written ({os.strerror(error.errno)})") from error


def check_out_folder(folder: Path, what: str, names: Iterable[str] = ()) -> None:
    """Refuse before the work what cannot become a folder for results, or has folders where files are to be written."""
    if folder.exists() and not folder.is_dir():
        raise NotAFolder(f"{folder} is a file: name a folder for {what}")
    if folder.is_symlink() and not folder.exists():
        raise NotAFolder(f"{folder} is a link that leads nowhere: name a folder for {what}")
    if taken := next((name for name in names if (folder / name).is_dir()), None):
        raise ExistingFile(f"{folder / taken} is a folder, where a file is to be written: name another --out")


def check_writable(folder: Path) -> None:
    """Say before long work, rather than after it, that its result cannot be written."""
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix=".write-test.")
        try:
            os.write(handle, bytes(ROOM))
        finally:
            os.close(handle)
            os.unlink(name)
    except OSError as error:
        raise FileError(f"{folder} cannot be written to ({error.strerror})") from error


def sync_folder(folder: Path) -> None:
    """Have the disk remember the names in a folder too: a replaced file may else be the old one after a power cut."""
    if sys.platform == "win32":  # where folders cannot be opened
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:  # some network file systems have no such thing
        pass
    finally:
        os.close(handle)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Text in UTF-8; what that cannot hold, as in a file's name that is no text, becomes a question mark."""
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="replace")
