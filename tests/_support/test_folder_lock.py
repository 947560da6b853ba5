import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import weakref

import pytest

from rince._support.folder_lock import locked
from rince.errors import FileError


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


def test_a_lock_that_leads_elsewhere_is_not_followed(tmp_path):
    """In a folder of somebody else's."""
    mine = tmp_path / "mine"
    mine.write_text("precious")
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / ".lock").symlink_to(mine)
    with pytest.raises(FileError, match="is a link"), locked(tmp_path / "a"):
        pass
    assert mine.read_text() == "precious"


def test_a_lock_that_is_a_pipe_is_not_waited_for(tmp_path):
    (tmp_path / "a").mkdir()
    os.mkfifo(tmp_path / "a" / ".lock")
    with pytest.raises(FileError, match="no plain file"), locked(tmp_path / "a"):
        pass


def test_released_lock_leaves_no_state(tmp_path, monkeypatch):
    import rince._support.folder_lock as module

    opened, real = [], module._opened

    def noted(path):
        file = real(path)
        opened.append(weakref.ref(file))
        return file

    monkeypatch.setattr(module, "_opened", noted)
    with locked(tmp_path):
        pass
    gc.collect()
    assert opened[0]() is None
