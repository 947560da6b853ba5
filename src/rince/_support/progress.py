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


def track(
    items: Iterable[T], label: str, total: int | None = None, show: bool | None = None, step: int = 1
) -> Iterator[T]:
    """Iterate over ``items`` and report progress.

    Args:
        items: Units of work.
        label: What is done, such as ``"encoding texts"``.
        total: Number of units. Default: the length of ``items`` times ``step``, if it has one.
        show: True reports on a terminal (one line that is updated) and in logs (a line every ten seconds), None on a
            terminal only, False never.
        step: Units per item, such as the batch size.
    """
    stream = sys.stderr  # None where the caller closed it
    terminal = stream is not None and stream.isatty()
    if stream is None or show is False or (show is None and not terminal):
        yield from items
        return
    if total is None and isinstance(items, Sized):
        total = len(items) * step
    start = time.monotonic()
    shown, due = 0, start + (FIRST_SECONDS if terminal else LOG_SECONDS)
    try:
        for number, item in enumerate(items, 1):
            yield item
            now = time.monotonic()
            if now >= due:
                text = progress_line(label, number * step, total, now - start)
                stream.write(f"\r{text:<{shown}}" if terminal else f"{text}\n")
                stream.flush()
                shown, due = len(text), now + (LINE_SECONDS if terminal else LOG_SECONDS)
    finally:
        if terminal and shown:
            stream.write("\r" + " " * shown + "\r")
            stream.flush()


@contextmanager
def working(label: str, show: bool | None = None) -> Iterator[None]:
    """Show ``label`` on a terminal while a step runs that cannot report its progress."""
    stream = sys.stderr
    if stream is None or show is False or not stream.isatty():
        yield
        return
    stream.write(f"{label} ...")
    stream.flush()
    try:
        yield
    finally:
        stream.write("\r" + " " * (len(label) + 4) + "\r")
        stream.flush()


def progress_line(label: str, done: int, total: int | None, seconds: float) -> str:
    """Such as ``encoding texts: 12,000 of 40,000 (30%), 4,000/s, 7 s left``."""
    rate = done / max(seconds, 1e-9)
    speed = f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s"
    if total is None:
        return f"{label}: {done:,}, {speed}"
    done = min(done, total)
    return (
        f"{label}: {done:,} of {total:,} ({done / max(total, 1):.0%}), {speed}, {duration((total - done) / rate)} left"
    )


def duration(seconds: float) -> str:
    """Such as ``7 s``, ``3 min`` or ``1 h 20 min``."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 60 else f"{minutes // 60} h {minutes % 60} min"
