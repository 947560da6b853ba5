"""The scripts in examples/ run offline, end, and stay short."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("*.py"))
NEEDS = {"graphs": "torch_geometric", "sentence_transformers_noisy_pairs": "sentence_transformers"}


def run(path, tmp_path, *before):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, *before, str(path)]
    ran = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=240)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_says_something(path, tmp_path):
    if path.stem in NEEDS:
        pytest.importorskip(NEEDS[path.stem], reason=f"{NEEDS[path.stem]} is not installed")
    assert run(path, tmp_path).strip()


def test_two_processes_print_the_losses_of_one(tmp_path):
    path = next(path for path in EXAMPLES if path.stem == "ddp")
    two = run(path, tmp_path, "-m", "torch.distributed.run", "--nproc_per_node", "2")
    losses = [[float(line.split()[-1]) for line in text.splitlines()] for text in (run(path, tmp_path), two)]
    assert len(losses[0]) == 4 and losses[0] == pytest.approx(losses[1], abs=2e-5)
    assert losses[0][-1] < losses[0][0]


def test_examples_fit_on_a_screen():
    assert all(len(path.read_text("utf-8").splitlines()) <= 60 for path in EXAMPLES)
