"""Batches that hold all five captions of a picture: losses that know or guess the false negatives, on Flickr8k.

    RINCE_DATA=/path/to/data python -m experiments false-negatives --out runs/false-negatives

Features, towers and test as in ``python -m experiments flickr8k``; no pair is wrong. A batch is 51 pictures with all
their captions, so that every anchor has four false negatives among 254. Settings are chosen on the validation part with
seed 0. A guide (as in GIST) masks negatives whose captions are alike: the cosine of their frozen embeddings is above a
threshold. Each finished run is one line of ``OUT/runs.jsonl``: a second start continues from there.
"""

import argparse
import itertools
import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

import rince
from experiments.evidence.flickr8k import recalls
from experiments.evidence.noisy_pairs import Task, load_task, tower

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


def batches(task: Task, seed: int) -> Iterator[Tensor]:
    """Rows of the pairs of 51 pictures each."""
    generator = torch.Generator().manual_seed(seed)
    order = task.train.a_of.argsort(stable=True)
    of_picture = order.view(len(task.train.a), -1)
    for _ in range(EPOCHS):
        pictures = torch.randperm(len(of_picture), generator=generator)
        for chosen in pictures[: len(pictures) // PICTURES * PICTURES].split(PICTURES):
            yield of_picture[chosen].flatten()


def run(task: Task, loss: Loss, seed: int) -> dict[str, float]:
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


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        "python -m experiments false-negatives",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", type=Path, default=Path("runs/false-negatives"), help="folder of the results")
    parser.add_argument("--seeds", type=int, default=3, help="runs per method")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    options.out.mkdir(parents=True, exist_ok=True)
    path, task = options.out / "runs.jsonl", load_task("flickr8k")
    done = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def result(method: str, setting: dict[str, float], seed: int) -> dict[str, Any]:
        key = {"method": method, "setting": setting, "seed": seed}
        for line in done:
            if all(line[name] == value for name, value in key.items()):
                return line
        done.append({**key, **run(task, METHODS[method][0](**setting), seed)})
        with open(path, "a") as file:
            file.write(json.dumps(done[-1]) + "\n")
        return done[-1]

    print("| sum of R@1, 5, 10 both ways | setting | test |\n| --- | --- | --- |")
    for method, (_, grid) in METHODS.items():
        points = [dict(zip(grid, values, strict=True)) for values in itertools.product(*grid.values())]
        setting = max(points, key=lambda point: result(method, point, 0)["validation"])
        sums = [result(method, setting, seed)["test"] for seed in range(1, options.seeds + 1)]
        names = ", ".join(f"{name} {value:g}" for name, value in setting.items())
        spread = f" ± {np.std(sums, ddof=1):.1f}" if len(sums) > 1 else ""
        print(f"| {method} | {names} | {np.mean(sums):.1f}{spread} |", flush=True)
