"""Whatever ends one process of a run on this machine ends all of them, and the user is told which one was lost."""

import signal
import subprocess
import sys
from types import SimpleNamespace

import pytest
from lightning.pytorch.strategies.launchers.subprocess_script import _SubprocessScriptLauncher

from rince._support import signals
from rince.errors import UsageError
from rince.train.callbacks.end_together import EndTogether


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


def test_an_error_ends_all_processes_and_stays_the_error_it_is(children):
    processes = children(2)
    with pytest.raises(ZeroDivisionError), together(processes):
        raise ZeroDivisionError
    assert all(process.poll() is not None for process in processes)


def test_a_lost_connection_is_told_as_the_process_that_was_killed(children):
    processes = children(2)
    callback = together(processes)
    processes[1].kill()
    with pytest.raises(UsageError, match="rank 2 was killed by signal 9: the same command again resumes"), callback:
        raise RuntimeError("[../gloo/transport/tcp/pair.cc] Connection closed by peer")
    assert processes[0].poll() is not None


def test_a_process_that_does_not_speak_for_the_run_says_that_it_lost_the_others(monkeypatch):
    callback = together([])
    monkeypatch.setenv("LOCAL_RANK", "1")
    with pytest.raises(UsageError, match="this process has lost the others of its run"), callback:
        raise RuntimeError("Connection reset by peer")


def test_processes_of_a_run_that_ends_well_are_left_alone(children):
    processes = children(1)
    with together(processes):
        pass
    assert processes[0].poll() is None


def test_a_handler_of_sigterm_that_lightning_replaced_is_put_back():
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
