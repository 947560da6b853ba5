"""Cleaning by an audit: which pairs are kept, and their files without the others."""

import contextlib
import io
import itertools
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince._support.atomic_files import atomic_folder, check_out_folder
from rince._support.csv_cells import CsvWriter, unescaped
from rince._support.optional_imports import require
from rince._support.progress import Progress
from rince.audit.estimate import suspects
from rince.audit.save import saved_table
from rince.audit.shards.runner import LocalRunner, Runner
from rince.errors import ExistingFile, UsageError
from rince.pairs.columns import column_names, number_batches, value_batches
from rince.pairs.files import exists, file_system, is_dir, is_url, location, opened, written
from rince.pairs.format import WEIGHT, Selection, format_of, naming
from rince.pairs.layouts import DATACOMP, PairSources, dataset_json, with_weight_feature
from rince.pairs.raw import raw_column
from rince.pairs.source import FOLDER, TABLES, TEXT_TABLES, Source
from rince.pairs.source import source as parse_source

if TYPE_CHECKING:
    from rince.audit.result import Audit

Kept = NDArray[np.bool_]
Weights = NDArray[np.float32]
MANIFEST = "clean.json"
OWN = {MANIFEST, "decisions.csv", "decisions.parquet", "kept_ids.txt", "kept_ids.parquet", "kept_uids.npy"}
OWN |= {"kept_a.txt", "kept_b.txt", "weights.npy", "repair.csv", "repair.html"}
OWN_BEFORE = {"pairs.csv"}  # the list of decisions of version 0.2


class Audited(NamedTuple):
    """The table of an audit, one value per pair; ``record`` is its audit.json, ``weights`` are those for training."""

    table: Source
    scores: NDArray[np.float32]
    p_wrong: NDArray[np.float32]
    flagged: NDArray[np.bool_]
    weights: Weights
    record: dict[str, Any]

    def ids(self) -> Iterator[str]:
        """Ids of the pairs, as they were before they were escaped for a CSV file."""
        return itertools.chain.from_iterable(self.id_batches())

    @property
    def names(self) -> list[str] | None:
        """The ids; None if they are the row numbers."""
        ids = list(self.ids())
        return None if all(name == str(row) for row, name in enumerate(ids)) else ids

    def id_batches(self) -> Iterator[list[str]]:
        """The ids in batches."""
        escaped = self.table.kind in TEXT_TABLES
        for batch in value_batches(self.table._replace(column="id")):
            names = batch.tolist() if batch.dtype.kind in "iuO" else batch
            texts = ["" if name is None else str(name) for name in names]
            yield [unescaped(text) for text in texts] if escaped else texts


def read_audit(folder: Path) -> Audited:
    """The results of ``rince audit`` (or of a run's trust), from its folder or its table.

    Raises:
        UsageError: The audit is missing or damaged, or its scores are uninformative.
    """
    path, record = saved_table(folder)
    if record.get("uninformative", record.get("useless")):
        raise UsageError(f"{path} says that its scores tell nothing about pairs, so there is nothing to clean by")
    table = parse_source(location(path))
    if table.kind not in TABLES:
        raise UsageError(
            f"{table.path} is not a table of rince audit: give the audit.csv or audit.parquet, or their folder"
        )
    with naming(table.path):
        columns = list(number_batches(table._replace(column="score,p_wrong,flagged")))
    if not columns or columns[0].shape[1] != 3:
        raise UsageError(f"{table.path} is not a table of rince audit: it needs the columns score, p_wrong and flagged")
    scores, p_wrong, flagged = np.concatenate(columns).T
    if len(invalid := np.flatnonzero((p_wrong < 0) | (p_wrong > 1))):
        raise UsageError(
            f"{table.path} has {p_wrong[invalid[0]]:g} as p_wrong in row {invalid[0]}: it must lie in [0, 1]"
        )
    weights = np.where(np.isnan(p_wrong), 0, 1 - p_wrong)
    if "weight" in column_names(table):  # not in tables of versions before 0.3
        weights = np.concatenate(list(number_batches(table._replace(column="weight"))))[:, 0]
    return Audited(table, scores, p_wrong, flagged == 1, weights.astype(np.float32), record)


def kept_pairs(audited: Audited, fdr: float | None = None, keep_above: float | None = None) -> Kept:
    """Mask of kept pairs: those not flagged, or those with a probability of being right above ``keep_above``.

    Args:
        audited: The audit.
        fdr: Expected share of right pairs among the dropped ones. Default: that of the audit.
        keep_above: Keep pairs with a higher probability of being right, regardless of the share of false alarms.

    Raises:
        UsageError: Both are given, one is out of range, or no pair would be kept.
    """
    if fdr is not None and keep_above is not None:
        raise UsageError("give either --fdr or --keep-above, not both")
    if keep_above is not None and not 0 <= keep_above < 1:
        raise UsageError(f"--keep-above must lie in [0, 1), got {keep_above}")
    if fdr is not None and not 0 < fdr < 1:
        raise UsageError(f"--fdr must lie between 0 and 1, got {fdr}")
    judged = ~np.isnan(audited.p_wrong)
    if keep_above is not None:
        kept = 1 - audited.p_wrong > keep_above
    elif fdr is None or fdr == audited.record.get("fdr"):
        kept = judged & ~audited.flagged
    else:
        rows = np.flatnonzero(judged)
        kept = judged.copy()
        if len(rows):
            kept[rows[suspects(audited.p_wrong[rows], audited.scores[rows], fdr)[0]]] = False
    if not kept.any():
        raise UsageError("no pair would be kept: choose a smaller --fdr or --keep-above")
    return kept


def check_out(out: Path, pairs: PairSources, force: bool) -> dict[Path, Path]:
    """Targets of all shards below ``out``, by their paths relative to their common folder.

    Raises:
        ExistingFile: ``out`` has files that ``rince clean`` would overwrite, or that it did not write.
        UsageError: A shard would overwrite itself, or has the name of another output file.
    """
    shards = [shard for source in selected_files(pairs) for shard in source.files]
    roots = [
        source.path.parent if is_dir(source.path) else shard.parent
        for source in selected_files(pairs)
        for shard in source.files
    ]
    root = Path(os.path.commonpath([os.path.abspath(path) if not is_url(path) else str(path) for path in roots]))
    targets = {s: out / (s if is_url(s) else Path(os.path.abspath(s))).relative_to(root) for s in shards}
    for shard, target in targets.items():
        if str(target.relative_to(out)) in OWN:
            raise UsageError(f"{location(shard)} has the name of a file that rince clean writes: rename it")
        if not is_url(shard) and not is_url(out) and target.resolve() == shard.resolve():
            raise UsageError(f"{shard} would be replaced by its clean copy: name another folder (--out)")
    if is_url(out):
        if exists(out) and not force:
            raise ExistingFile(f"{location(out)} already exists: overwrite it with --force, or name another --out")
        return targets
    check_out_folder(out, "the clean data (--out)")
    existing = [file.relative_to(out) for file in out.rglob("*") if file.is_file()] if out.is_dir() else []
    if existing and not force:
        raise ExistingFile(f"{out / existing[0]} already exists: overwrite it with --force, or name another --out")
    expected = {str(target.relative_to(out)) for target in targets.values()} | OWN | OWN_BEFORE | _manifest(out)
    if unknown := next((file for file in existing if str(file) not in expected), None):
        raise ExistingFile(f"{out / unknown} was not written by rince clean, and would be removed: name another --out")
    return targets


def _manifest(out: Path) -> set[str]:
    """Files that an earlier ``rince clean`` wrote to ``out``."""
    try:
        return set(json.loads((out / MANIFEST).read_text(encoding="utf-8"))["files"])
    except (OSError, ValueError, KeyError, TypeError):
        return set()


def selected_files(pairs: PairSources) -> list[Source]:
    """Distinct sources to write a selection of, without media folders."""
    sources: dict[Path, Source] = {}
    for source in (pairs.a, pairs.b, *pairs.others):
        if source.kind != FOLDER:
            sources.setdefault(source.path, source)
    return list(sources.values())


@contextlib.contextmanager
def new_folder(out: Path, force: bool) -> Iterator[Path]:
    """A temporary folder that becomes ``out`` as a whole.

    At a URL, files are moved at the end, and the manifest ``clean.json`` last: a folder with it is complete.
    """
    if not is_url(out):
        with atomic_folder(out, force) as folder:
            yield folder
        return
    files, name = file_system(out)
    new = Path(f"{location(out).rstrip('/')}.new")
    path = file_system(new)[1]
    if files.exists(path):
        files.rm(path, recursive=True)
    try:
        yield new
        if files.exists(name):
            files.rm(name, recursive=True)
        for file in sorted(files.find(path), key=lambda file: file.endswith(f"/{MANIFEST}")):
            files.mv(file, f"{name}/{file.split(path.rstrip('/') + '/', 1)[1]}")
    finally:
        if files.exists(path):
            files.rm(path, recursive=True)


def write_clean(
    folder: Path,
    out: Path,
    pairs: PairSources,
    targets: dict[Path, Path],
    audited: Audited,
    kept: Kept,
    *,
    weights: bool = False,
    ids_only: bool = False,
    media: str | None = None,
    table: str = "csv",
    runner: Runner | None = None,
    progress: bool | None = False,
) -> list[Path]:
    """Write the kept pairs, shard by shard, and ``decisions.csv`` with the decision on every pair.

    Args:
        folder: Folder to write to, which becomes ``out``.
        out: Final folder, which ``targets`` and the result are relative to.
        pairs: The files.
        targets: Target of each shard.
        audited: The audit.
        kept: (pairs,) mask of the pairs to keep; ``weights`` keeps all of them.
        weights: Add the weights as a field ``weight``; as weights.npy where files have no named fields.
        ids_only: Write ``kept_ids.txt`` only.
        media: "link" or "copy" the kept files of a media folder. Default: list them.
        table: "csv" or "parquet" for the decisions and, with ``ids_only``, the ids.
        runner: Where shards are written. Default: this process.
        progress: Report progress (None: on a terminal).

    Returns:
        The files, with their paths in ``out``.
    """
    names: list[Path] = []
    rows = np.ones(len(kept), dtype=bool) if weights else kept
    if ids_only and table == "parquet":
        _write_parquet(folder / "kept_ids.parquet", ({"id": ids} for ids in _kept_ids(audited, kept) if ids))
        names.append(Path("kept_ids.parquet"))
    elif ids_only:
        with written(folder / "kept_ids.txt") as file:
            for ids in _kept_ids(audited, kept):
                file.write("".join(f"{name}\n" for name in ids).encode("utf-8", "surrogatepass"))
        names.append(Path("kept_ids.txt"))
    elif pairs.layout == DATACOMP:
        if weights:
            raise UsageError("a DataComp subset has no place for weights; leave --weights out")
        uids = [name for name, keep in zip(audited.ids(), kept, strict=True) if keep]
        try:
            subset = np.array([(int(uid[:16], 16), int(uid[16:32], 16)) for uid in uids], np.dtype("u8,u8"))
        except ValueError as error:
            raise UsageError(f"the uids of DataComp must be 32 hexadecimal digits: {error}") from error
        subset.sort()
        with written(folder / "kept_uids.npy") as file:
            np.save(file, subset)
        names.append(Path("kept_uids.npy"))
    else:
        for source in selected_files(pairs):
            report = Progress("writing pairs", len(rows), progress)
            selection = Selection(rows, audited.weights if weights else None, report.update)
            try:
                names += _write_source(source, folder, out, targets, selection, runner or LocalRunner())
            finally:
                report.close()
        if weights and not any(format_of(source).fields for source in selected_files(pairs)):
            with written(folder / "weights.npy") as file:
                np.save(file, audited.weights)
            names.append(Path("weights.npy"))
        listed: list[Path] = []
        for side, source in (("a", pairs.a), ("b", pairs.b)):
            if source.kind == FOLDER or (media is not None and source.kind in TABLES):
                listed += _write_media(source, folder, f"kept_{side}.txt", audited, rows, media)
        if media is not None and not listed:
            raise UsageError(f"{pairs.a} and {pairs.b} name no media files: leave out --{media}")
        names += listed
    names.append(Path(f"decisions.{table}"))
    if table == "parquet":
        _write_parquet(folder / names[-1], _decisions(audited, kept))
    else:
        _write_csv(folder / names[-1], _decisions(audited, kept))
    with written(folder / MANIFEST) as file:
        file.write(json.dumps({"files": [name.as_posix() for name in names], "kept": int(kept.sum())}).encode())
    return [out / name for name in names]


def _write_source(
    source: Source, folder: Path, out: Path, targets: dict[Path, Path], selection: Selection, runner: Runner
) -> list[Path]:
    content = format_of(source)
    names = [targets[shard].relative_to(out) for shard in content.shards]
    if isinstance(runner, LocalRunner):  # in one pass, without counting rows first
        for shard, name in zip(content.shards, names, strict=True):
            write_shard(source, shard, folder / name, selection)
        rows = selection.start
    else:
        counts = runner.gather(runner.map(_shard_rows, [source] * len(names), content.shards))
        ends = np.cumsum([0, *counts])
        rows = int(ends[-1])
        if rows == len(selection.kept):
            parts = [selection.part(first, last) for first, last in itertools.pairwise(ends.tolist())]
            columns = [source] * len(names), content.shards, [folder / name for name in names], parts
            runner.gather(runner.map(write_shard, *columns), "writing shards")
    check_rows(source.path, rows, selection.kept)
    if source.kind == "datasets":
        for file in dataset_json(source.path):
            with opened(file) as handle:
                text = handle.read().decode()
            if file.name == "dataset_info.json" and selection.weights is not None:
                text = with_weight_feature(text, WEIGHT)
            name = names[0].parent / file.name
            with written(folder / name) as handle:
                handle.write(text.encode())
            names.append(name)
    return names


def check_rows(path: Path, rows: int, kept: Kept) -> None:
    """Raise unless a file has one row per pair of the audit."""
    if rows != len(kept):
        raise UsageError(
            f"{location(path)} has {rows:,} rows, the audit {len(kept):,}: this is not the audit of these pairs"
        )


def write_shard(source: Source, shard: Path, target: Path, selection: Selection) -> None:
    """Write the selected rows of one shard."""
    with naming(shard):
        format_of(source).write(shard, target, selection)


def _shard_rows(source: Source, shard: Path) -> int:
    with naming(shard):
        return format_of(source).rows(shard)


def _write_media(
    source: Source, folder: Path, name: str, audited: Audited, kept: Kept, media: str | None
) -> list[Path]:
    """A list of the kept files of a column of media, and links to them or copies if ``media`` is set."""
    raw = raw_column(source, ids=audited.names if source.kind == FOLDER else None)
    if raw is None or raw.root is None:
        return []
    if len(raw) != len(kept):
        raise UsageError(f"{source} has {len(raw):,} files, the audit {len(kept):,} pairs")
    files = [Path(item) for item, keep in zip(raw.items, kept, strict=True) if keep and item is not None]
    with written(folder / name) as file:
        file.write("".join(f"{item.relative_to(source.folder).as_posix()}\n" for item in files).encode())
    names = [Path(name)]
    for item in files if media is not None else ():
        target = folder / (source.path.name if source.kind == FOLDER else "") / item.relative_to(source.folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        if media == "link":
            target.symlink_to(item.resolve())
        else:
            shutil.copy2(item, target)
        names.append(target.relative_to(folder))
    return names


def _kept_ids(audited: Audited, kept: Kept) -> Iterator[list[str]]:
    start = 0
    for ids in audited.id_batches():
        yield list(itertools.compress(ids, kept[start : start + len(ids)].tolist()))
        start += len(ids)


def _decisions(audited: Audited, kept: Kept) -> Iterator[dict[str, Any]]:
    """The decision on every pair, as columns of a table in batches."""
    start = 0
    for ids in audited.id_batches():
        part = slice(start, start + len(ids))
        rows = np.arange(part.start, part.stop)
        yield {"row": rows, "id": ids, "weight": audited.weights[part], "kept": kept[part]}
        start = part.stop


def _write_csv(path: Path, batches: Iterator[dict[str, Any]]) -> None:
    with written(path) as raw, io.TextIOWrapper(raw, encoding="utf-8", newline="", errors="replace") as file:
        writer = CsvWriter(file)
        writer.writerow(["row", "id", "weight", "kept"])
        for batch in batches:
            weights = np.char.mod("%.6g", batch["weight"].astype(np.float64)).tolist()
            columns = batch["row"].tolist(), batch["id"], weights, batch["kept"].astype(np.int8).tolist()
            writer.writerows(zip(*columns, strict=True))


def _write_parquet(path: Path, batches: Iterator[dict[str, Any]]) -> None:
    arrow, parquet = require("pyarrow", "audit"), require("pyarrow.parquet", "audit")
    first = arrow.table(next(batches))
    with written(path) as file, parquet.ParquetWriter(file, first.schema) as writer:
        for table in itertools.chain([first], map(arrow.table, batches)):
            writer.write_table(table)


def clean_table(table: Any, result: "Audit | NDArray[np.bool_]", fdr: float = 0.1) -> Any:
    """The rows of a table that an audit does not flag, as the same type.

    Args:
        table: A table of pandas, polars, Arrow or datasets, with one row per pair.
        result: The audit of its pairs, or a (rows,) mask of the rows to keep.
        fdr: Expected share of right pairs among the dropped ones. Default: 0.1.

    Returns:
        The kept rows, as a table of the same type.

    Raises:
        UsageError: The audit has another number of pairs than the table has rows.

    Example:
        >>> import pandas
        >>> table = pandas.DataFrame({"caption": ["a dog", "a cat", "a sofa"]})
        >>> rince.trust.clean_table(table, np.array([True, False, True]))["caption"].tolist()
        ['a dog', 'a sofa']
    """
    if isinstance(result, np.ndarray):
        mask = result.astype(bool)
    else:
        mask = ~np.isnan(result.p_wrong)
        mask[result.flag(fdr)] = False
    if len(mask) != len(table):
        raise UsageError(f"the table has {len(table):,} rows and the audit {len(mask):,} pairs: they must be the same")
    package = type(table).__module__.split(".")[0]
    if package == "pandas":
        return table[mask]
    if package == "datasets":
        return table.select(np.flatnonzero(mask))
    return table.filter(mask.tolist())
