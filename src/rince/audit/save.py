"""The files of an audit: a table of all pairs, a record of the findings, and a page to look at."""

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rince._support.atomic_files import atomic_results, check_out_folder, finish_results
from rince.audit.output.groups import GroupRate, group_rates, group_texts
from rince.audit.output.suspects import Columns, write_suspects
from rince.audit.output.table import RESULTS, pair_name, table_record, write_csv, write_parquet
from rince.errors import ExistingFile, UsageError
from rince.pairs.matrix import one_dimensional
from rince.report.gallery import gallery_of
from rince.report.page import audit_data, audit_page

if TYPE_CHECKING:
    from rince.audit.result import Audit


def check_folder(folder: str | os.PathLike[str], table: str, force: bool) -> Path:
    """Refuse before the work, not after it."""
    if table not in ("csv", "parquet"):
        raise UsageError(f"the table must be csv or parquet, got {table!r}")
    folder = Path(folder)
    check_out_folder(folder, "the audit", ("audit.csv", "audit.json", "audit.html"))
    finish_results(folder)
    there = [name for name in RESULTS if (folder / name).exists()]
    if there and not force:
        raise ExistingFile(
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
    groups: ArrayLike | None = None,
    marks: Mapping[int, str] | None = None,
    facts: Mapping[str, Any] | None = None,
    columns: tuple[str, str] = ("a", "b"),
    others: Callable[[NDArray[np.int64]], Columns] | None = None,
) -> None:
    """Write ``audit.csv`` (or ``.parquet``), ``suspects.csv``, ``audit.json`` and ``audit.html`` into a folder.

    Args:
        result: The audit.
        folder: Where to write; it is made if it is not there.
        fdr: The share of false alarms to expect among the flagged pairs.
        ids: Names of the pairs.
        show_a, show_b: What the page shows of either side: an array or a tensor of images, or a list of texts, images
            (arrays, tensors or of Pillow) or paths of pictures, sounds and videos.
        truth: Whether each pair is truly wrong, marked in the page.
        table: ``"csv"`` or ``"parquet"``.
        title: Heading of the page.
        force: Overwrite earlier results.
        groups: One value per pair, such as its source: the noise rate of every group is reported.
        marks: Row -> "keep", "wrong" or "unsure": what an earlier review said, shown in the page.
        facts: Further entries of ``audit.json``.
        columns: Names of the two sides, for ``suspects.csv``.
        others: Further columns of ``suspects.csv`` for some rows, see ``other_columns``.

    Raises:
        UsageError: A column has not one value per pair.
        FileExistsError: There are results already, and ``force`` is not set.
    """
    from rince.audit.result import as_record

    folder = check_folder(folder, table, force)
    n = len(result)
    names = None if ids is None else one_dimensional(ids)
    truly = None if truth is None else np.asarray(truth).astype(bool)
    for what, values in (("ids", names), ("truth", truly)):
        if values is not None and values.shape != (n,):
            raise UsageError(f"{what} must have one value per pair: expected ({n},), got {values.shape}")
    first, second = gallery_of(show_a, n, "show_a"), gallery_of(show_b, n, "show_b")
    name_of: Callable[[int], str] = str if names is None else lambda i: pair_name(names[i], i)
    rates = None if groups is None else group_rates(result, groups, fdr)
    grouped = None if groups is None or rates is None else (group_texts(groups), rates)
    page = audit_page(audit_data(result, title, fdr, name_of, first, second, truly, grouped, marks))
    record = {**as_record(result, fdr), **(facts or {}), **group_record(rates)}
    with atomic_results(folder, RESULTS) as new:
        path = new / f"audit.{table}"
        (write_csv if table == "csv" else write_parquet)(path, result, _flags(result, fdr), names)
        record |= table_record(path)
        write_suspects(new / "suspects.csv", result, fdr, name_of, (first, second), columns, others)
        (new / "audit.json").write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
        (new / "audit.html").write_text(page, encoding="utf-8", errors="replace")


def _flags(result: "Audit", fdr: float) -> NDArray[np.bool_]:
    flags = np.zeros(len(result), dtype=bool)
    flags[result.flag(fdr)] = True
    return flags


def group_record(rates: list[GroupRate] | None) -> dict[str, Any]:
    if rates is None:
        return {}
    return {"groups": [{**one._asdict(), "interval": list(one.interval), "unusual": one.unusual} for one in rates]}
