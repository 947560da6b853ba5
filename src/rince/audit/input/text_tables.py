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
        _, first = next(rows_of(where, file), (0, []))
    if not where.header and first:
        return [str(place) for place in range(len(first))]
    if not first:
        raise UsageError(f"{where.path} is empty: the first line must name the columns")
    if len(first) == 1 and (mark := _other_separator(where, first[0])) is not None:
        raise UsageError(
            f"{where.path} has its cells separated by {mark!r}, where {TEXT_TABLES[where.kind]!r} should be: save it "
            "with that, or name it .tsv if these are tabs"
        )
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
        lines = rows_of(where, file)
        if where.header:
            next(lines)
        rows: list[list[str]] = []
        for number, row in lines:
            if len(row) != len(there):
                raise UsageError(f"{where.path} has {len(row)} cells instead of {len(there)} in line {number}")
            rows.append([row[place] for place in places])
            if len(rows) == ROWS:
                yield list(zip(*rows, strict=True))
                rows = []
        if rows:
            yield list(zip(*rows, strict=True))


def rows_of(where: Source, file: Any) -> Iterator[tuple[int, list[str]]]:
    """The rows, and the number of the line that each ends in; empty lines at the end are none."""
    reader = csv.reader(file, delimiter=TEXT_TABLES[where.kind])
    empty: list[int] = []
    while True:
        before = csv.field_size_limit(LONGEST_CELL)  # of the whole process, so only as long as it is needed
        try:
            row = next(reader)
        except StopIteration:
            return
        finally:
            csv.field_size_limit(before)
        if not row:
            empty.append(reader.line_num)
            continue
        yield from ((number, []) for number in empty)
        empty.clear()
        yield reader.line_num, row


def _other_separator(where: Source, first: str) -> str | None:
    """What parts the first two lines into the same number of cells, where there seems to be one column."""
    with open(where.path, newline="", encoding="utf-8-sig") as file:
        lines = [line for _, line in zip(range(2), csv.reader(file, delimiter="\0"), strict=False)]
    second = TEXT_TABLES[where.kind].join(lines[1]) if len(lines) > 1 else ""
    return next((mark for mark in ";\t|," if 0 < first.count(mark) == second.count(mark)), None)


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
