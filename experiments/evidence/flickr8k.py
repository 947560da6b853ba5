"""Training on pairs of which a share is shuffled (the noisy-correspondence protocol), on frozen features.

Flickr8k: EfficientNet-lite0 features of pictures and MiniLM embeddings of all five captions, reduced to 256 principal
components of the training part; two small networks; 1,500 pictures for training, 1,000 for validation, 1,000 for the
test. Other data sets: ``experiments.evidence.noisy_pairs``. Every method is tuned on the clean validation part with
seed 0, at 40 % and without noise; then all methods run with the same seeds, shuffles, initial weights and batches. The
state after the last epoch is tested; no epoch is picked by clean data.
"""

import argparse
import functools
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

import rince
from experiments.evidence.noisy_pairs import SETS, Part, Task, load_task, tower
from experiments.experiment import Experiment, several
from experiments.tables import Cell
from rince.compare.grid import Result, Run

BATCH = 256
WARM_UP = 2  # epochs before the weights of NCR-like and CRCL-like methods count
TUNED_AT = 0.4  # settings are chosen at this rate, and at 0 for the runs without noise

Setting = dict[str, float]
Loss = Callable[[Tensor, Tensor, Tensor, float], Tensor]
"""(a, b, weights, progress from 0 to 1) -> scalar"""


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
    return _complementary(temperature, torch.tan)


def complementary_log(temperature: float) -> Loss:
    """RCL with log: the sum of -log(1 - p) over the other partners of an anchor."""
    return _complementary(temperature, lambda p: -torch.log1p(-p.clamp(max=1 - 1e-6)))


def _complementary(temperature: float, of_p: Callable[[Tensor], Tensor]) -> Loss:
    def value(a: Tensor, b: Tensor, weights: Tensor, progress: float) -> Tensor:
        scores = normalize(a, dim=1) @ normalize(b, dim=1).T / temperature
        other = 1 - torch.eye(len(a))
        per_anchor = [(of_p(p) * other).sum(1) for p in (scores.softmax(1), scores.T.softmax(1))]
        return ((per_anchor[0] + per_anchor[1]) / 2 * weights).sum() / weights.sum()

    return value


# --- methods ----------------------------------------------------------------------------------------------------------


class Method(NamedTuple):
    """A loss, the values of its settings, and its weights: none, estimate, oracle, mixture or confidence."""

    loss: Callable[..., Loss]
    grid: dict[str, tuple[float, ...]]
    weights: str = "none"


T = {"temperature": (0.05, 0.1, 0.2, 0.3, 0.4)}
METHODS = {
    "InfoNCE": Method(infonce, T),
    "GCE, q 1": Method(gce, {"q": (1.0,), **T}),
    "GCE": Method(gce, {"q": (0.3, 0.5, 0.7, 0.85, 1.0), **T}),
    "RINCE": Method(robust_rince, {"q": (0.01, 0.1, 0.3, 0.5, 0.7), "ratio": (0.3, 1.0, 2.5), **T}),
    "RCL-tan": Method(complementary_tan, T),
    "RCL-log": Method(complementary_log, T),
    "NCR-like mixture": Method(infonce, T, "mixture"),
    "CRCL-like confidence": Method(complementary_tan, T, "confidence"),
    "weights, InfoNCE": Method(infonce, T, "estimate"),
    "weights, GCE": Method(gce, {"q": (1.0,), **T}, "estimate"),
    "weights, GCE to InfoNCE": Method(annealed, T, "estimate"),
    "weights, RCL-tan": Method(complementary_tan, T, "estimate"),
    "oracle, InfoNCE": Method(infonce, T, "oracle"),
    "oracle, GCE": Method(gce, {"q": (1.0,), **T}, "oracle"),
    "oracle, GCE to InfoNCE": Method(annealed, T, "oracle"),
}


def mixture_weights(losses: NDArray[np.float64]) -> Tensor:
    """Probability of the component with the smaller mean, of two Gaussians fitted to the losses (Huang et al. 2021)."""
    from sklearn.mixture import GaussianMixture

    x = (losses - losses.min()) / max(float(np.ptp(losses)), 1e-12)
    mixture = GaussianMixture(2, max_iter=50, reg_covar=5e-4, random_state=0).fit(x[:, None])
    return torch.from_numpy(mixture.predict_proba(x[:, None])[:, mixture.means_[:, 0].argmin()]).float()


# --- training and testing ---------------------------------------------------------------------------------------------


def train(task: Task, method: Method, setting: Setting, rate: float, seed: int, estimate: Tensor) -> dict[str, Any]:
    """Train and test one method."""
    started = time.process_time()
    partner, wrong = task.noise(rate, seed)
    a, b = task.train.a[task.train.a_of], task.train.b[torch.from_numpy(partner)]
    torch.manual_seed(seed)
    towers = nn.ModuleList([tower(a.shape[1]), task.tower_b(b.shape[1])])
    optimizer = torch.optim.Adam(towers.parameters(), lr=1e-3, fused=True)
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
    return {**scores, "cpu_seconds": time.process_time() - started}


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
        summed = cross_entropy(scores, target, reduction="none") + cross_entropy(scores.T, target, reduction="none")
        losses[rows.numpy()] = summed.numpy() / 2
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
    result = {
        f"{name}@{k}": 100 * float((rank < k).float().mean())
        for name, rank in (("a2b", rank_a), ("b2a", rank_b))
        for k in (1, 5, 10)
    }
    return {**result, "sum": sum(result.values())}


# --- the experiment ---------------------------------------------------------------------------------------------------

ESTIMATE = "estimate"


@functools.cache
def task_of(data: str) -> Task:
    return load_task(data)


@functools.lru_cache(maxsize=32)
def estimate(data: str, rate: float, seed: int) -> tuple[Tensor, dict[str, Any]]:
    """Weights estimated before training, and their record."""
    task, started = task_of(data), time.process_time()
    partner, wrong = task.noise(rate, seed)
    b = task.train.b[torch.from_numpy(partner)] if task.texts is None else [task.texts[i] for i in partner]
    result = rince.estimate_weights(task.train.a[task.train.a_of], b, seed=seed)
    weights, (low, high) = result.weights, result.interval
    record = {
        "verdict": str(result.verdict), "noise_rate": result.noise_rate, "low": low, "high": high,
        "right": float(weights[~wrong].mean()), "wrong": float(weights[wrong].mean()) if wrong.any() else None,
        "estimate_seconds": time.process_time() - started,
    }  # fmt: skip
    return torch.from_numpy(weights), record


def setting_of(run: Run) -> Setting:
    return {name: run[name] for name in ("q", "ratio", "temperature") if name in run}


class Flickr8k(Experiment):
    name = "flickr8k"
    summary = " ".join((__doc__ or "").replace("``", "").split())
    corner = "sum of R@1, 5, 10 both ways"
    seeds = 5

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--data", choices=SETS, default="flickr8k", metavar="DATA", help=", ".join(SETS))
        several(parser, "--rates", [0.4, 0.6, 0.0, 0.2], "shares of shuffled pairs")
        several(parser, "--methods", list(METHODS), "names of the table", choices=list(METHODS))

    def runs(self, options: argparse.Namespace) -> list[Run]:
        return self.next_runs([], options)

    def next_runs(self, results: Sequence[Result], options: argparse.Namespace) -> list[Run]:
        """Of every method and rate the next settings to try, or the reported seeds at the chosen setting."""
        runs: list[Run] = []
        for rate in options.rates:
            for method in options.methods:
                setting, missing = self.tuned(results, options.data, method, rate)
                of_seeds = [self.run_of(options.data, method, setting, rate, n) for n in range(1, options.seeds + 1)]
                runs += missing or of_seeds
        return runs

    def run_of(self, data: str, method: str, setting: Setting, rate: float, seed: int) -> Run:
        return {"data": data, "method": method, **setting, "rate": rate, "seed": seed}

    def tuned(self, results: Sequence[Result], data: str, method: str, rate: float) -> tuple[Setting, list[Run]]:
        """Best setting by hill climbing on the validation part, from temperature 0.2 and the middle of the other
        grids, and the runs still missing to determine it."""
        grid, rate = METHODS[method].grid, TUNED_AT if rate else 0.0
        validation = {tuple(r["settings"].items()): r["validation"] for r in results}
        best = {name: len(values) // 2 for name, values in grid.items()}
        while True:
            neighbors = [best] + [best | {name: best[name] + step} for name in grid for step in (-1, 1)]
            inside = [point for point in neighbors if all(0 <= i < len(grid[name]) for name, i in point.items())]
            settings = [{name: grid[name][i] for name, i in point.items()} for point in inside]
            runs = [self.run_of(data, method, setting, rate, 0) for setting in settings]
            if missing := [run for run in runs if tuple(run.items()) not in validation]:
                return settings[0], missing
            scores = [validation[tuple(run.items())] for run in runs]
            highest = inside[scores.index(max(scores))]
            if highest == best:
                return settings[0], []
            best = highest

    def work(self, run: Run, options: argparse.Namespace) -> Result:
        method, where = METHODS[run["method"]], (run["data"], run["rate"], run["seed"])
        weights, record = estimate(*where) if method.weights == ESTIMATE else (torch.empty(0), {})
        scores = train(task_of(run["data"]), method, setting_of(run), run["rate"], run["seed"], weights)
        return {**scores, **record, "headline": f"{scores['sum']:.1f}"}

    def reported(self, results: Sequence[Result], options: argparse.Namespace) -> Iterator[tuple[str, float, Result]]:
        """Method, rate and result of every run with a seed above 0 at the chosen setting."""
        for method in options.methods:
            for rate in sorted(options.rates):
                setting, _ = self.tuned(results, options.data, method, rate)
                for result in results:
                    run = result["settings"]
                    if run["seed"] and run == self.run_of(options.data, method, setting, rate, run["seed"]):
                        yield method, rate, result

    def cells(self, results: Sequence[Result], options: argparse.Namespace) -> Iterable[Cell]:
        for method, rate, result in self.reported(results, options):
            yield method, f"{rate:.0%}", result["sum"]

    def remarks(self, results: Sequence[Result], options: argparse.Namespace) -> list[str]:
        """Chosen settings, paired comparisons, and the estimates."""
        runs: dict[float, dict[str, dict[int, Result]]] = {}
        for method, rate, result in self.reported(results, options):
            runs.setdefault(rate, {}).setdefault(method, {})[result["settings"]["seed"]] = result
        lines = []
        for rate, by_method in runs.items():
            chosen = {m: setting_of(next(iter(of.values()))["settings"]) for m, of in by_method.items()}
            names = (f"{m} {', '.join(f'{k[0]} {v:g}' for k, v in setting.items())}" for m, setting in chosen.items())
            lines += ["", f"{rate:.0%}, settings: {'; '.join(names)}", *comparisons(by_method, rate)]
        header = "| estimate | rate | 95 % interval | weight of right pairs | of wrong pairs | CPU s |"
        lines += ["", header, "| --- " * 6 + "|"]
        for rate, by_method in runs.items():
            estimates = {seed: r for of in by_method.values() for seed, r in of.items() if "verdict" in r}
            for seed, r in sorted(estimates.items()):
                wrong = "" if r["wrong"] is None else f"{r['wrong']:.2f}"
                lines.append(
                    f"| {rate:.0%}, seed {seed} | {r['verdict']} {r['noise_rate']:.1%} | {r['low']:.1%} to "
                    f"{r['high']:.1%} | {r['right']:.2f} | {wrong} | {r['estimate_seconds']:.1f} |"
                )
        return [*lines, "", f"Median CPU seconds of a training: {np.median([r['cpu_seconds'] for r in results]):.1f}"]


def comparisons(runs: dict[str, dict[int, Result]], rate: float) -> list[str]:
    """Paired gain over GCE q 1 of every weighted method, and its share of the gap from InfoNCE to the oracle."""

    def sums(method: str, seeds: list[int]) -> NDArray[np.float64]:
        return np.array([runs[method][seed]["sum"] for seed in seeds])

    lines = []
    oracles = [method for method in runs if method.startswith("oracle")]
    for method in runs:
        if not method.startswith("weights") or not {"InfoNCE", "GCE, q 1"} <= runs.keys():
            continue
        seeds = sorted(set.intersection(*(set(runs[name]) for name in (method, "InfoNCE", "GCE, q 1", *oracles))))
        if not seeds:
            continue
        ours, plain, ahead = sums(method, seeds), sums("InfoNCE", seeds), sums(method, seeds) - sums("GCE, q 1", seeds)
        text = f"{ahead.mean():+.1f}" + (f" ± {ahead.std(ddof=1):.1f}" if len(seeds) > 1 else "")
        text = f"- {rate:.0%}, {method}: {text} against GCE q 1 ({len(seeds)} seeds)"
        if oracles and rate:
            best = max(oracles, key=lambda oracle: sums(oracle, seeds).mean())
            way = (ours.mean() - plain.mean()) / (sums(best, seeds).mean() - plain.mean())
            text += f"; {way:.0%} of the way from InfoNCE to the best oracle ({best.removeprefix('oracle, ')})"
        lines.append(text)
    return lines
