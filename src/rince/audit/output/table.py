"""The table of all pairs, written and read back."""

import csv
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince._support.optional_imports import require
from rince.audit.input.arrays import values
from rince.audit.input.source import source
from rince.errors import MissingFile, UsageError

if TYPE_CHECKING:
    from rince.audit.result import Audit

ROWS = 100_000
NAMES = ("id", "score", "p_wrong", "flagged")
_FORMULA = re.compile(r"'*[=+\-@\t\r]")
_NUMBER = re.compile(r"-?[\d.]+")


class Pairs(NamedTuple):
    """The table of a saved audit, in the order of its rows."""

    ids: list[str]
    scores: NDArray[np.float64]
    p_wrong: NDArray[np.float64]
    flagged: NDArray[np.bool_]


def escaped(text: str) -> str:
    """A cell that a spreadsheet shows and does not run: one that starts like a formula gets a quote in front."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def unescaped(cell: str) -> str:
    """The text behind a cell that ``escaped`` wrote."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def write_csv(path: Path, result: "Audit", flags: NDArray[np.bool_], names: NDArray[Any] | None) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(NAMES)
        for start in range(0, len(result), ROWS):
            part = slice(start, min(len(result), start + ROWS))
            ids = range(part.start, part.stop) if names is None else map(_cell, names[part].tolist())
            scores, chances = _texts(result.scores[part]), _texts(result.p_wrong[part])
            writer.writerows(zip(ids, scores, chances, flags[part].astype(np.int8), strict=True))


def write_parquet(path: Path, result: "Audit", flags: NDArray[np.bool_], names: NDArray[Any] | None) -> None:
    arrow, parquet = require("pyarrow", "audit"), require("pyarrow.parquet", "audit")
    writer = None
    column = None if names is None else _id_column(names, arrow)
    try:
        for start in range(0, len(result), ROWS):
            part = slice(start, min(len(result), start + ROWS))
            ids = np.arange(part.start, part.stop) if column is None else column[part]
            scores, chances = (arrow.array(x[part], from_pandas=True) for x in (result.scores, result.p_wrong))
            rows = arrow.table(dict(zip(NAMES, (ids, scores, chances, flags[part]), strict=True)))
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
    path = next((folder / name for name in ("audit.csv", "audit.parquet") if (folder / name).exists()), None)
    if path is None:
        raise MissingFile(f"there is no audit in {folder}: name the folder of one with --out")
    ids, scores, chances, flags = (values(source(f"{path}:{name}")) for name in NAMES)
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


def _numbers(column: NDArray[Any]) -> NDArray[np.float64]:
    return np.array([np.nan if cell is None or cell == "" else float(cell) for cell in column])


def pair_name(name: Any, row: int) -> str:
    """What a pair is called: its id, or its row if it has none."""
    return f"row {row}" if name is None or name == "" else str(name)


def _cell(name: Any) -> Any:
    return escaped(name) if isinstance(name, str) else name


def _texts(column: NDArray[np.float32]) -> NDArray[np.str_]:
    """Numbers as texts; of pairs that were left out, empty ones."""
    return np.where(np.isnan(column), "", np.char.mod("%.6g", column.astype(np.float64)))


def _id_column(names: NDArray[Any], arrow: Any) -> Any:
    """All ids at once, so that every part of the table has the same type."""
    try:
        return arrow.array(names)
    except arrow.ArrowException:  # whole numbers among texts
        return arrow.array([None if name is None else str(name) for name in names])
