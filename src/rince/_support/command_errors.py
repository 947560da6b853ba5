"""Which exceptions are a sentence for the user, and which are a bug that needs its traceback."""

import errno
import os
import re
import sys
from types import TracebackType

from rince._support.optional_imports import install_hint
from rince.errors import UsageError

# Rooms whose own `raise ValueError` is still meant for users.
ROOMS = ("rince.integrations",)
HINT = "This is a bug: of a class of yours if the traceback ends there, else of rince; then please report it."


def sentence_of(error: BaseException) -> str | None:
    """What to tell the user in one line, or None for a bug.

    Sentences are rince's own errors, what the system says of a file, a disk or a connection, and too little memory.
    """
    if isinstance(error, ModuleNotFoundError) and (hint := install_hint(error.name or "")) is not None:
        return hint
    if isinstance(error, ValueError) and str(error).startswith("embedded null "):
        return "the name of a file or folder holds a null byte, which no system takes"
    if isinstance(error, ValueError) and innermost_module(error) == "lightning.fabric.utilities.rank_zero":
        names = ("RANK", "LOCAL_RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK")
        given = next(name for name in names if name in os.environ)  # the first one there is
        return _visible(
            f"the variable {given} must be a whole number, as torchrun or SLURM sets it, got "
            f"{os.environ[given][:40]!r}: unset it, or start the run with one of these"
        )
    if (asked := _more_than_torch_gets(error)) is not None:
        return f"there is not enough memory ({asked})"
    system = isinstance(error, OSError) and error.errno is not None
    if not (isinstance(error, UsageError | MemoryError) or system or _raised_by_a_room(error)):
        return None
    text = _of_system(error) or str(error) or type(error).__name__
    # A loader's worker sends its traceback along, the error itself being the last paragraph.
    if "Original Traceback" in text:
        text = re.split(r"\n[\w.]*(?:Error|MissingFile|ExistingFile|NotAFolder|MissingExtra): ", text)[-1]
    if isinstance(error, MemoryError):
        text = f"there is not enough memory ({text})"
    return _visible(" ".join(text.split()))


def _of_system(error: BaseException) -> str | None:
    """In words what the system says by a number of places that cannot be."""
    if not isinstance(error, OSError) or error.filename is None or isinstance(error, UsageError):
        return None
    name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else str(error.filename)
    if error.errno == errno.ENAMETOOLONG:
        return f"the name {name[:80]}... is longer than the system allows ({len(name)} letters): give a shorter one"
    if error.errno == errno.ENOTDIR:
        return f"{name} cannot be: a part of it is a file, not a folder; name another place"
    return None


def _visible(text: str) -> str:
    """Letters that do something to a terminal by their numbers: names of files and cells of tables may hold any."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def _more_than_torch_gets(error: BaseException) -> str | None:
    """What torch says about memory that it does not get, for which it has errors of its own."""
    if not isinstance(error, RuntimeError):
        return None
    text = " ".join(str(error).split())
    found = re.search(r"(?i)tried to allocate [\d.]+ (?:bytes|[KMGT]?i?B)", text)
    known = "DefaultCPUAllocator" in text or type(error).__name__ == "OutOfMemoryError"
    return (found[0] if found else text[:200]) if known else None


def _raised_by_a_room(error: BaseException) -> bool:
    """Whether a `raise` statement of one of the rooms raised it, rather than something that the room called."""
    last = error.__traceback__
    if last is None or not isinstance(error, ValueError | TypeError | ImportError | OSError):
        return False
    last = _innermost(last)
    module = innermost_module(error)
    if not any(module == room or module.startswith(f"{room}.") for room in ROOMS):
        return False
    import dis

    return last.tb_frame.f_code.co_code[last.tb_lasti] == dis.opmap["RAISE_VARARGS"]


def innermost_module(error: BaseException) -> str:
    """The module in which an error was raised; nothing for one that was not raised yet."""
    if error.__traceback__ is None:
        return ""
    return str(_innermost(error.__traceback__).tb_frame.f_globals.get("__name__", ""))


def _innermost(traceback: TracebackType) -> TracebackType:
    while traceback.tb_next is not None:
        traceback = traceback.tb_next
    return traceback


def with_hint(error: BaseException) -> None:
    """Say below the traceback what it means; above it on Python 3.10, which cannot."""
    if sys.version_info >= (3, 11):
        error.add_note(HINT)
    else:
        print(HINT, file=sys.stderr)
