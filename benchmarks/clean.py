"""Time and memory of `rince clean` on many pairs, and of finding new partners for many flagged ones.

    python benchmarks/clean.py [--pairs 5000000] [--width 64] [--flagged 100000] [--candidates 1000000]

Data, audit table and results are written to a temporary folder (about 6 GB with these numbers). Each measurement runs
in a process of its own; memory is the most it held, files that are mapped into memory included.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from process_status import peak_megabytes


def write_pairs(folder: Path, pairs: int, width: int, wrong: float = 0.1) -> None:
    """Two columns of embeddings and the table of an audit that has found the wrong pairs, a block at a time."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    shape = (pairs, width)
    columns = [np.lib.format.open_memmap(folder / f"{x}.npy", "w+", np.float32, shape) for x in "ab"]
    with open(folder / "audit.csv", "w") as table:
        table.write("id,score,p_wrong,flagged\n")
        for start in range(0, pairs, 100_000):
            rows = min(100_000, pairs - start)
            z = random.standard_normal((rows, width), dtype=np.float32)
            for column in columns:
                column[start : start + rows] = z + 0.3 * random.standard_normal((rows, width), dtype=np.float32)
            hit = np.flatnonzero(random.random(rows) < wrong)
            columns[1][start + hit] = columns[1][start + np.roll(hit, 1)]
            bad = np.zeros(rows, bool)
            bad[hit] = True
            lines = zip(
                range(start, start + rows), np.where(bad, 0.1, 0.9), np.where(bad, 0.99, 0.01), bad, strict=True
            )
            table.writelines(f"{i},{s},{p},{int(f)}\n" for i, s, p, f in lines)
    for column in columns:
        column.flush()


def clean(folder: Path) -> str:
    from rince.cli import main

    given = [str(folder / "a.npy"), str(folder / "b.npy"), "--audit", str(folder / "audit.csv")]
    assert main(["clean", *given, "--out", str(folder / "clean")]) == 0
    return "clean"


def repair(folder: Path, flagged: int) -> str:
    from rince.trust import best_partners
    from rince.trust.clean import read_audit

    a, b = (np.load(folder / f"{x}.npy", mmap_mode="r") for x in "ab")
    audited = read_audit(folder / "audit.csv")
    rows = np.flatnonzero(audited.flagged)[:flagged]
    found = best_partners(a, b, rows, audited.weights, k=5)
    return f"{len(rows):,} of {len(a):,} rows, mean probability of the best {found.probability[:, 0].mean():.3f}"


def digits(rate: float = 0.4, seed: int = 0) -> str:
    """Halves of digits, some of them shuffled: how many of the flagged pairs find their right partner back."""
    from rince.audit import audit_pairs
    from rince.data import digit_pairs
    from rince.noise.pairs import wrong_pairs
    from rince.trust import best_partners

    a, b, _ = digit_pairs()
    partner, wrong = wrong_pairs(len(a), rate, seed)
    found = audit_pairs(a, b[partner], fit=True, seed=seed, progress=False)
    rows = found.flag(0.1)
    new = best_partners(a, b[partner], rows, found.weights, k=5, fit=True, seed=seed, progress=False)
    where = np.argsort(partner)[rows]
    truly = wrong[rows]
    first, five = new.partners[truly, 0] == where[truly], (new.partners[truly] == where[truly, None]).any(1)
    said = f"{first.mean():.1%} of {truly.sum()} shuffled pairs found back at rank 1, {five.mean():.1%} among five"
    return f"{said}; expected at rank 1 {new.probability[truly, 0].mean():.1%}"


def measured(work: Callable[..., str], *given: Any) -> None:
    process = get_context("spawn").Process(target=_measured, args=(work, *given))
    process.start()
    process.join()


def _measured(work: Callable[..., str], *given: Any) -> None:
    start, cpu = time.perf_counter(), time.process_time()
    said = work(*given)
    wall, used = time.perf_counter() - start, time.process_time() - cpu
    print(f"{work.__name__}: {said}: {used:.0f} CPU s, {wall:.0f} s, {peak_megabytes():,.0f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5_000_000)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--flagged", type=int, default=100_000)
    parser.add_argument("--candidates", type=int, default=1_000_000)
    parser.add_argument("--parts", nargs="+", default=["clean", "repair", "digits"])
    options = parser.parse_args()
    if "digits" in options.parts:
        measured(digits)
    if "clean" in options.parts:
        with tempfile.TemporaryDirectory() as place:
            write_pairs(Path(place) / "many", options.pairs, options.width)
            measured(clean, Path(place) / "many")
    if "repair" in options.parts:
        with tempfile.TemporaryDirectory() as place:
            write_pairs(Path(place), options.candidates, options.width, wrong=0.12)
            measured(repair, Path(place), options.flagged)


if __name__ == "__main__":
    main()
