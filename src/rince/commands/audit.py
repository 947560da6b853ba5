"""The command ``rince audit A B``: parse, call, print."""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rince._support.atomic_files import check_writable, write_text, written_whole
from rince._support.command_options import check_counts, check_local, local_path, parsed
from rince._support.regular_files import check_regular
from rince.errors import UsageError

if TYPE_CHECKING:
    from rince.audit.encode.columns import AuditedSides, Side
    from rince.audit.output.review import Review
    from rince.pairs.layouts import PairSources
    from rince.pairs.source import Source

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
        help="a few hundred pairs of the same source that the model has not seen: tests whether it saw the others",
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
    columns.add_argument("--groups", metavar=column, help="groups such as sources; each gets a rate of its own")
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
            f"--images-{side}",
            f"--media-{side}",
            metavar="WHAT",
            help=f"images, audio or videos of {side.upper()} for the page: a folder, a column of paths, or .npy",
        )
        output.add_argument(
            f"--texts-{side}", metavar="WHAT", help=f"texts of {side.upper()} for the page: a column or a .txt file"
        )
    output.add_argument("--review", type=Path, metavar="CSV", help="marks exported from the page: corrected rate")
    output.add_argument("--json", action="store_true", help="print the result as JSON")
    output.add_argument("--quiet", action="store_true", help="print errors only")

    cluster = parser.add_argument_group("on a cluster (pip install 'rince[cluster]'); files may be fsspec URLs")
    cluster.add_argument(
        "--scheduler", metavar="ADDRESS", help="address of a Dask scheduler, such as tcp://10.0.0.1:8786"
    )
    cluster.add_argument("--workers", type=int, metavar="N", help="start N Dask processes on this machine")
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
        files = [options.out / name for name in _review_files(review)]
        _print(options, review.summary(), review._asdict(), files)
        return 0
    audited = _audited(options)
    text = audited.result.summary(options.fdr)
    record = json.loads((options.out / "audit.json").read_text("utf-8")) if options.json else {}
    names = ["audit.html", "suspects.csv", f"audit.{options.table}", "audit.json"]
    if options.review is not None:
        from rince.audit.output.review import review_features

        review = _review(options, review_features(audited.result.scores, audited.rows))
        text += "\n" + review.summary()
        record["review"] = review._asdict()
        names += _review_files(review)
    _print(options, text, record, [options.out / name for name in names])
    return 0


def _review_files(review: "Review") -> list[str]:
    return ["review.json", "reviewed.csv"] if review.recalibrated else ["review.json"]


def _print(options: argparse.Namespace, text: str, record: dict[str, Any], files: Sequence[str | Path]) -> None:
    if options.json:
        print(json.dumps({**record, "files": [str(file) for file in files]}, indent=2))
    elif not options.quiet:
        print(text)
        print(f"written: {', '.join(map(str, files))}")


def _audited(options: argparse.Namespace) -> "AuditedSides":
    """Audit and save. Temporary files go to the folder of the results, which has space for them."""
    from rince.audit.encode.columns import check_lengths, column_values
    from rince.audit.save import check_folder
    from rince.pairs.columns import check_different, values
    from rince.pairs.layouts import pair_files
    from rince.pairs.shards import check_aligned

    folder, header = options.out, not options.no_header
    pairs: PairSources = pair_files(options.a, options.b, header=header, raw=_encodes(options))
    check_different(pairs.a, pairs.b)
    check_folder(folder, options.table, options.force)
    check_aligned(pairs, always=_encodes(options))
    given = {name: column_values(getattr(options, name), pairs.a, header) for name in ("ids", "groups", "duplicates")}
    if given["ids"] is None and pairs.ids is not None:
        given["ids"] = values(pairs.ids)
    sides = [_side(options, where, name, given["ids"]) for where, name in ((pairs.a, "a"), (pairs.b, "b"))]
    shows = [named_gallery(options, name, given["ids"]) for name in "ab"]
    shows = [side.gallery if show is None else show for show, side in zip(shows, sides, strict=True)]
    given |= {"what to show of A": shows[0], "what to show of B": shows[1]}
    raw = next((side.raw for side in sides if side.raw is not None), None)
    if raw is not None:
        check_lengths(len(raw), {str(pairs.b): sides[1].raw, **given})
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        check_writable(folder)
        return _saved(options, pairs, sides, shows, given)
    except BaseException:
        for empty in (folder / "encoded", folder):
            if new and empty.is_dir() and not any(empty.iterdir()):
                empty.rmdir()
        raise


def _encodes(options: argparse.Namespace) -> bool:
    return options.encode or any((options.encoder, options.encoder_a, options.encoder_b))


def _side(options: argparse.Namespace, where: "Source", name: str, ids: Any) -> "Side":
    from rince.audit.encode.columns import file_side

    spec = getattr(options, f"encoder_{name}") or options.encoder
    return file_side(where, _encodes(options), spec, ids, options.media_root, lambda: options.out, options.seed)


def _names(text: str) -> tuple[str, ...]:
    """Names of issue types, such as ``placeholder,better-partner``."""
    return () if text == "none" else tuple(name.strip().replace("-", "_") for name in text.split(","))


def _saved(
    options: argparse.Namespace, pairs: "PairSources", sides: list["Side"], shows: list[Any], given: dict[str, Any]
) -> "AuditedSides":
    import dataclasses

    from rince.audit.api import CHECKS
    from rince.audit.encode.columns import audit_sides
    from rince.audit.output.review import read_marks
    from rince.audit.output.suspects import other_columns
    from rince.audit.output.table import pair_name
    from rince.audit.save import save
    from rince.pairs.layouts import pair_files

    held_out = None
    if options.held_out is not None:
        files = pair_files(*options.held_out, header=not options.no_header, raw=sides[0].raw is not None)
        held_out = [_side(options, where, name, None) for where, name in ((files.a, "a"), (files.b, "b"))]
    engine: dict[str, Any] = {} if options.checks is None else {"checks": _names(options.checks)}
    if options.checks is None and sides[0].raw is not None:  # columns of an encoder are not ids
        engine["checks"] = [name for name in CHECKS if name != "leak"]
    audited = audit_sides(
        *sides,
        fit=options.fit,
        ids=given["ids"],
        duplicates=given["duplicates"],
        near=options.near_duplicates,
        seed=options.seed,
        skip_invalid=options.skip_invalid,
        cache=options.cache or options.out / "encoded",
        progress=not options.quiet,
        lengths=given,
        held_out=held_out,
        groups=given["groups"],
        embeddings=options.embeddings,
        score=options.score,
        scorer=options.scorer,
        **engine,
    )
    remarks = dict.fromkeys(show.remark for show in shows if getattr(show, "remark", ""))
    result = dataclasses.replace(audited.result, remarks=(*audited.result.remarks, *remarks))
    ids, marks = given["ids"], {}
    if options.review is not None:
        names = [str(row) if ids is None else pair_name(ids[row], row) for row in range(len(result))]
        marks = read_marks(options.review, names)
    columns = [where.column or where.path.name for where in (pairs.a, pairs.b)]
    same = pairs.a.path == pairs.b.path
    title = (
        f"{columns[0]} and {columns[1]} of {pairs.a.path.name}"
        if same
        else f"{pairs.a.path.name} and {pairs.b.path.name}"
    )
    save(
        result,
        options.out,
        fdr=options.fdr,
        ids=ids,
        show_a=shows[0],
        show_b=shows[1],
        table=options.table,
        title=options.title or title,
        force=options.force,  # checked again: another command may have written there meanwhile
        groups=given["groups"],
        marks=marks,
        facts={"encoders": {"a": audited.how[0], "b": audited.how[1]}},
        columns=(columns[0], columns[1]),
        others=lambda rows: other_columns(pairs.a, pairs.b, rows),
    )
    return audited._replace(result=result)


def named_gallery(options: argparse.Namespace, name: str, ids: Any = None) -> Any:
    """What the user named for the page to show of side ``name``; None without."""
    from rince.pairs.columns import mapped_npy, naming, values
    from rince.pairs.source import source
    from rince.report.gallery import Arrays, Files, Texts

    media, texts = getattr(options, f"images_{name}"), getattr(options, f"texts_{name}")
    if media is not None and texts is not None:
        raise UsageError(f"give --images-{name} or --texts-{name}, not both")
    if texts is not None:
        if Path(texts).suffix == ".txt" and Path(texts).is_file():
            with open(texts, encoding="utf-8", errors="replace") as file:
                return Texts([line.rstrip("\n") for line in file])  # splitlines would split at rarer characters, too
        return Texts(values(source(texts, not options.no_header)))
    if media is None:
        return None
    if Path(media).is_dir():
        return Files.from_folder(Path(media), ids)
    where = source(media, not options.no_header)
    if where.kind == ".npy":
        with naming(where.path):
            array = mapped_npy(where.path)
        if array.ndim > 1:
            return Arrays(array)
    paths = [where.folder / str(path) if path is not None and str(path) else None for path in values(where)]
    return Files(paths, root=getattr(options, "media_root", None) or where.folder)


def _review(options: argparse.Namespace, features: Any = None) -> "Review":
    """What the marks of a review say about the saved audit; written beside it."""
    from rince.audit.output.review import read_marks, reviewed, write_reviewed
    from rince.audit.output.table import read_pairs

    pairs = read_pairs(options.out)
    try:
        record = json.loads((options.out / "audit.json").read_text(encoding="utf-8"))
        rate, interval = float(record["noise_rate"]), (float(record["interval"][0]), float(record["interval"][1]))
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
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
    if options.scheduler is not None and options.workers is not None:
        raise UsageError("give --scheduler or --workers, not both")
    for name in LOCAL_ONLY:
        if getattr(options, name):
            option = f"--{name.replace('_', '-')}"
            raise UsageError(f"{option} is for audits on one machine: leave out --scheduler and --workers, or {option}")
    if options.table == "csv":
        raise UsageError("on a cluster the table is written as Parquet, one file per shard: leave out --table csv")
    from rince.audit.shards.run import audit_shards
    from rince.audit.shards.runner import DaskRunner, connected
    from rince.audit.shards.score import SAMPLE_CHECKS
    from rince.audit.shards.write import check_out, joined_path
    from rince.pairs.shards import file_shards

    for name in "ab":
        if getattr(options, f"images_{name}") is not None and getattr(options, f"texts_{name}") is not None:
            raise UsageError(f"give --images-{name} or --texts-{name}, not both")
    check_out(options.out, options.force)
    out = options.out if "://" in options.out else str(Path(options.out).absolute())
    shards = file_shards(
        options.a,
        options.b,
        ids=options.ids,
        duplicates=options.duplicates,
        groups=options.groups,
        show_a=options.images_a or options.texts_a,
        show_b=options.images_b or options.texts_b,
        header=not options.no_header,
        raw=_encodes(options),
        media_root=options.media_root,
    )
    fit = bool(options.fit)
    checks: Sequence[str] = SAMPLE_CHECKS if options.checks is None else _names(options.checks)
    more: dict[str, Any] = {}
    with connected(options.scheduler, options.workers) as client:
        if _encodes(options):
            from rince.audit.encode.shards import encode_shards

            encoded = encode_shards(
                shards,
                str(Path(options.cache).absolute()) if options.cache else joined_path(out, "encoded"),
                DaskRunner(client, not options.quiet),
                specs={name: getattr(options, f"encoder_{name}") or options.encoder for name in "ab"},
                seed=options.seed,
                skip_invalid=options.skip_invalid,
            )
            checks = [name for name in checks if name != "leak"] if options.checks is None else checks
            shards, fit = encoded.shards, not encoded.comparable if options.fit is None else options.fit
            more["facts"] = {"encoders": dict(zip("ab", encoded.how, strict=True))}
            more["remarks"] = [f"{name} is {how}" for name, how in zip("AB", encoded.how, strict=True) if how]
        result = audit_shards(
            shards,
            client=client,
            out=out,
            fit=fit,
            score=options.score,
            scorer=options.scorer,
            checks=checks,
            embeddings=options.embeddings,
            fdr=options.fdr,
            seed=options.seed,
            skip_invalid=options.skip_invalid,
            title=options.title or " and ".join(Path(side).name for side in (options.a, options.b) if side),
            force=True,
            progress=not options.quiet,
            **more,
        )
    from rince.audit.result import findings_record

    record = {**findings_record(result, options.fdr), "table": str(result.table)} if options.json else {}
    names = ("audit.html", "suspects.csv", "audit.parquet", "audit.json")
    _print(options, result.summary(options.fdr), record, [joined_path(options.out, name) for name in names])
    return 0
