"""The files of an audit: a table of all pairs, a record of the findings, and a page to look at."""

import csv
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rince._support.atomic_files import write_text, written_whole
from rince._support.optional_imports import require
from rince.report.audit_page import audit_page
from rince.report.gallery import shown

if TYPE_CHECKING:
    from rince.audit.verdict import Audit

ROWS = 100_000


def check_folder(folder: str | os.PathLike[str], table: str, force: bool) -> Path:
    """Refuse before the work, not after it."""
    if table not in ("csv", "parquet"):
        raise ValueError(f"the table must be csv or parquet, got {table!r}")
    folder = Path(folder)
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file: name a folder for the audit")
    there = [name for name in (f"audit.{table}", "audit.json", "audit.html") if (folder / name).exists()]
    if there and not force:
        raise FileExistsError(
            f"{folder / there[0]} is already there: overwrite it with force=True (--force on the command line), or "
            "name another folder"
        )
    return folder


def save(
    result: "Audit",
    folder: str | os.PathLike[str],
    *,
    fdr: float = 0.1,
    ids: ArrayLike | None = None,
    show_a: Any = None,
    show_b: Any = None,
    truth: ArrayLike | None = None,
    table: str = "csv",
    title: str = "Audit of pairs",
    force: bool = False,
) -> None:
    from rince.audit.verdict import as_record

    folder = check_folder(folder, table, force)
    n = len(result)
    names = None if ids is None else np.asarray(ids)
    marks = None if truth is None else np.asarray(truth).astype(bool)
    for what, values in (("ids", names), ("truth", marks)):
        if values is not None and values.shape != (n,):
            raise ValueError(f"{what} must have one value a pair: expected ({n},), got {values.shape}")
    first, second = shown(show_a, n, "show_a"), shown(show_b, n, "show_b")
    name_of: Callable[[int], str] = str if names is None else lambda i: _name(names[i], i)
    flags = np.zeros(n, dtype=bool)
    flags[result.flag(fdr)] = True
    page = audit_page(result, title, fdr, name_of, first, second, marks)
    with written_whole(folder / f"audit.{table}") as path:
        (_write_csv if table == "csv" else _write_parquet)(path, result, flags, names)
    write_text(folder / "audit.json", json.dumps(as_record(result, fdr), indent=2) + "\n")
    write_text(folder / "audit.html", page)


def _name(name: Any, row: int) -> str:
    return f"row {row}" if name is None or name == "" else str(name)


def _write_csv(path: Path, result: "Audit", flags: NDArray[np.bool_], names: NDArray[Any] | None) -> None:
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "score", "p_wrong", "flagged"])
        for start in range(0, len(result), ROWS):
            part = slice(start, min(len(result), start + ROWS))
            ids = range(part.start, part.stop) if names is None else names[part]
            scores, chances = _texts(result.scores[part]), _texts(result.p_wrong[part])
            writer.writerows(zip(ids, scores, chances, flags[part].astype(np.int8), strict=True))


def _texts(values: NDArray[np.float32]) -> NDArray[np.str_]:
    """Numbers as texts; of pairs that were left out, empty ones."""
    return np.where(np.isnan(values), "", np.char.mod("%.6g", values.astype(np.float64)))


def _write_parquet(path: Path, result: "Audit", flags: NDArray[np.bool_], names: NDArray[Any] | None) -> None:
    arrow, parquet = require("pyarrow", "audit"), require("pyarrow.parquet", "audit")
    writer = None
    column = None if names is None else _id_column(names, arrow)
    try:
        for start in range(0, len(result), ROWS):
            part = slice(start, min(len(result), start + ROWS))
            ids = np.arange(part.start, part.stop) if column is None else column[part]
            scores, chances = (arrow.array(x[part], from_pandas=True) for x in (result.scores, result.p_wrong))
            rows = arrow.table({"id": ids, "score": scores, "p_wrong": chances, "flagged": flags[part]})
            writer = writer or parquet.ParquetWriter(path, rows.schema)
            writer.write_table(rows)
    finally:
        if writer is not None:
            writer.close()


def _id_column(names: NDArray[Any], arrow: Any) -> Any:
    """All ids at once, so that every part of the table has the same type."""
    try:
        return arrow.array(names)
    except arrow.ArrowException:  # whole numbers among texts
        return arrow.array([None if name is None else str(name) for name in names])
