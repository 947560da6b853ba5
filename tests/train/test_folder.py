import multiprocessing
import os
import signal
import time

import pytest

from rince.train.folder import RunFolder


def test_a_folder_is_locked_for_others_as_long_as_it_is_written(tmp_path):
    with (
        RunFolder(tmp_path / "a").locked(),
        pytest.raises(FileExistsError, match="being written by another"),
        RunFolder(tmp_path / "a").locked(),
    ):
        pass


def test_a_worker_that_outlives_its_run_does_not_keep_the_folder_locked(tmp_path):
    folder, fork = RunFolder(tmp_path / "a"), multiprocessing.get_context("fork")
    born = fork.Event()

    def work():
        born.set()
        time.sleep(60)

    def run():  # killed while its worker lives
        with folder.locked():
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
        with folder.locked():
            os.kill(worker, 0)  # it is there
    finally:
        os.kill(worker, signal.SIGKILL)


def test_settings_can_be_corrected_until_something_has_been_learnt(tmp_path):
    folder = RunFolder(tmp_path / "a")
    folder.path.mkdir()
    folder.start("q: 1\n", {"hit": [True]})
    folder.check({"q": 2})
    folder.start("q: 2\n", {})
    assert folder.config.read_text() == "q: 2\n" and not folder.noise.exists()
    folder.checkpoint.touch()
    with pytest.raises(ValueError, match="was started with q = 2, now it is 3"):
        folder.check({"q": 3})
