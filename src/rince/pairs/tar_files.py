"""WebDataset tars."""

import functools
import io
import itertools
import json
import re
import tarfile
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from numpy.lib import format as npy

from rince.errors import UsageError
from rince.pairs.files import file_system, is_url, location, opened, written
from rince.pairs.format import KEY, WEIGHT, Format, Selection, check_no_weights
from rince.pairs.text_files import field_names, nested

_MEMBER = re.compile(r"((?:.*/)?[^./][^./]*)\.([^/]+)")


@functools.lru_cache(maxsize=512)
def _tar_index(shard: str, stamp: Any) -> list[tuple[str, dict[str, tuple[int, int]]]]:
    """Samples of a WebDataset tar: their keys, and the offset and size of every field."""
    samples: dict[str, dict[str, tuple[int, int]]] = {}
    try:
        with opened(shard, raw=True) as file, tarfile.open(fileobj=file, mode="r:") as archive:
            last = None
            for member in archive:
                if member.name.startswith("/") or ".." in Path(member.name).parts:
                    raise UsageError(f"{shard} holds the path {member.name!r}, which leads outside of the archive")
                match = _MEMBER.fullmatch(member.name)
                if not member.isfile() or match is None:
                    continue
                key, field = match[1], match[2].lower()
                if key in samples and (key != last or field in samples[key]):
                    raise UsageError(f"{shard} holds the sample {key!r} twice: keys must be unique")
                samples.setdefault(key, {})[field] = (member.offset_data, member.size)
                last = key
            file.seek(archive.offset)
            end = file.read(tarfile.BLOCKSIZE)
            # tarfile stops at any block that is not a header; a tar ends with an empty one.
            if len(end) < tarfile.BLOCKSIZE or any(end):
                raise UsageError(f"{shard} is cut off or damaged at byte {archive.offset:,}: fetch or write it again")
    except tarfile.TarError as error:
        raise UsageError(f"{shard} is not a whole tar file ({error}); compressed tars must be unpacked") from error
    if not samples:
        raise UsageError(f"{shard} holds no samples, files named KEY.FIELD such as 000001.jpg")
    return list(samples.items())


def _stamp(shard: Path) -> Any:
    if is_url(shard):
        files, name = file_system(shard)
        return str(files.info(name).get("created") or ""), files.size(name)
    status = shard.stat()
    return status.st_mtime_ns, status.st_size


class Tar(Format):
    """WebDataset tars: samples are files ``KEY.FIELD``; ``json.caption`` is a value in the JSON file of a sample."""

    skips_rows = True

    def samples(self) -> Iterator[tuple[Path, str, dict[str, tuple[int, int]]]]:
        """Shard, key and members of all samples."""
        shard_of: dict[str, Path] = {}
        for shard, start, stop in self.where.segments:
            for key, places in _tar_index(location(shard), _stamp(shard))[start:stop]:
                if key in shard_of:
                    raise UsageError(f"{location(shard)} holds the sample {key!r} of {location(shard_of[key])} again")
                shard_of[key] = shard
                yield shard, key, places

    def rows(self, shard: Path) -> int:
        return len(_tar_index(location(shard), _stamp(shard)))

    @functools.cached_property
    def fields(self) -> list[str]:
        first = list(itertools.islice(self.samples(), 100))
        names = dict.fromkeys((KEY, *(name for _, _, members in first for name in members)))
        if "json" in names:
            shard, _, members = next(sample for sample in first if "json" in sample[2])
            start, size = members["json"]
            with opened(shard, raw=True) as file:
                file.seek(start)
                names |= dict.fromkeys(f"json.{name}" for name in field_names(json.loads(file.read(size))))
        return list(names)

    def items(self, field: str, gaps: bool = False) -> "TarItems":
        """Contents of a field, read on access; with ``gaps``, None for samples without it."""
        member = "json" if field.startswith("json.") and "json" in self.fields else field
        places: list[tuple[str, str, int, int]] = []
        for shard, key, members in self.samples():
            if member not in members and not gaps:
                raise UsageError(f"{location(shard)} has no .{member} for the sample {key!r}: remove this sample")
            places.append((location(shard), key, *members.get(member, (0, -1))))
        return TarItems(places, field)

    def read(self, shard: Path, fields: Sequence[str], start: int = 0, stop: int | None = None) -> Iterator[list[Any]]:
        part = Tar(self.where._replace(part=((shard, start, stop),)))
        columns: list[Any] = [
            [key for _, key, _ in part.samples()] if field == KEY else part.items(field) for field in fields
        ]
        for first in range(0, len(columns[0]), 256):
            yield [[column[k] for k in range(first, min(first + 256, len(column)))] for column in columns]

    def check(self) -> None:
        """Raise for a key that occurs in two shards."""
        for _ in self.samples():
            pass

    def write(self, shard: Path, target: Path, selection: Selection) -> None:
        index = _tar_index(location(shard), _stamp(shard))
        kept, weights = selection.take(len(index), shard)
        if weights is not None:
            check_no_weights(shard, [field.split(".")[0] for _, places in index for field in places])
        rows = {key: row for row, (key, _) in enumerate(index)}
        with (
            opened(shard, raw=True) as file,
            tarfile.open(fileobj=file, mode="r:") as source,
            written(target, raw=True) as out,
            tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as archive,
        ):
            done: set[str] = set()
            for member in source:
                match = _MEMBER.fullmatch(member.name)
                row = rows.get(match[1]) if match is not None else None
                if row is not None and not kept[row]:
                    continue
                archive.addfile(member, source.extractfile(member) if member.isfile() else None)
                if weights is not None and row is not None and match is not None and match[1] not in done:
                    done.add(match[1])
                    content = f"{weights[row]:.6g}".encode()
                    entry = tarfile.TarInfo(f"{match[1]}.{WEIGHT}.json")
                    entry.size, entry.mtime, entry.mode = len(content), member.mtime, member.mode
                    archive.addfile(entry, io.BytesIO(content))


class TarItems(Sequence[Any]):
    """Contents of one field of tars: texts, parsed values of JSON, arrays of .npy, or bytes; None for a missing member.

    Args:
        places: Shard, key, first byte and number of bytes of every sample; a negative number for a missing member.
        field: Name of the field.
    """

    def __init__(self, places: list[tuple[str, str, int, int]], field: str):
        self.places, self.field = places, field
        self._open: tuple[str, Any, Any] | None = None
        self._lock = threading.Lock()  # items are decoded by several threads

    def __reduce__(self) -> Any:
        return TarItems, (self.places, self.field)

    def __len__(self) -> int:
        return len(self.places)

    def describe(self, index: int) -> str:
        """Name of an item in error messages."""
        return f"sample {self.places[index][1]!r} of {self.places[index][0]}"

    def __getitem__(self, index: Any) -> Any:
        shard, key, start, size = self.places[index]
        if size < 0:
            return None
        with self._lock:
            if self._open is None or self._open[0] != shard:
                if self._open is not None:
                    self._open[1].__exit__(None, None, None)
                manager = opened(shard, raw=True)
                self._open = (shard, manager, manager.__enter__())
            file = self._open[2]
            file.seek(start)
            content = file.read(size)
        if self.field.startswith("json."):
            try:
                return nested(json.loads(content), self.field.removeprefix("json."))
            except ValueError as error:
                raise UsageError(f"{shard} holds a .json of {key!r} that cannot be read: {error}") from error
        ending = self.field.rsplit(".", 1)[-1]
        if ending in ("txt", "text", "cls", "caption"):
            return content.decode("utf-8", "replace").strip() or None
        return npy.read_array(io.BytesIO(content), allow_pickle=False) if ending == "npy" else content
