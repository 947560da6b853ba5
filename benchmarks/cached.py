"""Memory of a step with gradient caching at growing batches and a fixed chunk, beside the same step without.

    python benchmarks/cached.py

An encoder of 16-768-768-64 units, RINCE on pairs, chunks of 256. Memory is the peak of a fresh process beyond what a
warm-up of 1,024 pairs has left, without the inputs; "embeddings" are both sides and their gradients in float32.
"""

import argparse
import subprocess
import sys

import torch
from process_status import peak_megabytes
from torch import nn

import rince

WIDTH, CHUNK = 64, 256


def one(pairs: int, cached: bool) -> None:
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(16, 768), nn.GELU(), nn.Linear(768, 768), nn.GELU(), nn.Linear(768, WIDTH))
    loss = rince.RINCE(q=0.5, lam="balanced", temperature=0.2, contrast=rince.CrossView(), scale="unit")

    def step(sides: tuple[torch.Tensor, torch.Tensor], cached: bool) -> None:
        value = rince.cached(loss, model, sides, chunk=CHUNK) if cached else loss(model(sides[0]), model(sides[1]))
        value.backward()

    for _ in range(2):
        step((torch.randn(1024, 16), torch.randn(1024, 16)), True)
    sides = torch.randn(pairs, 16), torch.randn(pairs, 16)
    before = peak_megabytes()
    step(sides, cached)
    print(peak_megabytes() - before)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", type=int, nargs="+", default=(1024, 4096, 8192, 16384, 32768))
    parser.add_argument("--plain", type=int, default=8192, help="the largest batch to encode without caching, too")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        return one(int(args.one[0]), args.one[1] == "cached")
    print("| pairs | with rince.cached | of which embeddings | without |\n| ---: | ---: | ---: | ---: |")
    for pairs in args.sizes:
        found = []
        for how in ("cached", "plain") if pairs <= args.plain else ("cached",):
            command = [sys.executable, __file__, "--one", str(pairs), how]
            found.append(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
        cells = [f"{mb:.0f} MB" for mb in found] + [""] * (2 - len(found))
        print(f"| {pairs:,} | {cells[0]} | {4 * pairs * WIDTH * 4 / 2**20:.0f} MB | {cells[1]} |", flush=True)


if __name__ == "__main__":
    main()
