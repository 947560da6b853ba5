import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest

from rince._support.folder_lock import locked


def test_folder_is_locked_while_written(tmp_path):
    with (
        locked(tmp_path / "a"),
        pytest.raises(FileExistsError, match="being written by another"),
        locked(tmp_path / "a"),
    ):
        pass


def test_orphaned_worker_does_not_keep_the_lock(tmp_path):
    folder, fork = tmp_path / "a", multiprocessing.get_context("fork")
    born = fork.Event()

    def work():
        born.set()
        time.sleep(60)

    def run():  # killed while its worker lives
        with locked(folder):
            worker = fork.Process(target=work)
            worker.start()
            numbers.put(worker.pid)
            time.sleep(60)

    numbers = fork.Queue()
    killed = fork.Process(target=run)
    killed.start()
    worker = numbers.get(timeout=30)
    assert born.wait(30)
    killed.kill()
    killed.join()
    try:
        with locked(folder):
            os.kill(worker, 0)  # it is there
    finally:
        os.kill(worker, signal.SIGKILL)


def test_training_does_not_need_fcntl_to_be_imported():
    """Windows has none: the module that uses it may only import it where it is."""
    code = (
        "import contextlib, pathlib, shutil, stat, typing;"  # as Windows knows them; the rest is ours
        "import sys; sys.modules['fcntl'] = None; import types; sys.modules['msvcrt'] = types.ModuleType('msvcrt');"
        "sys.platform = 'win32'; import rince._support.folder_lock"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_lock_does_not_follow_links(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".lock").symlink_to(tmp_path / "mine")
    with pytest.raises(OSError, match="lock"), locked(tmp_path / "a"):
        pass
    assert not (tmp_path / "mine").exists()


def test_released_lock_leaves_no_state(tmp_path):
    import rince._support.folder_lock as module

    with locked(tmp_path):
        assert len(module._held) == 1
    assert not module._held
