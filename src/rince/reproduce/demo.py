"""The command ``rince demo``: what 40 % wrong pairs cost, and how training that finds them gets it back.

View A are the even rows of scikit-learn's digits, view B the odd ones. Two small towers learn to match them, once while
40 % of the training pairs have another image's B, and once while all are right. InfoNCE gets the better of two
temperatures, chosen on held-out clean pairs; the others have one setting. Then the same pairs are audited. Runs go to
two processes of one thread each: threads inside such small steps only wait for each other.
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
from rince.errors import UsageError
from rince.losses import GCE, RINCE, ContrastiveLoss, DensityRatio, InfoNCE
from rince.losses.contrast import CrossView
from rince.noise.pairs import wrong_pairs
from rince.reproduce.grid import work_off
from rince.reproduce.noisy_halves import auc, found_trust, recalls, split, train_towers
from rince.small_towers import Split

if TYPE_CHECKING:
    from rince.audit import Audit

RATE = 0.4
SETTINGS = (("InfoNCE", 0.1), ("InfoNCE", 0.2), ("RINCE", 0.1), ("GCE", 0.2), ("trust", 0.1), ("oracle", 0.1))
NAMES = tuple(dict.fromkeys(name for name, _ in SETTINGS))
LABELS = {"RINCE": "RINCE q 0.5", "GCE": "GCE q 1", "trust": "RINCE q 0.1, trust", "oracle": "RINCE q 0.1, oracle"}
SHORT = {"trust": "RINCE, trust", "oracle": "RINCE, oracle"}
FINDING = 0.2  # the temperature of GCE, which finds whom to trust
TEST, CHOOSE = 397, 200


class Task(NamedTuple):
    """One training of the demo or, with the name "audit", the audit."""

    name: str
    temperature: float
    rate: float
    seed: int
    epochs: int


@dataclass(frozen=True)
class Run:
    """One training: what it was and what came of it. Recalls are shares of the held-out pairs."""

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
        return InfoNCE(temperature, CrossView())
    if name == "RINCE":
        return RINCE(0.5, 0.01, temperature, CrossView(), scale="unit")
    if name == "GCE":
        return GCE(1.0, temperature, CrossView())
    return RINCE(0.1, DensityRatio(2.5), temperature, CrossView(), scale="unit")


def weights_of(task: Task, data: Split) -> Tensor | None:
    """How far each training pair counts: None for all alike."""
    if task.name == "oracle":
        return torch.from_numpy(~data.wrong).float()
    if task.name != "trust":
        return None
    found = found_trust(data.a, data.b, loss_of("GCE", FINDING), FINDING, task.seed, task.epochs)
    return torch.from_numpy(found.trust)


def work(task: Task) -> Any:
    """What a process of the demo does for one task: a ``Run``, or an ``Audit``."""
    from rince.data.pairs.digit_halves import digit_pairs

    a, b, _ = digit_pairs()
    if task.name == "audit":
        from rince.audit import audit

        return audit(a, b[wrong_pairs(len(a), task.rate, task.seed).partner], fit=True, seed=task.seed, progress=False)
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
    head = f"{'wrong pairs':<13}{'loss':<26}{'R@1':>14}{'R@10':>14}{'AUC':>14}"
    lines = [head, "-" * len(head)]
    for row in rows:
        figures = [row[key] for key in ("R@1", "R@10", "AUC")]
        cells = "".join(f"{'-' if f is None else f'{f[0]:.1f} ± {f[1]:.1f}':>14}" for f in figures)
        lines.append(f"{row['rate']:<13.0%}{row['label']:<26}{cells}")
    return "\n".join(lines)


def against_truth(result: "Audit", wrong: NDArray[np.bool_]) -> str:
    """How what the audit says compares with which pairs are wrong."""
    flags = result.flag(0.1)
    low, high = result.interval
    right_flags = int(wrong[flags].sum())
    return (
        f"estimated {result.noise_rate:.1%} wrong pairs (95 % interval {low:.1%} to {high:.1%}), "
        f"truly {wrong.mean():.1%}; {len(flags)} flagged, about 10 % of them expected to be false alarms and "
        f"{1 - right_flags / max(1, len(flags)):.1%} truly so, "
        f"{right_flags / wrong.sum():.1%} of the wrong pairs found; AUC {auc(-result.p_wrong, wrong):.3f}"
    )


def page_data(runs: Sequence[Run], rows: Sequence[dict[str, Any]], audited: str) -> dict[str, Any]:
    from rince.report.histogram import extent, histogram

    by = {(row["loss"], row["rate"]): row for row in rows}
    rivals = [name for name in NAMES if name != "oracle"]
    best = {rate: max(rivals, key=lambda name: by[name, rate]["R@1"][0]) for rate in (RATE, 0.0)}
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
            "name": f"{SHORT.get(row['loss'], row['loss'])}, {row['rate']:.0%}",
            "value": row["R@1"][0] / 100,
            "second": row["loss"] == "trust",
        }
        for row in rows
    ]
    noisy = [next(r for r in runs if (r.loss, r.rate, r.seed) == (name, RATE, 0)) for name in ("InfoNCE", "trust")]
    span = extent([one.scores for one in noisy])  # one axis for both, to compare by eye
    histograms = []
    for one in noisy:
        parts = {"right pairs": one.scores[~one.wrong], "wrong pairs": one.scores[one.wrong]}
        histograms.append({"name": by[one.loss, RATE]["label"], "values": histogram(parts, span=span)})
    return {"rows": cells, "bars": bars, "histograms": histograms, "lead": LEAD, "cost": cost(rows), "audited": audited}


LEAD = (
    "scikit-learn's 1797 digits, cut into even and odd rows. Two small networks learn which halves belong together. "
    "InfoNCE has the better of two temperatures, the others one setting. “Trust” lets networks that each left out a "
    "third of the pairs judge that third, and weighs every pair by its probability to be right; the oracle knows which "
    "pairs are wrong and gives them no weight."
)


def cost(rows: Sequence[dict[str, Any]]) -> str:
    """What noise costs and what trust gets back, in one sentence."""
    by = {(row["loss"], row["rate"]): row["R@1"][0] for row in rows}
    lost = by["oracle", RATE] - by["InfoNCE", RATE]
    back = by["trust", RATE] - by["InfoNCE", RATE]
    share = f", {back / lost:.0%} of what the oracle gains" if lost > 0 else ""
    return (
        f"With {RATE:.0%} wrong pairs, finding out whom to trust wins {back:.1f} points of R@1 over InfoNCE{share}; "
        f"without wrong pairs {by['trust', 0.0] - by['InfoNCE', 0.0]:+.1f} points."
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
    description = "What 40 % wrong pairs cost, and how training that finds them gets it back."
    parser = argparse.ArgumentParser("rince demo", description=description, exit_on_error=False)
    parser.add_argument("--out", type=local_path, default=Path("runs/demo"), help="folder for the report (runs/demo)")
    parser.add_argument("--force", action="store_true", help="overwrite an earlier report, make no new folder")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes (2, or 1 on one core)")
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

    from rince.data.pairs.digit_halves import digit_pairs
    from rince.report.audit_page import audit_data
    from rince.report.demo_page import demo_page
    from rince.report.gallery import Arrays

    a, b, _ = digit_pairs()
    print(f"digits: halves of 1797 images, {RATE:.0%} of the training pairs wrong, {options.seeds} seeds", flush=True)
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
