"""The table of all pairs, written and read back."""

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince._support.atomic_files import finish_results
from rince._support.csv_cells import CsvWriter, number_texts, unescaped
from rince._support.optional_imports import require
from rince.errors import MissingFile, UsageError
from rince.pairs.columns import values
from rince.pairs.files import exists, file_system, is_dir, is_url, location, matches, opened
from rince.pairs.source import source

if TYPE_CHECKING:
    from rince.audit.result import Audit

ROWS = 100_000
NAMES = ("id", "score", "p_wrong", "flagged", "weight")
TABLES = ("audit.csv", "audit.parquet")
RECORD = "audit.json"
RESULTS = (*TABLES, RECORD, "suspects.csv", "audit.html", "review.json", "reviewed.csv")
"""Files of an audit, which replace those of an earlier one together."""


class Pairs(NamedTuple):
    """The table of a saved audit, in the order of its rows."""

    ids: list[str]
    scores: NDArray[np.float64]
    p_wrong: NDArray[np.float64]
    flagged: NDArray[np.bool_]


def write_csv(path: Path, result: "Audit", flags: NDArray[np.bool_], names: NDArray[Any] | None) -> None:
    weights = result.weights
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = CsvWriter(file)
        writer.writerow(NAMES)
        for start in range(0, len(result), ROWS):
            part = slice(start, min(len(result), start + ROWS))
            ids = range(part.start, part.stop) if names is None else names[part].tolist()
            scores, chances, weight = (number_texts(x[part]) for x in (result.scores, result.p_wrong, weights))
            writer.writerows(zip(ids, scores, chances, flags[part].astype(np.int8), weight, strict=True))


def write_parquet(path: Path, result: "Audit", flags: NDArray[np.bool_], names: NDArray[Any] | None) -> None:
    arrow, parquet = require("pyarrow", "audit"), require("pyarrow.parquet", "audit")
    writer, weights = None, result.weights
    column = None if names is None else _id_column(names, arrow)
    try:
        for start in range(0, len(result), ROWS):
            part = slice(start, min(len(result), start + ROWS))
            ids = np.arange(part.start, part.stop) if column is None else column[part]
            scores, chances = (arrow.array(x[part], from_pandas=True) for x in (result.scores, result.p_wrong))
            rows = arrow.table(dict(zip(NAMES, (ids, scores, chances, flags[part], weights[part]), strict=True)))
            writer = writer or parquet.ParquetWriter(path, rows.schema)
            writer.write_table(rows)
    finally:
        if writer is not None:
            writer.close()


def read_pairs(folder: Path) -> Pairs:
    """The table of an audit that was saved in a folder.

    Raises:
        MissingFile: There is none.
        UsageError: It is not a table of an audit.
    """
    path, _ = saved_table(folder)
    ids, scores, chances, flags = (values(source(f"{path}:{name}")) for name in NAMES[:4])
    clean = unescaped if path.suffix == ".csv" else str
    try:
        return Pairs(
            [pair_name(None if one is None else clean(str(one)), row) for row, one in enumerate(ids)],
            _numbers(scores),
            _numbers(chances),
            np.array([str(cell) in ("1", "True") for cell in flags], dtype=bool),
        )
    except ValueError as error:
        raise UsageError(f"{path} is not the table of an audit: {error}") from error


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
        raise MissingFile(f"there is no audit in {location(path)}")
    inside = is_dir(path) and path.name not in TABLES
    folder = path if inside else path.parent
    if not is_url(folder):
        finish_results(folder)
    record = _read_record(folder / RECORD)
    tables = [folder / name for name in TABLES if exists(folder / name)]
    if inside:
        if not tables or (is_url(folder) and not record):  # where files cannot be renamed, the record is written last
            raise MissingFile(f"there is no complete audit in {location(folder)}: {RECORD} or its table is missing")
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


TABLE_KEYS = ("table", "table_sha256")


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


def _numbers(column: NDArray[Any]) -> NDArray[np.float64]:
    return np.array([np.nan if cell is None or cell == "" else float(cell) for cell in column])


def pair_name(name: Any, row: int) -> str:
    """What a pair is called: its id, or its row if it has none."""
    return f"row {row}" if name is None or name == "" else str(name)


def _id_column(names: NDArray[Any], arrow: Any) -> Any:
    """All ids at once, so that every part of the table has the same type."""
    try:
        return arrow.array(names)
    except arrow.ArrowException:  # whole numbers among texts
        return arrow.array([None if name is None else str(name) for name in names])
