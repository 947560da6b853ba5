"""SIGTERM as an exception, so that what was begun is tidied up and the exit code says what happened."""

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from types import FrameType


class Terminated(SystemExit):
    """The process was asked to end by SIGTERM. Left alone, it ends with 143, as the shell would say."""

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)


@contextlib.contextmanager
def termination_as_exception() -> Iterator[None]:
    """Raise ``Terminated`` in the main thread of this process on SIGTERM; its children end as they would have."""
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    own = os.getpid()

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() != own:  # a loader's worker, forked with this handler
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
