"""Whether a long run keeps its memory and its speed, and leaves files that agree; the same for a grid of short runs.

    python benchmarks/long_run.py [--steps 20000] [--runs 60]

The long run is `rince train digits/simclr` with a small encoder, in a process of its own, watched from outside: memory
and CPU time from /proc (so on Linux only), the step from metrics.csv. The grid is what `python -m experiments`
does: many short runs, each with its evaluation, in one process. Both leave out their first tenth, in which
buffers are filled and modules are imported. Memory must stay within 2 %, CPU time per step or run within 10 %.
"""

import argparse
import csv
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from statistics import fmean, median
from typing import Any

from process_status import cpu_seconds, resident_megabytes

MEMORY, SPEED = 0.02, 0.10  # how much may be gained or lost
EVERY = 10  # steps from one line of metrics.csv to the next
SMALL = {"encoder.width": 8, "encoder.depth": 1, "method.hidden": 32, "method.width": 16, "data.batch_size": 32}
TRAINER = {"trainer.enable_progress_bar": "false", "trainer.log_every_n_steps": EVERY}


@dataclass(frozen=True)
class Sample:
    """How far a process was, what it held in memory, and what it had used of the CPU."""

    done: int
    megabytes: float
    seconds: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=20_000, help="of the long run (%(default)s); 0 for none")
    parser.add_argument("--runs", type=int, default=60, help="of the grid (%(default)s); 0 for none")
    found = parser.parse_args()
    if not Path("/proc/self/status").exists():
        parser.error("memory is read from /proc, which this system does not have")
    os.environ["OMP_NUM_THREADS"] = "1"
    problems: list[str] = []
    with tempfile.TemporaryDirectory() as out:
        if found.steps:
            folder = Path(out) / "long"
            problems += judge(f"{found.steps} steps of SimCLR on digits", "step", long_run(folder, found.steps))
            problems += disagreements(folder, found.steps)
        if found.runs:
            grid = get_context("spawn").Pool(1).apply(grid_of_runs, (found.runs, out))
            problems += judge(f"{found.runs} runs of a grid in one process", "run", grid)
    print("\n".join(problems) if problems else "memory and speed are flat, and the files agree")
    return 1 if problems else 0


def long_run(folder: Path, steps: int) -> list[Sample]:
    options = {**SMALL, **TRAINER, "trainer.max_steps": steps, "trainer.max_epochs": -1}
    options |= {"out": folder.parent, "name": folder.name}
    command = [sys.executable, "-m", "rince.cli", "train", "digits/simclr"]
    process = subprocess.Popen([*command, *(f"--{name}={value}" for name, value in options.items())])
    samples: list[Sample] = []
    while process.poll() is None:
        if (step := last_step(folder / "metrics.csv")) and not (samples and samples[-1].done == step):
            samples.append(sample(step, process.pid))
        time.sleep(0.25)
    if process.returncode:
        raise SystemExit(f"rince train ended with {process.returncode}")
    return [s for s in samples if s.megabytes]  # a process that has just ended has no memory any more


def last_step(path: Path) -> int:
    """Steps that the last whole line of metrics.csv tells of; 0 before there is one."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, path.stat().st_size - 1000))
            lines = file.read().split(b"\n")
    except OSError:
        return 0
    number = lines[-2].split(b",")[0] if len(lines) > 1 else b""
    return int(number) + 1 if number.isdigit() else 0


def sample(done: int, pid: int) -> Sample:
    try:
        return Sample(done, resident_megabytes(pid), cpu_seconds(pid))
    except (OSError, IndexError):
        return Sample(done, 0, 0)


def grid_of_runs(runs: int, out: str) -> list[Sample]:
    """What `python -m experiments` does for every cell of a table, on little data; a sample after each."""
    import torch

    from rince.compare.grid import run_grid

    torch.set_num_threads(1)
    samples: list[Sample] = []
    settings = [{"seed": seed, "q": 0.1 + 0.8 * seed / runs} for seed in range(runs)]
    run_grid(
        settings,
        partial(short_run, out=out),
        Path(out) / "results",
        lambda run: f"seed-{run['seed']}",
        say=lambda line: samples.append(sample(len(samples) + 1, os.getpid())),
    )
    return samples


def short_run(run: Mapping[str, Any], out: str) -> dict[str, Any]:
    sys.path.insert(0, str(Path(__file__).parents[1]))  # experiments/ is not installed
    from experiments.features import features_of
    from experiments.training import part, trained
    from rince.evaluate.probes import fit_linear, knn_accuracy

    views = part("rince.views.image.SimCLRViews", size=8, jitter=[0.4, 0.4, 0, 0], mean=[0.305], std=[0.377])
    settings = {
        "seed": run["seed"],
        "method": part("rince.methods.simclr.SimCLR", hidden=32, width=16),
        "encoder": part("rince.encoders.images.ConvNet", channels=1, width=8, depth=1),
        "loss": part("rince.RINCE", q=run["q"], temperature=0.2),
        "views": views,
        "data": part("rince.data.images.DigitImages", batch_size=64),
        "trainer": {"max_epochs": 1, "accelerator": "cpu"},
    }
    method, data = trained(settings, Path(out) / "runs" / f"seed-{run['seed']}")
    train, test = data.split("train"), data.split("test")
    known, asked = (features_of(method, images, "encoder") for images, _ in (train, test))
    linear = fit_linear(known, train[1], 0.1).accuracy(asked, test[1])
    return {"linear": linear, "knn": knn_accuracy(known, train[1], asked, test[1], k=5)}


def judge(title: str, unit: str, samples: list[Sample]) -> list[str]:
    """Print a line for every tenth; return what is not flat after the first."""
    total = samples[-1].done
    tenths = [[s for s in samples if total * i / 10 < s.done <= total * (i + 1) / 10] for i in range(10)]
    if not all(tenths):
        return [f"{title}: too few samples to judge"]
    memory = [median(s.megabytes for s in tenth) for tenth in tenths]
    edges = [samples[0], *(tenth[-1] for tenth in tenths)]
    speed = [1000 * (b.seconds - a.seconds) / (b.done - a.done) for a, b in pairwise(edges)]
    print(f"{title}\n  up to {unit}   memory MB   CPU ms per {unit}")
    for edge, m, s in zip(edges[1:], memory, speed, strict=True):
        print(f"  {edge.done:>{6 + len(unit)}} {m:>11.1f} {s:>12.2f}")
    growth = max(memory[1:]) / min(memory[1:]) - 1
    slower = fmean(speed[-3:]) / fmean(speed[1:4]) - 1
    print(f"  memory changes by {growth:.2%}, CPU time per {unit} by {slower:+.1%}\n", flush=True)
    problems = [f"{title}: memory changes by {growth:.1%}, more than {MEMORY:.0%}"] if growth > MEMORY else []
    if slower > SPEED:
        problems.append(f"{title}: a {unit} takes {slower:.1%} longer in the end, more than {SPEED:.0%}")
    return problems


def disagreements(folder: Path, steps: int) -> list[str]:
    """Where table, checkpoint, encoder and result of a finished run tell different stories."""
    import torch
    from safetensors.torch import load_file

    with open(folder / "metrics.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    result = json.loads((folder / "result.json").read_text())
    state = torch.load(folder / "last.ckpt", weights_only=True)
    encoder = load_file(folder / "encoder.safetensors")
    expected = [str(step) for step in range(EVERY - 1, steps, EVERY)]
    kept = {name: state["state_dict"].get(f"encoder.{name}") for name in encoder}
    checks = {
        f"metrics.csv has a line every {EVERY} steps, each once": [row["step"] for row in rows] == expected,
        "every loss is a number": all(math.isfinite(float(row["loss"])) for row in rows),
        "checkpoint and result have all steps": state["global_step"] == result["steps"] == steps,
        "the checkpoint has seen all batches": state["batches_seen"] == steps,
        "the encoder's file is the checkpoint's": all(
            value is not None and torch.equal(value, encoder[name]) for name, value in kept.items()
        ),
        "the result's loss is the last line's": steps % EVERY or float(rows[-1]["loss"]) == result["loss"],
        "it has learned": fmean(float(row["loss"]) for row in rows[-20:]) < float(rows[0]["loss"]),
    }
    for name, holds in checks.items():
        print(f"  {'yes' if holds else 'NO '} {name}")
    print(flush=True)
    return [f"not true: {name}" for name, holds in checks.items() if not holds]


if __name__ == "__main__":
    sys.exit(main())
