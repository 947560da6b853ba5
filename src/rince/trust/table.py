"""Weights of pairs from the table of an audit, or from any column of numbers from 0 to 1."""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rince._support.csv_cells import unescaped
from rince.audit.save import saved_table
from rince.errors import UsageError
from rince.pairs.columns import column_names, listed, number_batches, values
from rince.pairs.files import location
from rince.pairs.format import naming
from rince.pairs.source import TABLES, Source
from rince.pairs.source import source as parse_source
from rince.trust.weights import check_weights

NAMES = ("id", "ids")
OWN_TABLE = "trust.csv"
"""Table of the weights that a training run estimated."""


def read_weights(where: str | os.PathLike[str], pairs: int, names: Sequence[Any] | None = None) -> NDArray[np.float32]:
    """The weight of every pair, from a file.

    A column ``weight`` (of an audit, or ``trust``) is used unchanged, and ``p_wrong`` (of an audit before version 0.3)
    as ``1 - p_wrong``, with 0 for pairs that the audit left out; ``FILE:COLUMN`` names any other column. Rows are
    matched by the column ``id`` where pairs have ids, and otherwise by their order.

    Args:
        where: ``audit/``, ``audit/audit.csv``, ``table.parquet:column``, or an .npy file with one number per pair.
        pairs: Number of pairs.
        names: Ids of the pairs in the table, in their order. Default: their row numbers.

    Returns:
        One weight in [0, 1] per pair.

    Raises:
        UsageError: The table has other pairs, or values outside of [0, 1].

    Example:
        >>> np.save("weights.npy", np.array([1.0, 0.2, 0.9]))
        >>> rince.trust.read_weights("weights.npy", pairs=3).round(1).tolist()
        [1.0, 0.20000000298023224, 0.8999999761581421]
    """
    source = _source(where)
    with naming(source.path):
        if source.kind in TABLES:
            weights, ids = _of_table(source)
        else:
            weights, ids = np.asarray(values(source), dtype=np.float32), None
    rows = _rows(source, len(weights), ids, pairs, names)
    return check_weights(weights if rows is None else weights[rows], str(source))


def _source(where: str | os.PathLike[str]) -> Source:
    folder = Path(where)
    if folder.is_dir() and folder.suffix != ".parquet":
        table = folder / OWN_TABLE
        return parse_source(str(table if table.is_file() else saved_table(folder)[0]))
    return parse_source(os.fspath(where))


def _of_table(source: Source) -> tuple[NDArray[np.float32], NDArray[Any] | None]:
    """Weights of the rows of a table, and their ids, if it has any."""
    columns = column_names(source)
    column = source.column or next((name for name in ("weight", "trust", "p_wrong") if name in columns), None)
    if column is None:
        raise UsageError(
            f"{source.path} has the columns {listed(columns)}, and neither weight nor p_wrong: name one, as "
            f"{source.path}:{columns[-1]}"
        )
    if column == "p_wrong" or (column == "weight" and "p_wrong" in columns):
        _check_useful(source.path)
    blocks = list(number_batches(source._replace(column=column)))
    numbers = np.concatenate(blocks) if blocks else np.empty((0, 1), np.float32)
    if numbers.shape[1] != 1:
        raise UsageError(f"{source.path}:{column} must hold one number per pair, got {numbers.shape[1]}")
    weights = numbers[:, 0]
    if column == "p_wrong":
        weights = np.where(np.isnan(weights), 0, 1 - weights)
    name = next((name for name in NAMES if name in columns), None)
    ids = None if name is None else values(source._replace(column=name))
    if ids is not None and source.path.name in ("audit.csv", OWN_TABLE):
        ids = np.array([unescaped(cell) if isinstance(cell, str) else cell for cell in ids], dtype=object)
    return weights, ids


def _check_useful(table: Path) -> None:
    """Raise for the table of an audit with uninformative scores, or one that does not match its ``audit.json``."""
    path, record = saved_table(table)
    if record.get("uninformative", record.get("useless")):
        raise UsageError(
            f"{location(path.with_name('audit.json'))} says that the scores behind {path.name} tell nothing about "
            "pairs, so it gives no weights: audit with --fit or with better embeddings"
        )


def _rows(
    source: Source, rows: int, ids: NDArray[Any] | None, pairs: int, names: Sequence[Any] | None
) -> NDArray[np.int64] | None:
    """The row of every pair in the table; None if they are in the same order."""
    if ids is not None:
        texts = [_text(value) for value in ids]
        expected = [_text(name) for name in (range(pairs) if names is None else names)]
        if texts == expected:
            return None
        numbered = rows == pairs and texts == [str(row) for row in range(rows)]
        if not numbered:
            return _matched(source, texts, expected)
    if rows != pairs:
        raise UsageError(
            f"{source.path} has {rows:,} rows for {pairs:,} training pairs: it must have one row per pair, or a column "
            "id that names them"
        )
    return None


def _matched(source: Source, texts: list[str], expected: list[str]) -> NDArray[np.int64]:
    row_of = {text: row for row, text in enumerate(texts)}
    missing = [name for name in expected if name not in row_of]
    if missing:
        example = f"the first of them {missing[0]!r}; the table's first id is {texts[0]!r}" if texts else "it is empty"
        raise UsageError(
            f"{source.path} has no row for {len(missing):,} of the {len(expected):,} training pairs, {example}"
        )
    _check_unique(source, texts, expected)
    return np.array([row_of[name] for name in expected], dtype=np.int64)


def _check_unique(source: Source, texts: list[str], expected: list[str]) -> None:
    """Reject ids of training pairs that occur twice in the table."""
    counts = Counter(texts)
    duplicate = next((text for text in expected if counts[text] > 1), None)
    if duplicate is not None:
        raise UsageError(f"{source.path} has the id {duplicate!r} more than once, so it does not tell pairs apart")


def _text(value: Any) -> str:
    """An id as text: 7, 7.0 and "7" are the same id."""
    if isinstance(value, (float, np.floating)) and float(value).is_integer():
        value = int(value)
    return str(value)


def weights_by_id(where: str | os.PathLike[str]) -> dict[str, float]:
    """Weights of pairs by their ids, for a custom loader.

    Args:
        where: A table of weights as for :func:`read_weights`; it must have a column ``id``.

    Returns:
        A dictionary from the id, as text, to the weight in [0, 1].

    Raises:
        UsageError: The table has no column ``id``, an id twice, or weights outside of [0, 1].

    Example:
        >>> from pathlib import Path
        >>> _ = Path("weights.csv").write_text("id,weight\\n00001,0.9\\n00002,0.1\\n")
        >>> rince.trust.weights_by_id("weights.csv")["00001"]
        0.8999999761581421
    """
    source = _source(where)
    with naming(source.path):
        weights, ids = _of_table(source) if source.kind in TABLES else (None, None)
    if weights is None or ids is None:
        raise UsageError(f"{source} needs a column id to look weights up by")
    texts = [_text(value) for value in ids]
    by_id = dict(zip(texts, check_weights(weights, str(source)).tolist(), strict=True))
    _check_unique(source, texts, texts)
    return by_id


class KeepSample:
    """Whether a sample of a WebDataset pipeline is kept: ``webdataset.WebDataset(urls).select(KeepSample("audit"))``.

    Args:
        where: A table of weights by id, as for :func:`weights_by_id`, or the ``kept_ids`` of ``rince clean``.
        min_weight: Keep samples with at least this weight. Default: 0.5.

    Example:
        >>> from pathlib import Path
        >>> _ = Path("kept_ids.txt").write_text("00001\\n00003\\n")
        >>> keep = rince.trust.KeepSample("kept_ids.txt")
        >>> [keep({"__key__": key}) for key in ("00001", "00002", "shard/00003")]
        [True, False, True]
    """

    def __init__(self, where: str | os.PathLike[str], min_weight: float = 0.5):
        path = Path(where)
        if path.name == "kept_ids.parquet":
            self.kept = frozenset(values(parse_source(f"{where}:id")).tolist())
        elif path.suffix == ".txt":
            self.kept = frozenset(path.read_text(encoding="utf-8").splitlines())
        else:
            self.kept = frozenset(key for key, weight in weights_by_id(where).items() if weight >= min_weight)

    def __call__(self, sample: Mapping[str, Any]) -> bool:
        key = str(sample["__key__"])
        return key in self.kept or key.rsplit("/", 1)[-1] in self.kept
