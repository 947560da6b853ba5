"""CPU time and memory of a process, as Linux tells them in /proc."""

import os
import resource
from pathlib import Path


def cpu_seconds(pid: int) -> float:
    """What a process has used of the CPU so far.

    Raises:
        OSError: If the process has ended.
    """
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident_megabytes(pid: int | None = None) -> float:
    """What a process, this one by default, holds in memory now.

    Raises:
        OSError: If the process has ended.
        IndexError: If it is about to end.
    """
    return _megabytes("VmRSS", pid)


def peak_megabytes(pid: int | None = None) -> float:
    """The most that a process has held in memory, since it was started or since ``reset_peak``.

    ``getrusage``, which is asked where there is no /proc, also counts what the parent held when it started this one.
    """
    if pid is None and not Path("/proc/self/status").exists():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return _megabytes("VmHWM", pid)


def reset_peak() -> None:
    """Forget the peak of this process, such as that of its imports; does nothing where the system does not allow it."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _megabytes(name: str, pid: int | None) -> float:
    status = Path(f"/proc/{'self' if pid is None else pid}/status").read_text()
    return int(status.split(f"{name}:")[1].split()[0]) / 1024
