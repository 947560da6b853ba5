"""Measure the table behind ``Audit.recommend``: retrieval by noise rate, q and r on digits and on spoken digits.

    python benchmarks/recommend.py --spoken PATH/fsdd.zip

About 15 CPU minutes. Writes src/rince/audit/rule_of_thumb.json. The score of a row is its retrieval relative to the
best row at the same noise rate, averaged over the data sets: on digits R@1 of the other half among 397 pairs, on spoken
digits the share of held-out sounds whose best image shows the digit that is said.
"""

import argparse
import json
import statistics
from pathlib import Path

import numpy as np
import torch

from rince._support.progress import track
from rince.data.pairs.digit_halves import digit_pairs
from rince.data.pairs.spoken_digits import spoken_digit_pairs
from rince.losses import RINCE, DensityRatio, InfoNCE
from rince.losses.contrast import CrossView
from rince.noise.pairs import wrong_pairs
from rince.reproduce.demo import recalls, split, train_towers

RATES = (0.0, 0.1, 0.2, 0.4, 0.6)
QS = (0.1, 0.3, 0.5, 0.8)
RS = (1.0, 2.5)
TEMPERATURE = 0.1
SCALE = "unit"


def loss_of(q: float, r: float):
    if q == 0:
        return InfoNCE(TEMPERATURE, CrossView())
    return RINCE(q, DensityRatio(r), TEMPERATURE, CrossView(), scale=SCALE)


def on_digits(q: float, r: float, rate: float, seed: int) -> float:
    a, b, _ = digit_pairs()
    data = split(a, b, rate, seed, choose=0, test=397)
    return recalls(*train_towers(data.a, data.b, loss_of(q, r), seed, epochs=40), data.test)[0]


def on_spoken_digits(q: float, r: float, rate: float, seed: int, pairs) -> float:
    order = np.random.default_rng(seed).permutation(len(pairs.a))
    test, train = order[:600], order[600:]
    index, _ = wrong_pairs(len(train), rate, seed, pairs.digit[train])
    a, b = torch.from_numpy(pairs.a), torch.from_numpy(pairs.b)
    f, g = train_towers(a[train], b[train[index]], loss_of(q, r), seed, epochs=20)
    with torch.no_grad():
        z, w = (torch.nn.functional.normalize(net(x[test])) for net, x in ((f, a), (g, b)))
    best = (z @ w.T).argmax(1).numpy()
    return float((pairs.digit[test][best] == pairs.digit[test]).mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--spoken", type=Path, required=True, help="folder or zip file of the spoken digits")
    parser.add_argument("--seeds", type=int, default=2)
    parser.add_argument("--out", type=Path, default=Path(__file__).parents[1] / "src/rince/audit/rule_of_thumb.json")
    options = parser.parse_args()
    torch.set_num_threads(1)
    pairs = spoken_digit_pairs(options.spoken)
    settings = [(0.0, 1.0), *((q, r) for q in QS for r in RS)]
    rows = []
    for rate, (q, r) in track([(rate, s) for rate in RATES for s in settings], "measuring"):
        digits = statistics.mean(on_digits(q, r, rate, seed) for seed in range(options.seeds))
        spoken = statistics.mean(on_spoken_digits(q, r, rate, seed, pairs) for seed in range(options.seeds))
        rows.append({"rate": rate, "q": q, "r": r, "digits": round(digits, 4), "spoken": round(spoken, 4)})
        print(json.dumps(rows[-1]), flush=True)
    for row in rows:
        same = [other for other in rows if other["rate"] == row["rate"]]
        relative = [row[name] / max(other[name] for other in same) for name in ("digits", "spoken")]
        row["score"] = round(statistics.mean(relative), 4)
    table = {
        "command": f"python benchmarks/recommend.py --seeds {options.seeds}",
        "data": ["digits", "spoken digits"],
        "temperature": TEMPERATURE,
        "scale": SCALE,
        "seeds": options.seeds,
        "rows": rows,
    }
    lines = ",\n    ".join(json.dumps(row) for row in rows)
    head = json.dumps({**table, "rows": []}, indent=2).replace('"rows": []', f'"rows": [\n    {lines}\n  ]')
    options.out.write_text(head + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
