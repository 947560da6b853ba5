"""Where an audit reads and writes: told before the work, and never over the work of another."""

import os

import numpy as np
import pytest

from rince import cli
from rince.errors import FileError


@pytest.fixture
def folder(tmp_path):
    random = np.random.default_rng(0)
    a = random.normal(size=(400, 16)).astype(np.float32)
    np.save(tmp_path / "a.npy", a)
    np.save(tmp_path / "b.npy", a + 0.3 * random.normal(size=a.shape).astype(np.float32))
    return tmp_path


def run(*arguments):
    return cli.main(["audit", *map(str, arguments)])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such pipes")
def test_a_review_that_is_no_file_is_told_before_the_work(folder, capsys):
    os.mkfifo(folder / "review.csv")
    assert run(folder / "a.npy", folder / "b.npy", "--out", folder / "out", "--review", folder / "review.csv") == 2
    assert "review.csv is no regular file" in capsys.readouterr().err and not (folder / "out").exists()


def test_results_that_another_command_wrote_meanwhile_stay(folder, capsys, monkeypatch):
    from rince.audit import run as audits

    done = audits.audit

    def slow(*arguments, **options):
        (folder / "out" / "audit.csv").write_text("of another command")
        return done(*arguments, **options)

    monkeypatch.setattr(audits, "audit", slow)
    assert run(folder / "a.npy", folder / "b.npy", "--out", folder / "out") == 2
    assert "audit.csv is already there" in capsys.readouterr().err
    assert (folder / "out" / "audit.csv").read_text() == "of another command"


def test_a_folder_that_takes_no_files_is_told_before_the_work(folder, capsys, monkeypatch):

    def refuse(place):
        raise FileError(f"{place} cannot be written to (Permission denied)")

    monkeypatch.setattr("rince.commands.audit.check_writable", refuse)
    monkeypatch.setattr("rince.audit.run.audit", lambda *arguments, **options: pytest.fail("it has begun"))
    assert run(folder / "a.npy", folder / "b.npy", "--out", folder / "out") == 2
    assert "out cannot be written to (Permission denied)" in capsys.readouterr().err
    assert not (folder / "out").exists()
