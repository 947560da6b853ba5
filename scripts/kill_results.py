"""Kill commands with SIGKILL at random moments and check that their results are complete: the old ones or the new ones.

python scripts/kill_results.py --kills 200

Each case has the results of one setting in its folder, runs the command with another setting and ``--force``, and kills
it at a random moment. Afterwards the folder, as its readers see it, must equal one of the two uninterrupted results.
"""

import argparse
import hashlib
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from rince._support.atomic_files import finish_results

ROWS = 600


def make_data(folder: Path) -> None:
    generator = np.random.default_rng(0)
    a = generator.normal(size=(ROWS, 16)).astype(np.float32)
    b = a + 0.5 * generator.normal(size=a.shape).astype(np.float32)
    b[:200] = np.roll(b[:200], 1, axis=0)
    np.save(folder / "a.npy", a)
    np.save(folder / "b.npy", b)
    words = np.array(["red", "blue", "green", "small", "large", "dog", "cat", "house", "car", "tree"])
    texts = [" ".join(generator.choice(words, 4)) for _ in range(200)]
    lines = ["first,second\n", *(f"{text},{text[::-1]}\n" for text in texts)]
    (folder / "pairs.csv").write_text("".join(lines))


def cases(folder: Path) -> dict[str, tuple[list[str], list[str], Path]]:
    """Command with two settings, and the folder of its results."""
    a, b, table = (str(folder / name) for name in ("a.npy", "b.npy", "pairs.csv"))
    strict, loose = str(folder / "strict"), str(folder / "loose")
    audit = ["audit", a, b, "--out", str(folder / "audit"), "--force"]
    encode = ["audit", f"{table}:first", f"{table}:second", "--encode", "--out", str(folder / "encoded"), "--force"]
    clean = ["clean", a, b, "--out", str(folder / "clean"), "--force"]
    return {
        "audit": ([*audit, "--fdr", "0.5"], [*audit, "--fdr", "0.01", "--table", "parquet"], folder / "audit"),
        "encode": ([*encode, "--fdr", "0.5"], [*encode, "--fdr", "0.01", "--table", "parquet"], folder / "encoded"),
        "clean": ([*clean, "--audit", loose], [*clean, "--audit", strict], folder / "clean"),
    }


def run(arguments: list[str]) -> None:
    subprocess.run([sys.executable, "-m", "rince", *arguments], check=True, capture_output=True)


def digest(folder: Path) -> str:
    """Hash of the names and contents of the files that are not hidden."""
    result = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.name.startswith("."):
            result.update(str(path.relative_to(folder)).encode() + b"\0" + path.read_bytes())
    return result.hexdigest()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, which is printed")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(2**32)
    generator = random.Random(seed)
    counts: dict[str, dict[str, int]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        make_data(folder)
        for name, fdr in (("strict", "0.01"), ("loose", "0.5")):
            run(["audit", str(folder / "a.npy"), str(folder / "b.npy"), "--out", str(folder / name), "--fdr", fdr])
        prepared = {}
        for name, (first, second, out) in cases(folder).items():
            digests = {}
            for setting, arguments in (("old", first), ("new", second)):
                start = time.monotonic()
                run(arguments)
                seconds = time.monotonic() - start
                digests[digest(out)] = setting
            assert len(digests) == 2, f"{name}: both settings give the same results"
            prepared[name] = (first, second, out, digests, seconds)
        for _ in range(options.kills):
            name = generator.choice(sorted(prepared))
            first, second, out, digests, seconds = prepared[name]
            run(first)
            process = subprocess.Popen(
                [sys.executable, "-m", "rince", *second], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            try:
                process.wait(seconds * generator.uniform(0.5, 1.05))
            except subprocess.TimeoutExpired:
                os.kill(process.pid, signal.SIGKILL)
            process.wait()
            outcome = "missing until the next command"
            if out.exists():
                finish_results(out)
                outcome = digests.get(digest(out), "MIXED")
            if outcome == "MIXED":
                shutil.copytree(out, f"mixed-{name}", dirs_exist_ok=True)
            counts.setdefault(name, {}).setdefault(outcome, 0)
            counts[name][outcome] += 1
    print(f"seed {seed}")
    for name, outcomes in sorted(counts.items()):
        print(f"{name:8} " + ", ".join(f"{outcome}: {count}" for outcome, count in sorted(outcomes.items())))
    return int(any("MIXED" in outcomes for outcomes in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
