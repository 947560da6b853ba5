"""The folder of a partitioned audit's results: earlier ones are kept until the new ones are whole."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rince._support.atomic_files import check_out_folder
from rince.audit.partitions.finish import joined_path, part_name
from rince.audit.save import remove_parts
from rince.errors import ExistingFile, FileError

TABLE = "audit.parquet"
BEGUN = ".audit.parquet.begun"  # a table that is being written; whoever is stopped may leave it, the next one clears it


def check_out(out: str | os.PathLike[str], force: bool) -> None:
    """Refuse before the work, not after it. What an address holds is the store's business."""
    if is_address(out):
        return
    folder = Path(out)
    check_out_folder(folder, "the audit", ("audit.csv", "audit.json", "audit.html"))
    there = [name for name in (TABLE, "audit.csv", "audit.json", "audit.html") if (folder / name).exists()]
    if there and not force:
        raise ExistingFile(
            f"{folder / there[0]} is already there: overwrite it with force=True (--force on the command line), or "
            "name another folder"
        )


@contextmanager
def written_table(out: str | os.PathLike[str] | None, count: int) -> Iterator[str | None]:
    """Where workers write the ``count`` files of the table, which is there when the block ends without an error.

    In an object store they are written in place, since nothing can be renamed there.
    """
    if out is None or is_address(out):
        yield None if out is None else joined_path(out, TABLE)
        return
    folder, begun = Path(out), Path(out) / BEGUN
    new = not folder.exists()
    shutil.rmtree(begun, ignore_errors=True)
    try:
        yield str(begun)
        files = [begun / part_name(number) for number in range(count)]
        if missing := next((file.name for file in files if not file.is_file()), None):
            raise FileError(f"the workers wrote no {missing} to {folder}: name a folder that all of them reach (--out)")
        _make_room(folder)
        (folder / TABLE).mkdir(exist_ok=True)
        for file in files:
            file.replace(folder / TABLE / file.name)
    finally:
        shutil.rmtree(begun, ignore_errors=True)
        if new and folder.exists() and not any(folder.iterdir()):
            folder.rmdir()


def _make_room(folder: Path) -> None:
    """Take away an earlier table: one of more partitions, or of another kind, would be read with the new one."""
    remove_parts(folder / TABLE)
    for path in (folder / "audit.csv", folder / TABLE):
        if path.is_file():
            path.unlink()


def is_address(out: str | os.PathLike[str]) -> bool:
    return "://" in os.fspath(out)
