"""SIGTERM as an exception, so that cleanup runs and the exit code is right; and processes that end together."""

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType

GRACE_SECONDS = 3.0  # between SIGTERM and SIGKILL


class Terminated(SystemExit):
    """SIGTERM was received. Uncaught, the process exits with 143."""

    def __init__(self, message: str = "") -> None:
        super().__init__(128 + signal.SIGTERM)
        self.message = message


@contextlib.contextmanager
def termination_as_exception(received: list[int] | None = None) -> Iterator[None]:
    """Raise ``Terminated`` in the main thread of this process on SIGTERM. Its children are not affected.

    ``received`` collects the numbers of SIGTERM and SIGINT: during the import of a C extension their exceptions may
    be replaced by another one.
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
    """Start child processes that ignore Ctrl-C, which a terminal sends to the whole process group.

    The parent ends them. Otherwise each prints a traceback of its own. An interrupt of the parent waits until the
    block ends.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    from multiprocessing import resource_tracker

    resource_tracker.ensure_running()  # it unblocks the signal when it starts, by default with the first child
    waiting: list[int] = []
    main = threading.current_thread() is threading.main_thread()
    # The mask applies to this thread and its children; another thread still receives the signal.
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


def is_main_rank() -> bool:
    """Whether this process is rank 0, by the variables that torchrun, SLURM or Lightning set."""
    return all(os.environ.get(name, "0") == "0" for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID"))


class Children:
    """Child processes: ranks 1, 2, ... of a run on one machine.

    Args:
        processes: In the order of their ranks.
    """

    def __init__(self, processes: list["subprocess.Popen[bytes]"]):
        self.processes = processes
        self._ended = False

    def failed(self) -> str | None:
        """Which process failed and how; None if none has."""
        for rank, process in enumerate(self.processes, 1):
            if code := process.poll():
                how = f"was killed by signal {-code}" if code < 0 else f"ended with {code}"
                return f"the process of rank {rank} {how}"
        return None

    def failed_soon(self) -> str | None:
        """The same, waiting a moment for the exit code of a process whose connection has just closed."""
        end = time.monotonic() + GRACE_SECONDS
        while (result := self.failed()) is None and self.processes and time.monotonic() < end:
            time.sleep(0.05)
        return result

    def watch(self, tell: Callable[[str], None]) -> None:
        """Report a failed process and exit with 2, in case this process waits for it forever."""

        def poll() -> None:
            while (result := self.failed()) is None:
                time.sleep(1)
            time.sleep(2 * GRACE_SECONDS)
            if not self._ended:
                tell(result)
                self.end()
                os._exit(2)

        if self.processes:
            threading.Thread(target=poll, daemon=True, name="children").start()

    def end(self) -> None:
        """Terminate the processes, and kill those that do not end."""
        self._ended = True
        for process in self.processes:
            process.terminate()
        end = time.monotonic() + GRACE_SECONDS
        while any(process.poll() is None for process in self.processes) and time.monotonic() < end:
            time.sleep(0.02)
        for process in self.processes:
            process.kill()  # no effect on a process that has ended
            process.wait()
