"""Columns of tables, read in batches of rows.

A missing cell is never a reason to stop: it is NaN among numbers and None among ids and texts.
"""

import fnmatch
from collections import Counter
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from rince.audit.input.arrow_tables import ArrowTable, is_list, is_number, number_columns, open_arrow, value_column
from rince.audit.input.source import ARROW_TABLES, Source
from rince.audit.input.text_tables import cell_batches, names_of
from rince.audit.input.text_tables import is_number as reads_as_number
from rince.errors import UsageError


def column_names(where: Source) -> list[str]:
    """All columns of a table."""
    return list(open_arrow(where).schema.names) if where.kind in ARROW_TABLES else names_of(where)


class NoNumber(UsageError):
    """A cell of a table is no number where one should be."""


def number_batches(where: Source) -> Iterator[NDArray[np.float32]]:
    """The chosen columns side by side, a block of rows at a time; a column of lists is as wide as its lists."""
    if where.kind in ARROW_TABLES:
        table = open_arrow(where)
        names = _number_names(where, table)
        batches: Iterator[list[Any]] = number_columns(table, names)
    else:
        names = chosen(where, names_of(where))
        batches = cell_batches(where, names)
    start = 0
    for batch in batches:
        columns = [_numbers(column, name, where, start) for name, column in zip(names, batch, strict=True)]
        yield np.hstack(columns)
        start += len(columns[0])


def value_batches(where: Source) -> Iterator[NDArray[Any]]:
    """The one chosen column, as it is, in batches."""
    arrow = where.kind in ARROW_TABLES
    names = chosen(where, column_names(where))
    if len(names) != 1:
        raise UsageError(_which(where, names, names[0], "one"))
    if arrow:
        yield from value_column(open_arrow(where), names[0])
        return
    for batch in cell_batches(where, names):
        yield np.asarray(batch[0], dtype=object)


def chosen(where: Source, there: list[str]) -> list[str]:
    """The columns that are meant, in the order in which they are named."""
    names = there if where.column is None else [where.column]
    if where.column is not None and where.column not in there:
        patterns = [pattern.strip() for pattern in where.column.split(",")]
        names = [name for pattern in patterns for name in there if fnmatch.fnmatchcase(name, pattern)]
    if not names and where.column is not None:
        raise UsageError(f"{where.path} has no column {where.column}; it has {listed(there)}")
    often = Counter(there)
    names = list(dict.fromkeys(names))
    if (double := next((name for name in names if often[name] > 1), None)) is not None:
        raise UsageError(f"{where.path} has {often[double]} columns called {double}: give each a name of its own")
    return names


def listed(names: list[str]) -> str:
    return ", ".join(names[:20]) + (", ..." if len(names) > 20 else "")


def _which(where: Source, there: list[str], example: str, what: str = "those that hold the numbers") -> str:
    return f"{where.path} has the columns {listed(there)}: name {what} as FILE:COLUMN, such as {where.path}:{example}"


def _number_names(where: Source, table: ArrowTable) -> list[str]:
    schema = table.schema
    names = chosen(where, schema.names)
    lists = [name for name in names if is_list(schema.field(name).type)]
    if where.column is None and len(names) > 1 and not all(is_number(schema.field(name).type) for name in names):
        raise UsageError(_which(where, names, lists[0] if lists else names[0]))
    return names


def _numbers(column: Any, name: str, where: Source, start: int) -> NDArray[np.float32]:
    try:
        block = np.asarray(column, dtype=np.float32)
    except (ValueError, TypeError):
        wrong = next((row for row, cell in enumerate(column) if not (is_blank(cell) or reads_as_number(cell))), None)
        if wrong is not None:
            raise _no_number(column[wrong], name, where, start + wrong) from None
        block = np.array([np.nan if is_blank(cell) else cell for cell in column], dtype=np.float32)
    return block.reshape(len(block), -1)


def _no_number(cell: Any, name: str, where: Source, row: int) -> UsageError:
    if isinstance(cell, str) and cell.lstrip().startswith("["):
        return UsageError(
            f"{where.path} has lists written as text in column {name}: store them in a Parquet or .npy file instead, "
            "or one number per column"
        )
    text = f"{where.path} has {cell!r:.40} in column {name}, row {row}, where a number should be"
    if where.column is None:
        there = column_names(where)
        return NoNumber(f"{text}; {_which(where, there, there[-1])}")  # what is no number, such as ids, comes first
    return NoNumber(f"{text} (add --encode to audit raw texts, pictures or sounds)")


def is_blank(cell: Any) -> bool:
    return cell is None or (isinstance(cell, str) and not cell.strip())
