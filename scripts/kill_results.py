"""Kill commands with SIGKILL at random moments and check their results: complete, and the old ones or the new ones.

python scripts/kill_results.py --kills 200

audit, audit --encode, clean and compare have the results of one setting in their folder and run with another one. Then
the folder, as its readers see it, must equal one of the two uninterrupted results, and the same command once more must
give the new ones. train --trust auto is killed and started again until it ends, with a readable checkpoint or none
after each kill, and must end with the weights, metrics and encoder of an uninterrupted run. Half of the kills come at
any time, half while files are written: from the first change in the folder on. Each command is a fork of this process,
which has imported what it needs.
"""

import argparse
import contextlib
import hashlib
import importlib
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rince import cli
from rince._support.atomic_files import finish_results

ROWS, COMPARED_ROWS = 300, 1000
TRAIN = ["--data.limit", "300", "--data.batch_size", "50", "--encoder.width", "4", "--trainer.max_epochs", "4"]
TRAIN += ["--trust", "auto", "--data.wrong_pairs", "0.3", "--checkpoint_every", "3", "--probe", "false"]
TRAIN += ["--trainer.accelerator", "cpu", "--trainer.enable_model_summary", "false", "--trainer.log_every_n_steps", "2"]


class Case(NamedTuple):
    """A command whose results replace those of another one."""

    first: list[str] | None  # None: killed and resumed until it ends
    second: list[str]
    out: Path
    digest: Callable[[Path], str]


def make_data(folder: Path) -> None:
    generator = np.random.default_rng(0)
    a = generator.normal(size=(COMPARED_ROWS, 16)).astype(np.float32)
    b = a + 0.5 * generator.normal(size=a.shape).astype(np.float32)
    b[:100] = np.roll(b[:100], 1, axis=0)
    for name, rows in (("few", ROWS), ("many", COMPARED_ROWS)):
        np.save(folder / f"a-{name}.npy", a[:rows])
        np.save(folder / f"b-{name}.npy", b[:rows])
    words = np.array(["red", "blue", "green", "small", "large", "dog", "cat", "house", "car", "tree"])
    texts = [" ".join(generator.choice(words, 4)) for _ in range(120)]
    lines = ["first,second\n", *(f"{text},{text[::-1]}\n" for text in texts)]
    (folder / "pairs.csv").write_text("".join(lines))


def cases(folder: Path) -> dict[str, Case]:
    a, b, table = (str(folder / name) for name in ("a-few.npy", "b-few.npy", "pairs.csv"))
    compared = [str(folder / "a-many.npy"), str(folder / "b-many.npy")]
    out = {name: folder / name for name in ("audit", "encode", "clean", "compare", "train")}
    audit = ["audit", a, b, "--out", str(out["audit"]), "--force", "--quiet", "--checks", "none"]
    encode = [
        "audit",
        f"{table}:first",
        f"{table}:second",
        "--encode",
        "--out",
        str(out["encode"]),
        "--force",
        "--quiet",
    ]
    clean = ["clean", a, b, "--out", str(out["clean"]), "--force"]
    compare = ["compare", *compared, "--temperatures", "0.2", "--rates", "0", "--epochs", "1", "--workers", "1"]
    compare += ["--out", str(out["compare"]), "--losses", "infonce"]
    table = ["--fdr", "0.01", "--table", "parquet"]
    train = ["train", "digits/simclr", *TRAIN, "--out", str(folder), "--name", "train"]
    return {
        "audit": Case([*audit, "--fdr", "0.5"], [*audit, *table], out["audit"], digest),
        "encode": Case([*encode, "--fdr", "0.5"], [*encode, *table], out["encode"], digest),
        "clean": Case(
            [*clean, "--audit", str(folder / "loose")],
            [*clean, "--audit", str(folder / "strict")],
            out["clean"],
            digest,
        ),
        "compare": Case(
            [*compare, "--seeds", "1"],
            [*compare, "gce-1", "--seeds", "1"],
            out["compare"],
            lambda out: digest(out, ("table.md", "results.csv", "summary.json", "comparison.png")),
        ),
        "train": Case(None, train, out["train"], digest_of_run),
    }


def digest(folder: Path, names: tuple[str, ...] = ()) -> str:
    """Hash of the names and contents of the files that are not hidden, or of those that are named."""
    result = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.is_file() and not hidden and (not names or name in names):
            result.update(name.encode() + b"\0" + path.read_bytes())
    return result.hexdigest()


def digest_of_run(folder: Path) -> str:
    """Hash of what a run computes. Its other files hold seconds and paths."""
    names = ("encoder.safetensors", "metrics.csv", "noise.npz", "weights.csv", "trust.csv", "trust/weights.csv")
    return digest(folder, names)


def check_readable(out: Path) -> None:
    """Read a killed run as the same command does."""
    from rince.train.checkpoints import latest
    from rince.train.run_folder import RunFolder

    folder = RunFolder(out)
    if folder.config.exists():
        folder.read_config()
        latest(folder)
    if folder.result.exists():
        folder.read_result()


def start(arguments: list[str]) -> int:
    """Run a command in a fork of this process."""
    process = os.fork()
    if process == 0:
        code = 70
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
            with contextlib.suppress(BaseException):
                code = cli.main(arguments)
        os._exit(code)
    return process


def run(arguments: list[str]) -> float:
    began = time.monotonic()
    code = os.waitstatus_to_exitcode(os.waitpid(start(arguments), 0)[1])
    if code != 0:
        raise RuntimeError(f"rince {' '.join(arguments)} ended with {code}")
    return time.monotonic() - began


def state(out: Path) -> list[tuple[str, int]]:
    """Names and times of all files, with those beside the folder that belong to it."""
    with contextlib.suppress(FileNotFoundError):  # files that are being replaced
        beside = [path for path in out.parent.iterdir() if path.name.startswith(f".{out.name}.")]
        inside = list(out.rglob("*")) if out.exists() else []
        return sorted((str(path), path.stat().st_mtime_ns) for path in [*inside, *beside])
    return []


def killed(arguments: list[str], out: Path, seconds: float, while_writing: bool, generator: random.Random) -> bool:
    """Whether a command was killed before its end."""
    before = state(out) if while_writing else []
    process = start(arguments)
    if while_writing:
        while state(out) == before and os.waitpid(process, os.WNOHANG) == (0, 0):
            time.sleep(0.001)
        seconds = 0.15 * seconds
    end = time.monotonic() + seconds * generator.random()
    while time.monotonic() < end:
        time.sleep(0.001)
    with contextlib.suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    with contextlib.suppress(ChildProcessError):
        return os.WIFSIGNALED(os.waitpid(process, 0)[1])
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=None, help="default: a new one, which is printed")
    parser.add_argument("--only", nargs="+", metavar="CASE", help="audit, encode, clean, compare or train")
    options = parser.parse_args()
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(2**32)
    print(f"seed {seed}", flush=True)
    generator = random.Random(seed)
    for module in ("audit.api", "audit.save", "trust.clean", "compare.tasks", "train.run", "train.weights"):
        importlib.import_module(f"rince.{module}")
    for module in ("matplotlib.backends.backend_agg", "pyarrow.parquet", "sklearn.linear_model"):
        importlib.import_module(module)
    counts: dict[str, Counter[str]] = {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch)
        make_data(folder)
        for name, fdr in (("strict", "0.01"), ("loose", "0.5")):
            columns = [str(folder / "a-few.npy"), str(folder / "b-few.npy")]
            run(["audit", *columns, "--out", str(folder / name), "--fdr", fdr])
        known = {name: case for name, case in cases(folder).items() if not options.only or name in options.only}
        expected: dict[str, dict[str, str]] = {}
        seconds: dict[str, float] = {}
        for name, case in known.items():
            digests = {}
            if case.first is not None:
                run(case.first)
                digests[case.digest(case.out)] = "old"
                shutil.copytree(case.out, folder / f"kept-{name}")
            seconds[name] = run(case.second)
            digests[case.digest(case.out)] = "new"
            assert len(digests) == 1 + (case.first is not None), f"{name}: both settings give the same results"
            expected[name] = digests
        kills: Counter[str] = Counter(dict.fromkeys(sorted(known), 0))
        while kills.total() < options.kills:
            name = min(kills, key=lambda name: kills[name])
            case = known[name]
            shutil.rmtree(case.out, ignore_errors=True)
            if case.first is not None:
                shutil.copytree(folder / f"kept-{name}", case.out)
            outcome = "ended before"
            while killed(case.second, case.out, seconds[name], generator.random() < 0.5, generator):
                kills[name] += 1
                outcome = "killed"
                if case.first is not None:
                    break
                check_readable(case.out)
                counts.setdefault(name, Counter())["readable"] += 1
            if case.first is not None:
                if case.out.exists():
                    finish_results(case.out)
                    outcome = expected[name].get(case.digest(case.out), "MIXED")
                else:
                    outcome = "missing until the next command"
                if generator.random() < 0.2:
                    run(case.second)
                    if expected[name].get(case.digest(case.out)) != "new":
                        outcome = "NOT RECOVERED"
            else:
                again = not (case.out / "result.json").exists()
                if again:
                    run(case.second)
                outcome = "new" if case.digest(case.out) in expected[name] else "MIXED"
            if outcome.isupper():
                shutil.copytree(case.out, f"{outcome.lower().replace(' ', '-')}-{name}", dirs_exist_ok=True)
            counts.setdefault(name, Counter())[outcome] += 1
            print(f"{kills.total()} kills: {name} {outcome}", flush=True)
    for name, outcomes in sorted(counts.items()):
        print(f"{name:8} " + ", ".join(f"{outcome}: {count}" for outcome, count in sorted(outcomes.items())))
    print(f"{kills.total()} kills")
    return int(any(outcome.isupper() for outcomes in counts.values() for outcome in outcomes))


if __name__ == "__main__":
    sys.exit(main())
