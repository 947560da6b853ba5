"""Text files: CSV and TSV, JSONL, one text per line, and TMX."""

import csv
import functools
import io
import itertools
import json
import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from rince.errors import UsageError
from rince.pairs.files import location, opened, written
from rince.pairs.format import WEIGHT, Format, Selection, check_no_weights, in_batches

LONGEST_CELL = 50_000_000  # characters; long documents exceed the csv module's limit of 131,072
MARK = "\ufeff"  # byte order mark
Row = tuple[int, list[str], str]


class Records(Format):
    """Text files that are read record by record. Kept records are copied byte for byte."""

    @abstractmethod
    def _records(self, shard: Path) -> Iterator[tuple[Any, Any, Any]]:
        """The text before every record, the record, and its text; at the end, the text there and None."""

    @abstractmethod
    def _cells(self, shard: Path, record: Any, fields: Sequence[str]) -> Sequence[Any]:
        """Values of a record."""

    def _weighted(self, shard: Path, before: Any, text: Any, weight: str) -> tuple[Any, Any]:
        """The text before a record and its own, with a weight; both may be empty."""
        return before, text

    def rows(self, shard: Path) -> int:
        return sum(record is not None for _, record, _ in self._records(shard))

    def read(
        self, shard: Path, fields: Sequence[str] = (), start: int = 0, stop: int | None = None
    ) -> Iterator[list[Any]]:
        records = (record for _, record, _ in self._records(shard) if record is not None)
        yield from in_batches(self._cells(shard, record, fields) for record in itertools.islice(records, start, stop))

    def write(self, shard: Path, target: Path, selection: Selection) -> None:
        with written(target) as out:
            for before, record, text in self._records(shard):
                kept, weights = selection.take(int(record is not None), shard)
                if weights is not None:
                    before, text = self._weighted(shard, before, text, f"{weights[0]:.6g}" if len(weights) else "")
                if before:
                    out.write(before.encode() if isinstance(before, str) else before)
                if record is not None and kept[0]:
                    out.write(text.encode() if isinstance(text, str) else text)


class Csv(Records):
    """CSV and TSV, also with semicolons; rows are copied byte for byte."""

    @functools.cached_property
    def fields(self) -> list[str]:
        """Names in the first line, or column numbers."""
        path = location(self.where.path)
        first = next(_rows(self._first_lines, self._separator), (0, [], ""))[1]
        if not self.where.header and first:
            return [str(index) for index in range(len(first))]
        if not first:
            raise UsageError(f"{path} is empty: the first line must name the columns")
        if _looks_like_data(first):
            cells = ", ".join(first[:4]) + (", ..." if len(first) > 4 else "")
            raise UsageError(
                f"{path} seems to have no header, its first line is {cells}: use --no-header to read that line as "
                "data, or put a line with the names of the columns above it"
            )
        return first

    @functools.cached_property
    def _first_lines(self) -> list[str]:
        with opened(self.shards[0]) as file:
            return list(itertools.islice(io.TextIOWrapper(file, encoding="utf-8-sig", newline=""), 20))

    @functools.cached_property
    def _separator(self) -> str:
        """Separator by file suffix, unless another one splits the first two lines into the same number of cells."""
        default = "\t" if self.where.kind == ".tsv" else ","
        for mark in (default, *";\t|,"):
            widths = [len(row) for row in itertools.islice(_reader(self._first_lines, mark), 2)]
            if widths and widths[0] > 1 and (mark == default or widths[0] == widths[-1]):
                return mark
        return default

    def _records(self, shard: Path) -> Iterator[tuple[str, list[str] | None, str]]:
        # Before the file is opened: a file in memory has one position for all readers.
        fields, separator = self.fields, self._separator
        with opened(shard) as file:
            lines = iter(io.TextIOWrapper(file, encoding="utf-8", newline=""))
            first = next(lines, "")
            rows = _rows(itertools.chain(filter(None, [first.removeprefix(MARK)]), lines), separator)
            before = MARK if first.startswith(MARK) else ""
            if self.where.header:
                _, names, text = next(rows, (0, [], ""))
                if names != fields:
                    raise UsageError(
                        f"{location(shard)} has other columns than the first file: {', '.join(names[:20])}"
                    )
                before += text
            for number, row, text in rows:
                if len(row) != len(fields):
                    cells = "1 cell" if len(row) == 1 else f"{len(row)} cells"
                    raise UsageError(f"{location(shard)} has {cells} instead of {len(fields)} in line {number}")
                yield before, row, text
                before = ""
            yield before, None, ""

    def _cells(self, shard: Path, record: list[str], fields: Sequence[str]) -> list[str]:
        return [record[self._column_index[name]] for name in fields]

    @functools.cached_property
    def _column_index(self) -> dict[str, int]:
        return {name: k for k, name in reversed(list(enumerate(self.fields)))}

    def _weighted(self, shard: Path, before: str, text: str, weight: str) -> tuple[str, str]:
        if before.removeprefix(MARK):
            check_no_weights(shard, self.fields)
            before = _appended(before, f"{self._separator}{WEIGHT}")
        return before, _appended(text, f"{self._separator}{weight}") if weight else text


def _rows(file: Iterable[str], separator: str) -> Iterator[Row]:
    """Number of the last line, cells, and the text of every row; blank lines at the end are not rows."""
    lines: list[str] = []

    def kept_lines() -> Iterator[str]:
        for line in file:
            lines.append(line)
            yield line

    reader = _reader(kept_lines(), separator)
    empty: list[Row] = []
    first = 1
    for row in reader:
        if len(lines) > 1:
            _check_quotes(lines, separator, first)
        first += len(lines)
        text = "".join(lines)
        lines.clear()
        if text.strip(" \r\n"):
            yield from empty
            empty.clear()
            yield reader.line_num, row, text
        else:
            empty.append((reader.line_num, row, text))


def _reader(lines: Iterable[str], separator: str, strict: bool = False) -> Any:
    csv.field_size_limit(max(csv.field_size_limit(), LONGEST_CELL))
    return csv.reader(lines, delimiter=separator, strict=strict)


def _check_quotes(lines: list[str], separator: str, first: int) -> None:
    """Raise for a row of several lines that a single quotation mark has joined."""
    try:
        list(_reader(lines, separator, strict=True))
    except csv.Error as error:
        raise csv.Error(
            f"a quotation mark in line {first} joins it with the lines up to {first + len(lines) - 1}; write quotation "
            "marks in cells twice, or store each column as a .txt file with one text per line"
        ) from error


def _appended(line: str, cell: str) -> str:
    body = line.rstrip("\r\n")
    return f"{body}{cell}{line[len(body) :]}"


def _looks_like_data(first: list[str]) -> bool:
    numbers = [cell for cell in first if is_number(cell)]
    fractions = [cell for cell in numbers if not cell.strip().isdigit()]
    if len(first) > 1 and first == [str(index) for index in range(len(first))]:
        return False  # how pandas names unnamed columns
    return len(numbers) == len(first) or 2 * len(fractions) > len(first)


def is_number(cell: Any) -> bool:
    try:
        float(cell)
    except (ValueError, TypeError):
        return False
    return True


class JsonLines(Records):
    """JSONL and NDJSON, one object per line; nested fields are named with dots. Lines are copied byte for byte."""

    @functools.cached_property
    def fields(self) -> list[str]:
        """All names in the first records; a field may be missing in some of them."""
        lines = ((shard, *line) for shard in self.shards for _, line, _ in self._records(shard))
        records = (self._record(*line) for line in itertools.islice(lines, 100))
        names = {name: None for record in records for name in field_names(record)}
        if not names:
            raise UsageError(f"{location(self.where.path)} is empty")
        return list(names)

    def _records(self, shard: Path) -> Iterator[tuple[bytes, tuple[int, bytes], bytes]]:
        with opened(shard) as file:
            yield from ((b"", (number, line), line) for number, line in enumerate(file, 1) if line.strip())

    def _record(self, shard: Path, number: int, line: bytes) -> dict[str, Any]:
        try:
            record = json.loads(line.decode("utf-8-sig" if number == 1 else "utf-8"))
            error = "" if isinstance(record, dict) else f", but a {type(record).__name__}"
        except ValueError as reason:
            error = f" ({reason})"
        if error:
            way = ": write one object per line (jq -c '.[]' turns an array into such lines)"
            raise UsageError(f"{location(shard)} has no JSON object in line {number}{error}{way}")
        return record

    def _cells(self, shard: Path, record: tuple[int, bytes], fields: Sequence[str]) -> list[Any]:
        values = self._record(shard, *record)
        return [nested(values, name) for name in fields]

    def _weighted(self, shard: Path, before: bytes, text: bytes, weight: str) -> tuple[bytes, bytes]:
        body = text.rstrip()
        check_no_weights(shard, list(self._record(shard, 1, body)))
        comma = b"" if body[:-1].rstrip().endswith(b"{") else b", "
        return before, body[:-1] + comma + f'"{WEIGHT}": {weight}}}\n'.encode()


def field_names(record: dict[str, Any], prefix: str = "") -> list[str]:
    """Names of all values of a JSON object, nested ones with dots."""
    names = []
    for name, value in record.items():
        names += field_names(value, f"{prefix}{name}.") if isinstance(value, dict) and value else [f"{prefix}{name}"]
    return names


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


class Lines(Records):
    """Text files with one text per line, such as the two sides of a parallel corpus."""

    @property
    def fields(self) -> list[str]:
        return []

    def _records(self, shard: Path) -> Iterator[tuple[bytes, bytes, bytes]]:
        with opened(shard) as file:
            yield from ((b"", line, line) for line in file)

    def _cells(self, shard: Path, record: bytes, fields: Sequence[str]) -> list[str | None]:
        return [record.decode("utf-8-sig", "replace").rstrip("\r\n") or None]


_UNIT = re.compile(rb"<tu[\s>].*?</tu\s*>", re.DOTALL)
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"


class Tmx(Records):
    """Translation memories: one row per ``<tu>``, one field per language. Units are copied byte for byte."""

    @functools.cached_property
    def fields(self) -> list[str]:
        for shard in self.shards:
            if (unit := next(self._records(shard))[1]) is not None:
                return list(self._segments(shard, unit))
        raise UsageError(f"{location(self.where.path)} is empty")

    def _records(self, shard: Path) -> Iterator[tuple[bytes, bytes | None, bytes]]:
        buffer = b""
        with opened(shard) as file:
            while chunk := file.read(1 << 20):
                buffer += chunk
                end = 0
                for match in _UNIT.finditer(buffer):
                    before = buffer[end : match.start()].rstrip()
                    yield before, match[0], buffer[end + len(before) : match.end()]
                    end = match.end()
                buffer = buffer[end:]
        if b"</tmx" not in buffer:
            raise UsageError(f"{location(shard)} is not a complete TMX file in UTF-8: it does not end in </tmx>")
        yield buffer, None, b""

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

    def _cells(self, shard: Path, record: bytes, fields: Sequence[str]) -> list[str | None]:
        segments = self._segments(shard, record)
        return [segments.get(name) for name in fields]

    def _weighted(self, shard: Path, before: bytes, text: bytes, weight: str) -> tuple[bytes, bytes]:
        head, *rest = text.split(b">", 1)
        return before, b"".join([head, f'><prop type="{WEIGHT}">{weight}</prop>'.encode(), *rest]) if weight else text
