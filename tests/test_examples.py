"""The scripts in examples/ run offline and stay short."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = {path.stem: path for path in sorted((Path(__file__).parents[1] / "examples").glob("*.py"))}
REQUIRED = {"graphs": "torch_geometric", "sentence_transformers_noisy_pairs": "sentence_transformers"}


def run(name, folder, *launcher):
    environment = os.environ | {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, *launcher, str(EXAMPLES[name])]
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.parametrize("name", sorted(EXAMPLES.keys() - {"ddp"}))
def test_example_runs_and_prints(name, tmp_path):
    if name in REQUIRED:
        pytest.importorskip(REQUIRED[name])
    assert run(name, tmp_path).strip()


def test_ddp_example_prints_the_same_losses_on_one_and_two_processes(tmp_path):
    one = run("ddp", tmp_path)
    two = run("ddp", tmp_path, "-m", "torch.distributed.run", "--nproc_per_node", "2")
    losses = [[float(line.split()[-1]) for line in text.splitlines()] for text in (one, two)]
    assert len(losses[0]) == 4 and losses[0] == pytest.approx(losses[1], abs=2e-5)
    assert losses[0][-1] < losses[0][0]


def test_examples_have_at_most_60_lines():
    assert all(len(path.read_text("utf-8").splitlines()) <= 60 for path in EXAMPLES.values())
