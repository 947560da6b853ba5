"""The files of an audit: a table of all pairs, the pairs that fit worst, a record of the findings, and a page.

Audits in memory and of shards write the same files. They appear in the folder together, or not at all.
"""

import hashlib
import io
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince._support.atomic_files import atomic_results, check_out_folder, finish_results, written_whole
from rince._support.csv_cells import CsvWriter, number_texts, unescaped
from rince._support.optional_imports import require
from rince.errors import ExistingFile, MissingFile, UsageError
from rince.pairs.columns import chosen, values
from rince.pairs.files import exists, file_system, is_dir, is_url, location, matches, opened
from rince.pairs.format import format_of
from rince.pairs.matrix import one_dimensional
from rince.pairs.source import ARROW_TABLES, JSON_LINES, TEXT_TABLES, Source, source
from rince.report.page import Listed

ROWS = 100_000  # of the CSV table per write
NAMES = ("id", "score", "p_wrong", "flagged", "weight")
TABLES = ("audit.csv", "audit.parquet")
RECORD = "audit.json"
RESULTS = (*TABLES, RECORD, "suspects.csv", "audit.html", "review.json", "reviewed.csv")
"""Files of an audit, which replace those of an earlier one together."""
TABLE_KEYS = ("table", "table_sha256")
SUSPECT_COLUMNS = ("row", "id", "score", "p_wrong", "flagged", "issues")
MIN_SUSPECTS = 10_000
"""Rows of ``suspects.csv``, if there are as many; all suspected pairs are listed, however many."""
MAX_COLUMNS = 50  # further columns of the audited table


# --- the folder -------------------------------------------------------------------------------------------------------


def check_folder(out: str | os.PathLike[str], force: bool) -> None:
    """Raise before the audit if the folder already holds results. URLs are not checked."""
    if is_url(out):
        return
    folder = Path(out)
    check_out_folder(folder, "the audit", ("audit.csv", RECORD, "audit.html"))
    finish_results(folder)
    existing = [name for name in RESULTS if (folder / name).exists()]
    if existing and not force:
        raise ExistingFile(
            f"{folder / existing[0]} already exists: overwrite it with force=True (--force on the command line), or "
            "choose another folder"
        )


@contextmanager
def results_folder(out: str | os.PathLike[str]) -> Iterator[str]:
    """Where the results are written to, which appear in ``out`` together when the block ends without an error.

    Nothing can be renamed in an object store: there, earlier results are removed first, and ``audit.json``, without
    which readers accept no audit, must be written last.
    """
    if is_url(out):
        for name in (RECORD, *RESULTS):
            if exists(path := Path(joined_path(out, name))):
                files, target = file_system(path)
                files.rm(target, recursive=True)
        yield os.fspath(out)
    else:
        with atomic_results(out, RESULTS) as folder:
            yield str(folder)


@contextmanager
def opened_whole(folder: str, name: str) -> Iterator[Any]:
    """A file to write to, which appears when the block ends without an error."""
    if not is_url(folder):
        with written_whole(Path(folder) / name) as path, open(path, "wb") as file:
            yield file
        return
    # An object store publishes a file when it is closed, and a failed upload never.
    with require("fsspec", "cluster").open(joined_path(folder, name), "wb") as file:
        yield file


def joined_path(folder: str | os.PathLike[str], name: str) -> str:
    """A path below a folder, which may be a URL."""
    text = os.fspath(folder)
    return f"{text.rstrip('/')}/{name}" if is_url(text) else str(Path(text) / name)


def write_summary(folder: str, table: str, record: Mapping[str, Any], page: str, suspects: str) -> None:
    """Write ``suspects.csv``, ``audit.html`` and ``audit.json``, which names and hashes the table; the record last."""
    record = {**record, **table_record(Path(joined_path(folder, table)))}
    texts = {"suspects.csv": suspects, "audit.html": page, RECORD: json.dumps(record, indent=2) + "\n"}
    for name, text in texts.items():
        with opened_whole(folder, name) as file:
            file.write(text.encode("utf-8", "replace"))


# --- tables -----------------------------------------------------------------------------------------------------------


def write_csv(
    file: IO[bytes],
    names: NDArray[Any] | None,
    scores: NDArray[np.float32],
    p_wrong: NDArray[np.float32],
    flags: NDArray[np.bool_],
    weights: NDArray[np.float32],
) -> None:
    """Write the table of all pairs as CSV."""
    text = io.TextIOWrapper(file, encoding="utf-8", errors="replace", newline="")
    writer = CsvWriter(text)
    writer.writerow(NAMES)
    for start in range(0, len(scores), ROWS):
        part = slice(start, min(len(scores), start + ROWS))
        ids = range(part.start, part.stop) if names is None else names[part].tolist()
        numbers = [number_texts(column[part]) for column in (scores, p_wrong, weights)]
        writer.writerows(zip(ids, *numbers[:2], flags[part].astype(np.int8), numbers[2], strict=True))
    text.detach()


def write_parquet(
    file: Any,
    ids: NDArray[Any],
    scores: NDArray[np.float32],
    p_wrong: NDArray[np.float32],
    flags: NDArray[np.bool_],
    weights: NDArray[np.float32],
    id_type: Any = None,
) -> None:
    """Write a table of pairs as Parquet; ``id_type`` is the Arrow type of the ids, by default that of the values."""
    arrow, parquet = require("pyarrow", "audit"), require("pyarrow.parquet", "audit")
    try:
        names = arrow.array(ids, type=id_type)
    except (arrow.ArrowException, TypeError):  # whole numbers among texts
        names = arrow.array([None if name is None else str(name) for name in ids.tolist()])
    numbers = [arrow.array(column, from_pandas=True) for column in (scores, p_wrong)]
    parquet.write_table(arrow.table(dict(zip(NAMES, (names, *numbers, flags, weights), strict=True))), file)


def suspects_csv(
    listed: Listed, columns: tuple[str, str], texts: Sequence[list[str] | None], others: Mapping[str, list[str]]
) -> str:
    """The content of ``suspects.csv``: the pairs that fit worst, most suspicious first, whatever the verdict.

    The columns are ``row`` (from 0), ``id``, ``score``, ``p_wrong``, ``flagged`` (0 or 1), ``issues`` (names, separated
    by "; "), the text or file name of either side if it is known, and further columns of the audited table.

    Args:
        listed: The pairs.
        columns: Names of both sides.
        texts: The text or file name of either side, one per pair, or None.
        others: Further columns.
    """
    if columns[0] == columns[1] or {*columns} & {*SUSPECT_COLUMNS}:
        columns = ("a", "b")
    text_columns = {name: text for name, text in zip(columns, texts, strict=True) if text is not None}
    reserved = {*SUSPECT_COLUMNS, *text_columns}
    file = io.StringIO(newline="")
    writer = CsvWriter(file)
    writer.writerow(
        [*SUSPECT_COLUMNS, *text_columns, *(f"original {name}" if name in reserved else name for name in others)]
    )
    issues = [
        "; ".join([*(["unrelated"] if flag else []), *names])
        for flag, names in zip(listed.flagged, listed.issues or [[]] * len(listed.row), strict=True)
    ]
    numbers = number_texts(listed.score), number_texts(listed.p_wrong), listed.flagged.astype(int).tolist()
    writer.writerows(
        zip(listed.row.tolist(), listed.id, *numbers, issues, *text_columns.values(), *others.values(), strict=True)
    )
    return file.getvalue()


def other_columns(a: Source, b: Source, rows: NDArray[np.int64]) -> dict[str, list[str]]:
    """Further columns of the table that holds both sides, for some rows; lists and bytes are left out."""
    if a.path != b.path or a.kind not in (*ARROW_TABLES, *TEXT_TABLES, *JSON_LINES):
        return {}
    table = format_of(a)
    fields = table.fields
    sides = {*chosen(a, fields), *chosen(b, fields)}
    names = [name for name in fields if name not in sides and fields.count(name) == 1][:MAX_COLUMNS]
    plain = (str, int, float, np.generic, type(None))
    first = next(table.batches(names))[1] if names else []
    names = [name for name, column in zip(names, first, strict=True) if all(isinstance(cell, plain) for cell in column)]
    result: dict[str, list[str]] = {name: [""] * len(rows) for name in names}
    order, start = np.argsort(rows), 0
    for _, batch in table.batches(names) if names else ():
        stop = start + len(batch[0])
        indices = order[slice(*np.searchsorted(rows[order], [start, stop]))].tolist()
        for name, column in zip(names, batch, strict=True):
            for index in indices:
                cell = column[rows[index] - start]
                result[name][index] = "" if cell is None or cell != cell else str(cell)
        start = stop
    return result


def one_per_pair(column: Any, n: int, name: str) -> NDArray[Any]:
    """A column as an array, which must have one value per pair."""
    array = one_dimensional(column)
    if array.shape != (n,):
        raise UsageError(f"{name} must have one value per pair: expected ({n},), got {array.shape}")
    return array


def pair_name(name: Any, row: int) -> str:
    """Name of a pair: its id, or its row if it has no id."""
    return f"row {row}" if name is None or name == "" else str(name)


# --- reading ----------------------------------------------------------------------------------------------------------


class Pairs(NamedTuple):
    """The table of a saved audit, in the order of its rows."""

    ids: list[str]
    scores: NDArray[np.float64]
    p_wrong: NDArray[np.float64]
    flagged: NDArray[np.bool_]


def read_pairs(folder: Path) -> Pairs:
    """The table of an audit that was saved in a folder.

    Raises:
        MissingFile: The folder has no audit.
        UsageError: The table is not that of an audit.
    """
    path, _ = saved_table(folder)
    ids, scores, chances, flags = (values(source(f"{path}:{name}")) for name in NAMES[:4])
    clean = unescaped if path.suffix == ".csv" else str
    try:
        numbers = [
            np.array([np.nan if cell is None or cell == "" else float(cell) for cell in column])
            for column in (scores, chances)
        ]
    except ValueError as error:
        raise UsageError(f"{path} is not the table of an audit: {error}") from error
    names = [pair_name(None if value is None else clean(str(value)), row) for row, value in enumerate(ids)]
    return Pairs(names, numbers[0], numbers[1], np.array([str(cell) in ("1", "True") for cell in flags], dtype=bool))


def saved_table(path: Path) -> tuple[Path, dict[str, Any]]:
    """The table of a saved audit and its ``audit.json``, which must belong together.

    Args:
        path: The folder of the audit, or the table itself. A table without ``audit.json`` is accepted.

    Returns:
        The path of the table, and the content of ``audit.json``, empty without one.

    Raises:
        MissingFile: The folder has no audit, or its table is missing.
        UsageError: The table is not the one that ``audit.json`` was written with.
    """
    if not exists(path):
        raise MissingFile(f"no audit in {location(path)}")
    is_folder = is_dir(path) and path.name not in TABLES
    folder = path if is_folder else path.parent
    if not is_url(folder):
        finish_results(folder)
    record = _read_record(folder / RECORD)
    tables = [folder / name for name in TABLES if exists(folder / name)]
    if is_folder:
        if not tables or (is_url(folder) and not record):  # where files cannot be renamed, the record is written last
            raise MissingFile(f"no complete audit in {location(folder)}: {RECORD} or its table is missing")
        if "table" not in record and len(tables) > 1:
            raise UsageError(f"{location(folder)} has {' and '.join(TABLES)}, and {RECORD} names neither: audit again")
        path = folder / Path(str(record.get("table", tables[0].name))).name
        if not exists(path):
            raise MissingFile(f"{location(path)}, the table of {location(folder / RECORD)}, is missing: audit again")
    if "table" in record and path in tables and table_record(path) != {key: record.get(key) for key in TABLE_KEYS}:
        raise UsageError(
            f"{location(path)} is not the table that {location(folder / RECORD)} was written with: audit again, or "
            "rename the table if you changed it"
        )
    return path, record


def table_record(path: Path) -> dict[str, str]:
    """Name and hash of a table for ``audit.json``; a table of several files is hashed by their names and sizes."""
    digest = hashlib.sha256()
    if is_dir(path):
        for file in matches(path / "*.parquet"):
            files, name = file_system(file)
            digest.update(f"{file.name} {files.size(name)}\n".encode())
    else:
        with opened(path) as content:
            while block := content.read(1 << 20):
                digest.update(block)
    return dict(zip(TABLE_KEYS, (path.name, digest.hexdigest()), strict=True))


def _read_record(path: Path) -> dict[str, Any]:
    if not exists(path):
        return {}
    try:
        with opened(path) as file:
            record = json.loads(file.read())
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{location(path)} is damaged ({error}): audit again") from error
    if not isinstance(record, dict):
        raise UsageError(f"{location(path)} is damaged (it holds a {type(record).__name__}): audit again")
    return record
