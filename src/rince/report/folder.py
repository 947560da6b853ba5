"""The media files of a folder, one per pair: by the ids of the pairs, or in the order of their names."""

from pathlib import Path
from typing import Any

from rince._support.regular_files import natural
from rince.errors import UsageError
from rince.report.gallery import Files
from rince.report.media import MEDIA


def from_folder(folder: Path, ids: Any) -> Files:
    """Files named like the ids, with or without their ending, if any is; else all of them, item2 before item10."""
    found = sorted((file for file in folder.iterdir() if file.suffix.lower() in MEDIA), key=natural)
    if not found:
        raise UsageError(f"the folder {folder} holds nothing to show ({', '.join(MEDIA)})")
    by_name: dict[str, Path] = {}
    for file in found:
        by_name.setdefault(file.stem, file)
    by_name |= {file.name: file for file in found}
    chosen = [] if ids is None else [None if name is None else by_name.get(str(name)) for name in ids]
    missing = [i for i, file in enumerate(chosen) if file is None]
    if ids is None or len(missing) == len(chosen):
        why = "" if ids is None else ", since none is named like an id"
        return Files(found, f"the files of {folder} were taken in the order of their names{why}", folder)
    if missing:
        first = f"row {missing[0]}" if ids[missing[0]] is None else ids[missing[0]]
        remark = f"{len(missing):,} of {len(chosen):,} pairs have no file in {folder}, the first is {first}"
        return Files(chosen, remark, folder)
    return Files(chosen, root=folder)
