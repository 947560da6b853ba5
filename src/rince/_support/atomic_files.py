"""Atomic writing of files, folders and sets of results, even if the process is killed."""

import errno
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rince._support.folder_lock import locked_file
from rince.errors import ExistingFile, FileError, NotAFolder

FULL = (errno.ENOSPC, errno.EFBIG, getattr(errno, "EDQUOT", errno.ENOSPC))
MIN_FREE = 16_384  # bytes needed on the disk for a result
LOCK = ".lock"


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[Path]:
    """Yield a temporary path beside ``path`` that takes its place when the block ends without an error."""
    path = Path(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        # Part of the name only: it may have the maximum length.
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
            raise FileError(f"{path} is a folder, not a file")
        os.replace(temporary, path)
        sync_folder(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def atomic_folder(folder: str | os.PathLike[str], force: bool = False) -> Iterator[Path]:
    """Yield a new folder that replaces ``folder`` as a whole when the block ends without an error.

    Killed at any moment, ``folder`` is the old one, the new one, or missing for an instant between two renames, which
    the next call completes. The next call also removes leftovers of a killed one.

    Raises:
        ExistingFile: ``folder`` has files and ``force`` is False, or another command is writing it.
    """
    folder = Path(os.path.abspath(folder))
    folder.parent.mkdir(parents=True, exist_ok=True)
    old, new, lock = (folder.with_name(f".{folder.name}.{kind}") for kind in ("old", "new", "lock"))
    with locked_file(lock):
        try:
            if old.exists() and not folder.exists():  # killed between the two renames below: the new one is complete
                os.replace(new if new.exists() else old, folder)
            for leftover in (old, new):
                shutil.rmtree(leftover, ignore_errors=True)
            if folder.exists() and any(folder.iterdir()) and not force:
                raise ExistingFile(f"{folder} already has files: overwrite them with --force, or choose another --out")
            new.mkdir()
            try:
                with naming_full(folder):
                    yield new
                    _sync_files(new)
            except BaseException:
                shutil.rmtree(new, ignore_errors=True)
                raise
            if folder.exists():
                os.replace(folder, old)
            os.replace(new, folder)
            sync_folder(folder.parent)
        finally:
            if folder.exists():
                for leftover in (old, new):
                    shutil.rmtree(leftover, ignore_errors=True)
            lock.unlink(missing_ok=True)


NEW, READY, REPLACED = ".results.new", ".results.ready", ".replaced"


@contextmanager
def atomic_results(folder: str | os.PathLike[str], replaces: Iterable[str] = ()) -> Iterator[Path]:
    """Yield an empty folder whose files appear in ``folder`` together when the block ends without an error.

    Other files of ``folder`` stay. The new files are complete on disk before one rename declares them ready; only then
    do they move to their places. Killed before that rename, ``folder`` keeps its old results. Killed after it, the new
    results count, and :func:`finish_results`, which every reader calls first, completes the moves.

    Args:
        folder: Folder of the results; created if it is missing.
        replaces: Names of earlier results, which are removed unless the new ones have the same name.
    """
    folder = Path(folder)
    missing = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    new, ready = folder / NEW, folder / READY
    with locked_file(folder / LOCK):
        try:
            _move_results(folder)
            shutil.rmtree(new, ignore_errors=True)
            new.mkdir()
            with naming_full(folder):
                yield new
                written = {path.name for path in new.iterdir()}
                (new / REPLACED).write_text("".join(f"{name}\n" for name in replaces if name not in written))
                _sync_files(new)
            os.replace(new, ready)
            sync_folder(folder)
            _move_results(folder)
        finally:
            shutil.rmtree(new, ignore_errors=True)
            (folder / LOCK).unlink(missing_ok=True)
            if missing and folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()


def finish_results(folder: str | os.PathLike[str]) -> None:
    """Complete results of :func:`atomic_results` whose writer was killed; call it before reading any of them."""
    folder = Path(folder)
    if (folder / READY).is_dir():
        with locked_file(folder / LOCK):
            _move_results(folder)
            (folder / LOCK).unlink(missing_ok=True)


def _move_results(folder: Path) -> None:
    """Move results that are ready to their places. Every step can be repeated."""
    ready = folder / READY
    if not ready.is_dir():
        return
    replaced = ready / REPLACED
    for path in sorted(ready.iterdir()):
        if path != replaced:
            _remove(folder / path.name)
            os.replace(path, folder / path.name)
    for name in replaced.read_text().splitlines() if replaced.exists() else ():
        _remove(folder / name)
    shutil.rmtree(ready)
    sync_folder(folder)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


def _sync_files(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            with open(path, "rb") as file:
                os.fsync(file.fileno())


@contextmanager
def naming_full(path: str | os.PathLike[str]) -> Iterator[None]:
    """Add the file name to errors of a full disk, which lack it when writing to an open file."""
    try:
        yield
    except OSError as error:
        if error.errno is None or error.errno not in FULL or error.filename is not None:
            raise
        raise FileError(f"{os.fspath(path)} cannot be written ({os.strerror(error.errno)})") from error


def check_out_folder(folder: Path, what: str, names: Iterable[str] = ()) -> None:
    """Reject output folders that are files, or that have folders in place of result files, before the work."""
    if folder.exists() and not folder.is_dir():
        raise NotAFolder(f"{folder} is a file: choose a folder for {what}")
    if folder.is_symlink() and not folder.exists():
        raise NotAFolder(f"{folder} is a broken link: choose a folder for {what}")
    if conflict := next((name for name in names if (folder / name).is_dir()), None):
        raise ExistingFile(f"{folder / conflict} is a folder in place of a result file: choose another --out")


def check_writable(folder: Path) -> None:
    """Check before long work that results can be written."""
    try:
        handle, name = tempfile.mkstemp(dir=folder, prefix=".write-test.")
        try:
            os.write(handle, bytes(MIN_FREE))
        finally:
            os.close(handle)
            os.unlink(name)
    except OSError as error:
        raise FileError(f"{folder} cannot be written to ({error.strerror})") from error


def sync_folder(folder: Path) -> None:
    """Flush a folder to disk, so that a replaced file survives a power cut."""
    if sys.platform == "win32":  # where folders cannot be opened
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError:  # not supported by some network file systems
        pass
    finally:
        os.close(handle)


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Write UTF-8 text atomically; characters that cannot be encoded become question marks."""
    with written_whole(path) as temporary:
        temporary.write_text(text, encoding="utf-8", errors="replace")
