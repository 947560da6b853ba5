"""Shards: parts of the pairs, read in the process that scores them, block by block."""

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rince._support.optional_imports import require
from rince._support.progress import track
from rince.errors import UsageError
from rince.pairs.columns import check_different, column_source, number_batches, values
from rince.pairs.files import is_url, location
from rince.pairs.fingerprint import SidePrint, item_codes, sums_of
from rince.pairs.format import format_of, naming
from rince.pairs.layouts import PairSources, pair_files
from rince.pairs.matrix import Keys, Matrix, RowCheck, chunk_rows, chunks, codes, one_dimensional, read, release
from rince.pairs.raw import Raw, raw_column
from rince.pairs.source import FOLDER, Source
from rince.report.gallery import Gallery, Texts

TARGET_NUMBERS = 64_000_000  # of both sides of a shard: 256 MB as float32
MAX_ROWS = 1_000_000
MAX_RAW_ROWS = 51_200  # of items that are encoded: whole batches
MAX_SPLITS = 32  # of files that are read from the start
Blocks = Iterator[tuple[Matrix, Matrix]]


class Shard(ABC):
    """Part of the pairs of an audit. Subclass it for custom data: ``rows`` and ``blocks`` are enough.

    A shard is sent to the process that scores it, so it must be picklable: store the location of the rows
    rather than the rows. It is read several times, and must return the same rows every time.

    Example:
        >>> class Made(rince.audit.Shard):
        ...     rows = 300
        ...
        ...     def __init__(self, seed):
        ...         self.seed = seed
        ...
        ...     def blocks(self):
        ...         random = np.random.default_rng(self.seed)
        ...         a = random.normal(size=(300, 16))
        ...         yield a, a + 0.3 * random.normal(size=a.shape)
        >>> rince.audit.audit_shards([Made(0), Made(1)]).verdict.value
        'none found'
    """

    name: str = ""
    """Name in error messages."""

    @property
    @abstractmethod
    def rows(self) -> int:
        """Number of pairs."""

    @abstractmethod
    def blocks(self) -> Blocks:
        """Both sides of all of its pairs, in order, in blocks of any number of rows: (rows, width) each."""

    def ids(self) -> Any:
        """One id per pair; None for row numbers."""
        return None

    def duplicates(self) -> Any:
        """One value per pair, equal for duplicates; None if unknown."""
        return None

    def groups(self) -> Any:
        """One value per pair, such as its source; None if there are no groups."""
        return None

    def gallery(self, side: str) -> Gallery | None:
        """Items of side ``"a"`` or ``"b"`` to show on the page, one per pair. Default: None."""
        return None

    def column(self, side: str) -> str:
        """Name of side ``"a"`` or ``"b"`` in tables."""
        return side

    def item_prints(self, start: int, dropped: NDArray[np.int64] | None) -> tuple[SidePrint | None, SidePrint | None]:
        """Fingerprints of the items that either side was encoded from. Default: None, sides of numbers.

        Args:
            start: Number of its first usable row among all usable rows.
            dropped: Unusable rows. Default: None, no rows.
        """
        return None, None

    def id_type(self) -> Any:
        """The Arrow type of the ids, so that all files of the table have the same; None if there are no ids."""
        ids = self.ids()
        if ids is None:
            return None
        arrow = require("pyarrow", "cluster")
        try:
            return arrow.array(one_dimensional(ids)).type
        except arrow.ArrowException:  # whole numbers among texts
            return arrow.string()

    def keys(self, start: int) -> Keys:
        """Hashes by which pairs count as the same item, comparable between shards.

        ``start`` is the number of its first row.
        """
        named = (("ids", self.ids()), ("duplicates", self.duplicates()))
        return [codes(value, name, self.rows, start) for name, value in named if value is not None]


Partition = Shard  # name of versions before 0.3


class Arrays(Shard):
    """Pairs in two matrices, in memory or mapped into it."""

    def __init__(self, a: Matrix, b: Matrix, keys: Sequence[NDArray[np.int64]] = (), progress: bool | None = False):
        self.a, self.b, self._keys, self.progress = a, b, list(keys), progress

    @property
    def rows(self) -> int:
        return len(self.a)

    def blocks(self) -> Blocks:
        width = max(self.a.shape[1], self.b.shape[1])
        for rows in track(list(chunks(len(self.a), width)), "reading pairs", show=self.progress):
            yield self.a[rows], self.b[rows]
            release(self.a)
            release(self.b)

    def keys(self, start: int) -> Keys:
        return self._keys


class FileShard(Shard):
    """Some rows of files of any format.

    Args:
        a, b: The two columns of numbers, restricted to these rows (``Source.part``).
        rows: Number of rows.
        columns: Columns with one value per pair: ``"ids"``, ``"duplicates"`` or ``"groups"``, and ``"show_a"`` and
            ``"show_b"`` for the page.
        root: Folder that must contain media files named in a table. Default: the folder of the table.

    Attributes:
        raw: Items that a side was encoded from, by ``"a"`` and ``"b"``; see ``rince.audit.encode.shards``.
    """

    def __init__(self, a: Source, b: Source, rows: int, columns: dict[str, Source], root: Path | None = None):
        self.a, self.b, self._rows, self.columns, self.root = a, b, rows, columns, root
        self.raw: dict[str, Source] = {}
        (first, start, _), (other, _, _) = a.segments[0], b.segments[0]
        name = location(first) if first == other else f"{location(first)} with {location(other)}"
        self.name = f"{name}, rows {start:,} to {start + rows:,}"

    @property
    def rows(self) -> int:
        return self._rows

    def blocks(self) -> Blocks:
        blocks = number_batches(self.a), number_batches(self.b)
        left, right = (next(side, None) for side in blocks)
        while left is not None and right is not None:
            count = min(len(left), len(right))
            yield left[:count], right[:count]
            left = left[count:] if count < len(left) else next(blocks[0], None)
            right = right[count:] if count < len(right) else next(blocks[1], None)

    def _column(self, name: str) -> Any:
        return values(self.columns[name]) if name in self.columns else None

    def ids(self) -> Any:
        return self._column("ids")

    def duplicates(self) -> Any:
        return self._column("duplicates")

    def groups(self) -> Any:
        return self._column("groups")

    def items(self, side: str) -> Raw | None:
        """The raw items of side ``"a"`` or ``"b"``; None if it holds numbers."""
        source = self.raw.get(side, self.a if side == "a" else self.b)
        raw = raw_column(source, self.root)
        if raw is None:
            return None
        return Raw(raw.kind, raw.items, self.name, raw.root, raw.remark, describe=raw.describe)

    def gallery(self, side: str) -> Gallery | None:
        source = self.columns.get(f"show_{side}", self.raw.get(side))
        if source is None:
            return None
        raw = raw_column(source, self.root)
        return Texts(values(source)) if raw is None else raw.gallery

    def column(self, side: str) -> str:
        source = self.raw.get(side, self.a if side == "a" else self.b)
        return source.column or source.path.name

    def item_prints(self, start: int, dropped: NDArray[np.int64] | None) -> tuple[SidePrint | None, SidePrint | None]:
        used = np.arange(self.rows) if dropped is None else np.delete(np.arange(self.rows), dropped)
        prints: list[SidePrint | None] = []
        for side in "ab":
            raw = self.items(side) if side in self.raw else None
            if raw is None:
                prints.append(None)
                continue
            codes_of_items = item_codes((raw.items[row] for row in used.tolist()), self.raw[side].folder)
            prints.append(SidePrint(raw.kind, 0, sums_of(codes_of_items, start)))
        return prints[0], prints[1]

    def keys(self, start: int) -> Keys:
        """Codes of whole numbers as they are, of all others as texts: a missing value changes the type of an array."""
        keys = []
        for name in ("ids", "duplicates"):
            if name in self.columns:
                column = one_dimensional(self._column(name))
                if column.dtype.kind in "fmM":
                    column = column.astype("M8[us]") if column.dtype.kind == "M" else column
                    column = np.array([None if cell != cell else str(cell) for cell in column.tolist()], dtype=object)
                keys.append(codes(column, name, self.rows, start))
        return keys


def file_shards(
    a: str | Path | PairSources,
    b: str | Path | None = None,
    *,
    ids: str | None = None,
    duplicates: str | None = None,
    groups: str | None = None,
    show_a: str | None = None,
    show_b: str | None = None,
    rows: int | None = None,
    header: bool = True,
    raw: bool = False,
    media_root: Path | None = None,
) -> list[FileShard]:
    """Split pairs in files of any format into shards: one or several per file, of up to a million rows each.

    Large files are split if the format can skip rows: .npy, .safetensors, Parquet, Arrow and tars. Items that
    are encoded (``raw``) are split in any format, also the files of a folder.

    Args:
        a, b: ``FILES:COLUMN`` as for ``rince audit``: files, patterns or URLs that every worker can read. One folder of
            clip-retrieval or DataComp if ``b`` is None.
        ids, duplicates, groups: A column of A's files, or ``FILES:COLUMN``, see :func:`rince.audit_pairs`.
        show_a, show_b: Texts or media for the page, likewise. Default: the items of a side that is encoded.
        rows: Maximum number of rows per shard. Default: as many as take 256 MB, at most a million.
        header: Whether CSV files have a header.
        raw: Whether A and B may be texts or media, see :func:`rince.audit.encode.shards.encode_shards`.
        media_root: Folder that must contain media files named in a table. Default: the folder of the table.

    Returns:
        Shards for :func:`rince.audit.audit_shards`.

    Raises:
        UsageError: A file or column does not exist, or the two sides have different numbers of rows.

    Example:
        >>> np.save("a.npy", np.eye(60, 4))
        >>> np.save("b.npy", np.eye(60, 8))
        >>> [part.rows for part in rince.audit.file_shards("a.npy", "b.npy", rows=40)]
        [40, 20]
    """
    other = None if b is None else str(b)
    pairs = a if isinstance(a, PairSources) else pair_files(str(a), other, header=header, raw=raw)
    check_different(pairs.a, pairs.b)
    columns = {} if pairs.ids is None else {"ids": pairs.ids}
    named = {"ids": ids, "duplicates": duplicates, "groups": groups, "show_a": show_a, "show_b": show_b}
    for name, text in named.items():
        if text is not None:
            columns[name] = column_source(text, pairs.a, raw=name.startswith("show_"))
    given = {"A": pairs.a, "B": pairs.b, **columns}
    sources = {name: _absolute(source, columns.get("ids")) for name, source in given.items()}
    lengths = {name: _file_rows(source) for name, source in sources.items()}
    for name in sources:
        _check_aligned(name, sources, lengths)
    ends = {name: np.cumsum([0, *counts]) for name, counts in lengths.items()}
    files = [ends[name] if sources[name].kind != FOLDER else ends[name][[0, -1]] for name in "AB"]
    bounds = sorted({int(end) for counts in files for end in counts})
    step = rows or (MAX_RAW_ROWS if raw else _rows_for(sources["A"], sources["B"]))
    if not all(sources[name].kind == FOLDER or format_of(sources[name]).skips_rows for name in "AB"):
        # Every shard reads its files from the start: a few per file for items, whose encoding takes longer, or one.
        default_rows = MAX_RAW_ROWS * max(1, bounds[-1] // (MAX_SPLITS * MAX_RAW_ROWS))
        step = (rows or default_rows) if raw else MAX_ROWS * 1000
    shards: list[FileShard] = []
    for first, last in itertools.pairwise(bounds):
        for start in range(first, last, step):
            stop = min(last, start + step)
            parts = {name: _restricted(source, ends[name], start, stop) for name, source in sources.items()}
            a_part, b_part = parts.pop("A"), parts.pop("B")
            shards.append(FileShard(a_part, b_part, stop - start, parts, media_root))
    return shards


def check_aligned(pairs: PairSources, always: bool = False) -> None:
    """Raise for files with different numbers of rows, ``always`` or where counting is cheap."""
    sources = {"A": pairs.a, "B": pairs.b} | ({} if pairs.ids is None else {"ids": pairs.ids})
    if FOLDER in (pairs.a.kind, pairs.b.kind) or all(len(source.files) < 2 for source in sources.values()):
        return
    if always or all(format_of(source).skips_rows for source in sources.values()):
        lengths = {name: _file_rows(source) for name, source in sources.items()}
        for name in sources:
            _check_aligned(name, sources, lengths)


def _absolute(source: Source, ids: Source | None) -> Source:
    if is_url(source.path):
        return source
    source = source._replace(path=source.path.absolute())
    if source.kind != FOLDER:
        return source
    raw = raw_column(source, ids=None if ids is None else values(ids))
    assert raw is not None
    if None in raw.items:
        raise UsageError(f"{raw.remark}: name the files in a table, where a cell may be missing")
    return source._replace(part=tuple((file, 0, 1) for file in raw.items))


def _file_rows(source: Source) -> list[int]:
    if source.kind == FOLDER:
        return [1] * len(source.files)
    content = format_of(source)
    content.check()
    counts = []
    for file in content.shards:
        with naming(file):
            counts.append(content.rows(file))
    if not sum(counts):
        raise UsageError(f"{source} has no rows")
    return counts


def _check_aligned(name: str, sources: dict[str, Source], lengths: dict[str, list[int]]) -> None:
    expected, counts = lengths["A"], lengths[name]
    if len(expected) == len(counts):
        files = zip(sources["A"].files, expected, sources[name].files, counts, strict=True)
        if different := next((row for row in files if row[1] != row[3]), None):
            raise UsageError(
                f"{location(different[0])} has {different[1]:,} rows and {location(different[2])}, the file of {name} "
                f"in its place, {different[3]:,}: the files must have the same rows in the same order"
            )
    elif sum(expected) != sum(counts):
        raise UsageError(
            f"A ({sources['A']}) has {sum(expected):,} rows in {len(expected)} files and {name} ({sources[name]}) "
            f"{sum(counts):,} in {len(counts)}: they must have the same rows in the same order"
        )


def _rows_for(a: Source, b: Source) -> int:
    """Rows of a shard, by the width of the first row of both sides."""
    width = 0
    for source in (a, b):
        first = next(file for file, rows in zip(source.files, _file_rows(source), strict=True) if rows)
        with naming(first):
            width += next(number_batches(source._replace(part=((first, 0, 1),)))).shape[1]
    return min(MAX_ROWS, max(1, TARGET_NUMBERS // width))


def _restricted(source: Source, ends: NDArray[np.int64], start: int, stop: int) -> Source:
    """A source with the rows ``start`` to ``stop`` of all of its files together."""
    return source._replace(
        part=tuple(
            (file, max(0, start - int(ends[k])), min(stop, int(ends[k + 1])) - int(ends[k]))
            for k, file in enumerate(source.files)
            if ends[k + 1] > start and ends[k] < stop
        )
    )


class Usable(Shard):
    """A shard without unusable rows, or without some columns of A and of B.

    Args:
        whole: The shard.
        dropped: Rows to leave out.
        columns: Columns of A and of B to leave out.
    """

    def __init__(
        self,
        whole: Shard,
        dropped: NDArray[np.int64] | Sequence[int] = (),
        columns: Sequence[NDArray[np.int64] | Sequence[int]] = ((), ()),
    ):
        self.whole, self.dropped, self.name = whole, np.asarray(dropped, dtype=np.int64), whole.name
        self.columns = [np.asarray(indices, dtype=np.int64) for indices in columns]

    @property
    def rows(self) -> int:
        return self.whole.rows - len(self.dropped)

    @property
    def kept(self) -> NDArray[np.int64]:
        """Rows of the full shard that are used."""
        return np.delete(np.arange(self.whole.rows), self.dropped)

    def blocks(self) -> Blocks:
        start = 0
        for a, b in self.whole.blocks():
            inside = self.dropped[(self.dropped >= start) & (self.dropped < start + len(a))] - start
            start += len(a)
            if len(inside):
                a, b = (np.delete(side, inside, axis=0) for side in (a, b))
            first, second = self.columns
            yield np.delete(a, first, axis=1) if len(first) else a, np.delete(b, second, axis=1) if len(second) else b

    def keys(self, start: int) -> Keys:
        return [np.delete(key, self.dropped) for key in self.whole.keys(start)]


class Pieces:
    """Both sides of a shard as float32 arrays, piece by piece, in reused buffers."""

    def __init__(self, part: Shard):
        self.part = part
        self._buffers: list[NDArray[np.float32]] = []

    def __iter__(self) -> Iterator[tuple[int, NDArray[np.float32], NDArray[np.float32]]]:
        """The first row of every piece, and both sides of it."""
        start, widths = 0, None
        for a, b in self.part.blocks():
            if widths is None:
                widths = check_block(a, b, self.part)
                rows = min(self.part.rows, chunk_rows(max(widths)))
                self._buffers = [np.empty((rows, width), dtype=np.float32) for width in widths]
            if len(a) != len(b) or (a.shape[1], b.shape[1]) != widths:
                raise UsageError(f"{_named(self.part)} has blocks of {a.shape} and {b.shape}, after widths of {widths}")
            for piece in chunks(len(a), max(widths)):
                if start >= self.part.rows or start + (piece.stop - piece.start) > self.part.rows:
                    raise UsageError(f"{_named(self.part)} has more rows than the declared {self.part.rows:,}")
                yield start, read(a, piece, self._buffers[0]), read(b, piece, self._buffers[1])
                start += piece.stop - piece.start
        if start != self.part.rows:
            raise UsageError(f"{_named(self.part)} has {start:,} rows, but declares {self.part.rows:,}")


def check_block(a: Matrix, b: Matrix, part: Shard) -> tuple[int, int]:
    """The widths of both sides."""
    if a.ndim != 2 or b.ndim != 2 or not (a.shape[1] and b.shape[1]):
        raise UsageError(f"{_named(part)} must have blocks of shape (rows, width), got {a.shape} and {b.shape}")
    return a.shape[1], b.shape[1]


def _named(part: Shard) -> str:
    return part.name or "a shard"


def unusable(part: Shard, zero_is_bad: bool) -> NDArray[np.int64]:
    """The rows in which either side holds NaN, infinity or, if ``zero_is_bad``, only zeros."""
    invalid: set[int] = set()
    checks = [RowCheck(name, zero_is_bad) for name in "ab"]
    for start, *sides in Pieces(part):
        for check, x in zip(checks, sides, strict=True):
            check.see(x, start)
    for check in checks:
        invalid.update(check.broken, check.zero)
    return np.array(sorted(invalid), dtype=np.int64)
