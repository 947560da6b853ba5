"""A lock on a folder, released by the system even if the process is killed, on Unix and on Windows."""

import contextlib
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from rince.errors import ExistingFile


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Lock a folder against a second command; a missing folder is created."""
    folder.mkdir(parents=True, exist_ok=True)
    with locked_file(folder / ".lock"):
        yield


@contextlib.contextmanager
def locked_file(path: Path) -> Iterator[None]:
    """Hold a lock on a file; a missing file is created."""
    # In a shared folder the lock could be a link to a file of this user: links are not followed.
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    with os.fdopen(os.open(path, flags, 0o666), "r+") as file:
        try:
            _take(file)
        except OSError as error:
            raise ExistingFile(f"{path.parent} is being written by another rince command") from error
        try:
            yield
        finally:
            _give_back(file)


if sys.platform == "win32":
    import msvcrt

    def _take(file: IO[str]) -> None:
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)

    def _give_back(file: IO[str]) -> None:
        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    _held: set[IO[str]] = set()

    def _close_held() -> None:
        for file in _held:
            file.close()

    os.register_at_fork(after_in_child=_close_held)  # a loader's worker may outlive a killed run by seconds

    def _take(file: IO[str]) -> None:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _held.add(file)

    def _give_back(file: IO[str]) -> None:
        _held.discard(file)
        fcntl.flock(file, fcntl.LOCK_UN)
