"""What `benchmarks/trust.py` compares: data sets, and ways to train two towers on pairs of which some are wrong."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from experiments.evidence.comparisons import Digits, Multi30k
from rince.compare.towers import Columns, CosineSteps, Split, Training, TwoNetworks, fit, tower
from rince.demo import batches
from rince.losses import GCE, RINCE, ContrastiveLoss, CrossView, DensityRatio, InfoNCE
from rince.losses.schedules import Schedule, linear
from rince.train.weights import FIRST_Q, default_folds
from rince.trust import judge_embeddings

Towers = tuple[nn.Module, nn.Module]


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
        task = Task(Multi30k(root).columns(), 500, 1000, Multi30k.training, (0.1, 0.2), 0.1, "GCE t 0.1")
    else:
        task = Task(cifar10_halves(root), 1000, 1000, Training(epochs=20), (0.1, 0.2), 0.2, "RINCE q 0.1")
    return task if epochs is None else task._replace(training=task.training._replace(epochs=epochs))


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


def new_towers(task: Task, seed: int) -> tuple[Towers, torch.optim.Optimizer]:
    """Sizes are those of all pairs, so that no text has a word that is unknown to its tower."""
    torch.manual_seed(seed)
    towers = tower(task.columns.a, task.training), tower(task.columns.b, task.training)
    parameters = [p for t in towers for p in t.parameters()]
    return towers, torch.optim.Adam(parameters, lr=task.training.lr, fused=True)


class Run:
    """Towers in training, for rivals that look at the loss of every pair before they take a step."""

    def __init__(self, task: Task, data: Split, loss: ContrastiveLoss, seed: int, steps: int):
        self.data, self.loss = data, loss
        self.towers, optimizer = new_towers(task, seed)
        self.step = CosineSteps(optimizer, steps).step

    def losses(self, rows: Tensor) -> Tensor:
        a, b = (t(x[rows]) for t, x in zip(self.towers, (self.data.a, self.data.b), strict=True))
        return self.loss(a, b)

    def done(self) -> Towers:
        return self.towers[0].eval(), self.towers[1].eval()


def train(
    task: Task,
    data: Split,
    loss: ContrastiveLoss,
    seed: int,
    rows: Tensor | None = None,
    weights: Tensor | None = None,
    q: Schedule | None = None,
) -> Towers:
    """Towers trained on some of the pairs, as far as ``weights``, one per pair of all, trusts each of them."""
    rows = torch.arange(len(data.a)) if rows is None else rows
    plan = batches(len(rows), task.training.epochs, seed, task.training.batch)
    of_all = [[rows[batch] for batch in epoch] for epoch in plan]
    return fit(*new_towers(task, seed), data.a, data.b, loss, of_all, weights, q)


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
    """As `--trust auto`: models that each leave out a fold score its pairs, all together in the steps of one run."""
    folds = default_folds(task.training.epochs, len(data.a))
    fold = torch.randperm(len(data.a), generator=torch.Generator().manual_seed(seed)) % folds
    short = task._replace(training=task.training._replace(epochs=max(1, task.training.epochs // (folds - 1))))

    def without(rows: Tensor) -> Towers:
        return train(short, data, loss, seed, rows, q=linear(FIRST_Q, 1.0))

    sides = held_out_embeddings(data.a, data.b, fold, task.training.dim, without)
    return judge_embeddings(*sides, fold, temperature=temperature, seed=seed)


def held_out_embeddings(
    a: Tensor, b: Tensor, fold: Tensor, width: int, train: Callable[[Tensor], TwoNetworks]
) -> tuple[Tensor, Tensor]:
    """Embeddings of both sides of every pair, by networks that were trained without it.

    Args:
        a: The first side of all pairs.
        b: The second side.
        fold: The fold of each pair, numbered from 0.
        width: Of the embeddings.
        train: Called with the rows of all pairs but those of one fold, for every fold; returns trained networks.
    """
    sides = torch.empty(2, len(a), width)
    for number in range(int(fold.max()) + 1):
        held = fold == number
        towers = train((~held).nonzero()[:, 0])
        with torch.no_grad():
            for side, one, x in zip(sides, towers, (a, b), strict=True):
                side[held] = one(x[held])
    return sides[0], sides[1]
