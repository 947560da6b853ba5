"""The command ``rince audit A B``."""

import argparse
import dataclasses
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rince._support.command_options import respelt

if TYPE_CHECKING:
    from rince.audit.input.source import Source
    from rince.audit.verdict import Audit

EPILOG = """
A and B have one pair a row: .npy, .npz, .parquet, .csv, .tsv, .pt (one tensor) or .safetensors. Name an array or
columns after a colon:
  rince audit images.npy captions.npy
  rince audit pairs.npz:image pairs.npz:caption
  rince audit table.parquet:image_embedding table.parquet:text_embedding --ids table.parquet:id
  rince audit sensors.csv:left_* sensors.csv:right_* --fit
What to show in the page: a folder of pictures, sounds or videos (named like the ids, or else in the order of their
names), an .npy array of images, a column of paths, a column of texts, or a .txt file with one text a line.
"""


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "rince audit",
        description="Find the wrong pairs of two columns: how many, which ones, how sure.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("a", metavar="A", help="the first column")
    parser.add_argument("b", metavar="B", help="the second column")
    parser.add_argument("--fit", action="store_true", help="learn a common space: A and B may be any features")
    parser.add_argument("--fdr", type=float, default=0.1, help="expected share of false alarms among flagged (0.1)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ids", metavar="FILE[:COLUMN]", help="names of the pairs; equal ids are never strangers")
    parser.add_argument("--groups", metavar="FILE[:COLUMN]", help="near-duplicates: equal groups are never strangers")
    parser.add_argument(
        "--no-header", action="store_true", help="CSV and TSV files have no header: columns 0, 1, 2, ..."
    )
    parser.add_argument("--drop-bad", action="store_true", help="leave out pairs with NaN, missing or all-zero rows")
    for side in "ab":
        parser.add_argument(
            f"--images-{side}",
            f"--media-{side}",
            metavar="WHAT",
            help=f"pictures, sounds or videos of {side.upper()} to show",
        )
        parser.add_argument(f"--texts-{side}", metavar="WHAT", help=f"texts of {side.upper()} to show")
    parser.add_argument("--out", type=Path, default=Path("audit"), help="folder for the results (audit)")
    parser.add_argument("--table", choices=("csv", "parquet"), default="csv", help="the table of all pairs (csv)")
    parser.add_argument("--title", default=None, help="heading of the page")
    parser.add_argument("--force", action="store_true", help="overwrite existing results")
    return parser


def main(arguments: list[str]) -> int:
    command = parser()
    options = command.parse_args(respelt(command, arguments))
    from rince.audit.input.arrays import check_different, values
    from rince.audit.input.source import source
    from rince.audit.save import check_folder

    header = not options.no_header
    if not 0 < options.fdr < 1:
        raise ValueError(f"--fdr must lie between 0 and 1, got {options.fdr}")
    folder = check_folder(options.out, options.table, options.force)
    where_a, where_b = source(options.a, header), source(options.b, header)
    check_different(where_a, where_b)
    ids = None if options.ids is None else values(source(options.ids, header))
    groups = None if options.groups is None else values(source(options.groups, header))
    show_a = _show(options.images_a, options.texts_a, "a", ids, header)
    show_b = _show(options.images_b, options.texts_b, "b", ids, header)
    result = _audited(options, folder, where_a, where_b, {"ids": ids, "groups": groups}, show_a, show_b)
    print(result.summary(options.fdr))
    print(f"written: {folder / f'audit.{options.table}'}, {folder / 'audit.json'}, {folder / 'audit.html'}")
    return 0


def _audited(
    options: argparse.Namespace,
    folder: Path,
    where_a: "Source",
    where_b: "Source",
    given: dict[str, Any],
    show_a: Any,
    show_b: Any,
) -> "Audit":
    """Audit and save, with temporary files beside the results, where there is room for them."""
    from rince.audit.input.arrays import matrix
    from rince.audit.verdict import audit

    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory(dir=folder, prefix=".columns-") as scratch:
            a, b = matrix(where_a, Path(scratch)), matrix(where_b, Path(scratch))
            _check_lengths(len(a), **given, **{"what to show of A": show_a, "what to show of B": show_b})
            result = audit(a, b, fit=options.fit, seed=options.seed, drop_bad=options.drop_bad, **given)
            said = dict.fromkeys(show.remark for show in (show_a, show_b) if getattr(show, "remark", ""))
            result = dataclasses.replace(result, remarks=(*result.remarks, *said))
            title = options.title or f"{where_a.path.name} and {where_b.path.name}"
            result.save(
                folder,
                fdr=options.fdr,
                ids=given["ids"],
                show_a=show_a,
                show_b=show_b,
                table=options.table,
                title=title,
                force=True,
            )
    except BaseException:
        if new and not any(folder.iterdir()):
            folder.rmdir()
        raise
    return result


def _check_lengths(n: int, **given: Any) -> None:
    for name, what in given.items():
        if what is not None and len(what) != n:
            remark = getattr(what, "remark", "")
            why = f"; {remark}" if remark else ""
            raise ValueError(f"{name} must have one item a pair: expected {n:,}, got {len(what):,}{why}")


def _show(media: str | None, texts: str | None, side: str, ids: Any, header: bool) -> Any:
    if media is not None and texts is not None:
        raise ValueError(f"give --images-{side} or --texts-{side}, not both")
    if texts is not None:
        return _texts(texts, header)
    return None if media is None else _media(media, ids, header)


def _texts(what: str, header: bool) -> Any:
    from rince.audit.input.arrays import values
    from rince.audit.input.source import source
    from rince.report.gallery import Texts

    if Path(what).suffix == ".txt" and Path(what).is_file():
        with open(what, encoding="utf-8", errors="replace") as file:
            return Texts([line.rstrip("\n") for line in file])  # splitlines would part a line at rarer characters, too
    return Texts(values(source(what, header)))


def _media(what: str, ids: Any, header: bool) -> Any:
    from rince.audit.input.arrays import values
    from rince.audit.input.source import source
    from rince.report.folder import from_folder
    from rince.report.gallery import Arrays, Files

    if Path(what).is_dir():
        return from_folder(Path(what), ids)
    where = source(what, header)
    if where.path.suffix.lower() == ".npy":
        array = np.load(where.path, mmap_mode="r", allow_pickle=False)
        if array.ndim > 1:
            return Arrays(array)
    names = values(where)
    return Files([where.path.parent / str(name) if name is not None and str(name) else None for name in names])
