"""``rince compare A B``: which loss to train with on these pairs."""

import argparse
import functools
import importlib.util
import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rince._support.command_options import add_output_options, check_counts, local_path, parsed, print_result
from rince._support.optional_imports import require
from rince._support.progress import note, silence
from rince.errors import UsageError

EPILOG = """
A and B are two columns of embeddings, other features or texts, in the formats of rince audit. Every loss trains two
small networks from scratch: MLPs for numbers, mean word vectors for texts. Shares of the training pairs are mismatched
on purpose; the results are on held-out pairs without added noise.

losses: infonce, gce[-Q], rince[-Q][-rR or -lamL], dcl, sce, debiased[-TAU], hard[-BETA][-tauT] (debiased with T = 0.1
  by default), sigmoid[-B] (learned bias, starting at -B). rince-0.01:0.4 increases q during training. +trust after a
  name adds pair weights from an audit. my_module.MyLoss, a class path, is imported from the current folder, constructed
  with temperature= and contrast= if it accepts them, and called with two batches of embeddings.

  rince compare images.npy captions.npy
  rince compare pairs.csv:question pairs.csv:answer --losses infonce gce-1 infonce+trust --rates 0 0.4 --seeds 5

The same command resumes an interrupted comparison.
"""


DEFAULTS = {
    "losses": "infonce gce-0.5 gce-1 rince-0.1-r2.5 rince-0.5",
    "temperatures": "0.1 0.2 0.4",
    "rates": "0 0.2 0.4",
    "epochs": "40",
}  # of TwoFiles, for the help, which does not import torch


def comparison_parser(
    program: str, description: str, epilog: str = "", defaults: Mapping[str, str] = DEFAULTS
) -> argparse.ArgumentParser:
    """Options of a comparison; the caller adds the data. ``defaults`` are shown in the help."""
    parser = argparse.ArgumentParser(
        program,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        exit_on_error=False,
    )
    parser.add_argument("--losses", nargs="+", metavar="LOSS", help=f"losses to compare ({defaults['losses']})")
    parser.add_argument(
        "--temperatures", nargs="+", type=float, metavar="T",
        help=f"temperatures to try for every loss ({defaults['temperatures']})",
    )  # fmt: skip
    parser.add_argument(
        "--rates", nargs="+", type=float, metavar="R",
        help=f"shares of training pairs to mismatch, in [0, 1) ({defaults['rates']})",
    )  # fmt: skip
    parser.add_argument("--seeds", type=int, default=3, metavar="N", help="number of seeds (3)")
    parser.add_argument(
        "--tune-seeds", type=int, metavar="N",
        help="try all temperatures on the first N seeds only, the best one on the others (default: on all seeds)",
    )  # fmt: skip
    parser.add_argument("--epochs", type=int, metavar="N", help=f"epochs of every training ({defaults['epochs']})")
    parser.add_argument("--out", type=local_path, help="folder for the results (runs/compare/columns)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, metavar="N", help="processes (%(default)s)")
    parser.add_argument("--report-only", action="store_true", help="report the finished runs and start none")
    parser.add_argument("--so-far", dest="report_only", action="store_true", help=argparse.SUPPRESS)  # until 0.4
    add_output_options(parser)
    return parser


def main(arguments: list[str]) -> int:
    parser = comparison_parser(
        "rince compare",
        "Train with several losses and compare retrieval on held-out pairs.",
        EPILOG,
    )
    parser.add_argument("columns", nargs="+", metavar="A B", help="two columns, in the formats of rince audit")
    options = parsed(parser, arguments)
    if len(options.columns) != 2:
        raise UsageError(f"rince compare takes two columns A B, got {len(options.columns)}")
    from rince.compare.tasks import TwoFiles

    return compare_losses(TwoFiles(*options.columns), options, shlex.join(["rince", "compare", *arguments]))


def compare_losses(task: Any, options: argparse.Namespace, command: str) -> int:
    """Train with every loss, write the report and print its table."""
    from rince.compare.losses import parse_loss
    from rince.compare.report import summarize, summary_record, table, write_report

    require("scipy", "train")  # for the report; fails before the first run if it is missing
    for name in ("losses", "rates", "temperatures"):
        if getattr(options, name) is None:
            setattr(options, name, list(getattr(task, name)))
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # for losses by class path
    _check_options(options)
    for loss in options.losses:
        parse_loss(loss).build(options.temperatures[0])  # reports errors before the first run
    task.check()
    out = options.out or Path("runs/compare") / task.name
    tune_seeds = task.tune_seeds if options.tune_seeds is None else options.tune_seeds
    if tune_seeds is not None and tune_seeds >= options.seeds:
        tune_seeds = None
    shared = {"epochs": options.epochs or task.usual_epochs, "data": task.fingerprint()}
    with silence(options.quiet):
        if importlib.util.find_spec("matplotlib") is None:
            note("matplotlib is not installed: no figure (pip install 'rince[train]')")
        results = results_of(task, options, shared, tune_seeds, out)
    summary = summarize(task.name, task.metric, task.noise, results, tune_seeds)
    files = write_report(summary, results, out, command)
    text = table(summary) + "".join(f"\n- {line}" for line in summary.advice())
    record = {**summary_record(summary, command), "files": [str(out / name) for name in files]}
    print_result(options, record, f"{text}\n\nwritten to {out}: {', '.join(files)}")
    return 0


def results_of(
    task: Any, options: argparse.Namespace, shared: dict[str, Any], tune_seeds: int | None, out: Path
) -> list[dict[str, Any]]:
    """Results of all runs: every temperature for the seeds that tune it, the chosen temperature for the others.

    ``shared`` are settings of all runs. A finished run with other values is rejected.
    """
    from rince.compare.grid import finished_runs, run_grid
    from rince.compare.report import chosen_temperatures

    all_runs = [
        {"loss": loss, "temperature": t, "rate": rate, "seed": seed, **shared}
        for seed in range(options.seeds)
        for rate in options.rates
        for loss in options.losses
        for t in options.temperatures
    ]
    if options.report_only:
        return finished_runs(all_runs, out / "runs", name_of)
    work = functools.partial(one_run, task=task, out=out)
    tuning = [run for run in all_runs if tune_seeds is None or run["seed"] < tune_seeds]
    results = run_grid(tuning, work, out / "runs", name_of, options.workers)
    chosen = chosen_temperatures(results)
    rest = [
        run
        for run in all_runs
        if run not in tuning and run["temperature"] == chosen[str(run["loss"]), float(run["rate"])]
    ]
    return results + (run_grid(rest, work, out / "runs", name_of, options.workers) if rest else [])


def _check_options(options: argparse.Namespace) -> None:
    from rince.compare.losses import parse_loss

    for name in ("losses", "rates", "temperatures"):
        values = getattr(options, name)
        if len({parse_loss(value).label if name == "losses" else value for value in values}) != len(values):
            raise UsageError(f"--{name} must be different from each other, got {' '.join(map(str, values))}")
    if wrong := [rate for rate in options.rates if not 0 <= rate < 1]:
        raise UsageError(f"--rates must lie in [0, 1), got {wrong[0]:g}")
    if wrong := [t for t in options.temperatures if not 0 < t < float("inf")]:
        raise UsageError(f"--temperatures must be positive, got {wrong[0]:g}")
    check_counts(options, "seeds", "workers", "tune_seeds", "epochs")


def name_of(run: Any) -> str:
    return f"{run['loss']} t {run['temperature']:g} rate {run['rate']:g} seed {run['seed']}"


def one_run(run: Any, task: Any, out: Path) -> dict[str, Any]:
    result = task.run(run, out)
    return {**result, "headline": f"{task.metric} of held-out pairs {result['test']:.1f} %"}
