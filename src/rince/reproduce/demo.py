"""The command ``rince demo``: InfoNCE against RINCE on digits with wrong pairs, then the audit of the same pairs.

View A are the even rows of scikit-learn's digits, view B the odd ones. Two small towers learn to match them while 40 %
of the training pairs have a stranger's B. InfoNCE gets the better of two temperatures, chosen on held-out clean pairs;
RINCE gets none. All of it takes about a minute on two cores.
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
from rince._support.command_options import parsed
from rince._support.progress import track
from rince.audit.fit.towers import Recipe, tower
from rince.errors import UsageError
from rince.losses import RINCE, ContrastiveLoss, InfoNCE
from rince.losses.contrast import CrossView
from rince.noise.pairs import wrong_pairs

if TYPE_CHECKING:
    from rince.audit import Audit

RATE = 0.4
TEMPERATURES = (0.1, 0.2)
Q, RINCE_TEMPERATURE = 0.5, 0.1
TEST, CHOOSE = 397, 200
TOWERS = Recipe(dropout=0.0, layers=2)


class Split(NamedTuple):
    """Training pairs with their wrong ones marked, and clean pairs to choose a temperature by and to test on."""

    a: Tensor
    b: Tensor
    wrong: NDArray[np.bool_]
    choose: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]


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


def split(a: NDArray[np.float32], b: NDArray[np.float32], rate: float, seed: int, choose: int, test: int) -> Split:
    """``test`` pairs for testing, ``choose`` for choosing a temperature, the rest for training with wrong pairs."""
    order = np.random.default_rng(seed).permutation(len(a))
    held, chosen, train = order[:test], order[test : test + choose], order[test + choose :]
    index, wrong = wrong_pairs(len(train), rate, seed)
    left, right = torch.from_numpy(a), torch.from_numpy(b)
    return Split(
        left[train],
        right[train[index]],
        wrong,
        (left[chosen], right[chosen]),
        (left[held], right[held]),
    )


def train_towers(
    a: Tensor, b: Tensor, loss: ContrastiveLoss, seed: int, epochs: int = 40, batch: int = 256
) -> tuple[nn.Module, nn.Module]:
    """Two towers, trained on the pairs with Adam and a cosine schedule."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        f, g = tower(a.shape[1], TOWERS), tower(b.shape[1], TOWERS)
        optimiser = torch.optim.Adam([*f.parameters(), *g.parameters()], lr=1e-3)
        steps = epochs * (len(a) // batch)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)
        for _ in range(epochs):
            for rows in torch.randperm(len(a)).split(batch):
                if len(rows) < batch:
                    continue
                value = loss(f(a[rows]), g(b[rows]))
                optimiser.zero_grad()
                value.backward()
                optimiser.step()
                schedule.step()
    return f.eval(), g.eval()


@torch.no_grad()
def recalls(f: nn.Module, g: nn.Module, pairs: tuple[Tensor, Tensor]) -> tuple[float, float]:
    """How often the right B is the first, and among the first ten, of all B for an A."""
    scores = nn.functional.normalize(f(pairs[0])) @ nn.functional.normalize(g(pairs[1])).T
    rank = (scores > scores.diagonal()[:, None]).sum(1)
    return float((rank == 0).float().mean()), float((rank < 10).float().mean())


def auc(scores: NDArray[np.float32], wrong: NDArray[np.bool_]) -> float:
    """The chance that a right pair scores higher than a wrong one; NaN if there are none."""
    if not wrong.any() or wrong.all():
        return float("nan")
    right = np.sort(scores[~wrong])
    below = np.searchsorted(right, scores[wrong], "left") + np.searchsorted(right, scores[wrong], "right")
    return 1 - float(below.mean()) / (2 * len(right))


def run(data: Split, loss: ContrastiveLoss, name: str, temperature: float, rate: float, seed: int, epochs: int) -> Run:
    f, g = train_towers(data.a, data.b, loss, seed, epochs)
    with torch.no_grad():
        scores = nn.functional.cosine_similarity(f(data.a), g(data.b)).numpy()
    first, ten = recalls(f, g, data.test)
    chosen_by = recalls(f, g, data.choose)[0]
    return Run(name, temperature, rate, seed, chosen_by, first, ten, auc(scores, data.wrong), scores, data.wrong)


def loss_of(name: str, temperature: float) -> ContrastiveLoss:
    if name == "InfoNCE":
        return InfoNCE(temperature, CrossView())
    return RINCE(Q, 0.01, temperature, CrossView(), scale="unit")


def train_all(a: NDArray[np.float32], b: NDArray[np.float32], seeds: int, epochs: int) -> list[Run]:
    """Both losses, with and without noise; of InfoNCE's temperatures the one that is best on the pairs for choosing."""
    settings = [("InfoNCE", t) for t in TEMPERATURES] + [("RINCE", RINCE_TEMPERATURE)]
    tasks = [(rate, name, t, seed) for rate in (RATE, 0.0) for name, t in settings for seed in range(seeds)]
    runs = []
    for rate, name, temperature, seed in track(tasks, "training"):
        data = split(a, b, rate, seed, CHOOSE, TEST)
        runs.append(run(data, loss_of(name, temperature), name, temperature, rate, seed, epochs))
    return [one for one in runs if one.temperature == best_temperature(runs, one.loss, one.rate)]


def best_temperature(runs: Sequence[Run], loss: str, rate: float) -> float:
    same = [one for one in runs if (one.loss, one.rate) == (loss, rate)]
    return max(
        {one.temperature for one in same},
        key=lambda t: statistics.mean(one.chosen_by for one in same if one.temperature == t),
    )


def rows_of(runs: Sequence[Run]) -> list[dict[str, Any]]:
    """One row a loss and noise rate: its name, and (mean, deviation) in per cent of each figure."""
    rows = []
    for rate in (RATE, 0.0):
        for name in ("InfoNCE", "RINCE"):
            same = [one for one in runs if (one.loss, one.rate) == (name, rate)]
            label = f"{name} t {same[0].temperature:g}" + (f", q {Q:g}" if name == "RINCE" else "")
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
    head = f"{'wrong pairs':<13}{'loss':<22}{'R@1':>14}{'R@10':>14}{'AUC':>14}"
    lines = [head, "-" * len(head)]
    for row in rows:
        figures = [row[key] for key in ("R@1", "R@10", "AUC")]
        cells = "".join(f"{'-' if f is None else f'{f[0]:.1f} ± {f[1]:.1f}':>14}" for f in figures)
        lines.append(f"{row['rate']:<13.0%}{row['label']:<22}{cells}")
    return "\n".join(lines)


def audit_against_truth(a: NDArray[np.float32], b: NDArray[np.float32]) -> tuple["Audit", NDArray[np.bool_], str]:
    """The audit of all pairs with wrong ones among them, which are wrong, and how the two compare."""
    from rince.audit import audit

    partner, wrong = wrong_pairs(len(a), RATE, seed=0)
    result = audit(a, b[partner], fit=True, seed=0)
    flags = result.flag(0.1)
    low, high = result.interval
    right_flags = int(wrong[flags].sum())
    text = (
        f"estimated {result.noise_rate:.1%} wrong pairs (95 % interval {low:.1%} to {high:.1%}), "
        f"truly {wrong.mean():.1%}; {len(flags)} flagged, about 10 % of them expected to be false alarms and "
        f"{1 - right_flags / max(1, len(flags)):.1%} truly so, "
        f"{right_flags / wrong.sum():.1%} of the wrong pairs found; AUC {auc(-result.p_wrong, wrong):.3f}"
    )
    return result, wrong, text


def page_data(runs: Sequence[Run], rows: Sequence[dict[str, Any]], audited: str) -> dict[str, Any]:
    from rince.report.histogram import extent, histogram

    by = {(row["loss"], row["rate"]): row for row in rows}
    best = {rate: max(("InfoNCE", "RINCE"), key=lambda name: by[name, rate]["R@1"][0]) for rate in (RATE, 0.0)}
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
            "name": f"{row['loss']}, {row['rate']:.0%} wrong",
            "value": row["R@1"][0] / 100,
            "second": row["loss"] == "RINCE",
        }
        for row in rows
    ]
    noisy = [next(r for r in runs if (r.loss, r.rate, r.seed) == (name, RATE, 0)) for name in ("InfoNCE", "RINCE")]
    span = extent([one.scores for one in noisy])  # one axis for both, to compare by eye
    histograms = []
    for one in noisy:
        parts = {"right pairs": one.scores[~one.wrong], "wrong pairs": one.scores[one.wrong]}
        histograms.append({"name": by[one.loss, RATE]["label"], "values": histogram(parts, span=span)})
    return {"rows": cells, "bars": bars, "histograms": histograms, "lead": LEAD, "cost": cost(rows), "audited": audited}


LEAD = (
    "scikit-learn's 1797 digits, cut into even and odd rows. Two small networks learn which halves belong together; "
    "InfoNCE has the better of two temperatures, RINCE is untuned."
)


def cost(rows: Sequence[dict[str, Any]]) -> str:
    by = {(row["loss"], row["rate"]): row["R@1"][0] for row in rows}
    gain, price = by["RINCE", RATE] - by["InfoNCE", RATE], by["InfoNCE", 0.0] - by["RINCE", 0.0]
    verb = f"costs {price:.1f}" if price > 0 else f"wins {-price:.1f}"
    return f"With {RATE:.0%} wrong pairs RINCE wins {gain:.1f} points of R@1; without noise it {verb} points."


def fresh_folder(wanted: Path, force: bool) -> Path:
    """``wanted``, or the first of wanted-2, wanted-3, ... that holds no report yet."""
    place, number = wanted, 1
    while (place / "report.html").exists() and not force:
        number += 1
        place = wanted.with_name(f"{wanted.name}-{number}")
    return place


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser("rince demo", description=(__doc__ or "").split("\n")[0], exit_on_error=False)
    parser.add_argument("--out", type=Path, default=Path("runs/demo"), help="folder for the report (runs/demo)")
    parser.add_argument("--force", action="store_true", help="overwrite an earlier report, make no new folder")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=40)
    options = parsed(parser, arguments)
    if options.seeds < 1 or options.epochs < 1:
        raise UsageError(f"--seeds and --epochs must be at least 1, got {options.seeds} and {options.epochs}")
    start = time.perf_counter()
    folder = fresh_folder(options.out, options.force)
    folder.mkdir(parents=True, exist_ok=True)

    from rince.data.pairs.digit_halves import digit_pairs
    from rince.report.audit_page import audit_data
    from rince.report.demo_page import demo_page
    from rince.report.gallery import Arrays

    a, b, _ = digit_pairs()
    print(f"digits: halves of 1797 images, {RATE:.0%} of the training pairs wrong, {options.seeds} seeds", flush=True)
    runs = train_all(a, b, options.seeds, options.epochs)
    rows = rows_of(runs)
    print(f"\n{table(rows)}\n\n{cost(rows)}", flush=True)
    result, wrong, audited = audit_against_truth(a, b)
    print(f"\naudit: {audited}")
    partner = wrong_pairs(len(a), RATE, seed=0).partner
    shown = [Arrays(half.reshape(-1, 4, 8)) for half in (a, b[partner])]
    data = audit_data(result, "The audit", 0.1, str, shown[0], shown[1], wrong)
    write_text(folder / "report.html", demo_page(page_data(runs, rows, audited), data))
    write_text(
        folder / "result.json", json.dumps({"rows": rows, "audit": audited}, indent=2, ensure_ascii=False) + "\n"
    )
    print(f"\nreport: {folder / 'report.html'} ({time.perf_counter() - start:.0f} s in all, {os.cpu_count()} cores)")
    return 0
