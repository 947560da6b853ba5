"""The command ``rince clean A B --audit audit/``: the pairs that an audit found right, in the files they came in."""

import argparse
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rince._support.atomic_files import naming_full
from rince._support.command_options import local_path, parsed
from rince.errors import ExistingFile, UsageError

if TYPE_CHECKING:
    from rince.audit.input.source import Source
    from rince.trust.clean import Audited
    from rince.trust.kept_files import Kept
    from rince.trust.repair import Partners

EPILOG = """
A and B are the files that were audited: .npy, .npz, .parquet, .csv, .tsv or .safetensors, with a column or an array
named after a colon as for rince audit. They are copied row by row, other columns and arrays too.
Files that hold something else than what was audited, or the same in another order, are refused, unless one table holds
both columns and the ids of the audit (--ids):
  rince audit images.npy captions.npy --out audit
  rince clean images.npy captions.npy --audit audit --out clean
  rince clean table.parquet:image table.parquet:text --audit audit --out clean --keep-above 0.5
  rince clean table.csv:a_* table.csv:b_* --audit audit --out weighted --weights
pairs.csv in the new folder says of every row what became of it. With --repair, repair.csv lists the most likely
partners of the pairs that are dropped, and repair.html shows them.
"""


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "rince clean",
        description="Leave out the pairs that an audit found wrong, weigh them, or find them new partners.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        exit_on_error=False,
    )
    parser.add_argument("a", metavar="A", help="the first column, as it was audited")
    parser.add_argument("b", metavar="B", help="the second column")
    parser.add_argument("--audit", type=Path, default=Path("audit"), help="folder of the audit (audit)")
    parser.add_argument("--out", type=local_path, default=Path("clean"), help="folder for the clean files (clean)")
    parser.add_argument("--fdr", type=float, help="expected share of right pairs among the dropped (the audit's)")
    parser.add_argument("--keep-above", type=float, help="keep pairs that are right with a higher probability instead")
    parser.add_argument("--weights", action="store_true", help="keep all pairs and add their trust as a column")
    parser.add_argument("--repair", type=int, metavar="K", help="find the K most likely partners of dropped pairs")
    parser.add_argument("--fit", action="store_true", help="re-pair by towers, as rince audit --fit scores (found out)")
    parser.add_argument("--seed", type=int, default=0, help="of re-pairing (0)")
    for side in "ab":
        parser.add_argument(f"--images-{side}", f"--media-{side}", metavar="WHAT", help="to show, as for rince audit")
        parser.add_argument(f"--texts-{side}", metavar="WHAT", help="to show, as for rince audit")
    parser.add_argument("--ids", metavar="FILE[:COLUMN]", help="ids of the rows, to compare with those of the audit")
    parser.add_argument("--no-header", action="store_true", help="CSV and TSV files have no header")
    parser.add_argument("--force", action="store_true", help="overwrite files in --out")
    return parser


def main(arguments: list[str]) -> int:
    options = parsed(parser(), arguments)
    if not 0 <= options.seed < 2**32:
        raise UsageError(f"--seed must lie between 0 and {2**32 - 1}, got {options.seed}")
    from rince.audit.input.arrays import check_different
    from rince.audit.input.source import source
    from rince.trust.clean import check_target, kept_pairs, read_audit, target_names, write_clean
    from rince.trust.repair_files import sentence, write_repair
    from rince.trust.same_data import check_same_data, ids_source

    where = [source(text, not options.no_header) for text in (options.a, options.b)]
    check_target(options.out, target_names(where), options.force)
    if options.repair is not None:
        _check_new_partners(options)
    audited = read_audit(options.audit)
    check_different(where[0], where[1])
    ids = None if options.ids is None else ids_source(options.ids, where[0])
    kept = kept_pairs(audited, options.fdr, options.keep_above)
    new = not options.out.exists()
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        check_same_data(where, audited, ids, options.out)
        with ExitStack() as opened:  # all files or none: some of them would stand in the way of the same command again
            files = write_clean(opened, where, options.out, audited, kept, options.weights, options.force)
            partners = None if options.repair is None or kept.all() else _partners(options, where, audited, kept)
            if partners is not None:
                shows = [_shown(options, side) for side in "ab"]
                files += write_repair(opened, options.out, partners, audited, shows[0], shows[1])
    except BaseException:
        if new and options.out.exists() and not any(options.out.iterdir()):
            options.out.rmdir()
        raise
    if partners is not None:
        print(sentence(partners))
    print(counts(audited, kept, options.weights))
    print(f"written: {', '.join(map(str, files))}")
    return 0


def counts(audited: "Audited", kept: "Kept", weights: bool) -> str:
    import numpy as np

    unknown = int(np.isnan(audited.p_wrong).sum())
    dropped = int((~kept).sum())
    also = f", {unknown:,} of them not judged by the audit" if unknown else ""
    if weights:
        return (
            f"{len(kept):,} pairs with a mean trust of {audited.trust.mean():.3f}; {dropped:,} would be dropped{also}"
        )
    return f"{int(kept.sum()):,} of {len(kept):,} pairs kept, {dropped:,} dropped{also}"


def _check_new_partners(options: argparse.Namespace) -> None:
    if options.repair < 1:
        raise UsageError(f"--repair must be at least 1 partner, got {options.repair}")
    there = [name for name in ("repair.csv", "repair.html") if (options.out / name).exists()]
    if there and not options.force:
        raise ExistingFile(
            f"{options.out / there[0]} is already there: overwrite it with --force, or name another --out"
        )


def _partners(options: argparse.Namespace, where: "list[Source]", audited: "Audited", kept: "Kept") -> "Partners":
    import numpy as np

    from rince.audit.input.arrays import matrix
    from rince.trust.repair import best_partners

    rows = np.flatnonzero(~kept & ~np.isnan(audited.p_wrong))
    with naming_full(f"a temporary file in {options.out}"):
        a, b = (matrix(one, options.out) for one in where)
    fit = options.fit or a.shape[1] != b.shape[1] or "tower" in str(audited.record.get("scored_by", ""))
    return best_partners(a, b, rows, audited.trust, k=min(options.repair, len(b)), fit=fit, seed=options.seed)


def _shown(options: argparse.Namespace, side: str) -> Any:
    """What the page shows of a side, read as ``rince audit`` does; None where nothing is named."""
    from rince.commands.audit import _media, _texts

    media, texts = getattr(options, f"images_{side}"), getattr(options, f"texts_{side}")
    if media is not None and texts is not None:
        raise UsageError(f"give --images-{side} or --texts-{side}, not both")
    if texts is not None:
        return _texts(texts, not options.no_header)
    return None if media is None else _media(media, None, not options.no_header, None)
