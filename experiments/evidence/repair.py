"""New partners for the wrong pairs of shuffled tables: right partner at rank 1, and the stated probability.

    RINCE_DATA=/path/to/data python -m experiments repair [--data digits multi30k flickr8k] [--seeds 3]

40 % of the pairs are shuffled; an audit flags pairs, and ``rince.trust.best_partners`` searches their right
partners: among all rows, among the flagged rows, and one to one. Shares are of the flagged pairs that are shuffled.
"""

import argparse
from collections.abc import Sequence

import numpy as np
import torch

from experiments.evidence import audit_data
from rince.audit import audit_pairs
from rince.trust import best_partners

DATA = {"digits": "digits halves", "multi30k": "multi30k n-grams", "flickr8k": "flickr8k", "docstrings": "docstrings"}
MAX_PAIRS = 3000
SEARCHES = {
    "all rows": {"candidates": "all"},
    "flagged rows": {},
    "flagged rows, one to one": {"one_to_one": True},
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        "python -m experiments repair", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", nargs="+", choices=DATA, default=list(DATA), metavar="NAME")
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    print("| data | seed | flagged | search | at rank 1 | stated |\n| --- | --- | --- | --- | --- | --- |")
    for name in options.data:
        pairs = audit_data.load(DATA[name])
        a, b = pairs.a[:MAX_PAIRS], pairs.b[:MAX_PAIRS]
        for seed in range(options.seeds):
            random = np.random.default_rng(seed)
            chosen = random.permutation(len(a))[: round(0.4 * len(a))]
            partner = np.arange(len(a))
            partner[chosen] = np.roll(chosen, 1)
            audit = audit_pairs(a, b[partner], fit=True, checks=(), seed=seed, progress=False)
            rows = audit.flag(0.1)
            shuffled = partner[rows] != rows
            position = np.argsort(partner)[rows]
            for search, settings in SEARCHES.items():
                new = best_partners(
                    a, b[partner], rows, audit.weights, k=1, fit=True, seed=seed, progress=False, **settings
                )
                right = (new.partners[shuffled, 0] == position[shuffled]).mean() if shuffled.any() else 0.0
                stated = new.probability[shuffled, 0].mean() if shuffled.any() else 0.0
                print(f"| {name} | {seed} | {len(rows)} | {search} | {right:.1%} | {stated:.1%} |", flush=True)
