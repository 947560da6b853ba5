import contextlib
import os
import subprocess
import sys

import pytest

from rince import cli


def test_help_lists_every_command(capsys):
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in cli.COMMANDS)


def test_an_unknown_command_is_one_line_with_the_nearest_name(capsys):
    assert cli.main(["dmeo"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "did you mean 'demo'" in err


def test_help_imports_no_torch_and_is_quick():
    code = "import sys; from rince.cli import main; main(['--help']); sys.exit('torch' in sys.modules)"
    before = os.times()
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0
    after = os.times()  # seconds of the processor, whatever else it does
    assert after.children_user + after.children_system - before.children_user - before.children_system < 0.7


def test_a_user_error_is_one_line(capsys, monkeypatch):
    monkeypatch.setitem(cli.COMMANDS, "broken", ("tests_broken_command", "fails"))
    module = type(sys)("tests_broken_command")

    def fail(arguments):
        raise ValueError("q must lie in [0, 1], got 2")

    module.main = fail
    monkeypatch.setitem(sys.modules, "tests_broken_command", module)
    assert cli.main(["broken"]) == 2
    assert capsys.readouterr().err == "rince broken: q must lie in [0, 1], got 2\n"


@pytest.mark.parametrize(("value", "shown"), [("1", True), ("yes", True), ("0", False), ("", False), ("off", False)])
def test_the_traceback_is_shown_on_demand(monkeypatch, value, shown):
    monkeypatch.setenv("RINCE_TRACEBACK", value)
    with pytest.raises(ValueError) if shown else contextlib.nullcontext():
        assert cli.main(["reproduce", "nothing"]) == 2


def test_python_m_rince_is_the_command():
    done = subprocess.run([sys.executable, "-m", "rince", "dmeo"], capture_output=True, text=True)
    assert done.returncode == 2 and "did you mean 'demo'" in done.stderr


def test_a_reader_who_has_seen_enough_gets_no_complaint():
    code = "import sys; from rince.cli import main; sys.exit(main(['train', '--help']))"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert done.returncode == 141 and not done.stderr
