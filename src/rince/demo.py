"""The command ``rince demo``: what 40 % mismatched pairs cost, and how much robust losses and weights recover.

View A are the even rows of scikit-learn's digits, view B the odd ones. Two small networks learn to match them, once
with 40 % mismatched training pairs and once with none. InfoNCE gets the better of two temperatures, chosen on held-out
clean pairs; the others have one setting. Then the same pairs are audited. Runs are spread over two processes with one
thread each, because threads inside such small steps mostly wait for each other.
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
from rince.compare import towers as small_towers
from rince.compare.grid import work_off
from rince.compare.towers import Split, TwoNetworks
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


def split(a: NDArray[np.float32], b: NDArray[np.float32], rate: float, seed: int, choose: int, test: int) -> Split:
    """``test`` pairs for testing, ``choose`` for choosing a temperature, the rest for training."""
    return small_towers.split(torch.from_numpy(a), torch.from_numpy(b), rate, seed, choose, test)


def batches(pairs: int, epochs: int, seed: int, batch: int = BATCH) -> list[list[Tensor]]:
    """Rows of every batch of every epoch; the last, smaller one of an epoch is left out."""
    return small_towers.batches(pairs, epochs, torch.Generator().manual_seed(seed), batch)


def train_towers(
    a: Tensor, b: Tensor, loss: ContrastiveLoss, seed: int, epochs: int, weights: Tensor | None = None
) -> TwoNetworks:
    """Two networks, trained on the weighted pairs."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        towers = tower(a.shape[1], CONFIG), tower(b.shape[1], CONFIG)
    optimizer = torch.optim.Adam([p for one in towers for p in one.parameters()], lr=1e-3, fused=True)
    return small_towers.fit(towers, optimizer, a, b, loss, batches(len(a), epochs, seed), weights)


@torch.no_grad()
def recalls(f: nn.Module, g: nn.Module, pairs: tuple[Tensor, Tensor]) -> tuple[float, float]:
    """R@1 and R@10: how often the right B is the first, or among the first ten, of all B for an A."""
    scores = nn.functional.normalize(f(pairs[0])) @ nn.functional.normalize(g(pairs[1])).T
    rank = (~(scores < scores.diagonal()[:, None])).sum(1) - 1  # equal scores and NaN are no success
    return float((rank == 0).float().mean()), float((rank < 10).float().mean())


def auc(scores: NDArray[np.float32], wrong: NDArray[np.bool_]) -> float:
    """The chance that a right pair scores higher than a wrong one; NaN if there are none."""
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
    """Setting and results of one training. Recalls are shares of the held-out pairs."""

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
    """Weight of each training pair; None for equal weights."""
    if task.name == "oracle":
        return torch.from_numpy(~data.wrong).float()
    if task.name != "weights":
        return None
    from rince.trust import estimate_weights

    return torch.from_numpy(estimate_weights(data.a.numpy(), data.b.numpy(), seed=task.seed).weights)


def work(task: Task) -> Any:
    """Run one task: a training gives a ``Run``, the audit an ``Audit``."""
    from rince.data.digit_halves import digit_pairs

    a, b, _ = digit_pairs()
    if task.name == "audit":
        from rince.audit import audit_pairs

        return audit_pairs(
            a, b[wrong_pairs(len(a), task.rate, task.seed).partner], fit=True, seed=task.seed, progress=False
        )
    data = split(a, b, task.rate, task.seed, CHOOSE, TEST)
    loss = loss_of(task.name, task.temperature)
    f, g = train_towers(data.a, data.b, loss, task.seed, task.epochs, weights_of(task, data))
    with torch.no_grad():
        scores = nn.functional.cosine_similarity(f(data.a), g(data.b)).numpy()
    first, ten = recalls(f, g, data.test)
    found = recalls(f, g, data.validation)[0], first, ten, auc(scores, data.wrong), scores, data.wrong
    return Run(task.name, task.temperature, task.rate, task.seed, *found)


def all_done(seeds: int, epochs: int, jobs: int) -> tuple[list[Run], "Audit"]:
    """All trainings, of InfoNCE's temperatures the one that is best on the pairs for choosing, and the audit."""
    tasks = [Task("audit", 0.0, RATE, 0, 0)]  # first, as the longest
    for seed in range(seeds):
        tasks += [Task(name, t, rate, seed, epochs) for rate in (RATE, 0.0) for name, t in SETTINGS]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        done = dict(found[:2] for found in track(work_off(list(enumerate(tasks)), work, jobs), "training", len(tasks)))
    finally:
        torch.set_num_threads(threads)
    runs: list[Run] = [done[i] for i in range(1, len(tasks))]
    return [run for run in runs if run.temperature == best_temperature(runs, run.loss, run.rate)], done[0]


def best_temperature(runs: Sequence[Run], loss: str, rate: float) -> float:
    same = [one for one in runs if (one.loss, one.rate) == (loss, rate)]
    return max(
        {one.temperature for one in same},
        key=lambda t: statistics.mean(one.chosen_by for one in same if one.temperature == t),
    )


def rows_of(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One row per loss and noise rate: its name, and (mean, deviation) in per cent of each figure."""
    rows = []
    for rate in (RATE, 0.0):
        for name in NAMES:
            same = [one for one in runs if (one.loss, one.rate) == (name, rate)]
            label = f"{LABELS.get(name, name)}, t {same[0].temperature:g}"
            figures = {
                key: _spread([getattr(one, field) for one in same])
                for key, field in (("R@1", "recall_1"), ("R@10", "recall_10"), ("AUC", "auc"))
            }
            rows.append({"loss": name, "label": label, "rate": rate, **figures})
    return rows


def _spread(values: list[float]) -> tuple[float, float] | None:
    if any(math.isnan(value) for value in values):
        return None
    return 100 * statistics.mean(values), 100 * (statistics.stdev(values) if len(values) > 1 else 0.0)


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The rows, aligned for a terminal."""
    head = f"{'mismatched':<13}{'loss':<30}{'R@1':>14}{'R@10':>14}{'AUC':>14}"
    lines = [head, "-" * len(head)]
    for row in rows:
        figures = [row[key] for key in ("R@1", "R@10", "AUC")]
        cells = "".join(f"{'-' if f is None else f'{f[0]:.1f} ± {f[1]:.1f}':>14}" for f in figures)
        lines.append(f"{row['rate']:<13.0%}{row['label']:<30}{cells}")
    return "\n".join(lines)


def against_truth(result: "Audit", wrong: NDArray[np.bool_]) -> str:
    """The audit beside the truth, in one sentence."""
    flags = result.flag(0.1)
    low, high = result.interval
    right_flags = int(wrong[flags].sum())
    return (
        f"{result.noise_rate:.1%} unrelated pairs estimated (95 % interval {low:.1%} to {high:.1%}), "
        f"{wrong.mean():.1%} true; {len(flags)} pairs flagged, {1 - right_flags / max(1, len(flags)):.1%} of them "
        f"false alarms (10 % expected), {right_flags / wrong.sum():.1%} of the mismatched pairs found; "
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
    span = extent([one.scores for one in noisy])  # one axis for both, to compare by eye
    histograms = []
    for one in noisy:
        parts = {"right pairs": one.scores[~one.wrong], "wrong pairs": one.scores[one.wrong]}
        histograms.append({"name": by[one.loss, RATE]["label"], "values": histogram(parts, span=span)})
    return {"rows": cells, "bars": bars, "histograms": histograms, "lead": LEAD, "cost": cost(rows), "audited": audited}


LEAD = (
    "scikit-learn's 1797 digits, cut into even and odd rows. Two small networks learn which halves belong together. "
    "InfoNCE has the better of two temperatures, the others one setting. Weights are estimated before training, by an "
    "audit of the pixels; the oracle knows which pairs are mismatched and gives them no weight."
)


def cost(rows: Sequence[dict[str, Any]]) -> str:
    """What mismatched pairs cost and what weights recover, in one sentence."""
    by = {(row["loss"], row["rate"]): row["R@1"][0] for row in rows}
    lost = by["oracle", RATE] - by["InfoNCE", RATE]
    gain = by["weights", RATE] - by["InfoNCE", RATE]
    share = f", {gain / lost:.0%} of the oracle's gain" if lost > 0 else ""
    return (
        f"With {RATE:.0%} mismatched pairs, GCE with estimated weights improves R@1 by {gain:.1f} points over "
        f"InfoNCE{share}; without mismatched pairs by {by['weights', 0.0] - by['InfoNCE', 0.0]:+.1f} points."
    )


def fresh_folder(wanted: Path, force: bool) -> Path:
    """``wanted``, or the first of wanted-2, wanted-3, ... that holds no report yet."""
    place, number = wanted, 1
    while (place / "report.html").exists() and not force:
        number += 1
        place = wanted.with_name(f"{wanted.name}-{number}")
    return place


def main(arguments: list[str]) -> int:
    # Written out: Python without docstrings (-OO) helps, too.
    description = "What 40 % mismatched pairs cost, and how much robust losses and weights recover."
    parser = argparse.ArgumentParser("rince demo", description=description, exit_on_error=False)
    parser.add_argument("--out", type=local_path, default=Path("runs/demo"), help="folder for the report (runs/demo)")
    parser.add_argument("--force", action="store_true", help="overwrite an earlier report")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=40)
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
        f"digits: halves of 1797 images, {RATE:.0%} of the training pairs mismatched, {options.seeds} seeds", flush=True
    )
    runs, result = all_done(options.seeds, options.epochs, options.jobs)
    rows = rows_of(runs)
    print(f"\n{table(rows)}\n\n{cost(rows)}", flush=True)
    partner, wrong = wrong_pairs(len(a), RATE, seed=0)
    audited = against_truth(result, wrong)
    print(f"\naudit: {audited}")
    shown = [Arrays(half.reshape(-1, 4, 8)) for half in (a, b[partner])]
    data = audit_data(result, "The audit", 0.1, str, shown[0], shown[1], wrong)
    write_text(folder / "report.html", demo_page(page_data(runs, rows, audited), data))
    write_text(
        folder / "result.json", json.dumps({"rows": rows, "audit": audited}, indent=2, ensure_ascii=False) + "\n"
    )
    print(f"\nreport: {folder / 'report.html'} ({time.perf_counter() - start:.0f} s in all, {options.jobs} processes)")
