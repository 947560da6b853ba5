"""Rivals for training on noisy pairs, on the same towers and the same pairs.

    python benchmarks/trust.py [--data digits] [--rates 0 0.2 0.4 0.6] [--seeds 10 11 12] [--epochs 40] [--json FILE]
    python benchmarks/trust.py --data cifar10 --root DIR

Two halves of each image are a pair; a share of the training pairs has the half of another image. Every row is R@1 among
clean pairs that nobody has seen. Methods with a temperature (or q) to choose get the best of three, chosen for every
noise rate on clean validation pairs; "trust" and "drop flagged" have one setting throughout, chosen on other seeds.

- InfoNCE, RINCE, GCE: the losses alone (GCE is generalised cross-entropy of the in-batch softmax with q = 1).
- mixture: after a quarter of the epochs, pairs weigh what a two-component mixture on their in-sample losses gives
  them, fitted again in every epoch: the core of methods for noisy correspondence.
- co-teaching: two pairs of towers, each choosing the pairs of small loss for the other; it is told the true rate.
- drop flagged, trust: what two models find that each trained on half of the pairs (`rince train --trust auto`).
- oracle: knows which pairs are wrong and leaves them out.
"""

import argparse
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from rince.audit.fit.towers import Recipe, tower
from rince.losses import GCE, RINCE, ContrastiveLoss, DensityRatio, InfoNCE
from rince.losses.contrast import CrossView
from rince.reproduce.demo import Split, auc, recalls, split
from rince.train.trust.phase import fold_of
from rince.trust import judge_embeddings, trust_of

BATCH = 256
Towers = tuple[nn.Module, nn.Module]
Loss = Callable[..., Tensor]


def infonce(temperature: float) -> ContrastiveLoss:
    return InfoNCE(temperature, CrossView(), reduction="none")


def rince(q: float, r: float, temperature: float) -> ContrastiveLoss:
    return RINCE(q, DensityRatio(r), temperature, CrossView(), scale="unit", reduction="none")


def gce(temperature: float) -> ContrastiveLoss:
    return GCE(1.0, temperature, CrossView(), reduction="none")


TUNED = {
    "InfoNCE": {f"t {t:g}": infonce(t) for t in (0.1, 0.2, 0.3)},
    "RINCE": {f"q {q:g} t {t:g}": rince(q, 1.0, t) for q, t in ((0.5, 0.1), (0.5, 0.2), (1.0, 0.2))},
    "GCE": {f"t {t:g}": gce(t) for t in (0.1, 0.2, 0.3)},
}
OURS = rince(0.1, 2.5, 0.1)


class Training:
    """Towers, their optimizer and schedule; ``step`` takes rows and a weight for each of them."""

    def __init__(self, data: Split, loss: ContrastiveLoss, seed: int, steps: int):
        torch.manual_seed(seed)
        recipe = Recipe(dropout=0.0)
        self.data, self.loss = data, loss
        self.towers = tower(data.a.shape[1], recipe), tower(data.b.shape[1], recipe)
        self.optimizer = torch.optim.Adam([p for t in self.towers for p in t.parameters()], lr=1e-3, fused=True)
        self.schedule = torch.optim.lr_scheduler.CosineAnnealingLR(self.optimizer, steps)

    def losses(self, rows: Tensor) -> Tensor:
        """One loss per pair, the mean of both directions."""
        a, b = (t(x[rows]) for t, x in zip(self.towers, (self.data.a, self.data.b), strict=True))
        return self.loss(a, b).view(2, -1).mean(0)

    def step(self, rows: Tensor, weights: Tensor | None = None) -> None:
        losses = self.losses(rows)
        value = losses.mean() if weights is None else (losses * weights).sum() / weights.sum().clamp_min(1e-6)
        self.optimizer.zero_grad()
        value.backward()
        self.optimizer.step()
        self.schedule.step()


def orders(n: int, epochs: int, seed: int) -> list[list[Tensor]]:
    draws = torch.Generator().manual_seed(seed)
    batch = min(BATCH, n)
    return [
        [rows for rows in torch.randperm(n, generator=draws).split(batch) if len(rows) == batch] for _ in range(epochs)
    ]


def train(data: Split, loss: ContrastiveLoss, seed: int, epochs: int, weights: Tensor | None = None) -> Towers:
    plan = orders(len(data.a), epochs, seed)
    run = Training(data, loss, seed, epochs * len(plan[0]))
    for epoch in plan:
        for rows in epoch:
            run.step(rows, None if weights is None else weights[rows])
    return _done(run)


def _done(run: Training) -> Towers:
    for one in run.towers:
        one.eval()
    return run.towers


def subset(data: Split, rows: Any) -> Split:
    chosen = torch.as_tensor(np.asarray(rows))
    return data._replace(a=data.a[chosen], b=data.b[chosen])


@torch.no_grad()
def sample_losses(run: Training) -> Tensor:
    for one in run.towers:
        one.eval()
    losses = torch.cat([run.losses(rows) for rows in torch.arange(len(run.data.a)).split(BATCH)])
    for one in run.towers:
        one.train()
    return losses


def mixture(data: Split, loss: ContrastiveLoss, seed: int, epochs: int) -> Towers:
    from sklearn.mixture import GaussianMixture

    plan = orders(len(data.a), epochs, seed)
    run = Training(data, loss, seed, epochs * len(plan[0]))
    weights = None
    for number, epoch in enumerate(plan):
        if number >= epochs // 4:
            losses = sample_losses(run).numpy()[:, None]
            losses = (losses - losses.min()) / max(float(np.ptp(losses)), 1e-9)
            parts = GaussianMixture(2, max_iter=10, reg_covar=5e-4, random_state=0).fit(losses)
            clean = parts.predict_proba(losses)[:, parts.means_[:, 0].argmin()]
            weights = torch.from_numpy(clean.astype(np.float32))
        for rows in epoch:
            run.step(rows, None if weights is None else weights[rows])
    return _done(run)


def co_teaching(data: Split, loss: ContrastiveLoss, seed: int, epochs: int, rate: float) -> Towers:
    plan = orders(len(data.a), epochs, seed)
    runs = [Training(data, loss, seed + extra, epochs * len(plan[0])) for extra in (0, 1000)]
    for number, epoch in enumerate(plan):
        keep = 1 - rate * min(1.0, number / max(1, epochs // 4))
        for rows in epoch:
            chosen = []
            for run in runs:
                with torch.no_grad():
                    small = run.losses(rows).argsort()[: max(2, round(keep * len(rows)))]
                chosen.append(torch.zeros(len(rows)).index_fill(0, small, 1.0))
            runs[0].step(rows, chosen[1])
            runs[1].step(rows, chosen[0])
    return _done(runs[0])


def found_trust(data: Split, loss: ContrastiveLoss, seed: int, epochs: int) -> Any:
    """As `--trust auto`: two models, each on half of the pairs, score the half they have not seen."""
    fold = fold_of(len(data.a), 2, seed)
    sides = torch.empty(2, len(data.a), 64)
    for k in range(2):
        towers = train(subset(data, fold != k), loss, seed, epochs)
        with torch.no_grad():
            for side, one, x in zip(sides, towers, (data.a, data.b), strict=True):
                side[fold == k] = one(x[fold == k])
    return judge_embeddings(sides[0], sides[1], fold, temperature=0.1, seed=seed)


def compete(data: Split, rate: float, seed: int, epochs: int) -> dict[str, dict[str, Any]]:
    """R@1 on validation and test of every method and setting, and what the trust was worth."""
    results: dict[str, dict[str, Any]] = {}

    def enter(name: str, setting: str, towers: Towers, seconds: float, **more: Any) -> None:
        scores = {"choose": recalls(*towers, data.choose)[0], "test": recalls(*towers, data.test)[0]}
        results.setdefault(name, {})[setting] = {**scores, "seconds": seconds, **more}

    def timed(work: Callable[[], Any]) -> tuple[Any, float]:
        start = time.process_time()
        return work(), time.process_time() - start

    for name, settings in TUNED.items():
        for setting, loss in settings.items():
            enter(name, setting, *timed(lambda loss=loss: train(data, loss, seed, epochs)))
    enter("mixture", "t 0.2", *timed(lambda: mixture(data, infonce(0.2), seed, epochs)))
    enter("co-teaching", "t 0.2", *timed(lambda: co_teaching(data, infonce(0.2), seed, epochs, rate)))
    found, seconds = timed(lambda: found_trust(data, OURS, seed, epochs))
    trust = torch.from_numpy(trust_of(found))
    more = {"rate": found.noise_rate, "auc": auc(trust.numpy(), data.wrong)}
    kept = np.setdiff1d(np.arange(len(data.a)), found.flag(0.1))
    towers, own = timed(lambda: train(subset(data, kept), OURS, seed, epochs))
    enter("drop flagged", "q 0.1", towers, own + seconds)
    for setting, loss in (("q 0.1", OURS), ("InfoNCE t 0.2", infonce(0.2))):
        towers, own = timed(lambda loss=loss: train(data, loss, seed, epochs, trust))
        enter("trust" if setting == "q 0.1" else "trust, InfoNCE", setting, towers, own + seconds, **more)
    right = np.flatnonzero(~data.wrong)
    for setting, loss in (("q 0.1", OURS), ("InfoNCE t 0.1", infonce(0.1)), ("InfoNCE t 0.2", infonce(0.2))):
        enter("oracle", setting, *timed(lambda loss=loss: train(subset(data, right), loss, seed, epochs)))
    return results


def halves(data: str, root: str) -> tuple[Any, Any, int, int]:
    """Both halves of the images, and how many pairs are for validation and for tests."""
    if data == "digits":
        from rince.data.pairs.digit_halves import digit_pairs

        return *digit_pairs()[:2], 200, 397
    from rince.data.images.cifar10 import CIFAR10

    images = CIFAR10(root).split("train")[0][:8000].float().div(255)
    small = nn.functional.avg_pool2d(images, 4).numpy()  # 3 x 8 x 8
    return (
        np.ascontiguousarray(small[:, :, 0::2].reshape(len(small), -1)),
        np.ascontiguousarray(small[:, :, 1::2].reshape(len(small), -1)),
        1000,
        1000,
    )


def table(results: list[dict[str, Any]], rates: list[float]) -> str:
    names = list(dict.fromkeys(name for one in results for name in one["methods"]))
    head = "| method | " + " | ".join(f"{rate:.0%}" for rate in rates) + " | CPU s |"
    lines = [head, "| --- |" + " --- |" * (len(rates) + 1)]
    for name in names:
        cells, seconds = [], []
        for rate in rates:
            same = [one["methods"][name] for one in results if one["rate"] == rate and name in one["methods"]]
            best = max(same[0], key=lambda s: statistics.mean(one[s]["choose"] for one in same))
            values = [100 * one[best]["test"] for one in same]
            seconds += [one[best]["seconds"] for one in same]
            spread = f" ± {statistics.stdev(values):.1f}" if len(values) > 1 else ""
            cells.append(f"{statistics.mean(values):.1f}{spread} ({best})")
        lines.append(f"| {name} | " + " | ".join(cells) + f" | {statistics.mean(seconds):.1f} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", choices=("digits", "cifar10"), default="digits")
    parser.add_argument("--root", default="data", help="folder of CIFAR-10")
    parser.add_argument("--rates", nargs="+", type=float, default=[0.0, 0.2, 0.4, 0.6])
    parser.add_argument("--seeds", nargs="+", type=int, default=[10, 11, 12])
    parser.add_argument("--epochs", type=int, default=40)
    parser.add_argument("--json", default=None, help="keep all numbers here")
    options = parser.parse_args()
    torch.set_num_threads(1)
    a, b, choose, test = halves(options.data, options.root)
    results = []
    for seed in options.seeds:
        for rate in options.rates:
            methods = compete(split(a, b, rate, seed, choose, test), rate, seed, options.epochs)
            results.append({"seed": seed, "rate": rate, "methods": methods})
            found = methods["trust"]["q 0.1"]
            print(f"seed {seed}, {rate:.0%}: estimated {found['rate']:.1%}, AUC {found['auc']:.3f}", flush=True)
            if options.json:
                with open(options.json, "w", encoding="utf-8") as file:
                    json.dump(results, file, indent=1)
    print(table(results, options.rates))


if __name__ == "__main__":
    main()
