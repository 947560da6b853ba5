"""Processes for tests, forked from one that has imported torch and Lightning: that takes seconds for every new one."""

import multiprocessing
import os
import socket
import sys
import tempfile
from multiprocessing import forkserver
from pathlib import Path

import torch

PRELOADED = ["lightning.pytorch", "rince.train.run", "rince.train.finetune", "rince.methods", "rince.data"]
PRELOADED += ["rince.audit.shards.run"]


def context():
    """Processes that start with everything imported."""
    found = multiprocessing.get_context("forkserver")
    found.set_forkserver_preload(PRELOADED)
    forkserver.ensure_running()  # before Dask has it import other things
    return found


def start(function, count, *arguments):
    """``function(rank, *arguments)`` on ``count`` processes; raises what one of them raises."""
    context()
    torch.multiprocessing.start_processes(function, args=arguments, nprocs=count, start_method="forkserver")


class Alone:
    """A process of ``function(*arguments)``, whose result is its exit code."""

    def __init__(self, function, *arguments):
        self.folder = tempfile.TemporaryDirectory()
        self.process = context().Process(
            target=_alone, args=(self.folder.name, function, arguments, torch.get_num_threads())
        )
        self.process.start()

    def end(self, timeout=300):
        """Its exit code, and what it wrote to its standard output and to its standard error."""
        self.process.join(timeout)
        assert self.process.exitcode is not None, "it did not end"
        with self.folder as folder:
            return (self.process.exitcode, *(Path(folder, name).read_text() for name in ("stdout", "stderr")))


def begin(arguments):
    """The process of ``rince ARGUMENTS``, with as many threads as this one has."""
    return Alone(_rince, arguments)


def _rince(arguments):
    from rince.cli import main

    return main(arguments)


def _alone(folder, function, arguments, threads):
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        with open(f"{folder}/{stream.name.strip('<>')}", "w") as said:
            os.dup2(said.fileno(), stream.fileno())
    torch.set_num_threads(threads)  # sums of several threads round otherwise
    raise SystemExit(function(*arguments))


def command(arguments, ranks=2):
    """``rince ARGUMENTS`` on processes that find each other as those of torchrun do; what they printed."""
    with socket.socket() as found, tempfile.TemporaryDirectory() as folder:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
        found.close()
        try:
            start(_command, ranks, [str(a) for a in arguments], ranks, port, folder)
        finally:
            said = "".join(path.read_text() for path in sorted(Path(folder).iterdir()))
            sys.stdout.write(said)  # pytest shows it where the test fails
        return said


def _command(rank, arguments, ranks, port, folder):
    everyone = {"WORLD_SIZE": ranks, "LOCAL_WORLD_SIZE": ranks, "GROUP_RANK": 0, "MASTER_PORT": port}
    own = {"RANK": rank, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1", "TORCHELASTIC_RUN_ID": "test"}
    os.environ.update({name: str(value) for name, value in (everyone | own).items()})
    with open(f"{folder}/{rank}", "w") as said:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
            os.dup2(said.fileno(), stream.fileno())
    from lightning.pytorch.utilities.rank_zero import rank_zero_only

    from rince.cli import main

    rank_zero_only.rank = rank  # which Lightning reads from the environment when it is imported
    code = main(arguments)
    sys.stdout.flush()
    if code:
        raise SystemExit(code)
