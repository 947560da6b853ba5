"""`rince audit --encode` on raw sentences, without any encoder: English and German captions, some of them mispaired.

    python -m experiments audit-texts --multi30k DIR                  10,000 pairs, 10 % wrong
    python -m experiments audit-texts --multi30k DIR --rate 0         the same, clean

DIR holds train.en.gz and train.de.gz. Printed are the command's own summary, the truth, and how many of the flagged
pairs are truly wrong.
"""

import argparse
import csv
import gzip
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from rince import cli
from rince.noise import wrong_pairs


def lines(path: Path, count: int) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.strip() for line, _ in zip(file, range(count), strict=False)]


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--multi30k", type=Path, required=True, metavar="DIR")
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--rate", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    english, german = (lines(options.multi30k / f"train.{language}.gz", options.pairs) for language in ("en", "de"))
    partner, wrong = wrong_pairs(len(english), options.rate, options.seed)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "pairs.csv"
        with open(table, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(["english", "german"])
            writer.writerows(zip(english, (german[k] for k in partner), strict=True))
        start, out = time.process_time(), Path(folder) / "audit"
        code = cli.main(["audit", f"{table}:english", f"{table}:german", "--encode", "--out", str(out)])
        assert code == 0
        record = json.loads((out / "audit.json").read_text())
        with open(out / "audit.csv", encoding="utf-8") as file:
            flags = np.array([row["flagged"] == "1" for row in csv.DictReader(file)])
    false = (flags & ~wrong).sum() / max(1, flags.sum())
    print(
        f"truth {wrong.mean():.3f}, rate {record['noise_rate']:.3f} ({record['interval'][0]:.3f} to "
        f"{record['interval'][1]:.3f}), verdict {record['verdict']!r}, best guess {record['best_guess']:.3f}; "
        f"{flags.sum():,} flagged, {false:.3f} of them falsely, {(flags & wrong).sum() / max(1, wrong.sum()):.2f} of "
        f"the wrong ones; {time.process_time() - start:.0f} CPU s"
    )
