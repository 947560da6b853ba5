"""Rivals for training on noisy pairs, on the same towers and the same pairs.

    python benchmarks/trust.py [--data digits] [--rates 0 0.2 0.4 0.6] [--seeds 10 11 12] [--json FILE]
    python benchmarks/trust.py --data cifar10 --root DIR        # DIR holds CIFAR-10
    python benchmarks/trust.py --data multi30k --root DIR       # DIR holds train.en.gz and train.de.gz

A share of the training pairs has the partner of another pair. Every row is R@1 among clean pairs that nobody has seen,
the mean of both directions. InfoNCE has the better of two temperatures on clean validation pairs, for every noise rate;
the others have one setting, chosen on other seeds. What is in --json is not done again.

- InfoNCE, RINCE, GCE: the losses alone (GCE is generalised cross-entropy of the in-batch softmax with q = 1).
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
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from rince._support.atomic_files import write_text
from rince.compare.tasks import Digits, Multi30k
from rince.compare.towers import Columns, Split, Training, recall_at_1, split, tower
from rince.losses import GCE, RINCE, ContrastiveLoss, DensityRatio, InfoNCE
from rince.losses.contrast import CrossView
from rince.reproduce.noisy_halves import auc, batches
from rince.trust import judge_embeddings

Towers = tuple[nn.Module, nn.Module]
FOLDS = 3  # as --trust auto


class Task(NamedTuple):
    """Pairs, how many are for validation and tests, how towers learn, and the temperatures that are tried."""

    columns: Columns
    validation: int
    test: int
    training: Training
    temperatures: tuple[float, ...]
    trust_at: float  # the temperature of GCE, which finds trust; RINCE learns at half of that
    ours: str  # the loss that learns with trust


def task_of(name: str, root: str, epochs: int | None) -> Task:
    if name == "digits":
        task = Task(Digits().columns(), 200, 397, Training(), (0.1, 0.2), 0.2, "RINCE q 0.1")
    elif name == "multi30k":
        task = Task(Multi30k(root).columns(), 500, 1000, Multi30k.training, (0.1, 0.2), 0.2, "GCE")
    else:
        task = Task(cifar10_halves(root), 1000, 1000, Training(epochs=20), (0.1, 0.2), 0.2, "RINCE q 0.1")
    return task if epochs is None else task._replace(training=task.training._replace(epochs=epochs))


def cifar10_halves(root: str, pairs: int = 8000) -> Columns:
    """Even and odd rows of images pooled to 8 x 8."""
    from rince.data.images.cifar10 import CIFAR10

    images = CIFAR10(root).split("train")[0][:pairs].float().div(255)
    small = nn.functional.avg_pool2d(images, 4)
    return Columns(small[:, :, 0::2].flatten(1), small[:, :, 1::2].flatten(1))


def infonce(temperature: float, reduction: Any = "mean") -> ContrastiveLoss:
    return InfoNCE(temperature, CrossView(), reduction)


def gce(temperature: float) -> ContrastiveLoss:
    return GCE(1.0, temperature, CrossView())


def rince(q: float, r: float, temperature: float) -> ContrastiveLoss:
    return RINCE(q, DensityRatio(r), temperature, CrossView(), scale="unit")


class Run:
    """Towers on their way. Their sizes are those of all pairs, so that no text has a word that is unknown to them."""

    def __init__(self, task: Task, data: Split, loss: ContrastiveLoss, seed: int, steps: int):
        torch.manual_seed(seed)
        self.data, self.loss = data, loss
        self.towers = tower(task.columns.a, task.training), tower(task.columns.b, task.training)
        parameters = [p for t in self.towers for p in t.parameters()]
        self.optimizer = torch.optim.Adam(parameters, lr=task.training.lr, fused=True)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, steps)

    def losses(self, rows: Tensor, weights: Tensor | None = None) -> Tensor:
        a, b = (t(x[rows]) for t, x in zip(self.towers, (self.data.a, self.data.b), strict=True))
        return self.loss(a, b, weights=weights)

    def step(self, value: Tensor) -> None:
        self.optimizer.zero_grad()
        value.backward()
        self.optimizer.step()
        self.schedule.step()

    def done(self) -> Towers:
        return self.towers[0].eval(), self.towers[1].eval()


def train(
    task: Task, data: Split, loss: ContrastiveLoss, seed: int, rows: Tensor | None = None, weights: Tensor | None = None
) -> Towers:
    """Towers trained on some of the pairs, as far as ``weights``, one per pair of all, trusts each of them."""
    rows = torch.arange(len(data.a)) if rows is None else rows
    plan = batches(len(rows), task.training.epochs, seed, task.training.batch)
    run = Run(task, data, loss, seed, sum(map(len, plan)))
    for chosen in (rows[batch] for epoch in plan for batch in epoch):
        run.step(run.losses(chosen, None if weights is None else weights[chosen]))
    return run.done()


def of_pairs(losses: Tensor) -> Tensor:
    """One loss per pair, the mean of both directions."""
    return losses.view(2, -1).mean(0)


def weighted(losses: Tensor, weights: Tensor | None) -> Tensor:
    return losses.mean() if weights is None else (losses * weights).sum() / weights.sum().clamp_min(1e-6)


def mixture(task: Task, data: Split, temperature: float, seed: int) -> Towers:
    from sklearn.mixture import GaussianMixture

    epochs, batch = task.training.epochs, task.training.batch
    plan = batches(len(data.a), epochs, seed, batch)
    run = Run(task, data, infonce(temperature, "none"), seed, sum(map(len, plan)))
    weights = None
    for number, epoch in enumerate(plan):
        if number >= epochs // 4:
            losses = sample_losses(run, batch).numpy()[:, None]
            losses = (losses - losses.min()) / max(float(np.ptp(losses)), 1e-9)
            parts = GaussianMixture(2, max_iter=10, reg_covar=5e-4, random_state=0).fit(losses)
            clean = parts.predict_proba(losses)[:, parts.means_[:, 0].argmin()]
            weights = torch.from_numpy(clean.astype(np.float32))
        for rows in epoch:
            run.step(weighted(of_pairs(run.losses(rows)), None if weights is None else weights[rows]))
    return run.done()


@torch.no_grad()
def sample_losses(run: Run, batch: int) -> Tensor:
    for one in run.towers:
        one.eval()
    losses = torch.cat([of_pairs(run.losses(rows)) for rows in torch.arange(len(run.data.a)).split(batch)])
    for one in run.towers:
        one.train()
    return losses


def co_teaching(task: Task, data: Split, temperature: float, seed: int, rate: float) -> Towers:
    epochs = task.training.epochs
    plan = batches(len(data.a), epochs, seed, task.training.batch)
    loss = infonce(temperature, "none")
    runs = [Run(task, data, loss, seed + extra, sum(map(len, plan))) for extra in (0, 1000)]
    for number, epoch in enumerate(plan):
        keep = 1 - rate * min(1.0, number / max(1, epochs // 4))
        for rows in epoch:
            found = [of_pairs(run.losses(rows)) for run in runs]
            for run, own, others in zip(runs, found, found[::-1], strict=True):
                small = others.detach().argsort()[: max(2, round(keep * len(rows)))]
                run.step(own[small].mean())
    return runs[0].done()


def found_trust(task: Task, data: Split, loss: ContrastiveLoss, temperature: float, seed: int) -> Any:
    """As `--trust auto`: models that each leave out a fold score its pairs, with the steps of one run in all."""
    fold = torch.randperm(len(data.a), generator=torch.Generator().manual_seed(seed)) % FOLDS
    short = task._replace(training=task.training._replace(epochs=max(1, task.training.epochs // (FOLDS - 1))))
    sides = torch.empty(2, len(data.a), task.training.dim)
    for k in range(FOLDS):
        towers = train(short, data, loss, seed, (fold != k).nonzero()[:, 0])
        with torch.no_grad():
            for side, one, x in zip(sides, towers, (data.a, data.b), strict=True):
                side[fold == k] = one(x[fold == k])
    return judge_embeddings(sides[0], sides[1], fold, temperature=temperature, seed=seed)


class Cell:
    """All rivals on the pairs of one seed and noise rate."""

    def __init__(self, task: Task, rate: float, seed: int):
        self.task, self.rate, self.seed = task, rate, seed
        self.data = split(task.columns, rate, seed, task.validation, task.test)
        t = task.trust_at
        self.losses = {f"InfoNCE t {x:g}": infonce(x) for x in task.temperatures}
        self.losses |= {"GCE": gce(t), "RINCE q 0.5": rince(0.5, 1.0, t / 2), "RINCE q 0.1": rince(0.1, 2.5, t / 2)}
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


def table(results: list[dict[str, Any]], rates: list[float]) -> str:
    names = list(dict.fromkeys(name for one in results for name in one["methods"]))
    head = "| R@1 | " + " | ".join(f"{rate:.0%}" for rate in rates) + " |"
    lines = [head, "| --- |" + " --- |" * len(rates)]
    for name in names:
        cells = []
        for rate in rates:
            same = [one["methods"][name] for one in results if one["rate"] == rate and name in one["methods"]]
            settings = set.intersection(*map(set, same)) if same else set()
            if not settings:
                cells.append("-")
                continue
            best = max(sorted(settings), key=lambda s: statistics.mean(one[s]["choose"] for one in same))
            values = [one[best]["test"] for one in same]
            spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.1f}{spread} ({best}, {len(values)})")
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=("digits", "cifar10", "multi30k"), default="digits")
    parser.add_argument("--root", default="data", help="folder of CIFAR-10 or Multi30k")
    parser.add_argument("--rates", nargs="+", type=float, default=[0.0, 0.2, 0.4, 0.6])
    parser.add_argument("--seeds", nargs="+", type=int, default=[10, 11, 12])
    parser.add_argument("--epochs", type=int)
    parser.add_argument("--methods", nargs="+", help="names of the table; all by default")
    parser.add_argument("--json", default=None, help="keep all numbers here, and go on from them")
    options = parser.parse_args()
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


if __name__ == "__main__":
    main()
