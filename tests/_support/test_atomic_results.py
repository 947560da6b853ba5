"""Sets of files that appear together, checked with processes killed before every single rename and removal."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

from rince._support.atomic_files import atomic_folder, atomic_results, finish_results
from rince.errors import ExistingFile

KILLED = """
import os, shutil, signal, sys
left = int(sys.argv[1])

def counted(function):
    def call(*args, **options):
        global left
        left -= 1
        if left < 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return function(*args, **options)
    return call

os.replace, os.fsync, os.mkdir = counted(os.replace), counted(os.fsync), counted(os.mkdir)
os.unlink, os.rmdir = counted(os.unlink), counted(os.rmdir)  # shutil.rmtree calls them as well
"""


def killed_after(calls, code, folder):
    """Run code that is killed after so many calls that change the disk; True if it ended before."""
    command = [sys.executable, "-c", KILLED + textwrap.dedent(code), str(calls), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode in (0, -signal.SIGKILL), done.stderr
    return done.returncode == 0


def content(folder):
    return {
        str(path.relative_to(folder)): path.read_text()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


OLD = {"table.csv": "old", "page.html": "old", "mine.txt": "mine"}
NEW = {"table.parquet/part-0": "new", "table.parquet/part-1": "new", "page.html": "new", "mine.txt": "mine"}
WRITE_RESULTS = """
from pathlib import Path
from rince._support.atomic_files import atomic_results
with atomic_results(sys.argv[2], ["table.csv", "table.parquet", "page.html"]) as new:
    (new / "table.parquet").mkdir()
    for name in ("table.parquet/part-0", "table.parquet/part-1", "page.html"):
        (new / name).write_text("new")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_killed_writer_leaves_the_old_or_the_new_results(tmp_path):
    seen = []
    for calls in range(60):
        folder = tmp_path / str(calls)
        folder.mkdir()
        for name, text in OLD.items():
            (folder / name).write_text(text)
        ended = killed_after(calls, WRITE_RESULTS, folder)
        finish_results(folder)
        visible = {name: text for name, text in content(folder).items() if not name.startswith(".results.new")}
        assert visible in (OLD, NEW), calls
        seen.append(visible == NEW)
        with atomic_results(folder, ["table.csv", "table.parquet", "page.html"]) as new:
            (new / "page.html").write_text("newer")
        assert content(folder) == {"page.html": "newer", "mine.txt": "mine"}  # nothing is left of the killed writer
        if ended:
            break
    assert ended and seen == sorted(seen) and not seen[0]


WRITE_FOLDER = """
from rince._support.atomic_files import atomic_folder
with atomic_folder(sys.argv[2], force=True) as new:
    for name in ("a.npy", "b.npy"):
        (new / name).write_text("new")
"""


@pytest.mark.skipif(sys.platform == "win32", reason="needs SIGKILL")
def test_killed_writer_leaves_the_old_or_the_new_folder(tmp_path):
    old, new = (dict.fromkeys(("a.npy", "b.npy"), text) for text in ("old", "new"))
    for calls in range(60):
        folder = tmp_path / str(calls) / "clean"
        folder.mkdir(parents=True)
        for name, text in old.items():
            (folder / name).write_text(text)
        ended = killed_after(calls, WRITE_FOLDER, folder)
        assert not folder.exists() or content(folder) in (old, new), calls  # never a mix, whoever looks
        with pytest.raises(ExistingFile, match="--force"), atomic_folder(folder):
            pass
        assert content(folder) in (old, new), calls
        assert [path.name for path in folder.parent.iterdir()] == ["clean"]
        if ended:
            break
    assert ended


def test_failed_writer_leaves_the_old_results(tmp_path):
    (tmp_path / "audit.json").write_text("old")
    with pytest.raises(KeyboardInterrupt), atomic_results(tmp_path, ["audit.json"]) as new:
        (new / "audit.json").write_text("half")
        raise KeyboardInterrupt
    assert content(tmp_path) == {"audit.json": "old"} and len(os.listdir(tmp_path)) == 1
    with pytest.raises(KeyboardInterrupt), atomic_results(tmp_path / "missing"):
        raise KeyboardInterrupt
    assert not (tmp_path / "missing").exists()
    with pytest.raises(KeyboardInterrupt), atomic_folder(tmp_path / "missing") as new:
        (new / "a.npy").write_text("half")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == ["audit.json"]


def test_second_writer_is_refused(tmp_path):
    with atomic_results(tmp_path) as new:
        (new / "audit.json").write_text("1")
        with pytest.raises(ExistingFile, match="another rince command"), atomic_results(tmp_path):
            pass
    assert content(tmp_path) == {"audit.json": "1"}
