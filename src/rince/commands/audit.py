"""The command ``rince audit A B``."""

import argparse
import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rince._support.atomic_files import check_writable, write_text
from rince._support.command_options import check_counts, check_local, parsed
from rince._support.regular_files import check_regular
from rince.commands.audit_options import parser
from rince.errors import UsageError

if TYPE_CHECKING:
    from rince.audit.input.source import Source
    from rince.audit.output.review import Review
    from rince.audit.result import Audit


def main(arguments: list[str]) -> int:
    options = parsed(parser(), arguments)
    _check(options)
    if options.scheduler is not None or options.workers is not None:
        from rince.commands.audit_cluster import main as on_a_cluster

        return on_a_cluster(options)
    options.table, options.out = options.table or "csv", check_local(options.out, "--out without --workers")
    if options.a is None:
        print(_review(options, options.out).summary())
        print(f"written: {options.out / 'review.json'}")
        return 0
    from rince.audit.input.arrays import check_different
    from rince.audit.input.source import source
    from rince.audit.save import check_folder

    encode = options.encode or any((options.encoder, options.encoder_a, options.encoder_b))
    header = not options.no_header
    folder = check_folder(options.out, options.table, options.force)
    where_a, where_b = source(options.a, header, raw=encode), source(options.b, header, raw=encode)
    check_different(where_a, where_b)
    result = _audited(options, folder, where_a, where_b, encode)
    print(result.summary(options.fdr))
    if options.review is not None:
        print(_review(options, folder).summary())
    print(f"written: {folder / f'audit.{options.table}'}, {folder / 'audit.json'}, {folder / 'audit.html'}")
    return 0


def _check(options: argparse.Namespace) -> None:
    check_counts(options, "workers")
    if not 0 < options.fdr < 1:
        raise UsageError(f"--fdr must lie between 0 and 1, got {options.fdr}")
    if not 0 <= options.seed < 2**32:
        raise UsageError(f"--seed must lie between 0 and {2**32 - 1}, got {options.seed}")
    if options.b is None and (options.a is not None or options.review is None):
        raise UsageError(
            "name two columns, as rince audit A B, or a finished audit and a review of it, as rince audit --review "
            "review.csv --out FOLDER (rince audit --help explains them)"
        )
    if options.review is not None:
        check_regular(options.review)
    for side in "ab":
        if getattr(options, f"images_{side}") is not None and getattr(options, f"texts_{side}") is not None:
            raise UsageError(f"give --images-{side} or --texts-{side}, not both")


def _audited(options: argparse.Namespace, folder: Path, where_a: "Source", where_b: "Source", encode: bool) -> "Audit":
    """Audit and save, with temporary files beside the results, where there is room for them."""
    from rince.audit.encode.prepare import column_values, side

    header = not options.no_header
    ids, groups, duplicates = (
        column_values(text, where_a, header) for text in (options.ids, options.groups, options.duplicates)
    )
    sides = [
        side(where, encode, spec or options.encoder, ids, options.media_root, options.seed)
        for where, spec in ((where_a, options.encoder_a), (where_b, options.encoder_b))
    ]
    shows = [_show(options, name, ids, one.raw) for name, one in zip("ab", sides, strict=True)]
    given = {"ids": ids, "groups": groups, "duplicates": duplicates}
    given |= {"what to show of A": shows[0], "what to show of B": shows[1]}
    raws = [len(one.raw) for one in sides if one.raw is not None]
    if raws:
        _check_lengths(raws[0], {"the other column": sides[1].raw, **given})
    new = not folder.exists()
    folder.mkdir(parents=True, exist_ok=True)
    try:
        check_writable(folder)
        return _saved(options, folder, sides, shows, given)
    except BaseException:
        for empty in (folder / "encoded", folder):
            if new and empty.is_dir() and not any(empty.iterdir()):
                empty.rmdir()
        raise


def _saved(options: argparse.Namespace, folder: Path, sides: list[Any], shows: list[Any], given: Any) -> "Audit":
    from rince.audit.columns import codes
    from rince.audit.encode.prepare import combined, needs_fit, with_items
    from rince.audit.run import audit
    from rince.audit.save import save

    cache = options.cache or folder / "encoded"
    (a, how_a), (b, how_b) = (one.rows(folder, cache, options.drop_bad) for one in sides)
    _check_lengths(len(a), given)
    same = None if given["duplicates"] is None else codes(given["duplicates"], "duplicates", len(a))
    found, said = _near_duplicates(options, a, b)
    fit = needs_fit(*sides) if options.fit is None else options.fit
    result = audit(
        a, b, fit=fit, seed=options.seed, drop_bad=options.drop_bad, ids=given["ids"], duplicates=combined(same, found)
    )
    result = with_items(result, sides, [one.where.folder for one in sides])
    remarks = [f"{name} is {how}" for name, how in (("A", how_a), ("B", how_b)) if how]
    remarks += [*said, *dict.fromkeys(show.remark for show in shows if getattr(show, "remark", ""))]
    result = dataclasses.replace(result, remarks=(*result.remarks, *remarks))
    save(
        result,
        folder,
        fdr=options.fdr,
        ids=given["ids"],
        show_a=shows[0],
        show_b=shows[1],
        table=options.table,
        title=options.title or f"{sides[0].where.path.name} and {sides[1].where.path.name}",
        force=options.force,  # looked at again: another command may have written there meanwhile
        groups=given["groups"],
        marks=_marks(options.review, given["ids"], len(a)),
        facts={"encoders": {"a": how_a, "b": how_b}},
    )
    return result


def _near_duplicates(options: argparse.Namespace, a: Any, b: Any) -> tuple[Any, list[str]]:
    if options.near_duplicates is None:
        return None, []
    from rince.audit.input.near_duplicates import near_duplicates

    found = near_duplicates(a, b, options.near_duplicates, options.seed)
    if found is None:
        return None, ["no near-duplicates were found"]
    sizes = np.bincount(np.unique(found, return_inverse=True)[1])
    return found, [
        f"{sizes[sizes > 1].sum():,} pairs are near-duplicates of another, in {(sizes > 1).sum():,} clusters"
    ]


def _marks(review: Path | None, ids: Any, n: int) -> dict[int, str]:
    if review is None:
        return {}
    from rince.audit.output.review import read_marks
    from rince.audit.output.table import pair_name

    return read_marks(review, [str(row) if ids is None else pair_name(ids[row], row) for row in range(n)])


def _review(options: argparse.Namespace, folder: Path) -> "Review":
    """What the marks of a review say about a saved audit; written beside it."""
    from rince.audit.output.review import read_marks, reviewed
    from rince.audit.output.table import read_pairs

    pairs = read_pairs(folder)
    try:
        record = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
        rate, interval = float(record["noise_rate"]), (float(record["interval"][0]), float(record["interval"][1]))
    except (OSError, ValueError, KeyError, TypeError, IndexError) as error:
        raise UsageError(f"{folder / 'audit.json'} is not the record of an audit") from error
    found = reviewed(pairs, read_marks(options.review, pairs.ids), rate, interval, options.seed)
    write_text(folder / "review.json", json.dumps(found._asdict(), indent=2) + "\n")
    return found


def _check_lengths(n: int, given: dict[str, Any]) -> None:
    for name, what in given.items():
        if what is not None and len(what) != n:
            remark = getattr(what, "remark", "")
            why = f"; {remark}" if remark else ""
            raise UsageError(f"{name} must have one item per pair: expected {n:,}, got {len(what):,}{why}")


def _show(options: argparse.Namespace, side: str, ids: Any, raw: Any) -> Any:
    """What the page shows of a side: what the user named, or else the raw items."""
    from rince.audit.encode.prepare import show_of

    media, texts = getattr(options, f"images_{side}"), getattr(options, f"texts_{side}")
    if texts is not None:
        return _texts(texts, not options.no_header)
    return show_of(raw) if media is None else _media(media, ids, not options.no_header, options.media_root)


def _texts(what: str, header: bool) -> Any:
    from rince.audit.input.arrays import values
    from rince.audit.input.source import source
    from rince.report.gallery import Texts

    if Path(what).suffix == ".txt" and Path(what).is_file():
        with open(what, encoding="utf-8", errors="replace") as file:
            return Texts([line.rstrip("\n") for line in file])  # splitlines would part a line at rarer characters, too
    return Texts(values(source(what, header)))


def _media(what: str, ids: Any, header: bool, root: Path | None) -> Any:
    from rince.audit.input.arrays import mapped_npy, naming, values
    from rince.audit.input.source import source
    from rince.report.folder import from_folder
    from rince.report.gallery import Arrays, Files

    if Path(what).is_dir():
        return from_folder(Path(what), ids)
    where = source(what, header)
    if where.kind == ".npy":
        with naming(where.path):
            array = mapped_npy(where.path)
        if array.ndim > 1:
            return Arrays(array)
    names = values(where)
    paths = [where.folder / str(name) if name is not None and str(name) else None for name in names]
    return Files(paths, root=root or where.folder)
