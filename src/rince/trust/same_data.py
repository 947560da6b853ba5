"""Check that data are those of an audit, by its fingerprint or by the ids of its pairs."""

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
    """Raise for data other than those of an audit, or in another order, as far as the audit's records tell.

    Args:
        sources: Where the two columns are.
        audited: The audit.
        ids: Where the ids of the rows are. If they are those of the audit, all different, and in the one file of both
            columns, that file may hold something else, such as the texts behind the embeddings that were audited.
        scratch: A folder for temporary files.
        runner: Where files are read. Default: here, one after the other.

    Raises:
        UsageError: They are other data.
    """
    known = from_record(audited.record)
    place = ids or (None if known is not None else _id_column(sources, audited))
    if place is not None:
        found = _check_ids(place, audited)
        inside = all(one.path.resolve() == place.path.resolve() for one in sources)
        if inside and len(np.unique(found)) == len(found):
            return
    if known is not None:
        _check_fingerprint(sources, audited, known, scratch, runner)


def _check_fingerprint(
    sources: Sequence[Source], audited: Audited, known: Fingerprint, scratch: Path, runner: Runner | None
) -> None:
    judged = ~np.isnan(audited.p_wrong)
    expected = known.a, known.b
    ids = audited.names if FOLDER in {one.kind for one in sources} else None
    found = [
        side_print(one, side.kind, judged, scratch, runner, ids) for one, side in zip(sources, expected, strict=True)
    ]
    other = [k for k in range(2) if found[k] != expected[k]]
    if not other:
        return
    if found == [known.b, known.a]:
        raise UsageError(f"A and B of {_audit(audited)} are swapped: give {sources[1]} first, then {sources[0]}")
    where = " and ".join(str(sources[k]) for k in other)
    holds = "hold" if len(other) > 1 else "holds"
    if all(_unordered(found[k]) == _unordered(expected[k]) for k in other):
        raise UsageError(
            f"{where} {holds} the rows of {_audit(audited)} in another order: audit again, or restore their order"
        )
    raise UsageError(
        f"{where} {holds} data other than those of {_audit(audited)}: audit again, or name the audit of these data "
        "(--audit)"
    )


def _audit(audited: Audited) -> str:
    return f"the audit {audited.table.path}"


def _unordered(side: SidePrint | None) -> tuple[str, int, int] | None:
    return None if side is None else (side.kind, side.width, side.sums.any_order)


def side_print(
    where: Source,
    kind: str,
    judged: NDArray[np.bool_],
    scratch: Path,
    runner: Runner | None = None,
    ids: Sequence[str] | None = None,
) -> SidePrint | None:
    """Fingerprint of a column without the rows that were not judged; None if it does not hold ``kind``.

    With a ``runner`` file by file, as sums over rows add up. ``ids`` name the files of a folder.

    Raises:
        UsageError: It has another number of rows.
    """
    if runner is None or len(where.files) < 2 or where.kind == FOLDER:
        found = _part_print(where, kind, judged, 0, ids)
        if found is None and kind == NUMBERS and where.kind in TABLES:  # labels, which are numbered as a whole
            with contextlib.suppress(NoNumber, WrongType), naming(where.path), naming_full(f"a file in {scratch}"):
                return _summed(_number_codes(where, [matrix(where, scratch)], judged), kind)
        return found
    parts = [where._replace(part=((file, 0, None),)) for file in where.files]
    ends = np.cumsum(runner.gather(runner.map(_rows_of_part, parts)))
    check_rows(where.path, int(ends[-1]), judged)
    rows = np.split(judged, ends[:-1])
    used = np.cumsum([0, *(part.sum() for part in rows[:-1])]).tolist()
    prints = runner.gather(runner.map(_part_print, parts, [kind] * len(parts), rows, used), "comparing data")
    there = [one for one in prints if one is not None and one.sums != Sums()]
    if None in prints or len({(one.kind, one.width) for one in there}) != 1:
        return side_print(where, kind, judged, scratch)
    return there[0]._replace(sums=added_sums(one.sums for one in there))


def _rows_of_part(where: Source) -> int:
    with naming(where.files[0]):
        return format_of(where).rows(where.files[0])


def _part_print(
    where: Source, kind: str, judged: NDArray[np.bool_], used: int, ids: Sequence[str] | None = None
) -> SidePrint | None:
    """``side_print`` of one file; ``used`` is the number of rows before it."""
    try:
        with naming(where.path):
            coded = (
                _number_codes(where, _blocks(where), judged) if kind == NUMBERS else _items(where, kind, judged, ids)
            )
            return _summed(coded, kind, used)
    except (NoNumber, WrongType):
        return None


def _summed(blocks: Iterable[tuple[int, Codes]], kind: str, used: int = 0) -> SidePrint:
    sums, width = Sums(), 0
    for wide, codes in blocks:
        sums, used, width = sums.plus(sums_of(codes, used)), used + len(codes), wide
    return SidePrint(kind, width, sums)


def _blocks(where: Source) -> Iterator[Matrix]:
    if where.kind != ".npy" or where.part is not None or len(where.files) > 1 or is_url(where.path):
        yield from number_batches(where)
        return
    whole = matrix(where, where.folder)  # mapped into memory
    for rows in chunks(len(whole), whole.shape[1]):
        yield whole[rows]
        release(whole)


def _number_codes(where: Source, blocks: Iterable[Matrix], judged: NDArray[np.bool_]) -> Iterator[tuple[int, Codes]]:
    """The width and the codes of the rows that were judged, block by block."""
    start = 0
    for block in blocks:
        part = judged[start : start + len(block)]
        yield block.shape[1], row_codes(read(block, np.flatnonzero(part)))
        start += len(block)
    check_rows(where.path, start, judged)


def _items(where: Source, kind: str, judged: NDArray[np.bool_], ids: Any) -> Iterator[tuple[int, Codes]]:
    """Codes of texts as they are; of media files by their names, and of media in tables and tars by their content."""
    raw = raw_column(where, Path("/"), ids)  # names only: no file is opened
    if raw is None or raw.kind != kind:
        raise WrongType(f"{where} does not hold {kind}")
    check_rows(where.path, len(raw), judged)
    yield 0, item_codes((raw.items[row] for row in np.flatnonzero(judged).tolist()), where.folder)


def _id_column(sources: Sequence[Source], audited: Audited) -> Source | None:
    """The column of ids of a table, by its name; None if there is none, or if pairs are called by their numbers."""
    for one in sources:
        if one.kind in TABLES:
            with naming(one.path):
                name = next((name for name in IDS if name in column_names(one)), None)
            if name is not None:
                numbered = np.array_equal(_audit_ids(audited), np.arange(len(audited.p_wrong)))
                return None if numbered else one._replace(column=name)
    return None


def _check_ids(place: Source, audited: Audited) -> Codes:
    """Hashes of the ids, which must be those of the audit, row by row."""
    with naming(place.path):
        blocks = value_batches(place) if place.kind in TABLES else [values(place)]
        found = _id_codes(cell for block in blocks for cell in one_dimensional(block).tolist())
    check_rows(place.path, len(found), audited.flagged)
    expected = _audit_ids(audited)
    other = np.flatnonzero(found != expected)
    if not len(other):
        return found
    same = np.array_equal(np.sort(found), np.sort(expected))
    how = "the ids of the audit in another order" if same else "other ids than the audit"
    raise UsageError(
        f"{place} holds {how} {audited.table.path} ({len(other):,} of {len(found):,} rows, the first of them row "
        f"{other[0]}): audit again, or name the column with the ids of the audit (--ids)"
    )


def _audit_ids(audited: Audited) -> Codes:
    with naming(audited.table.path):
        return _id_codes(audited.ids())


def _id_codes(cells: Iterable[Any]) -> Codes:
    """Hashes of ids: 7, 7.0 and "7" are equal, and so are all missing ids."""
    texts = ("" if cell is None else str(cell) for cell in cells)
    return np.fromiter((text_code(text[:-2] if _WHOLE.fullmatch(text) else text) for text in texts), dtype=np.int64)
