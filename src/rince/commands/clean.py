"""The command ``rince clean A B --audit audit/``: write the files without the pairs that an audit flagged."""

import argparse
import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from rince._support.atomic_files import naming_full
from rince._support.command_options import add_output_options, parsed, print_result
from rince._support.progress import working
from rince.errors import UsageError
from rince.pairs.files import location

if TYPE_CHECKING:
    from rince.audit.shards.runner import Runner
    from rince.pairs.source import Source
    from rince.trust.clean import Audited, Kept
    from rince.trust.repair import Partners

EPILOG = """
A and B are the audited files, as for rince audit: single files, globs of shards, folders or URLs. Every shard is
written with the kept rows and otherwise unchanged. Data that differ from the audited data are rejected. All files
appear together at the end.

examples:
  rince clean images.npy captions.npy --audit audit --out clean
  rince clean 'img_emb/*.npy' 'text_emb/*.npy' --audit audit --out clean
  rince clean 'shards/{00000..00099}.tar:jpg' 'shards/{00000..00099}.tar:txt' --audit audit --out clean
  rince clean pairs.jsonl:question pairs.jsonl:answer.text --audit audit --out weighted --weights
  rince clean clip_retrieval_folder --audit audit --ids-only

decisions.csv lists every pair with its weight and whether it is kept (--table parquet: decisions.parquet). With
--repair, repair.csv lists the most likely partners of dropped pairs, and repair.html shows them.
"""


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "rince clean",
        description="Drop the pairs that an audit flagged, weight them, or find new partners for them.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        exit_on_error=False,
    )
    parser.add_argument("a", metavar="A", help="first column, as audited")
    parser.add_argument("b", metavar="B", nargs="?", help="second column; omitted for a folder with both")
    parser.add_argument("--audit", type=Path, default=Path("audit"), help="folder or URL of the audit (audit)")
    parser.add_argument("--out", type=Path, default=Path("clean"), help="folder or URL for the clean files (clean)")
    parser.add_argument("--fdr", type=float, help="accepted share of right pairs among the dropped (that of the audit)")
    parser.add_argument(
        "--keep-above", type=float, help="keep pairs with a higher probability of being right, instead of --fdr"
    )
    parser.add_argument("--weights", action="store_true", help="keep all pairs and add a column weight")
    parser.add_argument("--ids-only", action="store_true", help="write the ids of the kept pairs only (kept_ids.txt)")
    parser.add_argument("--table", choices=("csv", "parquet"), default="csv", help="format of decisions and ids (csv)")
    media = parser.add_mutually_exclusive_group()
    media.add_argument("--link", action="store_true", help="link the kept files of a media folder")
    media.add_argument("--copy", action="store_true", help="copy the kept files of a media folder")
    parser.add_argument("--repair", type=int, metavar="K", help="find the K most likely partners of dropped pairs")
    parser.add_argument(
        "--fit", action="store_true", help="score new partners as rince audit --fit does (default: as the audit did)"
    )
    parser.add_argument("--seed", type=int, help="random seed of --repair (0)")
    for side in "ab":
        parser.add_argument(
            f"--media-{side}",
            f"--images-{side}",
            f"--texts-{side}",
            dest=f"show_{side}",
            metavar="WHAT",
            help=f"media or texts of {side.upper()} for repair.html",
        )
    parser.add_argument("--ids", metavar="FILE[:COLUMN]", help="ids of the rows, to verify against the audit")
    parser.add_argument("--scheduler", metavar="ADDRESS", help="write shards on a Dask cluster")
    parser.add_argument("--workers", type=int, metavar="N", help="write shards in N Dask processes on this machine")
    parser.add_argument("--no-header", action="store_true", help="CSV and TSV files have no header")
    parser.add_argument("--force", action="store_true", help="overwrite files in --out")
    add_output_options(parser)
    return parser


def main(arguments: list[str]) -> int:
    options = parsed(parser(), arguments)
    if options.repair is None and (options.fit or options.seed is not None):
        raise UsageError(
            f"{'--fit' if options.fit else '--seed'} is an option of --repair: add --repair K or leave it out"
        )
    options.seed = options.seed or 0
    if not 0 <= options.seed < 2**32:
        raise UsageError(f"--seed must be in [0, {2**32 - 1}], got {options.seed}")
    if options.repair is not None and options.repair < 1:
        raise UsageError(f"--repair must be at least 1 partner, got {options.repair}")
    if options.scheduler is not None and options.workers is not None:
        raise UsageError("give --scheduler or --workers, not both")
    if options.ids_only and (options.weights or options.repair or options.link or options.copy):
        raise UsageError("--ids-only writes no data: leave out --weights, --repair, --link and --copy")
    from rince.pairs.columns import check_different, column_source
    from rince.pairs.layouts import pair_files
    from rince.trust.clean import check_out, kept_pairs, new_folder, read_audit, write_clean
    from rince.trust.same_data import check_same_data

    pairs = pair_files(options.a, options.b, header=not options.no_header, raw=True)
    targets = check_out(options.out, pairs, options.force)
    audited = read_audit(options.audit)
    check_different(pairs.a, pairs.b)
    ids = None if options.ids is None else column_source(options.ids, pairs.a)
    kept = kept_pairs(audited, options.fdr, options.keep_above)
    media = "link" if options.link else "copy" if options.copy else None
    lines: list[str] = []
    with contextlib.ExitStack() as opened:
        runner = opened.enter_context(_runner(options))
        checking = working("checking that the data are those of the audit", False if options.quiet else None)
        with tempfile.TemporaryDirectory() as scratch, checking:
            check_same_data([pairs.a, pairs.b], audited, ids, Path(scratch), runner)
        folder = opened.enter_context(new_folder(options.out, options.force))
        files = write_clean(
            folder,
            options.out,
            pairs,
            targets,
            audited,
            kept,
            weights=options.weights,
            ids_only=options.ids_only,
            media=media,
            table=options.table,
            runner=runner,
            progress=not options.quiet,
        )
        if options.repair is not None and not kept.all():
            from rince.audit.encode.columns import shown_column
            from rince.trust.repair import repair_sentence, write_repair  # with torch

            partners = _partners(options, [pairs.a, pairs.b], audited, kept)
            shows = [shown_column(show, pairs.a) for show in (options.show_a, options.show_b)]
            new = write_repair(folder, partners, audited, shows[0], shows[1])
            files += [options.out / path.name for path in new]
            lines.append(repair_sentence(partners))
    names = [location(file) for file in files]
    suffix = f" and {len(names) - 8:,} more" if len(names) > 8 else ""
    lines += [counts(audited, kept, options.weights), f"written: {', '.join(names[:8])}{suffix}"]
    record = {"pairs": len(kept), "kept": int(kept.sum()), "dropped": int((~kept).sum()), "files": names}
    print_result(options, record, "\n".join(lines))
    return 0


@contextlib.contextmanager
def _runner(options: argparse.Namespace) -> "Iterator[Runner | None]":
    """Dask workers with --scheduler or --workers, else None."""
    if options.scheduler is None and options.workers is None:
        yield None
        return
    from rince.audit.shards.runner import DaskRunner, connected

    with connected(options.scheduler, options.workers) as client:
        yield DaskRunner(client)


def counts(audited: "Audited", kept: "Kept", weights: bool) -> str:
    import numpy as np

    unknown = int(np.isnan(audited.p_wrong).sum())
    dropped = int((~kept).sum())
    suffix = f", {unknown:,} of them not judged by the audit" if unknown else ""
    if weights:
        mean = audited.weights.mean()
        return f"{len(kept):,} pairs with a mean weight of {mean:.3f}; {dropped:,} would be dropped{suffix}"
    return f"{int(kept.sum()):,} of {len(kept):,} pairs kept, {dropped:,} dropped{suffix}"


def _partners(options: argparse.Namespace, sources: "list[Source]", audited: "Audited", kept: "Kept") -> "Partners":
    import numpy as np

    from rince.pairs.columns import matrix
    from rince.trust.repair import best_partners

    rows = np.flatnonzero(~kept & ~np.isnan(audited.p_wrong))
    with tempfile.TemporaryDirectory() as scratch, naming_full(f"a temporary file in {scratch}"):
        a, b = (matrix(source, Path(scratch)) for source in sources)
    fit = options.fit or a.shape[1] != b.shape[1] or bool(audited.record.get("fitted"))
    return best_partners(a, b, rows, audited.weights, k=min(options.repair, len(b)), fit=fit, seed=options.seed)
