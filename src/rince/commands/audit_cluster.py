"""``rince audit`` on a cluster: with --scheduler or --workers."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from rince.errors import UsageError

if TYPE_CHECKING:
    from rince.audit.partitions.partition import Partition

UNKNOWN = {
    "encode": "--encode",
    "encoder": "--encoder",
    "encoder_a": "--encoder-a",
    "encoder_b": "--encoder-b",
    "near_duplicates": "--near-duplicates",
    "images_a": "--images-a",
    "images_b": "--images-b",
    "texts_a": "--texts-a",
    "texts_b": "--texts-b",
    "no_header": "--no-header",
    "review": "--review",
}


def main(options: argparse.Namespace) -> int:
    """Audit partition by partition, and print what was found."""
    from rince.audit.cluster.connect import connected
    from rince.audit.partitions.out_folder import check_out
    from rince.audit.partitions.run import audit_partitions

    _check(options)
    check_out(options.out, options.force)
    with connected(options.scheduler, options.workers) as client:
        partitions = _partitions(options)
        found = audit_partitions(
            partitions,
            client=client,
            out=options.out if "://" in options.out else Path(options.out).absolute(),
            fit=bool(options.fit),
            fdr=options.fdr,
            seed=options.seed,
            drop_bad=options.drop_bad,
            title=options.title or f"{Path(options.a).name} and {Path(options.b).name}",
            force=True,
        )
    print(found.summary(options.fdr))
    print(f"written: {found.table} ({found.partitions} files), {options.out}/audit.json, {options.out}/audit.html")
    return 0


def _check(options: argparse.Namespace) -> None:
    if options.b is None:
        raise UsageError("name two columns, as rince audit 'data/*.parquet:A' 'data/*.parquet:B'")
    if options.scheduler is not None and options.workers is not None:
        raise UsageError("give --scheduler or --workers, not both")
    given = [name for option, name in UNKNOWN.items() if getattr(options, option)]
    if given:
        raise UsageError(f"{given[0]} is for audits on one machine: leave out --scheduler and --workers, or {given[0]}")
    if options.table == "csv":
        raise UsageError("on a cluster the table is written as Parquet, one file per partition: leave out --table csv")


def _partitions(options: argparse.Namespace) -> list["Partition"]:
    if all(text.endswith(".npy") for text in (options.a, options.b)):
        from rince.audit.cluster.arrays import array_partitions

        given = [name for name in ("ids", "groups", "duplicates") if getattr(options, name)]
        if given:
            raise UsageError(f"--{given[0]} on a cluster is a column of Parquet files, beside A and B in Parquet files")
        return array_partitions(options.a, options.b)
    from rince.audit.cluster.tables import table_partitions

    return table_partitions(options.a, options.b, ids=options.ids, duplicates=options.duplicates, groups=options.groups)
