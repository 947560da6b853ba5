"""Losses, files and command lines at random, until the time is over.

    python tests/fuzz [--seconds 600] [--seed N] [--only losses files commands]

A loss has to equal the dense float64 reference, value and gradient. A file or a command line has to end with success or
with one sentence: no traceback, no hang of more than 20 s, no more than 2 GB, and nothing written outside its folder.
Every case has a seed of its own, which is printed where it fails: with it and ``--cases 1`` it is done again.
"""

import argparse
import functools
import os
import random
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ.setdefault("OMP_NUM_THREADS", "1")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=None, help="of the first case; the next ones count on from it")
    parser.add_argument("--cases", type=int, default=None, help="stop after so many")
    parser.add_argument("--only", nargs="+", choices=("losses", "files", "commands"), default=None)
    found = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    seed = found.seed if found.seed is not None else random.SystemRandom().randrange(10**9)
    kinds = found.only or ["losses", "files", "commands"]
    tried: Counter[str] = Counter()
    bad: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place:
        cases = prepared(kinds, Path(place))
        end, number = time.monotonic() + found.seconds, 0
        while time.monotonic() < end and number != found.cases:
            kind = kinds[(seed + number) % len(kinds)]
            chance = random.Random(seed + number)
            what, problem = cases[kind](chance)
            tried[kind] += 1
            if problem is not None:
                bad[kind] += 1
                again = f"--only {' '.join(kinds)} --seed {seed + number} --cases 1"
                print(f"{kind}: {what}\n  {problem}\n  again: python tests/fuzz {again}\n", flush=True)
            number += 1
    for kind in kinds:
        print(f"{kind}: {tried[kind]} cases, {bad[kind]} bad")
    print(f"seed {seed}")
    return 1 if bad else 0


def prepared(kinds: list[str], place: Path) -> dict:
    """What does one case of each kind, everything it needs being imported: it is forked, not started."""
    cases = {}
    if "losses" in kinds:
        import losses

        cases["losses"] = losses.one
    if "files" in kinds:
        import files

        seeds = place / "seeds"
        seeds.mkdir()
        cases["files"] = functools.partial(one_file, known=files.formats(seeds), place=place)
    if "commands" in kinds:
        import commands
        import rince.train.run  # noqa: F401 (for its children)

        cases["commands"] = functools.partial(one_command, known=commands.options(), place=place)
    return cases


def one_file(chance: random.Random, known: dict, place: Path) -> tuple[str, str | None]:
    import files
    from child import run

    name = chance.choice(sorted(known))
    content, read = known[name]
    folder = place / "case" / "inner"
    folder.mkdir(parents=True)
    (folder / "file").write_bytes(files.mutated(content, chance))
    problem = run(lambda inside: _code(read(inside / "file")), folder)
    shutil.rmtree(place / "case")
    return name, problem


def _code(result: object) -> int | None:
    return result if isinstance(result, int) else None


def one_command(chance: random.Random, known: list[str], place: Path) -> tuple[str, str | None]:
    from child import run

    import commands

    words = commands.line(chance, known)
    folder = place / "case" / "inner"
    folder.mkdir(parents=True)
    problem = run(functools.partial(commands.run, words), folder)
    shutil.rmtree(place / "case")
    return " ".join(map(repr, words)), problem


if __name__ == "__main__":
    sys.exit(main())
