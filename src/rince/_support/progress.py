"""One progress line with rate and time left, on standard error."""

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

FIRST_SECONDS = 0.5  # shorter work shows nothing
LINE_SECONDS = 0.2  # between updates of a terminal
LOG_SECONDS = 10.0  # between lines where standard error is not a terminal

_silent = False


@contextmanager
def silence(on: bool = True) -> Iterator[None]:
    """Show no progress and no notes inside, for ``--quiet``."""
    global _silent
    before, _silent = _silent, on
    try:
        yield
    finally:
        _silent = before


def note(text: str) -> None:
    """Print one line about progress to standard error, beside the result on standard output."""
    if not _silent and sys.stderr is not None:
        print(text, file=sys.stderr, flush=True)


class Progress:
    """Progress of work whose units are counted by the caller.

    Args:
        label: Name of the work, such as ``"encoding texts"``.
        total: Number of units. Default: None, unknown.
        show: True reports on a terminal (one line that is updated) and in logs (a line every ten seconds), None on a
            terminal only, False never.
        done: Units finished before.
    """

    def __init__(self, label: str, total: int | None = None, show: bool | None = None, done: int = 0):
        self.label, self.total, self.before = label, total, done
        self.stream = sys.stderr  # None where the caller closed it
        self.terminal = self.stream is not None and self.stream.isatty()
        self.active = not _silent and self.stream is not None and show is not False and (bool(show) or self.terminal)
        self.start = time.monotonic() if self.active else 0.0
        self.shown, self.due = 0, self.start + (FIRST_SECONDS if self.terminal else LOG_SECONDS)

    def update(self, done: int, label: str | None = None) -> None:
        """Report that ``done`` units are done, if it is time for a report."""
        if not self.active or (now := time.monotonic()) < self.due:
            return
        text = progress_line(label or self.label, done, self.total, now - self.start, self.before)
        self.stream.write(f"\r{text:<{self.shown}}" if self.terminal else f"{text}\n")
        self.stream.flush()
        self.shown, self.due = len(text), now + (LINE_SECONDS if self.terminal else LOG_SECONDS)

    def close(self) -> None:
        """Clear the line of a terminal."""
        if self.active and self.terminal and self.shown:
            self.stream.write("\r" + " " * self.shown + "\r")
            self.stream.flush()
            self.shown = 0


def track(
    items: Iterable[T], label: str, total: int | None = None, show: bool | None = None, step: int = 1
) -> Iterator[T]:
    """Iterate over ``items`` and report progress.

    Args:
        items: Units of work.
        label: As for :class:`Progress`.
        total: Number of units. Default: the length of ``items`` times ``step``, if it has one.
        show: As for :class:`Progress`.
        step: Units per item, such as the batch size.
    """
    if total is None and isinstance(items, Sized):
        total = len(items) * step
    progress = Progress(label, total, show)
    try:
        for number, item in enumerate(items, 1):
            yield item
            progress.update(number * step)
    finally:
        progress.close()


@contextmanager
def working(label: str, show: bool | None = None) -> Iterator[None]:
    """Show ``label`` on a terminal while a step runs that cannot report its progress."""
    stream = sys.stderr
    if _silent or stream is None or show is False or not stream.isatty():
        yield
        return
    stream.write(f"{label} ...")
    stream.flush()
    try:
        yield
    finally:
        stream.write("\r" + " " * (len(label) + 4) + "\r")
        stream.flush()


def progress_line(label: str, done: int, total: int | None, seconds: float, before: int = 0) -> str:
    """Text such as ``encoding texts: 12,000 of 40,000 (30%), 4,000/s, 7 s left``; ``before`` units took no time."""
    rate = max(done - before, 1e-9) / max(seconds, 1e-9)
    speed = f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s"
    if total is None:
        return f"{label}: {done:,}, {speed}"
    done = min(done, total)
    return (
        f"{label}: {done:,} of {total:,} ({done / max(total, 1):.0%}), {speed}, {duration((total - done) / rate)} left"
    )


def duration(seconds: float) -> str:
    """Text such as ``7 s``, ``3 min`` or ``1 h 20 min``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
