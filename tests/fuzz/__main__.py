"""Random losses, process groups, damaged files and mistyped command lines, until the time is over.

    python tests/fuzz [--seconds 600] [--seed N] [--seeds 10] [--only losses processes files typos]

A loss must equal the dense float64 reference, value and gradient, on one process and on two or three. A damaged file or
a mistyped command line must end with success or with one sentence: no traceback, no hang of more than 20 s, no more
than 2 GB, and nothing written outside its folder. Failed cases print how to repeat them.
"""

import argparse
import contextlib
import os
import random
import shutil
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
os.environ.setdefault("OMP_NUM_THREADS", "1")
KINDS = ("losses", "processes", "files", "typos")
Case = Callable[[random.Random], tuple[str, str | None]]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=None, help="of the first case; the next ones count on from it")
    parser.add_argument("--seeds", type=int, default=1, help="new ones to share the time (1)")
    parser.add_argument("--cases", type=int, default=None, help="stop after so many")
    parser.add_argument("--only", nargs="+", choices=KINDS, default=None)
    found = parser.parse_args()
    import torch

    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    seeds = [random.SystemRandom().randrange(10**9) for _ in range(found.seeds)] if found.seed is None else [found.seed]
    kinds = found.only or list(KINDS)
    tried: Counter[str] = Counter()
    bad: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as place, prepared(kinds, Path(place)) as cases:
        for seed in seeds:
            end, number = time.monotonic() + found.seconds / len(seeds), 0
            while time.monotonic() < end and number != found.cases:
                kind = kinds[(seed + number) % len(kinds)]
                # Losses are quick: as many at a time as take about as long as one of the others.
                for part in range(10 if kind == "losses" else 1):
                    what, problem = cases[kind](random.Random((seed + number) * 10 + part))
                    tried[kind] += 1
                    bad[kind] += problem is not None
                    if problem is not None:
                        again = f"--only {' '.join(kinds)} --seed {seed + number} --cases 1"
                        print(f"{kind}: {what}\n  {problem}\n  again: python tests/fuzz {again}\n", flush=True)
                number += 1
    for kind in kinds:
        print(f"{kind}: {tried[kind]} cases, {bad[kind]} bad")
    print(f"seeds {' '.join(map(str, seeds))}")
    return 1 if bad.total() else 0


@contextlib.contextmanager
def prepared(kinds: list[str], place: Path) -> Iterator[dict[str, Case]]:
    """What does one case of each kind, everything it needs being imported: it is forked, not started."""
    cases: dict[str, Case] = {}
    with contextlib.ExitStack() as stack:
        if "processes" in kinds:
            import worlds

            cases["processes"] = stack.enter_context(worlds.worlds()).one
        if "losses" in kinds:
            import losses

            cases["losses"] = losses.one
        if "files" in kinds:
            import files

            (place / "seeds").mkdir()
            cases["files"] = partial(one_file, known=files.formats(place / "seeds"), place=place)
        if "typos" in kinds:
            import typos

            import rince.commands.audit
            import rince.train.run  # noqa: F401 (imported once, before the forks)

            cases["typos"] = lambda chance: _tried(*typos.one(chance), place)
        yield cases


def one_file(chance: random.Random, known: dict[str, Any], place: Path) -> tuple[str, str | None]:
    import mutations

    name = chance.choice(sorted(known))
    content, read = known[name]
    changed = mutations.mutated(content, chance)

    def tried(folder: Path) -> int | None:
        (folder / "file").write_bytes(changed)
        result = read(folder / "file")
        return result if isinstance(result, int) else None

    return _tried(name, tried, place)


def _tried(what: str, tried: Callable[[Path], int | None], place: Path) -> tuple[str, str | None]:
    from child import run

    folder = place / "case" / "inner"
    folder.mkdir(parents=True)
    problem = run(tried, folder)
    shutil.rmtree(place / "case")
    return what, problem


if __name__ == "__main__":
    sys.exit(main())
