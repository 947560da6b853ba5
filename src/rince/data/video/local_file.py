"""Videos are opened as plain local files."""

import os
import stat
from typing import Any

from rince.errors import UsageError


class BadVideo(UsageError):
    """A file that cannot be used, with the reason."""


def open_local(av: Any, path: str) -> Any:
    """A video in a plain local file: no address, no pipe, no device, and nothing elsewhere that the file refers to."""
    mode = os.stat(path).st_mode
    if not stat.S_ISREG(mode):
        raise BadVideo(f"{path} is no plain file")
    # Until PyAV 19 a title in another encoding than UTF-8 was an error by default.
    older = {"metadata_errors": "replace"} if int(av.__version__.split(".")[0]) < 19 else {}
    return av.open(os.path.abspath(path), options={"protocol_whitelist": "file"}, **older)
