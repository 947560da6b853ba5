"""Options that the experiments share."""

import argparse
import os
from pathlib import Path

import rince._support.command_options
from rince._support.optional_imports import require
from rince.errors import UsageError


def graph_options(
    prog: str, description: str, datasets: list[str], losses: list[str], seeds: int
) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=f"rince reproduce {prog}", description=description, exit_on_error=False)
    parser.add_argument(
        "--datasets", nargs="+", default=datasets, metavar="NAME", help=f"any TUDataset ({' '.join(datasets)})"
    )
    parser.add_argument("--losses", nargs="+", default=losses, metavar="LOSS", help=f"({' '.join(losses)})")
    parser.add_argument("--seeds", type=int, default=seeds, help=f"how many: 0, 1, ... ({seeds})")
    parser.add_argument("--epochs", type=int, default=20, help="of training (20)")
    parser.add_argument("--root", default=default_root(), help="folder with NAME.zip or NAME/ (%(default)s)")
    parser.add_argument("--download", action="store_true", help="fetch data sets that are not there")
    parser.add_argument("--out", default=f"runs/reproduce/{prog}", help="folder for the results (%(default)s)")
    parser.add_argument("--workers", type=int, default=min(2, os.cpu_count() or 1), help="runs at a time (%(default)s)")
    parser.add_argument("--so-far", action="store_true", help="do no runs, only report on those that are finished")
    return parser


def default_root() -> str:
    """$RINCE_DATA/tudataset if that variable is set."""
    return str(Path(os.environ["RINCE_DATA"]) / "tudataset") if "RINCE_DATA" in os.environ else "data/tudataset"


def parsed(parser: argparse.ArgumentParser, arguments: list[str]) -> argparse.Namespace:
    """What was asked for, checked before any work begins; whatever is wrong is one sentence."""
    from rince.reproduce.graph_training import graphs_of, make_loss

    options = checked(parser, arguments, "seeds", "epochs", "workers")
    require("torch_geometric", "graph")
    for loss in options.losses:
        make_loss(loss)
    for dataset in [] if options.so_far else options.datasets:
        graphs_of(dataset, options.root, options.download)
    return options


def checked(parser: argparse.ArgumentParser, arguments: list[str], *counts: str) -> argparse.Namespace:
    """The options of any experiment; ``counts`` are at least 1, and ``rates``, where there are any, shares."""
    options = rince._support.command_options.parsed(parser, arguments)
    for name in counts:
        if getattr(options, name) < 1:
            raise UsageError(f"--{name.replace('_', '-')} must be at least 1, got {getattr(options, name)}")
    if wrong := [rate for rate in getattr(options, "rates", ()) if not 0 <= rate <= 1]:
        raise UsageError(f"--rates must lie in [0, 1], got {wrong[0]}")
    return options
