"""Options of the trainer, the number of processes, and how they end together."""

import signal
import socket
import subprocess
import sys
from types import SimpleNamespace

import pytest
from lightning.pytorch.strategies.launchers.subprocess_script import _SubprocessScriptLauncher
from lightning.pytorch.utilities import rank_zero_only

from rince._support import signals
from rince.errors import UsageError
from rince.train.trainer import LAUNCHERS, OTHER_LAUNCHERS, EndTogether, check_trainer, num_processes, set_rank
from support import ranks
from support.nodes import slurm, torchrun

ONE = ["train", "digits/simclr", "--encoder.width", "2", "--data.limit", "128", "--data.batch_size", "64"]
ONE += ["--trainer.max_epochs", "1", "--trainer.accelerator", "cpu", "--name", "a", "--out"]
CPU = {"accelerator": "cpu"}
RANKS = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "SLURM_NTASKS_PER_NODE", "SLURM_NNODES")
RANKS += ("SLURM_PROCID", "SLURM_LOCALID", "SLURM_JOB_NAME")
TORCHRUN = {"TORCHELASTIC_RUN_ID": "x", "RANK": "1", "WORLD_SIZE": "2"}
SLURM = {"SLURM_NTASKS": "2", "SLURM_PROCID": "1", "SLURM_JOB_NAME": "train"}


@pytest.fixture
def variables(monkeypatch):
    """The variables of launchers: none, but for those that it is called with."""
    for name in (*LAUNCHERS, *OTHER_LAUNCHERS, *RANKS):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(rank_zero_only, "rank", 7)
    return lambda named: [monkeypatch.setenv(name, value) for name, value in named.items()]


@pytest.mark.parametrize("launcher", (torchrun, slurm))
def test_two_processes_do_not_train_one_run_each_in_the_same_folder(launcher, tmp_path):
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    nodes = [ranks.Alone(launcher, node, port, [*ONE, str(tmp_path / "runs")]) for node in range(2)]
    for node in nodes:
        code, said, told = node.end()
        assert code != 0, said + told
        assert "started 2 processes" in told and "pass --trainer.devices 1 --trainer.num_nodes 2" in told
        assert "rince train" in told and "trainer.devices x trainer.num_nodes is 1" in told
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("named", "options", "message"),
    [
        (TORCHRUN, {}, r"2 processes \(WORLD_SIZE\).* is 1: pass --trainer.devices 2, or"),
        (TORCHRUN, {"devices": 4}, r"2 processes \(WORLD_SIZE\).* is 4: pass --trainer.devices 2"),
        (TORCHRUN | {"WORLD_SIZE": "1", "RANK": "0"}, {"devices": "2"}, r"pass --trainer.devices 1"),
        (TORCHRUN | {"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}, {}, r"--trainer.devices 4 --trainer.num_nodes 2"),
        (SLURM, {}, r"SLURM_NTASKS.* pass --trainer.devices 2, or set SLURM_JOB_NAME=interactive"),
        (SLURM | {"SLURM_NTASKS": "6", "SLURM_NNODES": "3"}, {}, r"--trainer.devices 2 --trainer.num_nodes 3"),
        ({"RANK": "1", "WORLD_SIZE": "2"}, {"devices": [0]}, r"pass --trainer.devices 2, or unset it"),
        (TORCHRUN | {"WORLD_SIZE": "two"}, {}, r"WORLD_SIZE must be an integer, got 'two'"),
    ],
)
def test_number_of_processes_must_match_the_launcher(variables, named, options, message):
    variables(named)
    with pytest.raises(UsageError, match=message):
        check_trainer(CPU | options)


@pytest.mark.parametrize(
    ("named", "options", "rank"),
    [
        ({}, {}, 0),
        (TORCHRUN, {"devices": 2}, 1),
        (TORCHRUN, {"devices": "0,1"}, 1),
        (TORCHRUN | SLURM | {"SLURM_NTASKS": "9"}, {"devices": 2}, 1),
        (SLURM, {"devices": 2}, 1),
        (SLURM, {"devices": 1, "num_nodes": 2}, 1),
        (SLURM | {"SLURM_JOB_NAME": "bash"}, {}, 0),
        (SLURM | {"SLURM_JOB_NAME": "interactive"}, {"devices": 2}, 0),
        (SLURM, {"plugins": "LightningEnvironment"}, 7),
        ({"SLURM_PROCID": "1"}, {}, 0),
        ({"RANK": "3", "WORLD_SIZE": "1"}, {}, 0),
        ({"LOCAL_RANK": "1", "WORLD_SIZE": "2", "NODE_RANK": "0"}, {"devices": 2}, 1),
        ({"MASTER_ADDR": "10.0.0.1", "NODE_RANK": "1"}, {"devices": 2, "num_nodes": 2}, 2),
        ({"RANK": "1", "WORLD_SIZE": "2", "NODE_RANK": "1"}, {"devices": 4, "num_nodes": 2}, 4),
        ({"OMPI_COMM_WORLD_RANK": "1"}, {"devices": 2}, 7),
    ],
)
def test_rank_is_known_before_lightning_sets_it(variables, named, options, rank):
    variables(named)
    check_trainer(CPU | options)
    set_rank(CPU | options)
    assert rank_zero_only.rank == rank


def test_devices_are_counted_in_all_spellings(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 3)
    assert num_processes({"devices": "auto", "accelerator": "gpu"}) == num_processes({"devices": "-1"}) == 3
    assert num_processes({"devices": "2,"}) == num_processes(CPU) == num_processes(CPU | {"devices": None}) == 1
    assert num_processes({"devices": [0, 2], "num_nodes": 2}) == num_processes({"devices": "4"}) == 4
    assert num_processes({"accelerator": "tpu"}) is num_processes({"devices": "many"}) is None


@pytest.mark.parametrize("strategy", ("ddp_notebook", "ddp_fork", "ddp_spawn", "ddp_spawn_find_unused_parameters_true"))
def test_strategies_that_fork_or_spawn_are_rejected(variables, strategy):
    with pytest.raises(UsageError, match=f"got {strategy}: use ddp"):
        check_trainer(CPU | {"devices": 2, "strategy": strategy})
    check_trainer(CPU | {"devices": 2, "strategy": "ddp_find_unused_parameters_true"})


def test_nodes_that_no_launcher_started_are_not_waited_for(variables):
    with pytest.raises(UsageError, match=r"trainer.num_nodes is 2.*torchrun"):
        check_trainer({"num_nodes": 2})
    variables({"MASTER_ADDR": "10.0.0.1"})
    check_trainer({"num_nodes": 2})


@pytest.mark.parametrize("options", [{"max_epochs": -1}, {"max_epochs": 0}, {"max_steps": 0}])
def test_options_that_learn_nothing_or_never_end_are_rejected(variables, options):
    with pytest.raises(UsageError, match=f"trainer.{next(iter(options))}"):
        check_trainer(CPU | options)


@pytest.fixture
def children(monkeypatch):
    """``children(2)`` are two processes that sleep until they are ended."""
    monkeypatch.setattr(signals.Children, "watch", lambda self, tell: None)  # which would end this process
    made = []

    def start(count):
        made.extend(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) for _ in range(count))
        return made

    yield start
    for process in made:
        process.kill()
        process.wait()


def together(processes):
    """The callback of a trainer whose launcher has started the processes."""
    launcher = object.__new__(_SubprocessScriptLauncher)
    launcher.procs = list(processes)
    callback = EndTogether()
    callback.setup(SimpleNamespace(strategy=SimpleNamespace(launcher=launcher)), None, "fit")
    assert launcher.procs == []  # Lightning does not kill this process any more
    return callback


def test_error_ends_all_processes(children):
    processes = children(2)
    with pytest.raises(ZeroDivisionError), together(processes):
        raise ZeroDivisionError
    assert all(process.poll() is not None for process in processes)


def test_lost_connection_names_the_killed_process(children):
    processes = children(2)
    callback = together(processes)
    processes[1].kill()
    with pytest.raises(UsageError, match=r"rank 2 .* signal 9"), callback:
        raise RuntimeError("[../gloo/transport/tcp/pair.cc] Connection closed by peer")
    assert processes[0].poll() is not None


def test_other_ranks_report_a_lost_connection(monkeypatch):
    callback = together([])
    monkeypatch.setenv("LOCAL_RANK", "1")
    with pytest.raises(UsageError, match="lost its connection"), callback:
        raise RuntimeError("Connection reset by peer")


def test_processes_of_a_finished_run_are_left_alone(children):
    processes = children(1)
    with together(processes):
        pass
    assert processes[0].poll() is None


def test_sigterm_handler_replaced_by_lightning_is_restored():
    before = signal.getsignal(signal.SIGTERM)

    def own(number, frame):
        pass

    try:
        signal.signal(signal.SIGTERM, own)
        callback = together([])
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as Lightning does between setup and the first step
        callback.on_train_start(None, None)
        assert signal.getsignal(signal.SIGTERM) is own
    finally:
        signal.signal(signal.SIGTERM, before)
