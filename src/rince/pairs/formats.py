"""The format of a file, by its suffix."""

from rince.errors import UsageError
from rince.pairs.array_files import Npy, Npz, Safetensors, TorchFile
from rince.pairs.arrow_files import Arrow
from rince.pairs.format import KEY, WEIGHT, Format, Selection
from rince.pairs.source import Source
from rince.pairs.tar_files import Tar, TarItems
from rince.pairs.text_files import Csv, JsonLines, Lines, Tmx

__all__ = ["KEY", "WEIGHT", "Format", "Selection", "Tar", "TarItems", "format_of"]

FORMATS: dict[str, type[Format]] = {
    ".npy": Npy,
    ".npz": Npz,
    ".safetensors": Safetensors,
    ".pt": TorchFile,
    ".pth": TorchFile,
    ".parquet": Arrow,
    ".arrow": Arrow,
    ".feather": Arrow,
    "datasets": Arrow,
    ".csv": Csv,
    ".tsv": Csv,
    ".jsonl": JsonLines,
    ".ndjson": JsonLines,
    ".json": JsonLines,
    ".txt": Lines,
    ".tar": Tar,
    ".tmx": Tmx,
}


def format_of(where: Source) -> Format:
    """The format of a source.

    Raises:
        UsageError: It is a folder of media files, which has no rows.
    """
    kind = FORMATS.get(where.kind)
    if kind is None:
        raise UsageError(f"{where} is a folder of media files: name a file with one row per pair")
    return kind(where)
