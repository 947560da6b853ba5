"""The files of a data set of pairs: two columns, or a folder of clip-retrieval or DataComp."""

import json
from pathlib import Path
from typing import NamedTuple

from rince.errors import UsageError
from rince.pairs.columns import column_names, listed
from rince.pairs.files import exists, is_dir, location, matches
from rince.pairs.format import KEY, format_of
from rince.pairs.source import FOLDER, TAR, Source
from rince.pairs.source import source as parse_source

CLIP_RETRIEVAL, DATACOMP = "clip-retrieval", "DataComp"
IDS = ("uid", "key", "image_path", "id")


class PairSources(NamedTuple):
    """Sources of the pairs.

    Attributes:
        a, b: The two columns.
        ids: Column with the ids of the pairs that the format defines (keys of tars, uids of DataComp). Default: None.
        others: Other files with one row per pair, which are filtered as well.
        layout: ``"clip-retrieval"``, ``"DataComp"`` or ``""``.
    """

    a: Source
    b: Source
    ids: Source | None = None
    others: tuple[Source, ...] = ()
    layout: str = ""


def pair_files(a: str, b: str | None = None, *, header: bool = True, raw: bool = False) -> PairSources:
    """The files behind one or two arguments of the command line.

    Args:
        a: First column (``FILES[:FIELD]``), or a folder of clip-retrieval or DataComp if ``b`` is None.
        b: Second column. Default: None.
        header: Whether CSV files have a header.
        raw: Whether texts and media files are allowed.

    Raises:
        UsageError: ``b`` is missing and ``a`` is not such a folder; the message suggests columns.
    """
    if b is not None:
        first, second = parse_source(a, header, raw), parse_source(b, header, raw)
        tar = next((column for column in (first, second) if column.kind == TAR), None)
        return PairSources(first, second, None if tar is None else tar._replace(column=KEY))
    folder = Path(a)
    if is_dir(folder):
        if matches(folder / "img_emb" / "*.npy") and matches(folder / "text_emb" / "*.npy"):
            return _clip_retrieval(folder)
        for subfolder in (folder, folder / "metadata"):
            arrays, tables = matches(subfolder / "*.npz"), matches(subfolder / "*.parquet")
            if arrays and tables and "uid" in column_names(Source(subfolder / "*.parquet", None)):
                return _datacomp(subfolder, len(arrays), len(tables))
    raise UsageError(suggestion(a, header))


def _clip_retrieval(folder: Path) -> PairSources:
    a, b = (Source(folder / name / "*.npy", None) for name in ("img_emb", "text_emb"))
    table = Source(folder / "metadata" / "*.parquet", None)
    if not table.files:
        return PairSources(a, b, layout=CLIP_RETRIEVAL)
    name = next((name for name in IDS if name in column_names(table)), None)
    return PairSources(a, b, None if name is None else table._replace(column=name), (table,), CLIP_RETRIEVAL)


def _datacomp(folder: Path, arrays: int, tables: int) -> PairSources:
    if arrays != tables:
        raise UsageError(f"{location(folder)} has {arrays} .npz files and {tables} .parquet files: they must match")
    npz = Source(folder / "*.npz", None)
    names = format_of(npz).fields
    kind = next((kind for kind in ("l14", "b32") if f"{kind}_img" in names and f"{kind}_txt" in names), None)
    if kind is None:
        raise UsageError(f"{location(folder)} has the arrays {listed(names)}, none of them l14_img and l14_txt")
    a, b = (npz._replace(column=f"{kind}_{side}") for side in ("img", "txt"))
    table = Source(folder / "*.parquet", "uid")
    return PairSources(a, b, table, (), DATACOMP)


def suggestion(a: str, header: bool = True) -> str:
    """Message that suggests two arguments, for a single argument that is not a folder of pairs."""
    column = parse_source(a, header, raw=True)
    path = location(column.path)
    if column.kind == FOLDER:
        return (
            f"{path} was taken for a folder of media files: name the other side too, as {path} captions.txt. A folder "
            "alone must be of clip-retrieval (img_emb/, text_emb/) or DataComp (.npz and .parquet)"
        )
    names = [name for name in format_of(column).fields if name != KEY]
    nested = {name.split(".")[0] for name in names if "." in name}  # such as json, beside json.caption
    candidates = [name for name in names if name.lower() not in ("id", "ids", "key", "uid") and name not in nested]
    candidates = (candidates if len(candidates) > 1 else names)[:2]
    if len(candidates) < 2:
        return f"{path} is one side of the pairs: name the other side as well"
    first, second = candidates
    return f"{path} has the columns {listed(names)}: name the two to compare, as {path}:{first} {path}:{second}"


def dataset_json(folder: Path) -> list[Path]:
    """Metadata files of a Hugging Face folder."""
    return [folder / name for name in ("state.json", "dataset_info.json") if exists(folder / name)]


def with_weight_feature(text: str, name: str) -> str:
    """``dataset_info.json`` with another float32 feature."""
    info = json.loads(text)
    if isinstance(info.get("features"), dict):
        info["features"][name] = {"dtype": "float32", "_type": "Value"}
    return json.dumps(info, indent=2)
