"""The losses of this tree beside those of another one, such as an older version: CPU time as ratios in one run.

    git worktree add /tmp/before COMMIT
    python benchmarks/loss_before_after.py /tmp/before/src

Each tree has a process of its own, and the two take steps in turn, so that whatever else the machine does affects them
alike. Whole pairs of processes are repeated, since two processes of the same code can differ by a percent or two.
"""

import argparse
import os
import statistics
import subprocess
import sys
from pathlib import Path

OWN = Path(__file__).parents[1] / "src"
SIZES = (256, 1024, 4096)
# Runs in the process of a tree: makes a loss, then answers every line on its input with the CPU seconds of a few steps.
CHILD = """
import sys, time, torch, rince
torch.set_num_threads(1)
name, n, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
g = torch.Generator().manual_seed(0)
z1, z2 = (torch.randn(n, 128, generator=g, requires_grad=True) for _ in range(2))
given = {}
if name == "InfoNCE":
    loss = rince.InfoNCE()
elif name == "RINCE":
    loss = rince.RINCE()
elif name == "RINCE, CrossView":
    loss = rince.RINCE(contrast=rince.CrossView())
elif name == "RINCE, weights":
    loss, given = rince.RINCE(), {"weights": torch.rand(n, generator=g)}
elif name == "RINCE, Supervised":
    loss = rince.RINCE(contrast=rince.Supervised())
    given = {"labels": torch.randint(10, (n,), generator=g)}
for line in sys.stdin:
    start = time.process_time()
    for _ in range(steps):
        z1.grad = z2.grad = None
        loss(z1, z2, **given).backward()
    print((time.process_time() - start) / steps, flush=True)
"""
LOSSES = ("RINCE", "InfoNCE", "RINCE, CrossView", "RINCE, weights", "RINCE, Supervised")


def started(tree: Path, name: str, n: int) -> "subprocess.Popen[str]":
    steps = max(1, 1024 // n) ** 2
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, name, str(n), str(steps)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(tree)},
    )


def seconds(child: "subprocess.Popen[str]") -> float:
    assert child.stdin is not None and child.stdout is not None
    child.stdin.write("\n")
    child.stdin.flush()
    return float(child.stdout.readline())


def ratio(before: Path, name: str, n: int, turns: int) -> tuple[float, float]:
    """CPU time of this tree over that of the other one, the median over turns; and this tree's time."""
    children = [started(before, name, n), started(OWN, name, n)]
    pairs = []
    for turn in range(turns + 1):  # the first one warms up
        taken = [0.0, 0.0]
        for i in (0, 1) if turn % 2 else (1, 0):
            taken[i] = seconds(children[i])
        pairs.append(taken)
    for child in children:
        child.communicate()
    return statistics.median(b / a for a, b in pairs[1:]), statistics.median(b for _, b in pairs[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("before", type=Path, help="the src folder of the other tree")
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    parser.add_argument("--losses", nargs="+", default=LOSSES, choices=LOSSES)
    parser.add_argument("--repeats", type=int, default=5, help="pairs of processes for every number")
    parser.add_argument("--turns", type=int, default=9, help="steps in turn of one pair of processes")
    options = parser.parse_args()
    print(f"{'N':>6}  {'loss':<20}{'ms now':>9}{'now / before':>14}{'lowest':>9}{'highest':>9}")
    for n in options.sizes:
        for name in options.losses:
            found = [ratio(options.before, name, n, options.turns) for _ in range(options.repeats)]
            ratios = sorted(one for one, _ in found)
            now = 1e3 * statistics.median(one for _, one in found)
            spread = f"{statistics.median(ratios):>14.3f}{ratios[0]:>9.3f}{ratios[-1]:>9.3f}"
            print(f"{n:>6}  {name:<20}{now:>9.2f}{spread}", flush=True)


if __name__ == "__main__":
    main()
