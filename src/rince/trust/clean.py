"""Clean data out of an audit: which pairs stay, and the files they came in without the others."""

import contextlib
import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rince._support.atomic_files import check_out_folder, written_whole
from rince.audit.estimate.probability import suspects
from rince.audit.input.arrays import naming
from rince.audit.input.source import TABLES, Source, source
from rince.audit.input.tables import number_batches, value_batches
from rince.errors import ExistingFile, UsageError
from rince.trust.kept_files import Kept, Weights, write_kept

AUDITS = ("audit.csv", "audit.parquet")
PAIRS = "pairs.csv"
OWN = {PAIRS, "trust.npy", "repair.csv", "repair.html"}  # what is written beside the files of the pairs
ROWS = 100_000


class Audited(NamedTuple):
    """What the table of an audit says of the pairs, one value per pair; ``record`` is its audit.json."""

    table: Source
    scores: NDArray[np.float32]
    p_wrong: NDArray[np.float32]
    flagged: NDArray[np.bool_]
    record: dict[str, Any]

    @property
    def trust(self) -> Weights:
        """``1 - p_wrong``; 0 for pairs that the audit left out."""
        return np.where(np.isnan(self.p_wrong), 0, 1 - self.p_wrong).astype(np.float32)


def read_audit(folder: Path) -> Audited:
    """The results of ``rince audit`` (or of a run's trust), from its folder or its table.

    Raises:
        UsageError: There is no audit, it is damaged, or it says itself that its scores tell nothing.
    """
    tables = [folder / name for name in AUDITS if (folder / name).exists()] if folder.is_dir() else [folder]
    if not tables:
        raise UsageError(f"{folder} holds no {' or '.join(AUDITS)}: give the folder that rince audit wrote (--audit)")
    table = source(str(tables[0]))
    if table.kind not in TABLES:
        raise UsageError(
            f"{table.path} is no table of rince audit: give the audit.csv or audit.parquet, or their folder"
        )
    with naming(table.path):
        columns = list(number_batches(table._replace(column="score,p_wrong,flagged")))
    if not columns or columns[0].shape[1] != 3:
        raise UsageError(f"{table.path} is no table of rince audit: it needs the columns score, p_wrong and flagged")
    scores, p_wrong, flagged = np.concatenate(columns).T
    if len(wrong := np.flatnonzero((p_wrong < 0) | (p_wrong > 1))):
        raise UsageError(f"{table.path} has {p_wrong[wrong[0]]:g} as p_wrong in row {wrong[0]}: it must lie in [0, 1]")
    return Audited(table, scores, p_wrong, flagged == 1, _record(tables[0].with_name("audit.json")))


def _record(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{path} is no record of an audit: {error}") from error
    if not isinstance(record, dict):
        raise UsageError(f"{path} is no record of an audit: it holds a {type(record).__name__}")
    if record.get("useless"):
        raise UsageError(f"{path} says that its scores tell nothing about pairs, so there is nothing to clean by")
    return record


def kept_pairs(audited: Audited, fdr: float | None = None, keep_above: float | None = None) -> Kept:
    """Which pairs stay: those that are not flagged, or those that are trusted more than ``keep_above``.

    Args:
        audited: The audit.
        fdr: The expected share of right pairs among those that are dropped; that of the audit by default.
        keep_above: Keep pairs whose probability to be right is higher, whatever the share of false alarms.

    Raises:
        UsageError: Both are given, one is out of range, or no pair would stay.
    """
    if fdr is not None and keep_above is not None:
        raise UsageError("give either --fdr or --keep-above, not both")
    if keep_above is not None and not 0 <= keep_above < 1:
        raise UsageError(f"--keep-above must lie in [0, 1), got {keep_above}")
    if fdr is not None and not 0 < fdr < 1:
        raise UsageError(f"--fdr must lie between 0 and 1, got {fdr}")
    judged = ~np.isnan(audited.p_wrong)
    if keep_above is not None:
        kept = audited.trust > keep_above
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


def target_names(sources: Sequence[Source]) -> dict[Path, str]:
    """What the files are called in the new folder: as before, or with a or b in front where a name is taken."""
    files = list(dict.fromkeys(one.path.resolve() for one in sources))
    if len({file.name for file in files} - OWN) == len(files):
        return {file: file.name for file in files}
    return {file: f"{side}-{file.name}" for side, file in zip("ab", files, strict=False)}


def check_target(folder: Path, names: dict[Path, str], force: bool) -> None:
    """Refuse before the work: a file as its own copy, and files that are there already."""
    check_out_folder(folder, "the clean data (--out)", (*names.values(), PAIRS))
    for file, name in names.items():
        if (folder / name).resolve() == file:
            raise UsageError(f"{file} would be replaced by its clean copy: name another folder (--out)")
    there = [name for name in (*names.values(), PAIRS) if (folder / name).exists()]
    if there and not force:
        raise ExistingFile(f"{folder / there[0]} is already there: overwrite it with --force, or name another --out")


def write_clean(
    files: contextlib.ExitStack,
    sources: Sequence[Source],
    folder: Path,
    audited: Audited,
    kept: Kept,
    weights: bool = False,
    force: bool = False,
) -> list[Path]:
    """The files of the pairs in ``folder``, all of them or none, and ``pairs.csv`` with what became of every pair.

    Args:
        files: They are there when it is closed without an error.
        sources: Where the two columns are, in one file or in two.
        folder: Where the new files go.
        audited: The audit.
        kept: Which pairs stay; with ``weights`` all of them do.
        weights: Add the trust as a column or array instead of dropping pairs; beside an .npy file, as trust.npy.
        force: Overwrite files that are there.

    Returns:
        The files that were written.
    """
    names = target_names(sources)
    trust = audited.trust if weights else None
    beside = {"trust.npy"} if weights and any(file.suffix.lower() == ".npy" for file in names) else set()
    check_target(folder, {**names, **{Path(name): name for name in beside}}, force)
    headers = {one.path.resolve(): one.header for one in sources}
    for file, name in names.items():
        path = files.enter_context(written_whole(folder / name))
        rows = np.ones(len(kept), dtype=bool) if weights else kept
        write_kept(Source(file, None, headers[file]), path, rows, trust)
    for name in beside:
        with open(files.enter_context(written_whole(folder / name)), "wb") as handle:
            np.save(handle, audited.trust)
    _write_pairs(files.enter_context(written_whole(folder / PAIRS)), audited, kept)
    return [folder / name for name in (*names.values(), *sorted(beside), PAIRS)]


def _write_pairs(path: Path, audited: Audited, kept: Kept) -> None:
    trust, start = audited.trust, 0
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["row", "id", "trust", "kept"])
        for ids in value_batches(audited.table._replace(column="id")):
            rows = range(start, start + len(ids))
            part = slice(rows.start, rows.stop)
            texts = np.char.mod("%.6g", trust[part].astype(np.float64))
            writer.writerows(zip(rows, ids, texts, kept[part].astype(np.int8), strict=True))
            start = rows.stop
