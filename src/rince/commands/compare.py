"""``rince compare TASK``: which loss serves best, and what it costs where nothing is wrong."""

import argparse
import functools
import os
import shlex
from pathlib import Path
from typing import Any

from rince._support.command_options import check_counts, local_path, parsed
from rince.errors import UsageError

EPILOG = """
tasks:
  digits                halves of scikit-learn's digits; nothing to download
  multi30k              English captions and their German translations (--source FOLDER)
  spoken-digits-towers  spectrograms and images of digits, matched by two small MLPs (--source FILE.zip)
  spoken-digits         images and recordings of digits, encoders trained from scratch (--source FILE.zip)
  cifar10-label-noise   label pairs on a small CIFAR-10 (--source FOLDER)
  A B                   two columns of yours, numbers or texts, as rince audit takes them

losses: infonce, gce[-Q], rince[-Q][-rR or -lamL], dcl, sce, debiased[-TAU], hard[-BETA][-tauT] (debiased too, T 0.1,
unless T is 0), sigmoid[-B] (a learned bias that begins at -B); with +trust behind a name, pairs are weighted by an
audit of the training pairs (spoken-digits, cifar10-label-noise: as rince train --trust auto does it).

  rince compare digits
  rince compare digits --losses infonce gce-1 infonce+trust --rates 0 0.4 --seeds 5
  rince compare images.npy:features captions.npy --rates 0 0.2

The same command again goes on where it stopped. Noise is made on purpose on top of what the data have.
"""


def options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "rince compare",
        description="Compare losses on one data set, over noise rates, temperatures and seeds.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        exit_on_error=False,
    )
    parser.add_argument("task", nargs="+", metavar="TASK", help="a task, or two columns A B")
    parser.add_argument("--losses", nargs="+", metavar="LOSS", help="which losses (the task's own list)")
    parser.add_argument("--temperatures", nargs="+", type=float, metavar="T", help="tried for every loss (the task's)")
    parser.add_argument("--rates", nargs="+", type=float, metavar="R", help="noise rates in [0, 1) (the task's)")
    parser.add_argument("--seeds", type=int, default=3, help="how many: 0, 1, ... (3)")
    parser.add_argument(
        "--tune-seeds", type=int, metavar="N",
        help="try all temperatures on the first N seeds only, the best one on the others (the task's; else all seeds)",
    )  # fmt: skip
    parser.add_argument("--epochs", type=int, metavar="N", help="of every training (the task's)")
    parser.add_argument("--source", help="where the task's data are")
    parser.add_argument("--out", type=local_path, help="folder for the results (runs/compare/TASK)")
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1, help="runs at a time (%(default)s)")
    parser.add_argument("--so-far", action="store_true", help="do no runs, only report on those that are finished")
    return parser


def main(arguments: list[str]) -> int:
    found = parsed(options(), arguments)
    from rince.compare.losses import parse_loss
    from rince.compare.report import write_report
    from rince.compare.summary import summarise
    from rince.compare.tasks import find_task

    task = find_task(found.task, found.source)
    for name in ("losses", "rates", "temperatures"):
        if getattr(found, name) is None:
            setattr(found, name, list(getattr(task, name)))
    check(found)
    for loss in found.losses:
        parse_loss(loss).build(found.temperatures[0])  # says now what is wrong with it
    task.check()
    out = found.out or Path("runs/compare") / task.name
    tune_seeds = task.tune_seeds if found.tune_seeds is None else found.tune_seeds
    if tune_seeds is not None and tune_seeds >= found.seeds:
        tune_seeds = None  # all seeds have a say
    same = {"epochs": found.epochs or task.usual_epochs, "data": task.fingerprint()}
    results = results_of(found, same, tune_seeds, out)
    summary = summarise(task.name, task.metric, task.noise, results, tune_seeds)
    print(write_report(summary, results, out, shlex.join(["rince", "compare", *arguments])), end="")
    print(f"written: {out / 'comparison.html'}, table.md, results.csv, summary.json, comparison.png and .svg")
    return 0


def results_of(
    found: argparse.Namespace, same: dict[str, Any], tune_seeds: int | None, out: Path
) -> list[dict[str, Any]]:
    """All runs, done where they are not finished: every temperature for the seeds that choose it, then the chosen.

    ``same`` is what all runs share and a finished one must have shared as well, to be taken.
    """
    from rince.compare.summary import chosen_temperatures
    from rince.reproduce.grid import finished_runs, run_grid

    everything = [
        {"loss": loss, "temperature": t, "rate": rate, "seed": seed, **same}
        for seed in range(found.seeds)
        for rate in found.rates
        for loss in found.losses
        for t in found.temperatures
    ]
    if found.so_far:
        return finished_runs(everything, out / "runs", name_of)
    work = functools.partial(one_run, task=found.task, source=found.source, out=out)
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


def one_run(run: Any, task: list[str], source: str | None, out: Path) -> dict[str, Any]:
    from rince.compare.tasks import find_task

    result = find_task(task, source).run(run, out)
    return {**result, "headline": f"test {result['test']:.1f}"}
