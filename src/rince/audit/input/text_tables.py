"""Tables of text (.csv, .tsv), read in batches of rows."""

import csv
from collections.abc import Iterator
from typing import Any

from rince.audit.input.source import TEXT_TABLES, Source
from rince.errors import UsageError

ROWS = 8192
LONGEST_CELL = 50_000_000  # characters; the csv module's own bound is 131,072, which long documents exceed


def names_of(where: Source) -> list[str]:
    """The columns: what the first line says, or their numbers."""
    with open(where.path, newline="", encoding="utf-8-sig") as file:
        first: list[str] = next(_reader(where, file), [])
    if not where.header and first:
        return [str(place) for place in range(len(first))]
    if not first:
        raise UsageError(f"{where.path} is empty: the first line must name the columns")
    if _looks_like_data(first):
        shown = ", ".join(first[:4]) + (", ..." if len(first) > 4 else "")
        raise UsageError(
            f"{where.path} seems to have no header, its first line is {shown}: use --no-header to read that line as "
            "data, or put a line with the names of the columns above it"
        )
    return first


def cell_batches(where: Source, names: list[str]) -> Iterator[list[Any]]:
    """The cells of these columns, some rows at a time."""
    there = names_of(where)
    first: dict[str, int] = {}
    for place, name in enumerate(there):
        first.setdefault(name, place)
    places = [first[name] for name in names]
    with open(where.path, newline="", encoding="utf-8-sig") as file:
        reader = _reader(where, file)
        if where.header:
            next(reader)
        rows: list[list[str]] = []
        for row in reader:
            if len(row) != len(there):
                raise UsageError(f"{where.path} has {len(row)} cells instead of {len(there)} in line {reader.line_num}")
            rows.append([row[place] for place in places])
            if len(rows) == ROWS:
                yield list(zip(*rows, strict=True))
                rows = []
        if rows:
            yield list(zip(*rows, strict=True))


def _reader(where: Source, file: Any) -> Any:
    csv.field_size_limit(LONGEST_CELL)
    return csv.reader(file, delimiter=TEXT_TABLES[where.kind])


def _looks_like_data(first: list[str]) -> bool:
    numbers = [cell for cell in first if is_number(cell)]
    fractions = [cell for cell in numbers if not cell.strip().isdigit()]
    if len(first) > 1 and first == [str(place) for place in range(len(first))]:
        return False  # what pandas calls columns that have no names
    return len(numbers) == len(first) or 2 * len(fractions) > len(first)


def is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (ValueError, TypeError):
        return False
    return True
