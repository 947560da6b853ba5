"""Check that data match an audit, by its fingerprint or by the ids of its pairs."""

import contextlib
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rince._support.atomic_files import naming_full
from rince._support.fingerprints import row_codes
from rince.audit.shards.runner import Runner
from rince.errors import UsageError, WrongType
from rince.pairs.columns import NoNumber, column_names, matrix, number_batches, value_batches, values
from rince.pairs.files import is_url
from rince.pairs.fingerprint import NUMBERS, Fingerprint, SidePrint, Sums, added_sums, from_record, item_codes, sums_of
from rince.pairs.format import format_of, naming
from rince.pairs.matrix import Matrix, chunks, one_dimensional, read, release, text_code
from rince.pairs.raw import raw_column
from rince.pairs.source import FOLDER, TABLES, Source
from rince.trust.clean import Audited, check_rows

IDS = ("id", "ids")
Codes = NDArray[np.int64]
_WHOLE = re.compile(r"-?\d+\.0")


def check_same_data(
    sources: Sequence[Source], audited: Audited, ids: Source | None, scratch: Path, runner: Runner | None = None
) -> None:
    """Raise for data that differ from those of an audit or are in another order, as far as its record allows.

    Args:
        sources: The two columns.
        audited: The audit.
        ids: Ids of the rows. If they match the audit, are unique, and are in the same file as both columns, the
            columns themselves may differ, such as texts instead of the audited embeddings.
        scratch: A folder for temporary files.
        runner: Where files are read. Default: this process, one file after the other.

    Raises:
        UsageError: The data do not match.
    """
    fingerprint = from_record(audited.record)
    id_source = ids or (None if fingerprint is not None else _id_column(sources, audited))
    if id_source is not None:
        hashes = _check_ids(id_source, audited)
        inside = all(source.path.resolve() == id_source.path.resolve() for source in sources)
        if inside and len(np.unique(hashes)) == len(hashes):
            return
    if fingerprint is not None:
        _check_fingerprint(sources, audited, fingerprint, scratch, runner)


def _check_fingerprint(
    sources: Sequence[Source], audited: Audited, fingerprint: Fingerprint, scratch: Path, runner: Runner | None
) -> None:
    judged = ~np.isnan(audited.p_wrong)
    expected = fingerprint.a, fingerprint.b
    ids = audited.names if FOLDER in {source.kind for source in sources} else None
    prints = [
        side_print(source, side.kind, judged, scratch, runner, ids)
        for source, side in zip(sources, expected, strict=True)
    ]
    different = [k for k in range(2) if prints[k] != expected[k]]
    if not different:
        return
    if prints == [fingerprint.b, fingerprint.a]:
        raise UsageError(f"A and B of {_audit(audited)} are swapped: give {sources[1]} first, then {sources[0]}")
    names = " and ".join(str(sources[k]) for k in different)
    holds = "hold" if len(different) > 1 else "holds"
    if all(_unordered(prints[k]) == _unordered(expected[k]) for k in different):
        raise UsageError(
            f"{names} {holds} the rows of {_audit(audited)} in another order: audit again, or restore their order"
        )
    raise UsageError(
        f"{names} {holds} data other than those of {_audit(audited)}: audit again, or name the audit of these data "
        "(--audit)"
    )


def _audit(audited: Audited) -> str:
    return f"the audit {audited.table.path}"


def _unordered(side: SidePrint | None) -> tuple[str, int, int] | None:
    return None if side is None else (side.kind, side.width, side.sums.any_order)


def side_print(
    source: Source,
    kind: str,
    judged: NDArray[np.bool_],
    scratch: Path,
    runner: Runner | None = None,
    ids: Sequence[str] | None = None,
) -> SidePrint | None:
    """Fingerprint of the judged rows of a column; None if it does not hold ``kind``.

    A ``runner`` reads file by file, as sums over rows add up. ``ids`` name the files of a folder.

    Raises:
        UsageError: The number of rows differs from the audit.
    """
    if runner is None or len(source.files) < 2 or source.kind == FOLDER:
        result = _part_print(source, kind, judged, 0, ids)
        if result is None and kind == NUMBERS and source.kind in TABLES:  # labels, which are numbered as a whole
            with contextlib.suppress(NoNumber, WrongType), naming(source.path), naming_full(f"a file in {scratch}"):
                return _summed(_number_codes(source, [matrix(source, scratch)], judged), kind)
        return result
    parts = [source._replace(part=((file, 0, None),)) for file in source.files]
    ends = np.cumsum(runner.gather(runner.map(_rows_of_part, parts)))
    check_rows(source.path, int(ends[-1]), judged)
    rows = np.split(judged, ends[:-1])
    used = np.cumsum([0, *(part.sum() for part in rows[:-1])]).tolist()
    prints = runner.gather(runner.map(_part_print, parts, [kind] * len(parts), rows, used), "comparing data")
    valid = [part_print for part_print in prints if part_print is not None and part_print.sums != Sums()]
    if None in prints or len({(part_print.kind, part_print.width) for part_print in valid}) != 1:
        return side_print(source, kind, judged, scratch)
    return valid[0]._replace(sums=added_sums(part_print.sums for part_print in valid))


def _rows_of_part(source: Source) -> int:
    with naming(source.files[0]):
        return format_of(source).rows(source.files[0])


def _part_print(
    source: Source, kind: str, judged: NDArray[np.bool_], used: int, ids: Sequence[str] | None = None
) -> SidePrint | None:
    """``side_print`` of one file; ``used`` is the number of rows before it."""
    try:
        with naming(source.path):
            coded = (
                _number_codes(source, _blocks(source), judged) if kind == NUMBERS else _items(source, kind, judged, ids)
            )
            return _summed(coded, kind, used)
    except (NoNumber, WrongType):
        return None


def _summed(blocks: Iterable[tuple[int, Codes]], kind: str, used: int = 0) -> SidePrint:
    sums, width = Sums(), 0
    for block_width, codes in blocks:
        sums, used, width = sums.plus(sums_of(codes, used)), used + len(codes), block_width
    return SidePrint(kind, width, sums)


def _blocks(source: Source) -> Iterator[Matrix]:
    if source.kind != ".npy" or source.part is not None or len(source.files) > 1 or is_url(source.path):
        yield from number_batches(source)
        return
    array = matrix(source, source.folder)  # mapped into memory
    for rows in chunks(len(array), array.shape[1]):
        yield array[rows]
        release(array)


def _number_codes(source: Source, blocks: Iterable[Matrix], judged: NDArray[np.bool_]) -> Iterator[tuple[int, Codes]]:
    """Width and codes of the judged rows, block by block."""
    start = 0
    for block in blocks:
        part = judged[start : start + len(block)]
        yield block.shape[1], row_codes(read(block, np.flatnonzero(part)))
        start += len(block)
    check_rows(source.path, start, judged)


def _items(source: Source, kind: str, judged: NDArray[np.bool_], ids: Any) -> Iterator[tuple[int, Codes]]:
    """Codes of texts, of names of media files, and of the content of media in tables and tars."""
    raw = raw_column(source, Path("/"), ids)  # names only, without opening files
    if raw is None or raw.kind != kind:
        raise WrongType(f"{source} does not hold {kind}")
    check_rows(source.path, len(raw), judged)
    yield 0, item_codes((raw.items[row] for row in np.flatnonzero(judged).tolist()), source.folder)


def _id_column(sources: Sequence[Source], audited: Audited) -> Source | None:
    """Id column of a table, by name; None if it does not exist, or if the ids of the audit are row numbers."""
    for source in sources:
        if source.kind in TABLES:
            with naming(source.path):
                name = next((name for name in IDS if name in column_names(source)), None)
            if name is not None:
                numbered = np.array_equal(_audit_ids(audited), np.arange(len(audited.p_wrong)))
                return None if numbered else source._replace(column=name)
    return None


def _check_ids(source: Source, audited: Audited) -> Codes:
    """Hashes of the ids, which must match the audit row by row."""
    with naming(source.path):
        blocks = value_batches(source) if source.kind in TABLES else [values(source)]
        hashes = _id_codes(cell for block in blocks for cell in one_dimensional(block).tolist())
    check_rows(source.path, len(hashes), audited.flagged)
    expected = _audit_ids(audited)
    different = np.flatnonzero(hashes != expected)
    if not len(different):
        return hashes
    same = np.array_equal(np.sort(hashes), np.sort(expected))
    how = "the ids of the audit in another order" if same else "other ids than the audit"
    raise UsageError(
        f"{source} holds {how} {audited.table.path} ({len(different):,} of {len(hashes):,} rows, the first of them row "
        f"{different[0]}): audit again, or name the column with the ids of the audit (--ids)"
    )


def _audit_ids(audited: Audited) -> Codes:
    with naming(audited.table.path):
        return _id_codes(audited.ids())


def _id_codes(cells: Iterable[Any]) -> Codes:
    """Hashes of ids: 7, 7.0 and "7" are equal, and so are all missing ids."""
    texts = ("" if cell is None else str(cell) for cell in cells)
    return np.fromiter((text_code(text[:-2] if _WHOLE.fullmatch(text) else text) for text in texts), dtype=np.int64)
