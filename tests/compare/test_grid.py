import gc
import json
import os
import signal
import subprocess
import sys
import time
import weakref

import pytest

from rince.compare.grid import run_grid
from support import ranks


def name(run):
    return f"{run['dataset']} {run['seed']}"


def squared(run):
    return {"value": run["seed"] ** 2, "headline": "squared", "process": os.getpid()}


def failing(run):
    raise ValueError(f"no seed {run['seed']}")


def runs(number: int) -> list[dict]:
    return [{"dataset": "toy", "seed": seed} for seed in range(number)]


def test_results_come_in_order_and_are_kept(tmp_path):
    said = []
    results = run_grid(runs(3), squared, tmp_path, name, say=said.append)
    assert [r["value"] for r in results] == [0, 1, 4]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["toy_0.json", "toy_1.json", "toy_2.json"]
    assert json.loads((tmp_path / "toy_2.json").read_text())["settings"] == {"dataset": "toy", "seed": 2}
    assert "left" in said[0]
    assert "all done" in said[-1]


def test_what_a_run_leaves_behind_is_gone_before_the_next(tmp_path):
    class Trainer:
        def __init__(self):
            self.model = [self]  # as Lightning's know their models, which know them

    left = []

    def work(run):
        assert not any(trainer() for trainer in left)
        left.append(weakref.ref(Trainer()))
        return {}

    gc.disable()  # Python would look for circles only after many more objects
    try:
        run_grid(runs(3), work, tmp_path, name, say=lambda line: None)
    finally:
        gc.enable()
    assert len(left) == 3


def test_unwritable_folder_is_rejected_before_the_work(tmp_path):
    (tmp_path / "file").touch()
    for folder in (tmp_path / "file" / "x", tmp_path / "file"):
        with pytest.raises(OSError):
            run_grid(runs(1), lambda run: pytest.fail("it has begun"), folder, name)


def test_foreign_file_is_not_overwritten(tmp_path):
    (tmp_path / "results.csv").write_text("of a year of work")
    with pytest.raises(FileExistsError, match=r"results\.csv exists"):
        run_grid(runs(2), squared, tmp_path / "runs", name)
    (tmp_path / "results.csv").rename(tmp_path / "mine.csv")
    run_grid(runs(2), squared, tmp_path / "runs", name)
    (tmp_path / "results.csv").write_text("a report on the runs beside it")
    assert len(run_grid(runs(3), squared, tmp_path / "runs", name)) == 3


def test_a_finished_run_is_not_done_again(tmp_path):
    run_grid(runs(2), squared, tmp_path, name, say=lambda line: None)
    said = []
    with pytest.raises(ValueError, match="no seed 2"):  # the first of the new ones
        run_grid(runs(3), failing, tmp_path, name, say=said.append)
    assert "2 of 3 runs are already finished" in said[0]
    assert [r["value"] for r in run_grid(runs(3), squared, tmp_path, name, say=said.append)] == [0, 1, 4]


@pytest.fixture
def forked(monkeypatch):
    """Processes that need not import torch first."""
    monkeypatch.setattr("rince.compare.grid.get_context", lambda kind: ranks.context())


def test_two_processes_give_the_same(tmp_path, forked):
    results = run_grid(runs(4), squared, tmp_path, name, workers=2, say=lambda line: None)
    assert [r["value"] for r in results] == [0, 1, 4, 9]
    assert os.getpid() not in {r["process"] for r in results}


def test_an_error_in_a_process_is_passed_on(tmp_path, forked):
    with pytest.raises(ValueError, match="no seed"):
        run_grid(runs(3), failing, tmp_path, name, workers=2, say=lambda line: None)


def test_runs_with_other_settings_are_rejected(tmp_path):
    run_grid(runs(1), squared, tmp_path, name, say=lambda line: None)
    with pytest.raises(ValueError, match="a run with different epochs"):
        run_grid([{"dataset": "toy", "seed": 0, "epochs": 5}], squared, tmp_path, name, say=lambda line: None)


def test_a_broken_result_is_named_and_kept(tmp_path):
    (tmp_path / "toy_0.json").write_text("{ half")
    with pytest.raises(ValueError, match="not the result of a run"):
        run_grid(runs(1), squared, tmp_path, name)
    assert (tmp_path / "toy_0.json").read_text() == "{ half"


# Two processes of a command that are still importing when a terminal sends Ctrl-C to all three.
INTERRUPTED = """
import math, sys
from rince import cli
from rince.compare.grid import work_off

class Command:
    def main(arguments):
        return len(list(work_off([(0, 1), (1, 2)], math.factorial, 2)))

if __name__ == "__main__":
    sys.modules["grid"] = Command
    cli.COMMANDS["grid"] = ("grid", "")
    sys.exit(cli.main(["grid"]))
"""


@pytest.mark.skipif(not hasattr(os, "killpg"), reason="Windows has no groups of processes")
def test_interrupt_prints_one_line_without_worker_tracebacks(tmp_path):
    (tmp_path / "command.py").write_text(INTERRUPTED)
    told = open(tmp_path / "told", "w+")  # noqa: SIM115
    command = subprocess.Popen([sys.executable, tmp_path / "command.py"], stderr=told, start_new_session=True)
    while len(children(command.pid)) < 3:  # those of the pool, and one that multiprocessing has beside them
        assert command.poll() is None
        time.sleep(0.01)
    time.sleep(0.1)
    os.killpg(command.pid, signal.SIGINT)
    assert command.wait(60) == 130
    told.seek(0)
    lines = told.read().splitlines()
    assert len(lines) == 1 and lines[0].startswith("rince grid: interrupted")
    with pytest.raises(ProcessLookupError):  # nobody is left
        for _ in range(200):
            os.killpg(command.pid, 0)
            time.sleep(0.05)


def children(number):
    with open(f"/proc/{number}/task/{number}/children") as file:
        return file.read().split()
