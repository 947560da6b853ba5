"""The base class of file formats: one class per format reads batches of its fields and writes a selection of its rows.

To add a format, subclass :class:`Format` and list its suffix in ``rince.pairs.source.FORMATS``.
"""

import csv
import importlib
import tokenize
import zipfile
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rince.errors import UsageError
from rince.pairs.files import location
from rince.pairs.source import FORMATS, Source

ROWS = 8192
KEY = "__key__"
WEIGHT = "weight"


class Selection:
    """Rows to write: a mask over all rows, consumed shard by shard, and optionally a weight for every row.

    Args:
        kept: (rows,) True for rows to write.
        weights: (rows,) weights in [0, 1] to add as a field ``weight``. Default: none.
        report: Called with the number of rows consumed so far.
    """

    def __init__(
        self,
        kept: NDArray[np.bool_],
        weights: NDArray[np.float32] | None = None,
        report: Callable[[int], None] | None = None,
    ):
        self.kept, self.weights, self.start, self.report = kept, weights, 0, report

    def part(self, start: int, stop: int) -> "Selection":
        """The selection of some of the rows."""
        return Selection(self.kept[start:stop], None if self.weights is None else self.weights[start:stop])

    def take(self, rows: int, shard: Path) -> tuple[NDArray[np.bool_], NDArray[np.float32] | None]:
        """Mask and weights of the next rows."""
        part = slice(self.start, self.start + rows)
        if part.stop > len(self.kept):
            raise UsageError(
                f"{location(shard)} has more rows than the audit ({len(self.kept):,}): audit this data again"
            )
        self.start = part.stop
        if self.report is not None:
            self.report(self.start)
        return self.kept[part], None if self.weights is None else self.weights[part]


class Format(ABC):
    """Files of one format: the shards of a source, with one row per pair and one or several fields."""

    skips_rows = False
    """Whether rows can be read without the rows before them, so that large files can be split."""

    def __init__(self, where: Source):
        self.where = where
        self.shards = where.files

    @property
    @abstractmethod
    def fields(self) -> list[str]:
        """Names of the fields."""

    @abstractmethod
    def rows(self, shard: Path) -> int:
        """Number of rows in a shard."""

    @abstractmethod
    def read(self, shard: Path, fields: Sequence[str], start: int = 0, stop: int | None = None) -> Iterator[list[Any]]:
        """Rows ``start`` to ``stop`` of a shard in batches: one array or list per field."""

    @abstractmethod
    def write(self, shard: Path, target: Path, selection: Selection) -> None:
        """Write the selected rows of a shard; all other content stays unchanged."""

    def check(self) -> None:  # noqa: B027
        """Raise for inconsistent shards. Default: no check."""

    def batches(self, fields: Sequence[str]) -> Iterator[tuple[Path, list[Any]]]:
        """All rows of the source in batches: the shard, and one array or list per field. Errors name the shard."""
        self.check()
        for shard, start, stop in self.where.segments:
            with naming(shard):
                for batch in self.read(shard, fields, start, stop):
                    yield shard, batch


def in_batches(rows: Iterable[Sequence[Any]]) -> Iterator[list[Any]]:
    """Columns of ``ROWS`` rows at a time."""
    batch: list[Sequence[Any]] = []
    for row in rows:
        batch.append(row)
        if len(batch) == ROWS:
            yield list(zip(*batch, strict=True))
            batch = []
    if batch:
        yield list(zip(*batch, strict=True))


def check_no_weights(shard: Path, names: Sequence[str]) -> None:
    if WEIGHT in names:
        raise UsageError(f"{location(shard)} already has a field {WEIGHT!r}: rename it, or leave out --weights")


def format_of(source: Source) -> Format:
    """The format of a source.

    Raises:
        UsageError: The source is a folder of media files, which has no rows.
    """
    if source.kind not in FORMATS:
        raise UsageError(f"{source} is a folder of media files: name a file with one row per pair")
    module, name = FORMATS[source.kind].split(".")
    format_class: type[Format] = getattr(importlib.import_module(f"rince.pairs.{module}"), name)
    return format_class(source)


# Exceptions of readers for damaged files; numpy raises the last two for a damaged header.
READERS = (ValueError, EOFError, OverflowError, csv.Error, zipfile.BadZipFile, NotImplementedError)
BROKEN = (*READERS, SyntaxError, tokenize.TokenError)


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Turn errors of readers into usage errors that name the file."""
    try:
        yield
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{location(path)} is not UTF-8 text: convert it (iconv -f latin1 -t utf-8), or name it .gz or "
            ".zst if it is compressed"
        ) from error
    except BROKEN as error:
        if isinstance(error, UsageError) or str(path) in str(error):
            raise
        # numpy treats unknown content as pickled objects and suggests loading them, which would run their code.
        unsafe = "pickle" in str(error) or "Python objects" in str(error)
        reason = "it is not an .npy file, or it holds Python objects" if unsafe else error
        raise UsageError(f"{path} cannot be read: {reason}") from error
    except OSError as error:
        if error.errno is not None:  # a system error
            raise
        reason = " ".join(str(error).split())  # pyarrow on a damaged file
        raise UsageError(f"{path} cannot be read: {reason}") from error
