"""The trust in pairs from a table: that of an audit, or any column of numbers from 0 to 1."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rince.audit.input.arrays import naming, values
from rince.audit.input.source import TABLES, Source, source
from rince.audit.input.tables import column_names, listed, number_batches
from rince.errors import UsageError
from rince.trust.weights import check_weights

NAMES = ("id", "ids")
TABLES_OF_AUDITS = ("audit.csv", "audit.parquet", "trust.csv")


def read_trust(where: str | os.PathLike[str], pairs: int, names: Sequence[Any] | None = None) -> NDArray[np.float32]:
    """The trust in every pair, from a file.

    A table's column ``trust`` is taken as it is, ``p_wrong`` (of an audit) as ``1 - p_wrong``, with 0 for pairs that
    the audit left out; ``FILE:COLUMN`` names any other column. Rows are matched by the column ``id`` where pairs have
    names, and otherwise by their order.

    Args:
        where: ``audit/``, ``audit/audit.csv``, ``table.parquet:column``, or an .npy file with one number per pair.
        pairs: How many pairs there are.
        names: What the table calls the pairs, in their order; None if their numbers are their names.

    Returns:
        One weight in [0, 1] per pair.

    Raises:
        UsageError: The table has other pairs than these, or something else than numbers from 0 to 1.

    Example:
        >>> np.save("weights.npy", np.array([1.0, 0.2, 0.9]))
        >>> rince.trust.read_trust("weights.npy", pairs=3).round(1).tolist()
        [1.0, 0.20000000298023224, 0.8999999761581421]
    """
    place = _source(where)
    with naming(place.path):
        if place.kind in TABLES:
            weights, ids = _of_table(place)
        else:
            weights, ids = np.asarray(values(place), dtype=np.float32), None
    rows = _rows(place, len(weights), ids, pairs, names)
    return check_weights(weights if rows is None else weights[rows], str(place))


def _source(where: str | os.PathLike[str]) -> Source:
    folder = Path(where)
    if folder.is_dir() and folder.suffix != ".parquet":
        found = [folder / name for name in TABLES_OF_AUDITS if (folder / name).exists()]
        if not found:
            raise UsageError(f"{folder} holds no {', '.join(TABLES_OF_AUDITS)}: name the table itself")
        return source(str(found[0]))
    return source(os.fspath(where))


def _of_table(place: Source) -> tuple[NDArray[np.float32], NDArray[Any] | None]:
    """The trust in the rows of a table, and their ids where it has some."""
    there = column_names(place)
    column = place.column or next((name for name in ("trust", "p_wrong") if name in there), None)
    if column is None:
        raise UsageError(
            f"{place.path} has the columns {listed(there)}, and neither trust nor p_wrong: name one, as "
            f"{place.path}:{there[-1]}"
        )
    if column == "p_wrong":
        _check_useful(place.path)
    blocks = list(number_batches(place._replace(column=column)))
    numbers = np.concatenate(blocks) if blocks else np.empty((0, 1), np.float32)
    if numbers.shape[1] != 1:
        raise UsageError(f"{place.path}:{column} must hold one number per pair, got {numbers.shape[1]}")
    weights = numbers[:, 0]
    if column == "p_wrong":
        weights = np.where(np.isnan(weights), 0, 1 - weights)
    name = next((name for name in NAMES if name in there), None)
    return weights, None if name is None else values(place._replace(column=name))


def _check_useful(table: Path) -> None:
    """Refuse the table of an audit that says itself that its scores say nothing."""
    record = table.with_name("audit.json")
    if not record.is_file():
        return
    try:
        useless = json.loads(record.read_text(encoding="utf-8")).get("useless", False)
    except (ValueError, AttributeError):
        return
    if useless:
        raise UsageError(
            f"{record} says that the scores behind {table.name} tell nothing about pairs, so it gives no trust: audit "
            "with --fit or with better embeddings"
        )


def _rows(
    place: Source, rows: int, ids: NDArray[Any] | None, pairs: int, names: Sequence[Any] | None
) -> NDArray[np.int64] | None:
    """For every pair its row in the table; None where they are the same."""
    if ids is not None:
        texts = [_text(value) for value in ids]
        wanted = [_text(name) for name in (range(pairs) if names is None else names)]
        if texts == wanted:
            return None
        numbered = rows == pairs and texts == [str(row) for row in range(rows)]
        if not numbered:
            return _matched(place, texts, wanted)
    if rows != pairs:
        raise UsageError(
            f"{place.path} has {rows:,} rows for {pairs:,} training pairs: it must have one row per pair, or a column "
            "id that names them"
        )
    return None


def _matched(place: Source, texts: list[str], wanted: list[str]) -> NDArray[np.int64]:
    row_of = {text: row for row, text in enumerate(texts)}
    missing = [name for name in wanted if name not in row_of]
    if missing:
        example = f"the first of them {missing[0]!r}; the table's first id is {texts[0]!r}" if texts else "it is empty"
        raise UsageError(
            f"{place.path} has no row for {len(missing):,} of the {len(wanted):,} training pairs, {example}"
        )
    if len(row_of) < len(texts):
        seen: set[str] = set()
        twice = next(text for text in texts if text in seen or seen.add(text))  # type: ignore[func-returns-value]
        if twice in set(wanted):
            raise UsageError(f"{place.path} has the id {twice!r} more than once, so it does not tell pairs apart")
    return np.array([row_of[name] for name in wanted], dtype=np.int64)


def _text(value: Any) -> str:
    """An id as text: 7, 7.0 and "7" are the same one."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        value = int(value)
    return str(value)
