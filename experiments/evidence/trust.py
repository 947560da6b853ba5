"""Rivals for training on noisy pairs, on the same towers and the same pairs.

    python -m experiments trust [--data digits] [--rates 0 0.2 0.4 0.6] [--seeds 10 11 12] [--json FILE]
    python -m experiments trust --data cifar10 --root DIR        # DIR holds CIFAR-10
    python -m experiments trust --data multi30k --root DIR       # DIR holds train.en.gz and train.de.gz

A share of the training pairs has the partner of another pair. Every row is R@1 among clean pairs that nobody has seen,
the mean of both directions. Losses alone have the better of two temperatures on clean validation pairs, for every noise
rate; the others have one setting, chosen on other seeds. What is in --json is not done again.

- InfoNCE, RINCE, GCE: the losses alone (GCE is generalized cross-entropy of the in-batch softmax with q = 1).
- mixture: after a quarter of the epochs, pairs weigh what a two-component mixture on their in-sample losses gives
  them, fitted again in every epoch: the core of methods for noisy correspondence.
- co-teaching: two pairs of towers, each choosing the pairs of small loss for the other; it is told the true rate.
- drop flagged, trust: what models find that never saw the pairs they judge (`rince train --trust auto`): GCE finds it,
  and RINCE q 0.1 (r 2.5; on texts GCE) or InfoNCE learns with it.
- oracle: knows which pairs are wrong and leaves them out, or gives them no weight as positives.
"""

import argparse
import functools
import json
import statistics
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from experiments.evidence.trust_baselines import (
    Task,
    Towers,
    co_teaching,
    found_trust,
    gce,
    infonce,
    mixture,
    rince,
    task_of,
    train,
)
from experiments.figures import COLORS, MARKERS, canvas, save
from experiments.tables import plus_minus
from rince._support.atomic_files import write_text
from rince.compare.towers import recall_at_1, split
from rince.demo import auc


class Cell:
    """All rivals on the pairs of one seed and noise rate."""

    def __init__(self, task: Task, rate: float, seed: int):
        self.task, self.rate, self.seed = task, rate, seed
        self.data = split(*task.columns[:2], rate, seed, task.validation, task.test)
        t = task.trust_at
        self.losses = {"RINCE q 0.1": rince(0.1, 2.5, t / 2)}  # learns with trust
        for x in task.temperatures:
            self.losses |= {f"InfoNCE t {x:g}": infonce(x), f"GCE t {x:g}": gce(x)}
            self.losses |= {f"RINCE q 0.5 t {x:g}": rince(0.5, 1.0, x)}
        self.known: dict[str, Towers] = {}

    @functools.cached_property
    def found(self) -> tuple[Any, dict[str, float]]:
        """What there is to trust, and what is worth recording of it."""
        start, t = time.process_time(), self.task.trust_at
        audit = found_trust(self.task, self.data, gce(t), t, self.seed)
        seconds = time.process_time() - start
        return audit, {"rate": audit.noise_rate, "auc": auc(audit.trust, self.data.wrong), "finding": seconds}

    def plain(self, name: str, weights: Tensor | None = None, rows: Tensor | None = None) -> Towers:
        """Where all pairs are taken alike, as where no noise is found, the run is the one without trust."""
        alike = (weights is None or bool((weights == 1).all())) and (rows is None or bool(rows.all()))
        if alike and name in self.known:
            return self.known[name]
        chosen = None if rows is None else rows.nonzero()[:, 0]
        towers = train(self.task, self.data, self.losses[name], self.seed, chosen, weights)
        return self.known.setdefault(name, towers) if alike else towers

    def trusting(self, name: str) -> Towers:
        return self.plain(name, torch.from_numpy(self.found[0].trust))

    def dropping(self, name: str) -> Towers:
        kept = torch.ones(len(self.data.a), dtype=torch.bool)
        kept[torch.from_numpy(self.found[0].flag(0.1))] = False
        return self.plain(name, None, kept)

    def rivals(self) -> Iterator[tuple[str, str, Callable[[], Towers]]]:
        """Name, setting and training of every rival."""
        t, ours, right = self.task.trust_at, self.task.ours, torch.from_numpy(~self.data.wrong)
        for name in self.losses:
            if name != "RINCE q 0.1":
                yield name.split(" t ")[0], name, lambda name=name: self.plain(name)
        yield "mixture", f"t {t:g}", lambda: mixture(self.task, self.data, t, self.seed)
        yield "co-teaching", f"t {t:g}", lambda: co_teaching(self.task, self.data, t, self.seed, self.rate)
        yield "drop flagged", ours, lambda: self.dropping(ours)
        yield "trust", ours, lambda: self.trusting(ours)
        yield "trust, InfoNCE", f"t {t:g}", lambda: self.trusting(f"InfoNCE t {t:g}")
        yield "oracle, left out", ours, lambda: self.plain(ours, None, right)
        yield "oracle, no weight", ours, lambda: self.plain(ours, right.float())

    def compete(self, methods: dict[str, dict[str, Any]], wanted: list[str] | None) -> None:
        """R@1 on validation and test of every rival that is wanted and not in ``methods`` yet."""
        for name, setting, training in self.rivals():
            if setting in methods.get(name, {}) or (wanted and name not in wanted):
                continue
            start = time.process_time()
            towers = training()
            scores = {
                "choose": recall_at_1(*towers, self.data.validation),
                "test": recall_at_1(*towers, self.data.test),
            }
            more = self.found[1] if name.startswith(("trust", "drop")) else {}
            methods.setdefault(name, {})[setting] = {**scores, "seconds": time.process_time() - start, **more}


def values_of(results: list[dict[str, Any]], name: str, rate: float) -> tuple[str, list[float]]:
    """The setting of a rival that is best on validation pairs, and its R@1 for every seed."""
    same = [one["methods"][name] for one in results if one["rate"] == rate and name in one["methods"]]
    settings = set.intersection(*map(set, same)) if same else set()
    if not settings:
        return "", []
    best = max(sorted(settings), key=lambda s: statistics.mean(one[s]["choose"] for one in same))
    return best, [one[best]["test"] for one in same]


def table(results: list[dict[str, Any]], rates: list[float]) -> str:
    names = list(dict.fromkeys(name for one in results for name in one["methods"]))
    rows = ["| R@1 | " + " | ".join(f"{rate:.0%}" for rate in rates) + " |", "| --- |" + " --- |" * len(rates)]
    for name in names:
        cells = []
        for rate in rates:
            best, values = values_of(results, name, rate)
            cells.append(f"{plus_minus(values)} ({best}, {len(values)})" if values else "-")
        rows.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(rows)


SHOWN = {"oracle, no weight": "oracle", "trust": "trust", "GCE": "GCE q 1", "co-teaching": "co-teaching"}
SHOWN |= {"mixture": "mixture", "RINCE q 0.5": "RINCE q 0.5", "InfoNCE": "InfoNCE"}


def draw(results: list[dict[str, Any]], rates: list[float], path: Path) -> None:
    """R@1 over the share of wrong pairs, for every rival that has all rates."""
    figure, axis = canvas(6.8, 3.8)
    for i, (name, label) in enumerate(SHOWN.items()):
        found = [values_of(results, name, rate)[1] for rate in rates]
        if not all(found):
            continue
        style = {
            "color": COLORS[i],
            "marker": MARKERS[i],
            "markersize": 5,
            "linewidth": 2.6 if name == "trust" else 1.3,
        }
        mean = [statistics.mean(values) for values in found]
        spread = [statistics.stdev(values) if len(values) > 1 else 0.0 for values in found]
        across = [100 * rate for rate in rates]
        axis.plot(across, mean, label=label, linestyle="--" if "oracle" in name else "-", **style)
        low, high = ([m + sign * d for m, d in zip(mean, spread, strict=True)] for sign in (-1, 1))
        axis.fill_between(across, low, high, color=COLORS[i], alpha=0.15, linewidth=0)
    axis.set_xlabel("wrong pairs, %")
    axis.set_ylabel("R@1, %")
    figure.legend(loc="outside right center", frameon=False, fontsize=8)
    save(figure, path)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=("digits", "cifar10", "multi30k"), default="digits")
    parser.add_argument("--root", default="data", help="folder of CIFAR-10 or Multi30k")
    parser.add_argument("--rates", nargs="+", type=float, default=[0.0, 0.2, 0.4, 0.6])
    parser.add_argument("--seeds", nargs="+", type=int, default=[10, 11, 12])
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--figure", type=Path, help="draw it here, as .png and .svg")
    parser.add_argument("--methods", nargs="+", help="names of the table; all by default")
    parser.add_argument("--json", default=None, help="keep all numbers here, and go on from them")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    task = task_of(options.data, options.root, options.epochs)
    kept = Path(options.json) if options.json else None
    results = json.loads(kept.read_text("utf-8")) if kept is not None and kept.exists() else []
    for seed in options.seeds:
        for rate in options.rates:
            cell = next((one for one in results if (one["seed"], one["rate"]) == (seed, rate)), None)
            if cell is None:
                cell = {"seed": seed, "rate": rate, "methods": {}}
                results.append(cell)
            Cell(task, rate, seed).compete(cell["methods"], options.methods)
            found = {name: round(max(s["test"] for s in x.values()), 1) for name, x in cell["methods"].items()}
            print(f"seed {seed}, {rate:.0%}: {found}", flush=True)
            if kept is not None:
                write_text(kept, json.dumps(results, indent=1))
    shown = [one for one in results if one["seed"] in options.seeds and one["rate"] in options.rates]
    print(table(shown, options.rates))
    if options.figure:
        draw(shown, options.rates, options.figure)
