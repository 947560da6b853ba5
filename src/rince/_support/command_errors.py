"""Exceptions as one line for the user, or as a bug with a traceback."""

import re
import sys

from rince._support.optional_imports import install_hint
from rince.errors import UsageError

HINT = "This is a bug, in your own class if the traceback ends there, otherwise in rince; please report it."


def sentence_of(error: BaseException) -> str | None:
    """Message of an error that a user can act on; None for a bug.

    These are errors of rince, system errors about files, disks and connections, missing packages, and lack of memory.
    """
    if isinstance(error, ModuleNotFoundError) and (hint := install_hint(error.name or "")) is not None:
        return hint
    text = str(error) or type(error).__name__
    if isinstance(error, MemoryError) or (isinstance(error, RuntimeError) and _is_torch_memory(error)):
        asked = re.search(r"(?i)tried to allocate [\d.]+ (?:bytes|[KMGT]?i?B)", text)
        text = f"not enough memory ({asked[0] if asked else text[:200]})"
    elif not isinstance(error, UsageError) and not (isinstance(error, OSError) and error.errno is not None):
        return None
    # A worker of a loader sends its traceback along; the error itself is the last paragraph.
    if "Original Traceback" in text:
        text = re.split(r"\n[\w.]*(?:Error|MissingFile|ExistingFile|NotAFolder|MissingExtra): ", text)[-1]
    # File names and cells of tables may contain control characters, which a terminal would obey.
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in " ".join(text.split()))


def _is_torch_memory(error: RuntimeError) -> bool:
    return "DefaultCPUAllocator" in str(error) or type(error).__name__ == "OutOfMemoryError"


def first_line(error: BaseException) -> str:
    """First line of the message of an error; its type if it has none."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def innermost_module(error: BaseException) -> str:
    """Name of the module in which an error was raised; empty if it was not raised yet."""
    traceback = error.__traceback__
    if traceback is None:
        return ""
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return str(traceback.tb_frame.f_globals.get("__name__", ""))


def add_bug_hint(error: BaseException) -> None:
    """Print a hint below the traceback, on Python 3.10 above it."""
    if sys.version_info >= (3, 11):
        error.add_note(HINT)
    else:
        print(HINT, file=sys.stderr)
