"""The command ``rince audit A B``: parse, call, print."""

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rince._support.atomic_files import check_writable, write_text, written_whole
from rince._support.command_options import check_counts, check_local, local_path, parsed
from rince._support.regular_files import check_regular
from rince.errors import FileError, UsageError

if TYPE_CHECKING:
    from rince.audit.encode.columns import AuditedSides, Side
    from rince.audit.review import Review
    from rince.pairs.layouts import PairSources

DESCRIPTION = """Find pairs that do not belong together: their share with a confidence interval, and the suspect pairs.

examples:
  rince audit pairs.csv:question pairs.csv:answer --encode
  rince audit photos/ captions.txt --encode --encoder-b all-MiniLM-L6-v2
  rince audit images.npy captions.npy
  rince audit 'data/*.parquet:image_embedding' 'data/*.parquet:text_embedding' --ids 'data/*.parquet:id'
  rince audit sensors.csv:left_* sensors.csv:right_* --fit
  rince audit --review review.csv --out audit
"""
EPILOG = """
A and B hold one pair per row: .npy, .npz, .parquet, .arrow, .csv, .tsv, .jsonl, .pt (one tensor), .safetensors, a glob
of shards, a folder of Hugging Face datasets, WebDataset tars, or (with --encode) a folder of media files or a .txt
file. Name an array or columns after a colon. Two columns of embeddings are compared by their cosine: they must come
from one model, and from one that was not trained on these pairs.

encoders: a sentence-transformers model (name or folder), an encoder.safetensors of rince, an .onnx file,
  module:function, or ngrams (texts), patches (images), spectrogram (audio), which need no model and are the default.
results in OUT: suspects.csv (the pairs that fit worst, in order), audit.html (a page for browsing and reviewing),
  audit.csv (all pairs), audit.json (the result).
exit codes: 0 the audit is done, whatever its verdict; 2 wrong input or options; 130, 143 interrupted or terminated.
"""
LOCAL_ONLY = ("held_out", "near_duplicates", "review")


def parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "rince audit",
        usage="rince audit A B [options]",
        description=DESCRIPTION,
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        exit_on_error=False,
    )
    column = "FILE[:COLUMN]"
    parser.add_argument("a", metavar="A", nargs="?", help="first column, as FILE[:COLUMN]")
    parser.add_argument("b", metavar="B", nargs="?", help="second column")

    raw = parser.add_argument_group("raw texts, images and audio")
    raw.add_argument("--encode", action="store_true", help="A and B hold raw items: encode them first")
    raw.add_argument("--encoder", metavar="NAME", help="encoder of both sides")
    raw.add_argument("--encoder-a", metavar="NAME", help="encoder of A")
    raw.add_argument("--encoder-b", metavar="NAME", help="encoder of B")
    raw.add_argument("--cache", type=local_path, metavar="FOLDER", help="folder for encoded columns (OUT/encoded)")
    raw.add_argument("--media-root", type=Path, metavar="FOLDER", help="files named in a table must be in this folder")

    score = parser.add_argument_group("scoring and flagging")
    score.add_argument(
        "--fit",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="learn a common space, so that A and B may be any features (default: only if raw items need it)",
    )
    score.add_argument(
        "--embeddings",
        choices=("unseen", "trained-on-these"),
        help="whether the model behind given embeddings was trained on these pairs; such a model hides wrong pairs",
    )
    score.add_argument(
        "--held-out",
        nargs=2,
        metavar=("A", "B"),
        help="a few hundred pairs of the same source, unseen by the model: tests whether it was trained on the others",
    )
    score.add_argument(
        "--score", choices=("relative", "cosine"), default="relative",
        help="for embeddings of one space: the cosine relative to other pairs (default), or plain",
    )  # fmt: skip
    score.add_argument(
        "--scorer", choices=("cca", "towers", "both"), default="cca",
        help="for --fit: CCA (default, seconds), two small networks, or the better one",
    )  # fmt: skip
    score.add_argument(
        "--checks", metavar="NAMES", help="issue types to check for, separated by commas, or none (default: all)"
    )
    score.add_argument("--fdr", type=float, default=0.1, help="accepted share of false alarms among flags (0.1)")
    score.add_argument("--seed", type=int, default=0, help="random seed (0)")

    columns = parser.add_argument_group("columns and rows")
    columns.add_argument("--ids", metavar=column, help="names of the pairs; equal ids show the same thing")
    columns.add_argument("--groups", metavar=column, help="groups such as sources; a rate is estimated for each")
    columns.add_argument("--duplicates", metavar=column, help="equal values show the same thing")
    columns.add_argument(
        "--near-duplicates",
        type=float,
        nargs="?",
        const=0.98,
        metavar="COSINE",
        help="find nearly equal rows (cosine of at least 0.98) and treat them like --duplicates",
    )
    columns.add_argument("--no-header", action="store_true", help="CSV and TSV have no header: columns 0, 1, 2, ...")
    columns.add_argument("--skip-invalid", action="store_true", help="skip pairs with NaN, missing or unreadable items")
    columns.add_argument("--drop-bad", action="store_true", help=argparse.SUPPRESS)  # name of versions before 0.3

    output = parser.add_argument_group("results")
    output.add_argument("--out", default="audit", help="folder for the results (audit)")
    output.add_argument("--force", action="store_true", help="overwrite existing results")
    output.add_argument("--table", choices=("csv", "parquet"), help="format of the table (csv; on a cluster parquet)")
    output.add_argument("--title", help="heading of the page")
    for side in "ab":
        output.add_argument(
            f"--media-{side}",
            f"--images-{side}",
            f"--texts-{side}",
            dest=f"show_{side}",
            metavar="WHAT",
            help=f"what the page shows of {side.upper()}: a folder of media, a column of texts or paths, .txt, or .npy",
        )
    output.add_argument("--review", type=Path, metavar="CSV", help="marks exported from the page: corrected rate")
    output.add_argument("--json", action="store_true", help="print the result as JSON")
    output.add_argument("--quiet", action="store_true", help="print errors only")

    cluster = parser.add_argument_group("on a cluster (pip install 'rince[cluster]'); files may be fsspec URLs")
    target = cluster.add_mutually_exclusive_group()
    target.add_argument("--scheduler", metavar="ADDRESS", help="address of a Dask scheduler: tcp://10.0.0.1:8786")
    target.add_argument("--workers", type=int, metavar="N", help="start N Dask processes on this machine")
    return parser


def main(arguments: list[str]) -> int:
    options = parsed(parser(), arguments)
    check_counts(options, "workers")
    if options.drop_bad:
        options.skip_invalid = True
        print("rince audit: --drop-bad is called --skip-invalid; the old name goes in version 0.4", file=sys.stderr)
    if not 0 < options.fdr < 1:
        raise UsageError(f"--fdr must be between 0 and 1, got {options.fdr}")
    if not 0 <= options.seed < 2**32:
        raise UsageError(f"--seed must be from 0 to {2**32 - 1}, got {options.seed}")
    if options.a is None and options.review is None:
        raise UsageError(
            "name two columns, as rince audit A B, or a finished audit and a review of it, as rince audit --review "
            "review.csv --out FOLDER (rince audit --help explains them)"
        )
    if options.review is not None:
        check_regular(options.review)
    if options.scheduler is not None or options.workers is not None:
        return _on_cluster(options)
    options.table, options.out = options.table or "csv", check_local(options.out, "--out without --workers")
    if options.a is None:
        review = _review(options)
        _print(options, review.summary(), review._asdict(), [options.out / name for name in review.files])
        return 0
    audited = _audit_here(options)
    text = audited.result.summary(options.fdr)
    record = json.loads((options.out / "audit.json").read_text("utf-8")) if options.json else {}
    names = ["audit.html", "suspects.csv", f"audit.{options.table}", "audit.json"]
    if options.review is not None:
        from rince.audit.review import review_features

        review = _review(options, review_features(audited.result.scores, audited.rows))
        text += "\n" + review.summary()
        record["review"] = review._asdict()
        names += review.files
    _print(options, text, record, [options.out / name for name in names])
    return 0


def _print(options: argparse.Namespace, text: str, record: dict[str, Any], files: Sequence[str | Path]) -> None:
    if options.json:
        print(json.dumps({**record, "files": [str(file) for file in files]}, indent=2))
    elif not options.quiet:
        print(text)
        print(f"written: {', '.join(map(str, files))}")


def _encodes(options: argparse.Namespace) -> bool:
    return options.encode or any((options.encoder, options.encoder_a, options.encoder_b))


def _checks(options: argparse.Namespace, default: Sequence[str]) -> list[str]:
    """Names of issue types, such as ``placeholder,better-partner``; columns of an encoder are not ids that leak."""
    if options.checks is None:
        return [name for name in default if name != "leak" or not _encodes(options)]
    return [] if options.checks == "none" else [name.strip().replace("-", "_") for name in options.checks.split(",")]


def _audit_here(options: argparse.Namespace) -> "AuditedSides":
    """Audit in memory and save. Temporary files go to the folder of the results, which has space for them."""
    from rince.audit.api import CHECKS
    from rince.audit.encode.columns import audit_sides, check_lengths, column_values, file_side, shown_column
    from rince.audit.review import read_marks
    from rince.audit.save import check_folder, other_columns, pair_name
    from rince.pairs.columns import check_different, values
    from rince.pairs.layouts import pair_files
    from rince.pairs.shards import check_aligned

    out, header, raw = options.out, not options.no_header, _encodes(options)

    def sides(files: "PairSources", ids: Any) -> list["Side"]:
        specs = [options.encoder_a or options.encoder, options.encoder_b or options.encoder]
        return [
            file_side(source, raw, spec, ids, options.media_root, out, options.seed)
            for source, spec in zip((files.a, files.b), specs, strict=True)
        ]

    pairs = pair_files(options.a, options.b, header=header, raw=raw)
    check_different(pairs.a, pairs.b)
    check_folder(out, options.force)
    check_aligned(pairs, always=raw)
    pair_columns = {name: column_values(getattr(options, name), pairs.a) for name in ("ids", "groups", "duplicates")}
    if pair_columns["ids"] is None and pairs.ids is not None:
        pair_columns["ids"] = values(pairs.ids)
    ids = pair_columns["ids"]
    a, b = sides(pairs, ids)
    shows = [shown_column(show, pairs.a, options.media_root, ids) for show in (options.show_a, options.show_b)]
    shows = [side.gallery if show is None else show for show, side in zip(shows, (a, b), strict=True)]
    lengths = {**pair_columns, "what to show of A": shows[0], "what to show of B": shows[1]}
    if a.raw is not None or b.raw is not None:  # before items are encoded
        counts = [len(side.raw) for side in (a, b) if side.raw is not None]
        check_lengths(counts[0], {str(pairs.b): b.raw, **lengths})
    held_out = None
    if options.held_out is not None:
        held_out = sides(pair_files(*options.held_out, header=header, raw=raw), None)
    columns = [source.column or source.path.name for source in (pairs.a, pairs.b)]
    title = f"{pairs.a.path.name} and {pairs.b.path.name}"
    if pairs.a.path == pairs.b.path:
        title = f"{columns[0]} and {columns[1]} of {pairs.a.path.name}"
    with _new_folder(out):
        audited = audit_sides(
            a,
            b,
            fit=options.fit,
            ids=ids,
            duplicates=pair_columns["duplicates"],
            groups=pair_columns["groups"],
            near=options.near_duplicates,
            seed=options.seed,
            skip_invalid=options.skip_invalid,
            cache=options.cache or out / "encoded",
            progress=not options.quiet,
            lengths=lengths,
            held_out=held_out,
            remarks=[remark for show in shows if (remark := getattr(show, "remark", ""))],
            checks=_checks(options, CHECKS),
            embeddings=options.embeddings,
            score=options.score,
            scorer=options.scorer,
        )
        marks = {}
        if options.review is not None:
            rows = range(len(audited.result))
            marks = read_marks(options.review, [str(row) if ids is None else pair_name(ids[row], row) for row in rows])
        audited.result.save(
            out,
            fdr=options.fdr,
            ids=ids,
            show_a=shows[0],
            show_b=shows[1],
            table=options.table,
            title=options.title or title,
            force=options.force,  # checked again: another command may have written there meanwhile
            groups=pair_columns["groups"],
            marks=marks,
            facts={"encoders": {"a": audited.how[0], "b": audited.how[1]}},
            columns=(columns[0], columns[1]),
            others=lambda rows: other_columns(pairs.a, pairs.b, rows),
        )
    return audited


@contextmanager
def _new_folder(folder: Path) -> Iterator[None]:
    """A writable folder, which is removed again if it is new and an error leaves it empty."""
    new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FileError(f"{folder} cannot be written to ({error.strerror})") from error
    try:
        check_writable(folder)
        yield
    except BaseException:
        for empty in (folder / "encoded", folder):
            if new and empty.is_dir() and not any(empty.iterdir()):
                empty.rmdir()
        raise


def _review(options: argparse.Namespace, features: Any = None) -> "Review":
    """Evaluate the marks of a review of the saved audit, and write the results next to it."""
    from rince.audit.review import read_marks, reviewed, write_reviewed
    from rince.audit.save import read_pairs, saved_table

    pairs, (_, record) = read_pairs(options.out), saved_table(options.out)
    try:
        rate, interval = float(record["noise_rate"]), (float(record["interval"][0]), float(record["interval"][1]))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise UsageError(f"{options.out / 'audit.json'} is not the record of an audit") from error
    marks = read_marks(options.review, pairs.ids)
    review, probability = reviewed(pairs, marks, rate, interval, options.seed, features, options.fdr)
    if probability is not None:
        with written_whole(options.out / "reviewed.csv") as path:
            write_reviewed(path, pairs, marks, probability, options.fdr)
    write_text(options.out / "review.json", json.dumps(review._asdict(), indent=2) + "\n")
    return review


def _on_cluster(options: argparse.Namespace) -> int:
    """Audit shard by shard with Dask."""
    for name in LOCAL_ONLY:
        if getattr(options, name):
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} is for audits on one machine: leave out --scheduler and --workers, or {option}")
    if options.table == "csv":
        raise UsageError("on a cluster the table is written as Parquet, one file per shard: leave out --table csv")
    from rince.audit.encode.shards import encode_shards
    from rince.audit.save import check_folder, joined_path
    from rince.audit.shards.run import audit_shards
    from rince.audit.shards.runner import DaskRunner, connected
    from rince.audit.shards.score import SAMPLE_CHECKS
    from rince.pairs.shards import file_shards

    check_folder(options.out, options.force)
    out = options.out if "://" in options.out else str(Path(options.out).absolute())
    shards = file_shards(
        options.a,
        options.b,
        ids=options.ids,
        duplicates=options.duplicates,
        groups=options.groups,
        show_a=options.show_a,
        show_b=options.show_b,
        header=not options.no_header,
        raw=_encodes(options),
        media_root=options.media_root,
    )
    fit, facts, remarks = options.fit, {}, []
    with connected(options.scheduler, options.workers) as client:
        if _encodes(options):
            encoded = encode_shards(
                shards,
                str(Path(options.cache).absolute()) if options.cache else joined_path(out, "encoded"),
                DaskRunner(client, not options.quiet),
                specs={name: getattr(options, f"encoder_{name}") or options.encoder for name in "ab"},
                seed=options.seed,
                skip_invalid=options.skip_invalid,
            )
            shards, fit = encoded.shards, not encoded.comparable if fit is None else fit
            facts = {"encoders": dict(zip("ab", encoded.how, strict=True))}
            remarks = [f"{name}: {how}" for name, how in zip("AB", encoded.how, strict=True) if how]
        result = audit_shards(
            shards,
            client=client,
            out=out,
            fit=bool(fit),
            score=options.score,
            scorer=options.scorer,
            checks=_checks(options, SAMPLE_CHECKS),
            embeddings=options.embeddings,
            fdr=options.fdr,
            seed=options.seed,
            skip_invalid=options.skip_invalid,
            title=options.title or " and ".join(Path(side).name for side in (options.a, options.b) if side),
            force=True,
            facts=facts,
            remarks=remarks,
            progress=not options.quiet,
        )
    record = {**result.record(), "table": str(result.table)} if options.json else {}
    names = ("audit.html", "suspects.csv", "audit.parquet", "audit.json")
    _print(options, result.summary(options.fdr), record, [joined_path(options.out, name) for name in names])
    return 0
