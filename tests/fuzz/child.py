"""One case in a process of its own: how it ended, how much memory it took, and what it left behind."""

import contextlib
import io
import os
import resource
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from pathlib import Path

SECONDS = 20  # beyond which a case hangs
MEMORY = 2 << 30  # bytes beyond what the process had
ADDRESSES = 12 << 30  # bytes beyond that, so that a case that asks for all memory does not get it


def run(case: Callable[[Path], int | None], folder: Path) -> str | None:
    """What is wrong with ``case(folder)``, or None. It may return 0 or 2, or raise what rince raises for users."""
    outside = _names(folder.parent)
    with tempfile.TemporaryFile("w+") as report:
        started = time.monotonic()
        pid = os.fork()
        if pid == 0:
            _inside(case, folder, report)
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                break
            if time.monotonic() - started > SECONDS * _slowness():
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                return f"hangs: more than {SECONDS} s"
            time.sleep(0.002)
        report.seek(0)
        told = report.read().strip()
    if os.WIFSIGNALED(status):
        return f"was killed by signal {os.WTERMSIG(status)}"
    if new := _names(folder.parent) - outside:
        return f"wrote outside its folder: {sorted(new)[0]}"
    return told or None


def _slowness() -> float:
    """A machine that does other things too takes its time."""
    return max(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def _inside(case: Callable[[Path], int | None], folder: Path, report: io.TextIOBase) -> None:
    from rince.errors import UsageError

    error = io.StringIO()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + ADDRESSES, used + ADDRESSES))
    try:
        os.chdir(folder)
        with contextlib.redirect_stderr(error), contextlib.redirect_stdout(io.StringIO()):
            code = case(folder)
    except UsageError as told:
        if "\n" in str(told).strip():
            report.write(f"a sentence of several lines: {told}")
    except SystemExit as stop:
        if stop.code not in (0, 2, None):
            report.write(f"exit code {stop.code}")
    except BaseException:
        report.write(traceback.format_exc())
    else:
        lines = [line for line in error.getvalue().splitlines() if line.startswith(("rince ", "rince:"))]
        if code not in (0, 2, None) or (code == 2 and len(lines) != 1):
            report.write(f"exit code {code}, told: {error.getvalue()[-2000:]}")
    if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before > MEMORY:
        report.write("takes more than 2 GB")
    report.flush()
    sys.stdout.flush()
    os._exit(0)
