"""Weights of pairs beside other methods for training on noisy pairs, with the same networks and the same pairs."""

import argparse
import functools
import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from experiments.evidence.comparisons import Digits, Multi30k
from experiments.experiment import Experiment, several
from experiments.figures import lines
from experiments.tables import Cell
from rince.compare.grid import Result, Run
from rince.compare.towers import (
    Columns,
    CosineSteps,
    Split,
    Training,
    TwoNetworks,
    batches,
    fit,
    recall_at_1,
    split,
    tower,
)
from rince.demo import auc
from rince.losses import GCE, RINCE, ContrastiveLoss, CrossView, DensityRatio, InfoNCE, LearnedTemperature
from rince.losses.schedules import Schedule, linear
from rince.train.weights import FIRST_Q, default_folds
from rince.trust import judge_embeddings

TEMPERATURES = (0.1, 0.2)  # that losses without weights are tuned over
FIRST_SEED = 10  # settings were chosen on smaller ones


class DataSet(NamedTuple):
    """Pairs, and how networks are trained on them."""

    columns: Columns
    validation: int
    test: int
    training: Training
    temperature: float  # of the methods that are not tuned
    gce_with_weights: bool = False  # instead of RINCE q 0.1, r 2.5 at half of the temperature


@functools.cache
def data_set(name: str, root: str) -> DataSet:
    if name == "digits":
        return DataSet(Digits().columns(), 200, 397, Training(), 0.2)
    if name == "multi30k":
        return DataSet(Multi30k(root).columns(), 500, 1000, Multi30k.training, 0.1, gce_with_weights=True)
    return DataSet(cifar10_halves(root), 1000, 1000, Training(epochs=20), 0.2)


def cifar10_halves(root: str, pairs: int = 8000) -> Columns:
    """Even and odd rows of images pooled to 8 x 8."""
    from rince.data.images import CIFAR10

    images = CIFAR10(root).split("train")[0][:pairs].float().div(255)
    small = nn.functional.avg_pool2d(images, 4)
    return Columns(small[:, :, 0::2].flatten(1), small[:, :, 1::2].flatten(1))


def infonce(temperature: float, reduction: Any = "mean") -> ContrastiveLoss:
    return InfoNCE(temperature=temperature, contrast=CrossView(), reduction=reduction)


def gce(temperature: float) -> ContrastiveLoss:
    return GCE(q=1.0, temperature=temperature, contrast=CrossView())


def rince(q: float, r: float, temperature: float) -> ContrastiveLoss:
    return RINCE(q=q, lam=DensityRatio(r), temperature=temperature, contrast=CrossView(), scale="unit")


@dataclass
class Job:
    """One method on the pairs of one seed and noise rate."""

    data: DataSet
    pairs: Split
    temperature: float
    rate: float
    seed: int
    record: dict[str, float] = field(default_factory=dict)

    def new_networks(self, seed: int) -> tuple[TwoNetworks, torch.optim.Optimizer]:
        """Sizes are those of all pairs, so that no text has an unknown word."""
        torch.manual_seed(seed)
        networks = tower(self.data.columns.a, self.data.training), tower(self.data.columns.b, self.data.training)
        parameters = [p for network in networks for p in network.parameters()]
        return networks, torch.optim.Adam(parameters, lr=self.data.training.lr, fused=True)

    def batches(self, count: int, epochs: int) -> list[list[Tensor]]:
        return batches(count, epochs, torch.Generator().manual_seed(self.seed), self.data.training.batch)

    def train(
        self,
        loss: ContrastiveLoss,
        rows: Tensor | None = None,
        weights: Tensor | None = None,
        q: Schedule | None = None,
        epochs: int | None = None,
    ) -> TwoNetworks:
        """Networks trained on all pairs or some ``rows``, with a weight for each of all pairs."""
        rows = torch.arange(len(self.pairs.a)) if rows is None else rows
        plan = self.batches(len(rows), epochs or self.data.training.epochs)
        chosen = [[rows[batch] for batch in epoch] for epoch in plan]
        networks, optimizer = self.new_networks(self.seed)
        if learned := list(loss.parameters()):
            optimizer.add_param_group({"params": learned})
        return fit(networks, optimizer, self.pairs.a, self.pairs.b, loss, chosen, weights, q)

    def train_with_learned_temperature(self, kind: Callable[..., ContrastiveLoss]) -> TwoNetworks:
        temperature = LearnedTemperature(self.temperature)
        networks = self.train(kind(temperature=temperature, contrast=CrossView()))
        self.record["last_temperature"] = float(temperature().detach())
        return networks

    def train_weighted(self, rows: Tensor | None = None, weights: Tensor | None = None) -> TwoNetworks:
        """The same with the loss for weighted pairs."""
        t = self.temperature
        return self.train(gce(t) if self.data.gce_with_weights else rince(0.1, 2.5, t / 2), rows, weights)


class Networks:
    """Networks in training, for methods that see the loss of every pair before a step."""

    def __init__(self, job: Job, seed: int, steps: int):
        self.pairs, self.loss = job.pairs, infonce(job.temperature, "none")
        self.networks, optimizer = job.new_networks(seed)
        self.step = CosineSteps(optimizer, steps).step

    def losses(self, rows: Tensor) -> Tensor:
        """One loss per pair, the mean of both directions."""
        a, b = (net(x[rows]) for net, x in zip(self.networks, (self.pairs.a, self.pairs.b), strict=True))
        return self.loss(a, b).view(2, -1).mean(0)

    def done(self) -> TwoNetworks:
        return self.networks[0].eval(), self.networks[1].eval()


def mixture(job: Job) -> TwoNetworks:
    """InfoNCE; from a quarter of the epochs on, the weights of a two-component mixture fitted to the losses of every
    epoch: the core of methods for noisy correspondence."""
    from sklearn.mixture import GaussianMixture

    epochs, batch = job.data.training.epochs, job.data.training.batch
    plan = job.batches(len(job.pairs.a), epochs)
    networks = Networks(job, job.seed, sum(map(len, plan)))
    weights = torch.ones(len(job.pairs.a))
    for number, epoch in enumerate(plan):
        if number >= epochs // 4:
            networks.done()
            with torch.no_grad():
                parts = [networks.losses(rows) for rows in torch.arange(len(job.pairs.a)).split(batch)]
            for network in networks.networks:
                network.train()
            losses = torch.cat(parts).numpy()[:, None]
            losses = (losses - losses.min()) / max(float(np.ptp(losses)), 1e-9)
            fitted = GaussianMixture(2, max_iter=10, reg_covar=5e-4, random_state=0).fit(losses)
            clean = fitted.predict_proba(losses)[:, fitted.means_[:, 0].argmin()]
            weights = torch.from_numpy(clean.astype(np.float32))
        for rows in epoch:
            of_rows = weights[rows]
            networks.step((networks.losses(rows) * of_rows).sum() / of_rows.sum().clamp_min(1e-6))
    return networks.done()


def co_teaching(job: Job) -> TwoNetworks:
    """Two pairs of networks, each selecting small-loss pairs for the other, given the true rate."""
    epochs = job.data.training.epochs
    plan = job.batches(len(job.pairs.a), epochs)
    pair = [Networks(job, job.seed + extra, sum(map(len, plan))) for extra in (0, 1000)]
    for number, epoch in enumerate(plan):
        keep = 1 - job.rate * min(1.0, number / max(1, epochs // 4))
        for rows in epoch:
            losses = [networks.losses(rows) for networks in pair]
            for networks, own, others in zip(pair, losses, losses[::-1], strict=True):
                chosen = others.detach().argsort()[: max(2, round(keep * len(rows)))]
                networks.step(own[chosen].mean())
    return pair[0].done()


@functools.lru_cache(maxsize=1)
def copies_audit(name: str, root: str, rate: float, seed: int) -> tuple[Any, dict[str, float]]:
    """Audit by cross-fitted models, as in ``--trust copies``; its rate, AUC and CPU seconds."""
    job, started = job_of(name, root, rate, seed), time.process_time()
    count, epochs = len(job.pairs.a), job.data.training.epochs
    folds = default_folds(epochs, count)
    fold = torch.randperm(count, generator=torch.Generator().manual_seed(seed)) % folds

    def without(rows: Tensor) -> TwoNetworks:
        return job.train(gce(job.temperature), rows, q=linear(FIRST_Q, 1.0), epochs=max(1, epochs // (folds - 1)))

    sides = held_out_embeddings(job.pairs.a, job.pairs.b, fold, job.data.training.dim, without)
    audit = judge_embeddings(*sides, fold, temperature=job.temperature, seed=seed)
    seconds = time.process_time() - started
    record = {"noise_rate": audit.noise_rate, "auc": auc(audit.weights, job.pairs.wrong), "audit_seconds": seconds}
    return audit, record


def held_out_embeddings(
    a: Tensor, b: Tensor, fold: Tensor, width: int, train: Callable[[Tensor], TwoNetworks]
) -> tuple[Tensor, Tensor]:
    """(pairs, width) embeddings of both sides of every pair, by networks that were trained without its ``fold``.

    ``train`` returns networks trained on some rows.
    """
    sides = torch.empty(2, len(a), width)
    for number in range(int(fold.max()) + 1):
        mask = fold == number
        networks = train((~mask).nonzero()[:, 0])
        with torch.no_grad():
            for side, network, x in zip(sides, networks, (a, b), strict=True):
                side[mask] = network(x[mask])
    return sides[0], sides[1]


def job_of(name: str, root: str, rate: float, seed: int, temperature: float | None = None) -> Job:
    data = data_set(name, root)
    pairs = split(*data.columns[:2], rate, seed, data.validation, data.test)
    return Job(data, pairs, temperature or data.temperature, rate, seed)


LOSSES = {"InfoNCE": infonce, "RINCE q 0.5": functools.partial(rince, 0.5, 1.0), "GCE": gce}
METHODS: dict[str, Callable[[Job, Any], TwoNetworks]] = {
    **{name: lambda job, audit, loss=loss: job.train(loss(job.temperature)) for name, loss in LOSSES.items()},
    "InfoNCE, learned temperature": lambda job, audit: job.train_with_learned_temperature(InfoNCE),
    "GCE, learned temperature": lambda job, audit: job.train_with_learned_temperature(functools.partial(GCE, q=1.0)),
    "mixture": lambda job, audit: mixture(job),
    "co-teaching": lambda job, audit: co_teaching(job),
    "drop flagged": lambda job, audit: job.train_weighted(
        torch.from_numpy(np.setdiff1d(np.arange(len(job.pairs.a)), audit.flag(0.1)))
    ),
    "trust": lambda job, audit: job.train_weighted(weights=torch.from_numpy(audit.weights)),
    "trust, InfoNCE": lambda job, audit: job.train(infonce(job.temperature), weights=torch.from_numpy(audit.weights)),
    "oracle, left out": lambda job, audit: job.train_weighted(torch.from_numpy(~job.pairs.wrong).nonzero()[:, 0]),
    "oracle, no weight": lambda job, audit: job.train_weighted(weights=torch.from_numpy(~job.pairs.wrong).float()),
}
AUDITED = ("drop flagged", "trust", "trust, InfoNCE")


class Trust(Experiment):
    name = "trust"
    summary = (
        "Two networks on pairs of which a share is wrong: losses alone, weights by copies of the model, and other "
        "methods for noisy pairs. R@1 on clean test pairs, mean of both directions. Losses alone have the better of "
        "two temperatures on validation pairs. Writes results.csv, table.md, figure.png and figure.svg."
    )
    corner = "R@1 with wrong pairs of"

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--data", choices=("digits", "cifar10", "multi30k"), default="digits")
        parser.add_argument("--root", default="data", help="folder of CIFAR-10 or Multi30k (%(default)s)")
        several(parser, "--rates", [0.0, 0.2, 0.4, 0.6], "of wrong pairs")
        several(parser, "--methods", list(METHODS), "names of the table", choices=list(METHODS))

    def runs(self, options: argparse.Namespace) -> list[Run]:
        fixed = data_set(options.data, options.root).temperature
        return [
            {"data": options.data, "method": method, "temperature": temperature, "rate": rate, "seed": seed}
            for seed in range(FIRST_SEED, FIRST_SEED + options.seeds)
            for rate in options.rates
            for method in options.methods
            for temperature in (TEMPERATURES if method in LOSSES else (fixed,))
        ]

    def work(self, run: Run, options: argparse.Namespace) -> Result:
        where = options.data, options.root, run["rate"], run["seed"]
        job = job_of(*where, run["temperature"])
        audit, record = copies_audit(*where) if run["method"] in AUDITED else (None, {})
        networks = METHODS[run["method"]](job, audit)
        test = recall_at_1(*networks, job.pairs.test)
        validation = recall_at_1(*networks, job.pairs.validation)
        return {"validation": validation, "test": test, **record, **job.record, "headline": f"R@1 {test:.1f} %"}

    def chosen(self, results: Sequence[Result], method: str, rate: float) -> list[Result]:
        """The results of all seeds at the temperature with the best mean on validation pairs."""
        setting = {"method": method, "rate": rate}
        by_temperature: dict[float, list[Result]] = {}
        for result in results:
            if setting.items() <= result["settings"].items():
                by_temperature.setdefault(result["settings"]["temperature"], []).append(result)
        return max(by_temperature.values(), key=lambda of: statistics.mean(r["validation"] for r in of), default=[])

    def cells(self, results: Sequence[Result], options: argparse.Namespace) -> Iterable[Cell]:
        for method in options.methods:
            for rate in options.rates:
                for result in self.chosen(results, method, rate):
                    yield method, f"{rate:.0%}", result["test"]

    def figure(self, results: Sequence[Result], options: argparse.Namespace) -> Any:
        points = [(options.data, row, float(column[:-1]), value) for row, column, value in self.cells(results, options)]
        return lines(points, "wrong pairs, %", "R@1, %")

    def remarks(self, results: Sequence[Result], options: argparse.Namespace) -> list[str]:
        chosen = [
            f"- {method}: t "
            + ", ".join(f"{of[0]['settings']['temperature']:g} at {rate:.0%}" for rate, of in by_rate.items())
            for method in options.methods
            if (by_rate := {rate: of for rate in options.rates if (of := self.chosen(results, method, rate))})
        ]
        audits = [
            f"- Audit at {r['settings']['rate']:.0%}, seed {r['settings']['seed']}: {r['noise_rate']:.1%} wrong, "
            f"AUC {r['auc']:.3f}, {r['audit_seconds']:.1f} CPU s"
            for r in results
            if r["settings"]["method"] == "trust"
        ]
        learned = [
            f"- {r['settings']['method']}, {r['settings']['rate']:.0%}, seed {r['settings']['seed']}: "
            f"{r['settings']['temperature']:g} to {r['last_temperature']:.3f}"
            for r in results
            if "last_temperature" in r
        ]
        return ["", *chosen, *audits, *learned]
