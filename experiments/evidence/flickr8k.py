"""Training on pairs of which a share is shuffled (the noisy-correspondence protocol), on frozen features.

    RINCE_DATA=/path/to/data python -m experiments flickr8k --out runs/flickr8k
    python -m experiments flickr8k --data digits --out runs/flickr8k
    python -m experiments flickr8k --out runs/flickr8k --table

Flickr8k: EfficientNet-lite0 features of pictures and MiniLM embeddings of all five captions, reduced to 256 principal
components of the training part; two small towers; 1,500 pictures for training, 1,000 for validation, 1,000 for the
test. A share of the training captions is shuffled. Other data sets: ``experiments.evidence.noisy_pairs``. Every method
is tuned on the clean validation part with seed 0, at 40 % and without noise; then all methods run with the same seeds,
shuffles, initial weights and batches. The state after the last epoch is tested; no epoch is picked by clean data. Each
finished run is one line of ``OUT/DATA.jsonl``: a second start continues from there.
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
from experiments.evidence.noisy_pairs import SETS, Part, Task, load_task, tower

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


def run(task: Task, method: Method, setting: Setting, rate: float, seed: int, estimate: Tensor) -> dict[str, Any]:
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


Find = Callable[[str, Setting, float, int], dict[str, Any] | None]


class Experiment:
    """All runs on one data set, each stored as a line of a file once it is finished."""

    def __init__(self, data: str, out: Path):
        out.mkdir(parents=True, exist_ok=True)
        self.data, self.path, self.task = data, out / f"{data}.jsonl", load_task(data)
        self.done = [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def result(self, method: str, setting: Setting, rate: float, seed: int) -> dict[str, Any]:
        """The line of a run, which is trained if it is missing."""
        key = {"method": method, "setting": setting, "rate": rate, "seed": seed}
        found = self.find(method, setting, rate, seed)
        if found is None:
            estimate = self.estimate(rate, seed) if METHODS[method].weights == "estimate" else torch.empty(0)
            found = self._store({**key, **run(self.task, METHODS[method], setting, rate, seed, estimate)})
        return found

    def find(self, method: str, setting: Setting, rate: float, seed: int) -> dict[str, Any] | None:
        key = {"method": method, "setting": setting, "rate": rate, "seed": seed}
        return next((line for line in self.done if all(line.get(k) == value for k, value in key.items())), None)

    def estimate(self, rate: float, seed: int) -> Tensor:
        """Weights estimated before training, kept beside the results."""
        path = self.path.with_name(f"{self.data}-{round(100 * rate)}-{seed}.npy")
        if not path.exists():
            started = time.process_time()
            train, (partner, wrong) = self.task.train, self.task.noise(rate, seed)
            texts, chosen = self.task.texts, torch.from_numpy(partner)
            b = train.b[chosen] if texts is None else [texts[i] for i in partner]
            result = rince.estimate_weights(train.a[train.a_of], b, seed=seed)
            w, seconds = result.weights, time.process_time() - started
            np.save(path, w)
            self._store(
                {
                    "method": "estimate", "rate": rate, "seed": seed, "verdict": str(result.verdict),
                    "noise_rate": result.noise_rate, "interval": list(result.interval), "seconds": seconds,
                    "right": float(w[~wrong].mean()), "wrong": float(w[wrong].mean()) if wrong.any() else None,
                    "true_rate": float(wrong.mean()),
                }
            )  # fmt: skip
        return torch.from_numpy(np.load(path))

    def tuned(
        self, method: str, rate: float, find: Callable[..., dict[str, Any] | None] | None = None
    ) -> Setting | None:
        """The setting that is better on the validation part than every neighbor in the grid, found by climbing.

        It starts at temperature 0.2 and the middle of other values. ``find`` returns the line of a run, by default by
        training; None where a line is missing.
        """
        grid, find, rate = METHODS[method].grid, find or self.result, TUNED_AT if rate else 0.0
        best = {name: len(values) // 2 for name, values in grid.items()}
        while True:
            near = [best] + [best | {name: best[name] + step} for name in grid for step in (-1, 1)]
            scores = []
            for place in near:
                if all(0 <= i < len(grid[name]) for name, i in place.items()):
                    line = find(method, {name: grid[name][i] for name, i in place.items()}, rate, 0)
                    if line is None:
                        return None
                    scores.append((line["validation"], place))
            highest = max(scores, key=lambda score: score[0])[1]
            if highest == best:
                return {name: grid[name][i] for name, i in best.items()}
            best = highest

    def _store(self, line: dict[str, Any]) -> dict[str, Any]:
        self.done.append(line)
        with open(self.path, "a") as file:
            file.write(json.dumps(line) + "\n")
        return line


def summary(experiment: Experiment) -> str:
    """Markdown of what is finished: recalls by method and rate, paired comparisons, estimates and cost."""
    rates = sorted({line["rate"] for line in experiment.done if line["seed"] > 0})
    runs: dict[str, dict[float, dict[int, dict[str, Any]]]] = {}
    for method in METHODS:
        for rate in rates:
            setting = experiment.tuned(method, rate, experiment.find)
            of_seeds = [experiment.find(method, setting, rate, seed) for seed in range(1, 20)] if setting else []
            found = {line["seed"]: line for line in of_seeds if line is not None}
            if found:
                runs.setdefault(method, {})[rate] = found
    lines = ["| sum of R@1, 5, 10 both ways (seeds) | " + " | ".join(f"{rate:.0%}" for rate in rates) + " |"]
    lines.append("| --- " * (len(rates) + 1) + "|")
    lines += [f"| {method} | {' | '.join(_cell(of.get(rate, {})) for rate in rates)} |" for method, of in runs.items()]
    lines.append("")
    for rate in rates:
        lines += _comparisons({method: of[rate] for method, of in runs.items() if rate in of}, rate)
    lines += [
        "",
        "| estimate | rate | 95 % interval | weight of right pairs | of wrong pairs | CPU s |",
        "| --- " * 6 + "|",
    ]
    for line in sorted(experiment.done, key=lambda line: (line["rate"], line["seed"])):
        if line["method"] == "estimate" and line["seed"] > 0:
            low, high = line["interval"]
            wrong = "" if line["wrong"] is None else f"{line['wrong']:.2f}"
            lines.append(
                f"| {line['true_rate']:.0%}, seed {line['seed']} | {line['verdict']} {line['noise_rate']:.1%} | "
                f"{low:.1%} to {high:.1%} | {line['right']:.2f} | {wrong} | {line['seconds']:.1f} |"
            )
    seconds = [line["seconds"] for line in experiment.done if line["method"] != "estimate"]
    lines.append(f"\nMedian CPU seconds of a training: {np.median(seconds):.1f}")
    return "\n".join(lines)


def _cell(found: dict[int, dict[str, Any]]) -> str:
    if not found:
        return ""
    sums = [line["sum"] for line in found.values()]
    spread = f" ± {np.std(sums, ddof=1):.1f}" if len(found) > 1 else ""
    setting = ", ".join(f"{name[0]} {value:g}" for name, value in next(iter(found.values()))["setting"].items())
    return f"{np.mean(sums):.1f}{spread} ({setting}; {len(found)})"


def _comparisons(runs: dict[str, dict[int, dict[str, Any]]], rate: float) -> list[str]:
    """For every method with weights: its way from InfoNCE to the best oracle, and its lead over GCE q 1, in pairs."""

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


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        "python -m experiments flickr8k", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", choices=SETS, default="flickr8k", metavar="DATA", help=", ".join(SETS))
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
    for rate in options.rates:
        settings = {method: experiment.tuned(method, rate) for method in options.methods}
        for seed in range(1, options.seeds + 1):
            for method, setting in settings.items():
                if setting is not None:
                    experiment.result(method, setting, rate, seed)
    print(summary(experiment))
