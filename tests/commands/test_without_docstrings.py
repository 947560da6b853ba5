"""Python without docstrings and asserts (-OO): what is read out of docstrings, or only asserted, must not be needed."""

import contextlib
import io
import os
import subprocess
import sys

import numpy as np
import pytest

from rince import cli

# All command lines in one process, and none that needs torch: it would be compiled anew, which takes a minute.
RUN = """
import sys
from rince import cli
assert False, "asserts are not stripped"
for line in sys.stdin.read().splitlines():
    print(f"> {line}")
    try:
        code = cli.main(line.split())
    except SystemExit as stop:
        code = stop.code
    print(f"{code}")
"""
HELPS = ["--help", "train --list", "finetune --list"]
HELPS += [f"{name} --help" for name in ("audit", "clean", "compare", "export", "train", "finetune")]
QUICK = [
    "audit a.npy b.npy --out audit",
    "clean a.npy b.npy --audit audit --out clean --keep-above 0.1",
]


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """What every command line prints, and its exit code below, in a Python that has stripped docstrings and asserts."""
    folder = tmp_path_factory.mktemp("stripped")
    numbers = np.random.default_rng(0)
    a = numbers.normal(size=(300, 8)).astype(np.float32)
    np.save(folder / "a.npy", a)
    np.save(folder / "b.npy", a + 0.1 * numbers.normal(size=a.shape).astype(np.float32))
    lines = [*HELPS, *QUICK]
    done = subprocess.run(
        [sys.executable, "-OO", "-c", RUN],
        input="\n".join(lines),
        capture_output=True,
        text=True,
        cwd=folder,
        env={**os.environ, "COLUMNS": "100"},
    )
    assert done.returncode == 0 and not done.stderr, done.stderr
    return dict(part.split("\n", 1) for part in done.stdout.removeprefix("> ").split("\n> "))


@pytest.mark.parametrize("line", HELPS)
def test_help_is_the_same(told, line, monkeypatch):
    monkeypatch.setenv("COLUMNS", "100")
    with contextlib.redirect_stdout(io.StringIO()) as plain, contextlib.suppress(SystemExit):
        cli.main(line.split())
    assert told[line].splitlines() == [*plain.getvalue().splitlines(), "0"]


@pytest.mark.parametrize("line", QUICK)
def test_commands_work(told, line):
    assert told[line].splitlines()[-1] == "0" and len(told[line].splitlines()) > 1
