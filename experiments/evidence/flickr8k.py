"""Training on pairs of which a share is shuffled (the noisy-correspondence protocol), on frozen features.

    RINCE_DATA=/path/to/data python -m experiments flickr8k --out runs/flickr8k
    python -m experiments flickr8k --data digits --out runs/flickr8k
    python -m experiments flickr8k --out runs/flickr8k --table

Flickr8k: EfficientNet-lite0 features of pictures and MiniLM embeddings of all five captions, reduced to 256 principal
components of the training part; two small towers; 1,500 pictures for training, 1,000 for validation, 1,000 for the
test. A share of the training captions is shuffled. First every method is tuned on the validation part (seed 0, 40 %
shuffled); then all methods run with the same seeds, shuffles, initial weights and batches. The state after the last
epoch is tested; no epoch is picked by clean data. Each finished run is one line of ``OUT/DATA.jsonl``: a second start
goes on from there.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

import rince
from experiments.evidence import audit_data

EPOCHS, BATCH, WIDTH = 10, 256, 256
MAX_ITEMS = 1500  # items a for training, which keeps a run at about 3 CPU seconds
WARM_UP = 2  # epochs before the weights of NCR-like and CRCL-like methods count
TUNED_AT = 0.4

Setting = dict[str, float]
Loss = Callable[[Tensor, Tensor, Tensor, float], Tensor]
"""(a, b, weights, progress from 0 to 1) -> scalar"""


class Part(NamedTuple):
    """Distinct items a, items b, and for every item b the item a it belongs to."""

    a: Tensor
    b: Tensor
    a_of: Tensor


class Task(NamedTuple):
    train: Part
    validation: Part
    test: Part
    epochs: int


# --- data -------------------------------------------------------------------------------------------------------------


def load_task(name: str) -> Task:
    if name == "flickr8k":
        with np.load(audit_data.DATA / "flickr8k" / "features.npz", allow_pickle=True) as file:
            a, b, a_of = file["image"].astype(np.float32), file["caption"].astype(np.float32), file["caption_of"]
        held_out, epochs = 1000, EPOCHS
    else:
        pairs = audit_data.load({"digits": "digits halves"}.get(name, name))
        a, b, a_of = pairs.a, pairs.b, np.arange(len(pairs.a))
        held_out, epochs = (1000, 2 * EPOCHS) if len(a) > 4000 else (len(a) // 5, 6 * EPOCHS)
    order = np.random.default_rng(0).permutation(len(a))
    train, validation, test = np.split(order, [len(a) - 2 * held_out, len(a) - held_out])
    train = train[: MAX_ITEMS if name == "flickr8k" else None]
    maps = [_principal(a[train]), _principal(b[np.isin(a_of, train)])]
    parts = []
    for items in (train, validation, test):
        place = np.full(len(a), -1)
        place[items] = np.arange(len(items))
        of_part = np.flatnonzero(place[a_of] >= 0)
        raw = (torch.from_numpy(a[items]), torch.from_numpy(b[of_part]))
        sides = [(x - mean) @ axes for x, (mean, axes) in zip(raw, maps, strict=True)]
        parts.append(Part(*sides, torch.from_numpy(place[a_of[of_part]])))
    return Task(*parts, epochs)


def _principal(x: NDArray[np.float32]) -> tuple[Tensor, Tensor]:
    """Mean and axes to at most ``WIDTH`` principal components with a mean square of 1."""
    rows = torch.from_numpy(x)
    mean = rows.mean(0)
    centered = rows - mean
    axes = torch.linalg.eigh(centered.T @ centered).eigenvectors.flip(1)[:, :WIDTH]
    return mean, axes / (centered @ axes).square().mean().sqrt()


def shuffle(pairs: int, rate: float, seed: int) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """For every pair the item b it gets, and whether that is a wrong one."""
    random = np.random.default_rng([seed, round(100 * rate)])
    chosen = random.permutation(pairs)[: round(rate * pairs)]
    partner = np.arange(pairs)
    partner[chosen] = np.roll(chosen, 1)
    return partner, partner != np.arange(pairs)


# --- losses of the methods --------------------------------------------------------------------------------------------


def infonce(temperature: float) -> Loss:
    loss = rince.InfoNCE(temperature=temperature, contrast=rince.CrossView())
    return lambda a, b, weights, progress: loss(a, b, weights=weights)


def robust_rince(q: float, ratio: float, temperature: float) -> Loss:
    lam, contrast = rince.DensityRatio(ratio), rince.CrossView()
    loss = rince.RINCE(q=q, lam=lam, temperature=temperature, contrast=contrast, scale="unit")
    return lambda a, b, weights, progress: loss(a, b, weights=weights)


def gce(q: float, temperature: float) -> Loss:
    loss = rince.GCE(q=q, temperature=temperature, contrast=rince.CrossView())
    return lambda a, b, weights, progress: loss(a, b, weights=weights)


def annealed(temperature: float, last: float = 0.05, start: float = 0.2) -> Loss:
    """GCE whose q falls from 1 to ``last`` after the first fifth of the steps."""
    loss = rince.GCE(q=1.0, temperature=temperature, contrast=rince.CrossView())

    def value(a: Tensor, b: Tensor, weights: Tensor, progress: float) -> Tensor:
        loss.q = 1 - (1 - last) * max(0.0, progress - start) / (1 - start)
        return loss(a, b, weights=weights)

    return value


def complementary_tan(temperature: float) -> Loss:
    """RCL with tan (Hu et al. 2023): the sum of tan(p) over the other partners of an anchor, in both directions."""

    def value(a: Tensor, b: Tensor, weights: Tensor, progress: float) -> Tensor:
        scores = normalize(a, dim=1) @ normalize(b, dim=1).T / temperature
        other = 1 - torch.eye(len(a))
        per_anchor = [(p.tan() * other).sum(1) for p in (scores.softmax(1), scores.T.softmax(1))]
        return ((per_anchor[0] + per_anchor[1]) / 2 * weights).sum() / weights.sum()

    return value


# --- methods ----------------------------------------------------------------------------------------------------------


class Method(NamedTuple):
    """A loss, the settings to tune, and where weights come from: none, estimate, oracle, mixture or confidence."""

    loss: Callable[..., Loss]
    grid: list[Setting]
    weights: str = "none"


def _grid(**values: tuple[float, ...]) -> list[Setting]:
    names = list(values)
    points = np.stack(np.meshgrid(*values.values(), indexing="ij"), -1).reshape(-1, len(names))
    return [dict(zip(names, map(float, point), strict=True)) for point in points]


AT = _grid(temperature=(0.05, 0.1, 0.2, 0.3))
FLAT = _grid(temperature=(0.1, 0.2, 0.3))
METHODS = {
    "InfoNCE": Method(infonce, _grid(temperature=(0.05, 0.1, 0.2, 0.3, 0.4))),
    "RINCE": Method(robust_rince, _grid(q=(0.1, 0.5), ratio=(1.0, 2.5), temperature=(0.1, 0.2, 0.3))),
    "GCE": Method(gce, _grid(q=(0.7, 1.0), temperature=(0.1, 0.2, 0.3))),
    "GCE, q 1": Method(gce, _grid(q=(1.0,), temperature=(0.1, 0.2, 0.3))),
    "RCL-tan": Method(complementary_tan, AT),
    "NCR-like mixture": Method(infonce, AT, "mixture"),
    "CRCL-like confidence": Method(complementary_tan, AT, "confidence"),
    "weights, InfoNCE": Method(infonce, FLAT, "estimate"),
    "weights, GCE": Method(gce, _grid(q=(1.0,), temperature=(0.1, 0.2, 0.3)), "estimate"),
    "weights, GCE to InfoNCE": Method(annealed, FLAT, "estimate"),
    "oracle, InfoNCE": Method(infonce, FLAT, "oracle"),
    "oracle, GCE to InfoNCE": Method(annealed, FLAT, "oracle"),
}


def mixture_weights(losses: NDArray[np.float64]) -> Tensor:
    """Probability of the component with the smaller mean, of two Gaussians fitted to the losses (Huang et al. 2021)."""
    from sklearn.mixture import GaussianMixture

    x = (losses - losses.min()) / max(float(np.ptp(losses)), 1e-12)
    mixture = GaussianMixture(2, max_iter=50, reg_covar=5e-4, random_state=0).fit(x[:, None])
    return torch.from_numpy(mixture.predict_proba(x[:, None])[:, mixture.means_[:, 0].argmin()]).float()


# --- training and testing ---------------------------------------------------------------------------------------------


def tower(width: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, 256), nn.BatchNorm1d(256), nn.ReLU(), nn.Linear(256, 128))


def run(task: Task, method: Method, setting: Setting, rate: float, seed: int, estimate: Tensor) -> dict[str, Any]:
    """Train and test one method."""
    started = time.process_time()
    partner, wrong = shuffle(len(task.train.b), rate, seed)
    a, b = task.train.a[task.train.a_of], task.train.b[torch.from_numpy(partner)]
    torch.manual_seed(seed)
    towers = nn.ModuleList([tower(a.shape[1]), tower(b.shape[1])])
    optimizer = torch.optim.Adam(towers.parameters(), lr=1e-3)
    steps = len(a) // BATCH * task.epochs
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 2e-3, steps, pct_start=0.1)
    weights = torch.ones(len(a))
    if method.weights == "estimate":
        weights = estimate
    elif method.weights == "oracle":
        weights = torch.from_numpy(~wrong).float()
    confidence, loss = torch.ones(len(a)), method.loss(**setting)
    for step, rows in enumerate(_batches(len(a), task.epochs, seed)):
        epoch, within = divmod(step, len(a) // BATCH)
        if method.weights == "mixture" and within == 0 and epoch >= WARM_UP:
            weights = mixture_weights(_losses(towers, a, b, setting["temperature"], seed + epoch))
        z_a, z_b = towers[0](a[rows]), towers[1](b[rows])
        if method.weights == "confidence":
            scores = normalize(z_a.detach(), dim=1) @ normalize(z_b.detach(), dim=1).T / setting["temperature"]
            p = (scores.softmax(1).diagonal() + scores.softmax(0).diagonal()) / 2
            confidence[rows] = p if epoch == 0 else 0.8 * confidence[rows] + 0.2 * p
            weights = confidence if epoch >= WARM_UP else weights
        optimizer.zero_grad()
        loss(z_a, z_b, weights[rows], step / steps).backward()
        optimizer.step()
        schedule.step()
    towers.eval()
    scores = {"validation": recalls(towers, task.validation)["sum"], **recalls(towers, task.test)}
    return {**scores, "seconds": time.process_time() - started}


def _batches(pairs: int, epochs: int, seed: int) -> Iterator[Tensor]:
    generator = torch.Generator().manual_seed(seed)
    for _ in range(epochs):
        order = torch.randperm(pairs, generator=generator)
        yield from order[: pairs // BATCH * BATCH].split(BATCH)


@torch.no_grad()
def _losses(towers: nn.ModuleList, a: Tensor, b: Tensor, temperature: float, seed: int) -> NDArray[np.float64]:
    """The InfoNCE loss of every pair against a random batch."""
    towers.eval()
    losses = np.zeros(len(a))
    for rows in torch.randperm(len(a), generator=torch.Generator().manual_seed(seed)).split(BATCH):
        scores = normalize(towers[0](a[rows]), dim=1) @ normalize(towers[1](b[rows]), dim=1).T / temperature
        target = torch.arange(len(rows))
        both = cross_entropy(scores, target, reduction="none") + cross_entropy(scores.T, target, reduction="none")
        losses[rows.numpy()] = both.numpy() / 2
    towers.train()
    return losses


@torch.no_grad()
def recalls(towers: nn.ModuleList, part: Part) -> dict[str, float]:
    """R@1, 5 and 10 in percent, a to b (any of its items b counts) and b to a, and the sum of the six."""
    scores = normalize(towers[0](part.a), dim=1) @ normalize(towers[1](part.b), dim=1).T
    own = part.a_of[None] == torch.arange(len(part.a))[:, None]
    best = scores.masked_fill(~own, -torch.inf).amax(1)
    rank_a = ((scores > best[:, None]) & ~own).sum(1)
    of_own = scores[part.a_of, torch.arange(len(part.b))]
    rank_b = (scores > of_own).sum(0)
    found = {
        f"{name}@{k}": 100 * float((rank < k).float().mean())
        for name, rank in (("a2b", rank_a), ("b2a", rank_b))
        for k in (1, 5, 10)
    }
    return {**found, "sum": sum(found.values())}


# --- the experiment ---------------------------------------------------------------------------------------------------


class Experiment:
    """All runs on one data set, each stored as a line of a file once it is finished."""

    def __init__(self, data: str, out: Path):
        out.mkdir(parents=True, exist_ok=True)
        self.data, self.path, self.task = data, out / f"{data}.jsonl", load_task(data)
        self.done = [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []
        self.estimates: dict[tuple[float, int], Tensor] = {}

    def result(self, method: str, setting: Setting, rate: float, seed: int) -> dict[str, Any]:
        key = {"method": method, "setting": setting, "rate": rate, "seed": seed}
        for line in self.done:
            if all(line.get(name) == value for name, value in key.items()):
                return line
        estimate = self.estimate(rate, seed) if METHODS[method].weights == "estimate" else torch.empty(0)
        return self._store({**key, **run(self.task, METHODS[method], setting, rate, seed, estimate)})

    def estimate(self, rate: float, seed: int) -> Tensor:
        """Weights estimated before training, kept beside the results."""
        path = self.path.with_name(f"{self.data}-{round(100 * rate)}-{seed}.npy")
        if not path.exists():
            started = time.process_time()
            partner, wrong = shuffle(len(self.task.train.b), rate, seed)
            a, b = self.task.train.a[self.task.train.a_of], self.task.train.b[torch.from_numpy(partner)]
            result = rince.trust.estimate_weights(a, b, seed=seed)
            w, seconds = result.weights, time.process_time() - started
            np.save(path, w)
            self._store(
                {
                    "method": "estimate", "rate": rate, "seed": seed, "verdict": str(result.verdict),
                    "noise_rate": result.noise_rate, "interval": list(result.interval), "seconds": seconds,
                    "right": float(w[~wrong].mean()), "wrong": float(w[wrong].mean()) if wrong.any() else None,
                }
            )  # fmt: skip
        return torch.from_numpy(np.load(path))

    def tuned(self, method: str) -> Setting:
        """The setting with the best sum of recalls on the validation part."""
        return max(METHODS[method].grid, key=lambda s: self.result(method, s, TUNED_AT, 0)["validation"])

    def _store(self, line: dict[str, Any]) -> dict[str, Any]:
        self.done.append(line)
        with open(self.path, "a") as file:
            file.write(json.dumps(line) + "\n")
        return line


def summary(experiment: Experiment) -> str:
    """A markdown table: mean and standard deviation of the sum of recalls over seeds, mean R@1 both ways, seeds.

    Below it, for every method with weights, the share of the way from InfoNCE to the oracle (both at their tuned
    temperature), and the difference to GCE q 1, over the seeds that all of them have.
    """
    runs: dict[tuple[str, float], dict[int, dict[str, Any]]] = {}
    for method in METHODS:
        grid = [line for line in experiment.done if line["method"] == method and line["seed"] == 0]
        if len(grid) < len(METHODS[method].grid):
            continue
        setting = max(grid, key=lambda line: line["validation"])["setting"]
        for line in experiment.done:
            if line["method"] == method and line["setting"] == setting and line["seed"] > 0:
                runs.setdefault((method, line["rate"]), {})[line["seed"]] = line
    rates = sorted({rate for _, rate in runs})
    head = " | ".join(f"{rate:.0%}" for rate in rates)
    lines = [f"| sum of R@1, 5, 10 both ways (R@1 a to b, b to a; seeds) | setting | {head} |"]
    lines.append("| --- " * (len(rates) + 2) + "|")
    for method in METHODS:
        cells, setting = [], ""
        for rate in rates:
            found = list(runs.get((method, rate), {}).values())
            if found:
                setting = ", ".join(f"{name} {value:g}" for name, value in found[0]["setting"].items())
                sums = [line["sum"] for line in found]
                spread = f" ± {np.std(sums, ddof=1):.1f}" if len(found) > 1 else ""
                first = [float(np.mean([line[f"{way}@1"] for line in found])) for way in ("a2b", "b2a")]
                cells.append(f"{np.mean(sums):.1f}{spread} ({first[0]:.1f}, {first[1]:.1f}; {len(found)})")
            else:
                cells.append("")
        if setting:
            lines.append(f"| {method} | {setting} | {' | '.join(cells)} |")
    lines.append("")
    for rate in rates:
        for method in (name for name in METHODS if name.startswith("weights")):
            needed = [runs.get((name, rate), {}) for name in (method, "InfoNCE", "oracle, InfoNCE", "GCE, q 1")]
            seeds = sorted(set.intersection(*map(set, needed)))
            if rate and seeds:
                ours, plain, oracle, gce = (np.array([of[seed]["sum"] for seed in seeds]) for of in needed)
                way = (ours.mean() - plain.mean()) / (oracle.mean() - plain.mean())
                ahead = ours - gce
                spread = f" ± {ahead.std(ddof=1):.1f}" if len(seeds) > 1 else ""
                against = f"{ahead.mean():+.1f}{spread} against GCE q 1 ({len(seeds)} seeds)"
                lines.append(f"- {rate:.0%}, {method}: {way:.0%} of the way to the oracle, {against}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        "python -m experiments flickr8k", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="flickr8k", help="flickr8k, docstrings, digits or another of audit_data.SETS")
    parser.add_argument("--out", type=Path, default=Path("runs/flickr8k"), help="folder of the results")
    parser.add_argument("--rates", type=float, nargs="+", default=[0.4, 0.6, 0.0, 0.2], help="shares of shuffled pairs")
    parser.add_argument("--seeds", type=int, default=5, help="runs per method and rate")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS), metavar="METHOD")
    parser.add_argument("--table", action="store_true", help="print the table of what is finished")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    experiment = Experiment(options.data, options.out)
    if options.table:
        print(summary(experiment))
        return
    settings = {method: experiment.tuned(method) for method in options.methods}
    for seed in range(1, options.seeds + 1):
        for rate in options.rates:
            for method, setting in settings.items():
                experiment.result(method, setting, rate, seed)
    print(summary(experiment))
