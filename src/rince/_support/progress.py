"""A progress bar on long work: tqdm where it is installed, silence where it is not or where nobody looks."""

import sys
from collections.abc import Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def track(items: Iterable[T], label: str, total: int | None = None, show: bool | None = None) -> Iterator[T]:
    """Iterate over ``items`` with a bar on standard error; ``show=None`` shows it on a terminal only."""
    seen = sys.stderr is not None and sys.stderr.isatty()  # it is None where the caller closed it
    if show is False or (show is None and not seen):
        return iter(items)
    try:
        from tqdm import tqdm
    except ImportError:
        return iter(items)
    return iter(tqdm(items, desc=label, total=total, dynamic_ncols=True, leave=False))
