"""Runs of as many processes as were started, each of which knows whether it is the first."""

import socket

import pytest
from lightning.pytorch.utilities import rank_zero_only

from rince.errors import UsageError
from rince.train.build import check_trainer
from rince.train.processes import NUMBERS, OTHERS, processes_of, settle_rank
from support import ranks
from support.nodes import slurm, torchrun

ONE = ["train", "digits/simclr", "--encoder.width", "2", "--data.limit", "128", "--data.batch_size", "64"]
ONE += ["--trainer.max_epochs", "1", "--trainer.accelerator", "cpu", "--name", "a", "--out"]
CPU = {"accelerator": "cpu"}
TORCHRUN = {"TORCHELASTIC_RUN_ID": "x", "RANK": "1", "WORLD_SIZE": "2"}
SLURM = {"SLURM_NTASKS": "2", "SLURM_PROCID": "1", "SLURM_JOB_NAME": "train"}


@pytest.fixture
def variables(monkeypatch):
    """The variables of launchers: none, but for those that it is called with."""
    for name in (*NUMBERS, *OTHERS, "TORCHELASTIC_RUN_ID", "SLURM_JOB_NAME"):
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
        assert "2 processes were started" in told and "give --trainer.devices 1 --trainer.num_nodes 2" in told
        assert "rince train" in told and "trainer.devices x trainer.num_nodes is 1" in told
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("named", "options", "message"),
    [
        (TORCHRUN, {}, r"WORLD_SIZE says that 2 processes .* is 1: give --trainer.devices 2, or start as many"),
        (TORCHRUN, {"devices": 4}, r"WORLD_SIZE says that 2 processes .* is 4: give --trainer.devices 2"),
        (TORCHRUN | {"WORLD_SIZE": "1", "RANK": "0"}, {"devices": "2"}, r"1 process was .* give --trainer.devices 1"),
        (TORCHRUN | {"WORLD_SIZE": "8", "LOCAL_WORLD_SIZE": "4"}, {}, r"--trainer.devices 4 --trainer.num_nodes 2"),
        (SLURM, {}, r"SLURM_NTASKS .* give --trainer.devices 2, or set SLURM_JOB_NAME=interactive if this is one"),
        (SLURM | {"SLURM_NTASKS": "6", "SLURM_NNODES": "3"}, {}, r"--trainer.devices 2 --trainer.num_nodes 3"),
        ({"RANK": "1", "WORLD_SIZE": "2"}, {"devices": [0]}, r"give --trainer.devices 2, or unset it"),
        ({"SLURM_LOCALID": "z"}, {}, r"the variable SLURM_LOCALID must be a whole number, .* got 'z': unset it"),
        ({"MASTER_PORT": "9" * 5000}, {}, r"the variable MASTER_PORT must be a whole number, .* got '9{40}'"),
    ],
)
def test_other_processes_than_were_started_are_one_sentence(variables, named, options, message):
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
def test_a_process_that_is_the_first_of_its_run_knows_it(variables, named, options, rank):
    """And so takes the lock, whatever variables the shell it was started from has."""
    variables(named)
    check_trainer(CPU | options)
    settle_rank(CPU | options)
    assert rank_zero_only.rank == rank


def test_devices_in_all_spellings_are_counted(monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 3)
    assert processes_of({"devices": "auto", "accelerator": "gpu"}) == processes_of({"devices": "-1"}) == 3
    assert processes_of({"devices": "2,"}) == processes_of(CPU) == processes_of(CPU | {"devices": None}) == 1
    assert processes_of({"devices": [0, 2], "num_nodes": 2}) == processes_of({"devices": "4"}) == 4
    assert processes_of({"accelerator": "tpu"}) is processes_of({"devices": "many"}) is None


@pytest.mark.parametrize("strategy", ("ddp_notebook", "ddp_fork", "ddp_spawn", "ddp_spawn_find_unused_parameters_true"))
def test_strategies_that_leave_nothing_to_save_are_one_sentence(variables, strategy):
    with pytest.raises(UsageError, match=f"got {strategy}: take ddp, or leave it out"):
        check_trainer(CPU | {"devices": 2, "strategy": strategy})
    check_trainer(CPU | {"devices": 2, "strategy": "ddp_find_unused_parameters_true"})


def test_a_number_of_devices_of_thousands_of_digits_is_one_sentence():
    with pytest.raises(UsageError, match=r"^trainer.devices must be a number of devices, got one of 5000 digits$"):
        check_trainer(CPU | {"devices": "1" * 5000})
