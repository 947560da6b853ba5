"""Batches that hold all five captions of a picture: losses that know or guess the false negatives, on Flickr8k."""

import argparse
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

import rince
from experiments.evidence.flickr8k import recalls
from experiments.evidence.noisy_pairs import Task, load_task, tower
from experiments.experiment import Experiment, grid
from experiments.tables import Cell
from rince.compare.grid import Result, Run

PICTURES, EPOCHS = 51, 10
Loss = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""(a, b, picture of every pair, cosines of the captions' frozen embeddings) -> scalar"""


def library(objective: str, known: bool, **settings: Any) -> Loss:
    """A loss of the library; ``known``: pairs of the same picture are not negatives."""
    loss = getattr(rince, objective)(contrast=rince.CrossView(), **settings)
    return lambda a, b, picture, alike: loss(a, b, ids=picture if known else None)


def guided(q: float, temperature: float, threshold: float) -> Loss:
    """InfoNCE (q 0) or GCE without the negatives that the guide finds alike."""

    def value(a: Tensor, b: Tensor, picture: Tensor, alike: Tensor) -> Tensor:
        own = torch.eye(len(a), dtype=torch.bool)
        scores = normalize(a, dim=1) @ normalize(b, dim=1).T / temperature
        scores = scores.masked_fill((alike > threshold) & ~own, -torch.inf)
        target = torch.arange(len(a))
        log_p = -torch.cat([cross_entropy(side, target, reduction="none") for side in (scores, scores.T)])
        return (-log_p if q == 0 else (1 - (q * log_p).exp()) / q).mean()

    return value


T = {"temperature": (0.05, 0.1, 0.2, 0.3)}
METHODS: dict[str, tuple[Callable[..., Loss], dict[str, tuple[float, ...]]]] = {
    "InfoNCE": (lambda **s: library("InfoNCE", False, **s), T),
    "InfoNCE, ids": (lambda **s: library("InfoNCE", True, **s), T),
    "InfoNCE, guide": (lambda **s: guided(0.0, **s), T | {"threshold": (0.5, 0.7)}),
    "Debiased": (lambda **s: library("Debiased", False, **s), T | {"tau_plus": (0.01, 0.05)}),
    "GCE q 1": (lambda **s: library("GCE", False, q=1.0, **s), T),
    "GCE q 1, ids": (lambda **s: library("GCE", True, q=1.0, **s), T),
    "GCE q 1, guide": (lambda **s: guided(1.0, **s), T | {"threshold": (0.5, 0.7)}),
}


@functools.cache
def task() -> Task:
    return load_task("flickr8k")


def batches(task: Task, seed: int) -> Iterator[Tensor]:
    """Rows of the pairs of 51 pictures each."""
    generator = torch.Generator().manual_seed(seed)
    order = task.train.a_of.argsort(stable=True)
    of_picture = order.view(len(task.train.a), -1)
    for _ in range(EPOCHS):
        pictures = torch.randperm(len(of_picture), generator=generator)
        for chosen in pictures[: len(pictures) // PICTURES * PICTURES].split(PICTURES):
            yield of_picture[chosen].flatten()


def train(task: Task, loss: Loss, seed: int) -> dict[str, float]:
    a, b, picture = task.train.a[task.train.a_of], task.train.b, task.train.a_of
    embedded = normalize(b, dim=1)  # principal components of the frozen embeddings
    torch.manual_seed(seed)
    towers = nn.ModuleList([tower(a.shape[1]), tower(b.shape[1])])
    plan = list(batches(task, seed))
    optimizer = torch.optim.Adam(towers.parameters(), lr=1e-3, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, len(plan), pct_start=0.1)
    for rows in plan:
        optimizer.zero_grad()
        alike = embedded[rows] @ embedded[rows].T
        loss(towers[0](a[rows]), towers[1](b[rows]), picture[rows], alike).backward()
        optimizer.step()
        schedule.step()
    towers.eval()
    return {"validation": recalls(towers, task.validation)["sum"], "test": recalls(towers, task.test)["sum"]}


class FalseNegatives(Experiment):
    name = "false-negatives"
    summary = (
        "Batches of 51 pictures of Flickr8k with all five captions each, so that every anchor has four false negatives "
        "among 254; no pair is wrong. Settings are chosen on the validation part with seed 0. A guide (as in GIST) "
        "masks negatives whose captions are alike under frozen embeddings. Writes results.csv and table.md."
    )
    corner = "sum of R@1, 5, 10 both ways"

    def runs(self, options: argparse.Namespace) -> list[Run]:
        return [run for method, (_, settings) in METHODS.items() for run in grid(method=[method], **settings, seed=[0])]

    def next_runs(self, results: Sequence[Result], options: argparse.Namespace) -> list[Run]:
        """Fresh seeds at the best setting of every method."""
        chosen: dict[str, Result] = {}
        for result in results:
            best = chosen.setdefault(result["settings"]["method"], result)
            if result["settings"]["seed"] == 0 and result["validation"] > best["validation"]:
                chosen[result["settings"]["method"]] = result
        seeds = range(1, options.seeds + 1)
        return [{**best["settings"], "seed": seed} for best in chosen.values() for seed in seeds]

    def work(self, run: Run, options: argparse.Namespace) -> Result:
        setting = {key: value for key, value in run.items() if key not in ("method", "seed")}
        scores = train(task(), METHODS[run["method"]][0](**setting), run["seed"])
        return {**scores, "headline": f"{scores['test']:.1f}"}

    def cells(self, results: Sequence[Result], options: argparse.Namespace) -> Iterable[Cell]:
        for result in results:
            run = result["settings"]
            if run["seed"] > 0:
                names = [f"{key} {value:g}" for key, value in run.items() if key not in ("method", "seed")]
                yield f"{run['method']} ({', '.join(names)})", "test", result["test"]
