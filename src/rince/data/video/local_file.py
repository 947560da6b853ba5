"""Videos are opened as plain local files, and what is wrong with one is said in one sentence."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rince._support.optional_imports import require
from rince.errors import MissingFile, UsageError


class BadVideo(UsageError):
    """A file that cannot be used, with the reason."""


class TooShort(BadVideo):
    """A clip that reaches past the last frame, which is over at ``end`` seconds."""

    def __init__(self, message: str, end: float):
        super().__init__(message)
        self.end = end

    def __reduce__(self) -> Any:  # so that it gets from a worker to its loader
        return TooShort, (str(self), self.end)


def open_local(av: Any, path: str) -> Any:
    """A video in a plain local file: no address, no pipe, no device, and nothing elsewhere that the file refers to."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        raise BadVideo(f"{path} is no plain file")
    # Until PyAV 19 a title in another encoding than UTF-8 was an error by default.
    older = {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}
    return av.open(os.path.abspath(path), options={"protocol_whitelist": "file"}, **older)


@contextmanager
def video_errors(path: str) -> Iterator[None]:
    """Turn what FFmpeg says about a file into one sentence."""
    av = require("av", "video")
    try:
        yield
    except FileNotFoundError:
        raise MissingFile(f"there is no video {path}") from None
    except (av.FFmpegError, IndexError, OverflowError) as error:
        reason = (getattr(error, "strerror", None) or str(error) or type(error).__name__).lower()
        raise BadVideo(f"{path} does not decode as a video ({reason})") from error
