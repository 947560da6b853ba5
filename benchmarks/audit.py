"""What `rince audit` costs: CPU seconds for a million pairs x 128, memory for ten million.

python benchmarks/audit.py [--sizes 1000000 10000000] [--place DIR]
"""

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

COST = """
import sys, time
import torch
torch.set_num_threads(1)
import rince.audit.api, rince.audit.save, rince.commands.audit
from process_status import peak_megabytes

before = peak_megabytes()
start = time.process_time()
code = rince.commands.audit.main(sys.argv[1:])
after = peak_megabytes()
print(f"{time.process_time() - start:.1f} CPU s, {after - before:.0f} MB above start-up ({before:.0f} MB)")
sys.exit(code)
"""


def cost(sizes: list[int], place: Path | None) -> None:
    """`rince audit` in a process of its own, on made-up embeddings with 20 % wrong pairs."""
    for n in sizes:
        with tempfile.TemporaryDirectory(dir=place) as folder:
            made_up(Path(folder), n)
            print(f"{n:,} pairs x 128", flush=True)
            files = [f"{folder}/a.npy", f"{folder}/b.npy", "--out", f"{folder}/out"]
            here = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}
            subprocess.run([sys.executable, "-c", COST, *files], env=here, check=True)


def made_up(folder: Path, n: int, width: int = 128, step: int = 50_000) -> None:
    random = np.random.default_rng(0)
    shape = (n, width)
    a, b = (np.lib.format.open_memmap(folder / f"{x}.npy", "w+", np.float32, shape) for x in "ab")
    for start in range(0, n, step):
        stop = min(n, start + step)
        a[start:stop] = random.standard_normal((stop - start, width), dtype=np.float32)
        noise = random.standard_normal((stop - start, width), dtype=np.float32)
        wrong = random.random(stop - start) < 0.2
        b[start:stop] = np.where(wrong[:, None], 0, a[start:stop]) + 1.5 * noise
    a.flush()
    b.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="*", type=int, default=[1_000_000, 10_000_000])
    parser.add_argument("--place", type=Path, default=None, help="folder for 10 GB of made-up data")
    options = parser.parse_args()
    cost(options.sizes, options.place)


if __name__ == "__main__":
    main()
