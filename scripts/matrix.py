"""Run the commands of rince with several interpreters as a service would: without root, a home, or a terminal.

python scripts/matrix.py .venv-3.10/bin/python .venv-3.12/bin/python .venv-3.13/bin/python .venv-minimum/bin/python

Each interpreter audits, cleans, trains, resumes, evaluates, fine-tunes and exports in a folder of its own; as root, it
does so as another user. The home folder is read-only. Prints a row per interpreter for docs/operations.md.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

NOBODY = 65534
VERSIONS = """
import importlib.metadata as m, platform
print(platform.python_version(), *(m.version(name).split("+")[0] for name in ("torch", "numpy", "lightning")))
"""
DATA = """
import numpy as np
a = np.random.default_rng(0).normal(size=(300, 8)).astype("float32")
b = a.copy(); b[:90] = np.roll(b[:90], 1, axis=0)
np.save("a.npy", a); np.save("b.npy", b)
"""
RUN = ["--data.limit", "128", "--data.batch_size", "32", "--encoder.width", "2", "--probe", "false"]
RUN += ["--trainer.accelerator", "cpu", "--data.wrong_pairs", "0.3"]
COMMANDS: list[tuple[list[str], int]] = [  # with the exit code that is expected
    (["--version"], 0),
    (["audit", "a.npy", "b.npy", "--json"], 0),
    (["audit", "a.npy", "b.npy"], 2),
    (["clean", "a.npy", "b.npy"], 0),
    (["train", "digits/simclr", *RUN, "--trainer.max_epochs", "1", "--trust", "auto"], 0),
    (["train", "digits/simclr", *RUN, "--trainer.max_epochs", "1", "--trust", "auto"], 2),
    (["evaluate", "runs/digits-simclr"], 0),
    (["finetune", "runs/digits-simclr", "--trainer.max_epochs", "1", "--trainer.accelerator", "cpu"], 0),
    (["export", "runs/digits-simclr", "encoder.safetensors"], 0),
    (["export", "runs/digits-simclr", "encoder.pt2"], 0),
]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("interpreters", nargs="+", metavar="PYTHON")
    options = parser.parse_args()
    failed = False
    print(
        "| Python | torch | numpy | lightning | commands | seconds |\n| --- | --- | --- | --- | --- | ---: |",
        flush=True,
    )
    for interpreter in options.interpreters:
        began = time.monotonic()
        versions, problems = check(os.path.abspath(interpreter))
        failed |= bool(problems)
        result = "; ".join(problems) or f"all {len(COMMANDS)} as expected"
        print(f"| {' | '.join(versions)} | {result} | {time.monotonic() - began:.0f} |", flush=True)
    return int(failed)


def check(interpreter: str) -> tuple[list[str], list[str]]:
    """Versions, and the commands that ended with another exit code than expected."""
    with tempfile.TemporaryDirectory() as scratch:
        home, work = Path(scratch, "home"), Path(scratch, "work")
        home.mkdir()
        work.mkdir()
        home.chmod(0o555)
        user: dict[str, int] = {}
        if os.geteuid() == 0:
            Path(scratch).chmod(0o755)
            os.chown(work, NOBODY, NOBODY)
            user = {"user": NOBODY, "group": NOBODY}
        environment = {
            **{name: os.environ[name] for name in ("PATH", "LD_LIBRARY_PATH") if name in os.environ},
            "HOME": str(home),
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(Path(__file__).parents[1] / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
        }

        def run(*words: str) -> "subprocess.CompletedProcess[str]":
            return subprocess.run(
                [interpreter, *words],
                cwd=work,
                env=environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                start_new_session=True,  # without a controlling terminal
                **user,  # type: ignore[call-overload]
            )

        try:
            started = run("-c", VERSIONS)
        except PermissionError:
            return [interpreter, "", "", ""], ["other users than root cannot run it"]
        if started.returncode:
            return [interpreter, "", "", ""], [started.stderr.strip().splitlines()[-1]]
        versions = started.stdout.split()
        run("-c", DATA)
        problems = []
        for words, expected in COMMANDS:
            done = run("-m", "rince", *words)
            lines = [line for line in done.stderr.splitlines() if line.strip()]
            if done.returncode != expected:
                problems.append(f"{words[0]} ended with {done.returncode}: {lines[-1] if lines else ''}")
        if written := list(home.rglob("*")):
            problems.append(f"{written[0]} was written")
        return versions, problems


if __name__ == "__main__":
    sys.exit(main())
