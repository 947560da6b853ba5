"""``rince compare A B``: which loss to train with, and what it costs on clean pairs."""

import argparse
import functools
import importlib.util
import os
import shlex
import sys
from pathlib import Path
from typing import Any

from rince._support.command_options import check_counts, local_path, parsed
from rince.errors import UsageError

EPILOG = """
A and B are two columns of numbers or texts, as rince audit takes them. Numbers go through two small MLPs, texts through
means of word vectors, all trained from scratch; a share of the training pairs is mismatched on purpose.

losses: infonce, gce[-Q], rince[-Q][-rR or -lamL], dcl, sce, debiased[-TAU], hard[-BETA][-tauT] (debiased too, T 0.1,
unless T is 0), sigmoid[-B] (a learned bias that starts at -B). Q may grow during training: rince-0.01:0.4.
Other losses by class path: my_module.MyLoss is imported from the current folder, built with temperature= and contrast=
where it takes them, and called with two batches of embeddings. +trust after a name weights the pairs by an audit.

  rince compare images.npy captions.npy
  rince compare pairs.csv:question pairs.csv:answer --losses infonce gce-1 infonce+trust --rates 0 0.4 --seeds 5

The same command resumes an interrupted comparison.
"""


def comparison_parser(program: str, description: str, epilog: str = "") -> argparse.ArgumentParser:
    """The options of any comparison; the caller adds what it is of."""
    parser = argparse.ArgumentParser(
        program,
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        exit_on_error=False,
    )
    parser.add_argument("--losses", nargs="+", metavar="LOSS", help="which losses (the task's own list)")
    parser.add_argument("--temperatures", nargs="+", type=float, metavar="T", help="tried for every loss (the task's)")
    parser.add_argument("--rates", nargs="+", type=float, metavar="R", help="noise rates in [0, 1) (the task's)")
    parser.add_argument("--seeds", type=int, default=3, help="how many: 0, 1, ... (3)")
    parser.add_argument(
        "--tune-seeds", type=int, metavar="N",
        help="try all temperatures on the first N seeds only, the best one on the others (the task's; else all seeds)",
    )  # fmt: skip
    parser.add_argument("--epochs", type=int, metavar="N", help="of every training (the task's)")
    parser.add_argument("--out", type=local_path, help="folder for the results (runs/compare/TASK)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="runs at a time (%(default)s)")
    parser.add_argument("--report-only", action="store_true", help="report on the finished runs, start none")
    parser.add_argument("--so-far", dest="report_only", action="store_true", help=argparse.SUPPRESS)  # until 0.4
    return parser


def main(arguments: list[str]) -> int:
    parser = comparison_parser("rince compare", "Which loss for my pairs: compare losses on two columns.", EPILOG)
    parser.add_argument("columns", nargs="+", metavar="A B", help="two columns, as for rince audit")
    options = parsed(parser, arguments)
    if len(options.columns) != 2:
        hint = (
            ""
            if len(options.columns) > 1
            else f"; for a built-in task: python -m experiments compare {options.columns[0]}"
        )
        raise UsageError(f"rince compare takes two columns A B, got {len(options.columns)}{hint}")
    from rince.compare.tasks import TwoFiles

    return compare_losses(TwoFiles(*options.columns), options, shlex.join(["rince", "compare", *arguments]))


def compare_losses(task: Any, found: argparse.Namespace, command: str) -> int:
    """Train with every loss, write the report and print its table."""
    from rince.compare.losses import parse_loss
    from rince.compare.report import summarize, table, write_report

    for name in ("losses", "rates", "temperatures"):
        if getattr(found, name) is None:
            setattr(found, name, list(getattr(task, name)))
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())  # losses of the user's own
    check(found)
    if importlib.util.find_spec("matplotlib") is None:
        print("matplotlib is not installed: no figure will be drawn (pip install 'rince[train]')", file=sys.stderr)
    for loss in found.losses:
        parse_loss(loss).build(found.temperatures[0])  # says now what is wrong with it
    task.check()
    out = found.out or Path("runs/compare") / task.name
    tune_seeds = task.tune_seeds if found.tune_seeds is None else found.tune_seeds
    if tune_seeds is not None and tune_seeds >= found.seeds:
        tune_seeds = None  # all seeds have a say
    same = {"epochs": found.epochs or task.usual_epochs, "data": task.fingerprint()}
    results = results_of(task, found, same, tune_seeds, out)
    summary = summarize(task.name, task.metric, task.noise, results, tune_seeds)
    print(table(summary) + "".join(f"\n- {line}" for line in summary.advice()), flush=True)
    print(f"\nwritten to {out}: {', '.join(write_report(summary, results, out, command))}")
    return 0


def results_of(
    task: Any, found: argparse.Namespace, same: dict[str, Any], tune_seeds: int | None, out: Path
) -> list[dict[str, Any]]:
    """All runs, done where they are not finished: every temperature for the seeds that choose it, then the chosen.

    ``same`` is what all runs share and a finished one must have shared as well, to be taken.
    """
    from rince.compare.grid import finished_runs, run_grid
    from rince.compare.report import chosen_temperatures

    everything = [
        {"loss": loss, "temperature": t, "rate": rate, "seed": seed, **same}
        for seed in range(found.seeds)
        for rate in found.rates
        for loss in found.losses
        for t in found.temperatures
    ]
    if found.report_only:
        return finished_runs(everything, out / "runs", name_of)
    work = functools.partial(one_run, task=task, out=out)
    tuning = [run for run in everything if tune_seeds is None or run["seed"] < tune_seeds]
    results = run_grid(tuning, work, out / "runs", name_of, found.workers)
    chosen = chosen_temperatures(results)
    rest = [
        run
        for run in everything
        if run not in tuning and run["temperature"] == chosen[str(run["loss"]), float(run["rate"])]
    ]
    return results + (run_grid(rest, work, out / "runs", name_of, found.workers) if rest else [])


def check(found: argparse.Namespace) -> None:
    """Refuse options that make no sense before any work begins."""
    from rince.compare.losses import parse_loss

    for name in ("losses", "rates", "temperatures"):
        values = getattr(found, name)
        if len({parse_loss(value).label if name == "losses" else value for value in values}) != len(values):
            raise UsageError(f"--{name} names one twice: {' '.join(map(str, values))}")
    if wrong := [rate for rate in found.rates if not 0 <= rate < 1]:
        raise UsageError(f"--rates must lie in [0, 1), got {wrong[0]:g}")
    if wrong := [t for t in found.temperatures if not 0 < t < float("inf")]:
        raise UsageError(f"--temperatures must be positive, got {wrong[0]:g}")
    check_counts(found, "seeds", "workers", "tune_seeds", "epochs")


def name_of(run: Any) -> str:
    return f"{run['loss']} t {run['temperature']:g} rate {run['rate']:g} seed {run['seed']}"


def one_run(run: Any, task: Any, out: Path) -> dict[str, Any]:
    result = task.run(run, out)
    return {**result, "headline": f"{task.metric} of held-out pairs {result['test']:.1f} %"}
