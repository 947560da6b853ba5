"""The command ``rince demo``: the effect of 40 % mismatched pairs on InfoNCE, robust losses and weighted pairs.

View A is the even rows of scikit-learn's digits, view B the odd rows. Two small networks learn to match them, with
40 % mismatched training pairs and without. InfoNCE uses the better of two temperatures, chosen on validation pairs; the
other losses have one setting. The same pairs are audited. Runs are distributed over processes with one thread each:
steps are too small to gain from threads.
"""

import argparse
import json
import math
import os
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from rince._support.atomic_files import write_text
from rince._support.command_options import local_path, parsed
from rince._support.folder_lock import locked
from rince._support.progress import track
from rince.audit.fit.towers import FitConfig, tower
from rince.compare.grid import work_off
from rince.compare.towers import Split, TwoNetworks, batches, fit, split
from rince.errors import UsageError
from rince.losses import GCE, RINCE, ContrastiveLoss, CrossView, InfoNCE
from rince.noise.pairs import wrong_pairs

if TYPE_CHECKING:
    from rince.audit import Audit

RATE = 0.4
SETTINGS = (("InfoNCE", 0.1), ("InfoNCE", 0.2), ("RINCE", 0.1), ("GCE", 0.2), ("weights", 0.2), ("oracle", 0.2))
NAMES = tuple(dict.fromkeys(name for name, _ in SETTINGS))
LABELS = {"RINCE": "RINCE q 0.5", "weights": "GCE, estimated weights", "oracle": "GCE, oracle weights"}
TEST, CHOOSE = 397, 200
BATCH = 256
CONFIG = FitConfig(dropout=0.0, layers=2)


def train_towers(
    a: Tensor, b: Tensor, loss: ContrastiveLoss, seed: int, epochs: int, weights: Tensor | None = None
) -> TwoNetworks:
    """Two networks, trained on the weighted pairs."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        towers = tower(a.shape[1], CONFIG), tower(b.shape[1], CONFIG)
    optimizer = torch.optim.Adam([p for network in towers for p in network.parameters()], lr=1e-3, fused=True)
    plan = batches(len(a), epochs, torch.Generator().manual_seed(seed), BATCH)
    return fit(towers, optimizer, a, b, loss, plan, weights)


@torch.no_grad()
def recalls(f: nn.Module, g: nn.Module, pairs: tuple[Tensor, Tensor]) -> tuple[float, float]:
    """R@1 and R@10 from A to B. Ties and NaN count as misses."""
    scores = nn.functional.normalize(f(pairs[0])) @ nn.functional.normalize(g(pairs[1])).T
    rank = (~(scores < scores.diagonal()[:, None])).sum(1) - 1
    return float((rank == 0).float().mean()), float((rank < 10).float().mean())


def auc(scores: NDArray[np.float32], wrong: NDArray[np.bool_]) -> float:
    """AUC of separating right from wrong pairs; NaN if all are right or all are wrong."""
    if not wrong.any() or wrong.all():
        return float("nan")
    right = np.sort(scores[~wrong])
    below = np.searchsorted(right, scores[wrong], "left") + np.searchsorted(right, scores[wrong], "right")
    return 1 - float(below.mean()) / (2 * len(right))


class Task(NamedTuple):
    """One training of the demo or, with the name "audit", the audit."""

    name: str
    temperature: float
    rate: float
    seed: int
    epochs: int


@dataclass(frozen=True)
class Run:
    """Settings and results of one training. Recalls are between 0 and 1, on held-out pairs."""

    loss: str
    temperature: float
    rate: float
    seed: int
    chosen_by: float
    recall_1: float
    recall_10: float
    auc: float
    scores: NDArray[np.float32]
    wrong: NDArray[np.bool_]


def loss_of(name: str, temperature: float) -> ContrastiveLoss:
    if name == "InfoNCE":
        return InfoNCE(temperature=temperature, contrast=CrossView())
    if name == "RINCE":
        return RINCE(q=0.5, lam=0.01, temperature=temperature, contrast=CrossView(), scale="unit")
    return GCE(q=1.0, temperature=temperature, contrast=CrossView())


def weights_of(task: Task, data: Split) -> Tensor | None:
    """(pairs,) weights of the training pairs; None for equal weights."""
    if task.name == "oracle":
        return torch.from_numpy(~data.wrong).float()
    if task.name != "weights":
        return None
    from rince.trust import estimate_weights

    return torch.from_numpy(estimate_weights(data.a.numpy(), data.b.numpy(), seed=task.seed).weights)


def work(task: Task) -> Any:
    """Run one task. Returns a ``Run``, or an ``Audit`` for the audit."""
    from rince.data.digit_halves import digit_pairs

    a, b, _ = digit_pairs()
    if task.name == "audit":
        from rince.audit import audit_pairs

        return audit_pairs(
            a, b[wrong_pairs(len(a), task.rate, task.seed).partner], fit=True, seed=task.seed, progress=False
        )
    data = split(torch.from_numpy(a), torch.from_numpy(b), task.rate, task.seed, CHOOSE, TEST)
    loss = loss_of(task.name, task.temperature)
    f, g = train_towers(data.a, data.b, loss, task.seed, task.epochs, weights_of(task, data))
    with torch.no_grad():
        scores = nn.functional.cosine_similarity(f(data.a), g(data.b)).numpy()
    recall_1, recall_10 = recalls(f, g, data.test)
    results = recalls(f, g, data.validation)[0], recall_1, recall_10, auc(scores, data.wrong), scores, data.wrong
    return Run(task.name, task.temperature, task.rate, task.seed, *results)


def train_all(seeds: int, epochs: int, jobs: int) -> tuple[list[Run], "Audit"]:
    """All trainings, at the validated temperature of each loss, and the audit."""
    tasks = [Task("audit", 0.0, RATE, 0, 0)]  # first, as the longest
    for seed in range(seeds):
        tasks += [Task(name, t, rate, seed, epochs) for rate in (RATE, 0.0) for name, t in SETTINGS]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        done = dict(
            result[:2] for result in track(work_off(list(enumerate(tasks)), work, jobs), "training", len(tasks))
        )
    finally:
        torch.set_num_threads(threads)
    runs: list[Run] = [done[i] for i in range(1, len(tasks))]
    return [run for run in runs if run.temperature == best_temperature(runs, run.loss, run.rate)], done[0]


def best_temperature(runs: Sequence[Run], loss: str, rate: float) -> float:
    same = [run for run in runs if (run.loss, run.rate) == (loss, rate)]
    return max(
        {run.temperature for run in same},
        key=lambda t: statistics.mean(run.chosen_by for run in same if run.temperature == t),
    )


def rows_of(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One row per loss and noise rate, with (mean, deviation) of R@1, R@10 and AUC in percent."""
    rows = []
    for rate in (RATE, 0.0):
        for name in NAMES:
            same = [run for run in runs if (run.loss, run.rate) == (name, rate)]
            label = f"{LABELS.get(name, name)}, t {same[0].temperature:g}"
            figures = {
                key: _mean_and_deviation([getattr(run, field) for run in same])
                for key, field in (("R@1", "recall_1"), ("R@10", "recall_10"), ("AUC", "auc"))
            }
            rows.append({"loss": name, "label": label, "rate": rate, **figures})
    return rows


def _mean_and_deviation(values: list[float]) -> tuple[float, float] | None:
    if any(math.isnan(value) for value in values):
        return None
    return 100 * statistics.mean(values), 100 * (statistics.stdev(values) if len(values) > 1 else 0.0)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows as text for a terminal."""
    head = f"{'mismatched':<13}{'loss':<30}{'R@1':>14}{'R@10':>14}{'AUC':>14}"
    lines = [head, "-" * len(head)]
    for row in rows:
        figures = [row[key] for key in ("R@1", "R@10", "AUC")]
        cells = "".join(f"{'-' if f is None else f'{f[0]:.1f} ± {f[1]:.1f}':>14}" for f in figures)
        lines.append(f"{row['rate']:<13.0%}{row['label']:<30}{cells}")
    return "\n".join(lines)


def against_truth(result: "Audit", wrong: NDArray[np.bool_]) -> str:
    """The audit compared with the truth, in one sentence."""
    flags = result.flag(0.1)
    low, high = result.interval
    hits = int(wrong[flags].sum())
    return (
        f"{result.noise_rate:.1%} of the pairs estimated as unrelated (95% interval {low:.1%} to {high:.1%}), truth "
        f"{wrong.mean():.1%}; {len(flags)} pairs flagged with {1 - hits / max(1, len(flags)):.1%} false alarms "
        f"(10% expected), which is {hits / wrong.sum():.1%} of the mismatched pairs; "
        f"AUC {auc(-result.p_wrong, wrong):.3f}"
    )


def page_data(runs: Sequence[Run], rows: Sequence[dict[str, Any]], audited: str) -> dict[str, Any]:
    from rince.report.page import extent, histogram

    by = {(row["loss"], row["rate"]): row for row in rows}
    compared = [name for name in NAMES if name != "oracle"]
    best = {rate: max(compared, key=lambda name: by[name, rate]["R@1"][0]) for rate in (RATE, 0.0)}
    cells = [
        {
            "best": row["loss"] == best[row["rate"]],
            "cells": [{"value": row["label"]}, {"value": f"{row['rate']:.0%}"}]
            + [
                {"value": "–"} if row[key] is None else {"value": f"{row[key][0]:.1f}", "spread": f"{row[key][1]:.1f}"}
                for key in ("R@1", "R@10", "AUC")
            ],
        }
        for row in rows
    ]
    bars = [
        {
            "name": f"{row['loss']}, {row['rate']:.0%}",
            "value": row["R@1"][0] / 100,
            "second": row["loss"] == "weights",
        }
        for row in rows
    ]
    noisy = [next(r for r in runs if (r.loss, r.rate, r.seed) == (name, RATE, 0)) for name in ("InfoNCE", "weights")]
    span = extent([run.scores for run in noisy])  # one axis for both
    histograms = []
    for run in noisy:
        parts = {"right pairs": run.scores[~run.wrong], "wrong pairs": run.scores[run.wrong]}
        histograms.append({"name": by[run.loss, RATE]["label"], "values": histogram(parts, span=span)})
    return {"rows": cells, "bars": bars, "histograms": histograms, "lead": LEAD, "cost": cost(rows), "audited": audited}


LEAD = (
    "1,797 handwritten digits of scikit-learn, cut into even and odd rows. Two small networks learn to match the "
    "halves. InfoNCE uses the better of two temperatures, chosen on validation pairs; the other losses have one "
    "setting. Estimated weights come from an audit of the pixels before training; oracle weights are 0 for mismatched "
    "pairs and 1 for the others."
)


def cost(rows: Sequence[dict[str, Any]]) -> str:
    """Effect of estimated weights with and without mismatched pairs, in one sentence."""
    by = {(row["loss"], row["rate"]): row["R@1"][0] for row in rows}
    lost = by["oracle", RATE] - by["InfoNCE", RATE]
    gain = by["weights", RATE] - by["InfoNCE", RATE]
    share = f" ({gain / lost:.0%} of the gain with oracle weights)" if gain > 0 and lost > 0 else ""
    return (
        f"R@1 of GCE with estimated weights compared with InfoNCE: {gain:+.1f} points at {RATE:.0%} mismatched pairs"
        f"{share}, {by['weights', 0.0] - by['InfoNCE', 0.0]:+.1f} points without mismatched pairs."
    )


def fresh_folder(path: Path, force: bool) -> Path:
    """``wanted``, or the first of wanted-2, wanted-3, ... without a report."""
    folder, number = path, 1
    while (folder / "report.html").exists() and not force:
        number += 1
        folder = path.with_name(f"{path.name}-{number}")
    return folder


def main(arguments: list[str]) -> int:
    description = "Train on digits with 40% mismatched pairs: InfoNCE, robust losses, and estimated pair weights."
    parser = argparse.ArgumentParser("rince demo", description=description, exit_on_error=False)
    parser.add_argument("--out", type=local_path, default=Path("runs/demo"), help="folder for the report (runs/demo)")
    parser.add_argument("--force", action="store_true", help="overwrite an earlier report")
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds (3)")
    parser.add_argument("--epochs", type=int, default=40, help="epochs of each training (40)")
    parser.add_argument(
        "--jobs", type=int, default=min(2, os.cpu_count() or 1), help="number of processes (2, or 1 on one core)"
    )
    options = parsed(parser, arguments)
    if min(options.seeds, options.epochs, options.jobs) < 1:
        given = f"{options.seeds}, {options.epochs} and {options.jobs}"
        raise UsageError(f"--seeds, --epochs and --jobs must be at least 1, got {given}")
    folder = fresh_folder(options.out, options.force)
    with locked(folder):
        _demonstrate(folder, options)
    return 0


def _demonstrate(folder: Path, options: argparse.Namespace) -> None:
    start = time.perf_counter()

    from rince.data.digit_halves import digit_pairs
    from rince.report.gallery import Arrays
    from rince.report.page import audit_data, demo_page

    a, b, _ = digit_pairs()
    print(
        f"digits: halves of 1,797 images, {RATE:.0%} of the training pairs mismatched, --seeds {options.seeds}",
        flush=True,
    )
    runs, result = train_all(options.seeds, options.epochs, options.jobs)
    rows = rows_of(runs)
    print(f"\n{table(rows)}\n\n{cost(rows)}", flush=True)
    partner, wrong = wrong_pairs(len(a), RATE, seed=0)
    audited = against_truth(result, wrong)
    print(f"\naudit: {audited}")
    halves = [Arrays(half.reshape(-1, 4, 8)) for half in (a, b[partner])]
    data = audit_data(result, "The audit", 0.1, str, halves[0], halves[1], wrong)
    write_text(folder / "report.html", demo_page(page_data(runs, rows, audited), data))
    write_text(
        folder / "result.json", json.dumps({"rows": rows, "audit": audited}, indent=2, ensure_ascii=False) + "\n"
    )
    print(f"\nreport: {folder / 'report.html'} ({time.perf_counter() - start:.0f} s with --jobs {options.jobs})")
