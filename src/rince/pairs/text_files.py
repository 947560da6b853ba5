"""Text files: CSV and TSV, JSONL, one text per line, and TMX."""

import csv
import functools
import io
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rince.errors import UsageError
from rince.pairs.files import location, opened, opened_text, written
from rince.pairs.format import WEIGHT, Format, Selection, check_no_weights, in_batches
from rince.pairs.source import TEXT_TABLES

LONGEST_CELL = 50_000_000  # characters; the csv module's own bound is 131,072, which long documents exceed
Row = tuple[int, list[str], str]


class Csv(Format):
    """CSV and TSV, also with semicolons; rows are copied byte for byte."""

    @functools.cached_property
    def fields(self) -> list[str]:
        """What the first line says, or the numbers of the columns."""
        path = location(self.where.path)
        separator = self._separator
        with opened_text(self.shards[0]) as file:
            first = next(_rows(file, separator), (0, [], ""))[1]
        if not self.where.header and first:
            return [str(place) for place in range(len(first))]
        if not first:
            raise UsageError(f"{path} is empty: the first line must name the columns")
        if _looks_like_data(first):
            shown = ", ".join(first[:4]) + (", ..." if len(first) > 4 else "")
            raise UsageError(
                f"{path} seems to have no header, its first line is {shown}: use --no-header to read that line as "
                "data, or put a line with the names of the columns above it"
            )
        return first

    @functools.cached_property
    def _separator(self) -> str:
        """That of the file name, unless another one splits the first two lines into the same number of cells."""
        usual = TEXT_TABLES[self.where.kind]
        with opened_text(self.shards[0]) as file:
            lines = list(itertools.islice(file, 20))
        for mark in (usual, *";\t|,"):
            widths = [len(row) for row in itertools.islice(_reader(lines, mark), 2)]
            if widths and widths[0] > 1 and (mark == usual or widths[0] == widths[-1]):
                return mark
        return usual

    def _body(self, shard: Path, rows: Iterator[Row]) -> str:
        """Skip the header of a shard, which must be that of the first one; its text."""
        if not self.where.header:
            return ""
        _, names, text = next(rows, (0, [], ""))
        if names != self.fields:
            raise UsageError(f"{location(shard)} has other columns than the first file: {', '.join(names[:20])}")
        return text

    def rows(self, shard: Path) -> int:
        return sum(len(batch[0]) for batch in self.read(shard, self.fields[:1]))

    def read(self, shard: Path, fields: Sequence[str], start: int = 0, stop: int | None = None) -> Iterator[list[Any]]:
        place = {name: k for k, name in reversed(list(enumerate(self.fields)))}
        places = [place[name] for name in fields]
        with opened_text(shard) as file:
            rows = _rows(file, self._separator)
            self._body(shard, rows)
            whole = (self._checked(shard, *row) for row in itertools.islice(rows, start, stop))
            yield from in_batches([row[place] for place in places] for row in whole)

    def _checked(self, shard: Path, number: int, row: list[str], _: str) -> list[str]:
        if len(row) != len(self.fields):
            cells = "1 cell" if len(row) == 1 else f"{len(row)} cells"
            raise UsageError(f"{location(shard)} has {cells} instead of {len(self.fields)} in line {number}")
        return row

    def write(self, shard: Path, target: Path, selection: Selection) -> None:
        names = self.fields
        with opened(shard) as file, written(target) as out:
            lines = iter(io.TextIOWrapper(file, encoding="utf-8", newline=""))
            first = next(lines, "")
            out.write(b"\xef\xbb\xbf" if first.startswith("\ufeff") else b"")
            rows = _rows(itertools.chain(filter(None, [first.removeprefix("\ufeff")]), lines), self._separator)
            header = self._body(shard, rows)
            if selection.weights is not None and header:
                check_no_weights(shard, names)
                header = _appended(header, f"{self._separator}{WEIGHT}")
            out.write(header.encode())
            for _, _, line in rows:
                kept, weights = selection.take(1, shard)
                if kept[0]:
                    line = line if weights is None else _appended(line, f"{self._separator}{weights[0]:.6g}")
                    out.write(line.encode())


def _rows(file: Iterable[str], separator: str) -> Iterator[Row]:
    """Number of the last line, cells, and the text of every row; blank lines at the end are not rows."""
    lines: list[str] = []

    def kept_lines() -> Iterator[str]:
        for line in file:
            lines.append(line)
            yield line

    reader = _reader(kept_lines(), separator)
    empty: list[Row] = []
    for row in reader:
        text = "".join(lines)
        lines.clear()
        if text.strip(" \r\n"):
            yield from empty
            empty.clear()
            yield reader.line_num, row, text
        else:
            empty.append((reader.line_num, row, text))


def _reader(lines: Iterable[str], separator: str) -> Any:
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_CELL))
    return csv.reader(lines, delimiter=separator)


def _appended(line: str, cell: str) -> str:
    body = line.rstrip("\r\n")
    return f"{body}{cell}{line[len(body) :]}"


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


class JsonLines(Format):
    """JSONL and NDJSON, one object per line; nested fields are named with dots. Lines are copied byte for byte."""

    @functools.cached_property
    def fields(self) -> list[str]:
        """All names in the first records; a field may be missing in some."""
        records = itertools.chain.from_iterable(map(self._records, self.shards))
        names = {name: None for record in itertools.islice(records, 100) for name in field_names(record)}
        if not names:
            raise UsageError(f"{location(self.where.path)} is empty")
        return list(names)

    def _lines(self, shard: Path) -> Iterator[tuple[int, bytes]]:
        with opened(shard) as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield number, line

    def _records(self, shard: Path) -> Iterator[dict[str, Any]]:
        for number, line in self._lines(shard):
            try:
                record = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
                error = "" if isinstance(record, dict) else f", but a {type(record).__name__}"
            except ValueError as reason:
                error = f" ({reason})"
            if error:
                way = ": write one object per line (jq -c '.[]' turns an array into such lines)"
                raise UsageError(f"{location(shard)} has no JSON object in line {number}{error}{way}")
            yield record

    def rows(self, shard: Path) -> int:
        return sum(1 for _ in self._lines(shard))

    def read(self, shard: Path, fields: Sequence[str], start: int = 0, stop: int | None = None) -> Iterator[list[Any]]:
        records = itertools.islice(self._records(shard), start, stop)
        yield from in_batches([nested(record, name) for name in fields] for record in records)

    def write(self, shard: Path, target: Path, selection: Selection) -> None:
        with written(target) as out:
            for _, line in self._lines(shard):
                kept, weights = selection.take(1, shard)
                if not kept[0]:
                    continue
                if weights is not None:
                    body = line.rstrip()
                    check_no_weights(shard, list(json.loads(body.removeprefix(b"\xef\xbb\xbf"))))
                    comma = b"" if body[:-1].rstrip().endswith(b"{") else b", "
                    line = body[:-1] + comma + f'"{WEIGHT}": {weights[0]:.6g}}}\n'.encode()
                out.write(line)


def field_names(record: dict[str, Any], prefix: str = "") -> list[str]:
    """Names of all values of a JSON object, nested ones with dots."""
    found = []
    for name, value in record.items():
        found += field_names(value, f"{prefix}{name}.") if isinstance(value, dict) and value else [f"{prefix}{name}"]
    return found


def nested(record: Any, name: str) -> Any:
    """A value of a JSON object by its name with dots; None if it is missing."""
    if isinstance(record, dict) and name in record:
        return record[name]
    for part in name.split("."):
        if isinstance(record, list) and part.isdigit():
            record = dict(enumerate(record)).get(int(part))
        else:
            record = record.get(part) if isinstance(record, dict) else None
    return record


class Lines(Format):
    """Text files with one text per line, such as the two sides of a parallel corpus."""

    @property
    def fields(self) -> list[str]:
        return []

    def rows(self, shard: Path) -> int:
        with opened(shard) as file:
            return sum(1 for _ in file)

    def read(
        self, shard: Path, fields: Sequence[str] = (), start: int = 0, stop: int | None = None
    ) -> Iterator[list[Any]]:
        with opened(shard) as file:
            lines = itertools.islice(file, start, stop)
            yield from in_batches([line.decode("utf-8-sig", "replace").rstrip("\r\n") or None] for line in lines)

    def write(self, shard: Path, target: Path, selection: Selection) -> None:
        with opened(shard) as file, written(target) as out:
            for line in file:
                if selection.take(1, shard)[0][0]:
                    out.write(line)


_UNIT = re.compile(rb"<tu[\s>].*?</tu\s*>", re.DOTALL)
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


class Tmx(Format):
    """Translation memories: one row per ``<tu>``, one field per language. Units are copied byte for byte."""

    @functools.cached_property
    def fields(self) -> list[str]:
        for shard in self.shards:
            for _, unit in self._units(shard):
                if unit:
                    return list(self._segments(shard, unit))
        raise UsageError(f"{location(self.where.path)} is empty")

    def _units(self, shard: Path) -> Iterator[tuple[bytes, bytes]]:
        """Every unit and the bytes before it; at the end, the bytes after the last one and no unit."""
        buffer = b""
        with opened(shard) as file:
            while chunk := file.read(1 << 20):
                buffer += chunk
                end = 0
                for match in _UNIT.finditer(buffer):
                    yield buffer[end : match.start()], match[0]
                    end = match.end()
                buffer = buffer[end:]
        if b"</tmx" not in buffer:
            raise UsageError(f"{location(shard)} is not a complete TMX file in UTF-8: it does not end in </tmx>")
        yield buffer, b""

    def _segments(self, shard: Path, unit: bytes) -> dict[str, str]:
        from xml.etree import ElementTree

        try:
            variants = ElementTree.fromstring(unit).findall("tuv")
        except ElementTree.ParseError as error:
            raise UsageError(f"{location(shard)} has a <tu> that cannot be read: {error}") from error
        segments = {}
        for variant in variants:
            segment = variant.find("seg")
            name = variant.get(_LANGUAGE) or variant.get("lang") or ""
            segments[name] = "" if segment is None else "".join(segment.itertext())
        return segments

    def rows(self, shard: Path) -> int:
        return sum(bool(unit) for _, unit in self._units(shard))

    def read(self, shard: Path, fields: Sequence[str], start: int = 0, stop: int | None = None) -> Iterator[list[Any]]:
        units = itertools.islice((unit for _, unit in self._units(shard) if unit), start, stop)
        segments = (self._segments(shard, unit) for unit in units)
        yield from in_batches([row.get(name) for name in fields] for row in segments)

    def write(self, shard: Path, target: Path, selection: Selection) -> None:
        with written(target) as out:
            for before, unit in self._units(shard):
                kept, weights = selection.take(1 if unit else 0, shard)
                if unit and not kept[0]:
                    out.write(before.rstrip())
                    continue
                out.write(before)
                if unit and weights is not None:
                    head, rest = unit.split(b">", 1)
                    unit = head + f'><prop type="{WEIGHT}">{weights[0]:.6g}</prop>'.encode() + rest
                out.write(unit)
