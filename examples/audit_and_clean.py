"""Audit two tables whose rows should belong together, write clean copies, and find new partners for dropped rows.

    python examples/audit_and_clean.py      about 15 s on one core; pip install 'rince[audit]'

The script first writes two tables with 15% shuffled rows; use your own files instead.
"""

import csv
from pathlib import Path

import numpy as np

from rince.cli import main as rince
from rince.data import digit_pairs
from rince.noise import wrong_pairs

digits = digit_pairs()  # the even and the odd rows of every digit: two tables, one row per digit
left, right = digits.a[:800], digits.b[:800]
noise = wrong_pairs(len(left), rate=0.15, seed=0)


def write(path: Path, side: str, values: np.ndarray) -> None:
    with path.open("w", newline="") as file:
        table = csv.writer(file)
        table.writerow(["id", *(f"{side}{i}" for i in range(values.shape[1]))])
        table.writerows([f"digit-{row}", *numbers] for row, numbers in enumerate(values.tolist()))


write(Path("left.csv"), "l", left)
write(Path("right.csv"), "r", right[noise.partner])


def run(*words: str) -> None:
    print("\n$ rince " + " ".join(words))
    if rince(list(words)) != 0:
        raise SystemExit("the command failed")


# The two sides are different measurements, so a common space is fitted (--fit). audit/audit.html shows the pairs.
run("audit", "left.csv:l*", "right.csv:r*", "--ids", "id", "--fit", "--out", "audit")
# Clean copies of both tables, and the three most likely partners of every dropped row.
run("clean", "left.csv:l*", "right.csv:r*", "--audit", "audit", "--out", "clean", "--repair", "3")

with Path("audit/audit.csv").open() as file:
    flagged = np.array([row["flagged"].lower() in ("1", "true") for row in csv.DictReader(file)])
print(f"\n{flagged.sum()} rows flagged, {noise.hit[flagged].mean():.0%} of them mismatched")
print(f"{noise.hit[flagged].sum()} of {noise.hit.sum()} mismatched rows found")
with Path("clean/repair.csv").open() as file:
    print("new partners:", *(line.strip() for _, line in zip(range(3), file, strict=False)), sep="\n  ")
