"""SIGTERM as an exception, so that what was begun is tidied up and the exit code says what happened.

And what a process owes to others that work with it: they end when it does, and it does not wait for dead ones.
"""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

PATIENCE = 3.0  # seconds that a process has for its end, before it is killed


class Terminated(SystemExit):
    """The process was asked to end by SIGTERM. Left alone, it ends with 143, as the shell would say."""

    def __init__(self) -> None:
        super().__init__(128 + signal.SIGTERM)


@contextlib.contextmanager
def termination_as_exception(received: list[int] | None = None) -> Iterator[None]:
    """Raise ``Terminated`` in the main thread of this process on SIGTERM; its children end as they would have.

    ``received`` gets the numbers of SIGTERM and of SIGINT as well. While a package of C code is imported, their
    exceptions may get lost, and come out as another one.
    """
    received = [] if received is None else received
    if threading.current_thread() is not threading.main_thread():
        yield  # only the main thread may set handlers
        return
    own = os.getpid()

    def stop(number: int, frame: FrameType | None) -> None:
        if os.getpid() != own:  # a loader's worker, forked with this handler
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGTERM)
        received.append(number)
        raise Terminated

    def interrupt(number: int, frame: FrameType | None) -> None:
        received.append(number)
        signal.default_int_handler(number, frame)

    before = {signal.SIGTERM: signal.signal(signal.SIGTERM, stop)}
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # a job in the background ignores it
        before[signal.SIGINT] = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextlib.contextmanager
def children_without_interrupts() -> Iterator[None]:
    """Processes that are started in this block do not hear Ctrl-C, which a terminal sends to all of a command.

    Whoever started them tells them to end. Else each of them ends with a traceback, even while it is still importing.
    An interrupt of this process waits until the block ends.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # which unblocks the signal when it starts, and else starts with the first child
    waiting: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    # The mask is this thread's, and its children's; of another thread the signal comes all the same.
    handler = signal.signal(signal.SIGINT, lambda number, _: waiting.append(number)) if main else None
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
        if main:
            signal.signal(signal.SIGINT, signal.SIG_DFL if handler is None else handler)
        if waiting:
            signal.raise_signal(signal.SIGINT)


def speaks() -> bool:
    """Whether this process speaks for all of a run: by the numbers that torchrun, SLURM or Lightning gave it."""
    return all(os.environ.get(name, "0") == "0" for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID"))


class Children:
    """Processes of this one that work with it: ranks 1, 2, ... of a run on one machine.

    Args:
        processes: As they were started, in the order of their ranks.
    """

    def __init__(self, processes: list["subprocess.Popen[bytes]"]):
        self.processes = processes
        self._ended = False

    def lost(self) -> str | None:
        """Which of them has failed and how, in words; None if none has."""
        for rank, process in enumerate(self.processes, 1):
            if code := process.poll():
                how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
                return f"the process of rank {rank} {how}"
        return None

    def lost_soon(self) -> str | None:
        """The same for a process whose connection has just been closed: its exit code comes a moment later."""
        end = time.monotonic() + PATIENCE
        while (found := self.lost()) is None and self.processes and time.monotonic() < end:
            time.sleep(0.05)
        return found

    def watch(self, tell: Callable[[str], None]) -> None:
        """Tell of one that fails and end with 2, where this process does not notice by itself: it may wait for ever."""

        def look() -> None:
            while (found := self.lost()) is None:
                time.sleep(1)
            time.sleep(2 * PATIENCE)
            if not self._ended:
                tell(found)
                self.end()
                os._exit(2)

        if self.processes:
            threading.Thread(target=look, daemon=True, name="children").start()

    def end(self) -> None:
        """Ask them to end, and see to it that they do."""
        self._ended = True
        for process in self.processes:
            process.terminate()
        end = time.monotonic() + PATIENCE
        while any(process.poll() is None for process in self.processes) and time.monotonic() < end:
            time.sleep(0.02)
        for process in self.processes:
            process.kill()  # which does nothing to one that has ended
            process.wait()
