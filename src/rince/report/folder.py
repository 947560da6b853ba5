"""The media files of a folder, one a pair: by the ids of the pairs, or in the order of their names."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rince.report.media import MEDIA
from rince.report.shown import Files


def from_folder(folder: Path, ids: Sequence[Any] | None) -> Files:
    """Files named like the ids, with or without their ending, if any is; else all of them, item2 before item10."""
    found = sorted((file for file in folder.iterdir() if file.suffix.lower() in MEDIA), key=natural)
    if not found:
        raise ValueError(f"the folder {folder} holds nothing to show ({', '.join(MEDIA)})")
    by_name: dict[str, Path] = {}
    for file in found:
        by_name.setdefault(file.stem, file)
    by_name |= {file.name: file for file in found}
    chosen = [] if ids is None else [None if name is None else by_name.get(str(name)) for name in ids]
    missing = [i for i, file in enumerate(chosen) if file is None]
    if ids is None or len(missing) == len(chosen):
        why = "" if ids is None else ", since none is named like an id"
        return Files(found, f"the files of {folder} were taken in the order of their names{why}")
    if missing:
        first = f"row {missing[0]}" if ids[missing[0]] is None else ids[missing[0]]
        return Files(
            chosen, f"{len(missing):,} of {len(chosen):,} pairs have no file in {folder}, the first is {first}"
        )
    return Files(chosen)


def natural(file: Path) -> list[tuple[int, int, str]]:
    """A key to sort by in which numbers count as numbers."""
    parts = re.split(r"([0-9]+)", file.name)
    return [(0, int(part), part) if i % 2 else (1, 0, part) for i, part in enumerate(parts)]
