import contextlib
import os
import signal
import subprocess
import sys
import time

import pytest
import torch

from rince import cli
from rince.errors import MissingFile, UsageError
from support import absent, ranks


def test_help_lists_every_command(capsys):
    assert cli.main(["--help"]) == 0
    out = capsys.readouterr().out
    assert all(name in out for name in cli.COMMANDS)


def test_unknown_command_suggests_the_nearest_name(capsys):
    assert cli.main(["dmeo"]) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "did you mean 'demo'" in err


def test_former_command_names_its_successor(capsys):
    assert cli.main(["reproduce", "digits"]) == 2
    assert "python -m experiments" in capsys.readouterr().err


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
        raise UsageError("q must lie in [0, 1], got 2")

    module.main = fail
    monkeypatch.setitem(sys.modules, "tests_broken_command", module)
    assert cli.main(["broken"]) == 2
    assert capsys.readouterr().err == "rince broken: q must lie in [0, 1], got 2\n"


@pytest.mark.parametrize(("value", "shown"), [("1", True), ("yes", True), ("0", False), ("", False), ("off", False)])
def test_the_traceback_is_shown_on_demand(monkeypatch, value, shown):
    monkeypatch.setenv("RINCE_TRACEBACK", value)
    with pytest.raises(UsageError) if shown else contextlib.nullcontext():
        assert cli.main(["compare", "a.npy"]) == 2


def test_python_m_rince_is_the_command():
    done = subprocess.run([sys.executable, "-m", "rince", "dmeo"], capture_output=True, text=True)
    assert done.returncode == 2 and "did you mean 'demo'" in done.stderr


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"]])
def test_closed_pipe_ends_without_an_error(arguments):
    code = f"import sys; from rince.cli import main; sys.exit(main({arguments}))"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-c", code], stdout=write, stderr=subprocess.PIPE, text=True)
    os.close(write)
    assert done.returncode == 141 and not done.stderr


@pytest.fixture
def failing(monkeypatch):
    """A command that does what it is given."""

    def make(main):
        module = type(sys)("tests_failing_command")
        module.main = main
        monkeypatch.setitem(cli.COMMANDS, "failing", ("tests_failing_command", "fails"))
        monkeypatch.setitem(sys.modules, "tests_failing_command", module)

    return make


def raises(error):
    def main(arguments):
        raise error

    return main


def test_bug_keeps_its_traceback_and_gets_a_hint(failing, capsys):
    """Such as a TypeError in a class of the user's."""
    failing(lambda arguments: len(3))
    with pytest.raises(TypeError, match="has no len") as caught:
        cli.main(["failing"])
    hint = "".join(getattr(caught.value, "__notes__", [])) + capsys.readouterr().err
    assert "This is a bug" in hint


@pytest.mark.parametrize("error", [ValueError("x"), TypeError("x"), KeyError("x"), OSError("no number"), ImportError()])
def test_other_errors_are_bugs(failing, error):
    failing(raises(error))
    with pytest.raises(type(error)):
        cli.main(["failing"])


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (MissingFile("there is no x.npy"), "there is no x.npy"),
        (OSError(28, "No space left on device", "a.csv"), "[Errno 28] No space left on device: 'a.csv'"),
        (ModuleNotFoundError("No module named 'av'", name="av"), "this needs av: run pip install 'rince[video]'"),
        (MemoryError("Unable to allocate 18.6 GiB"), "not enough memory (Unable to allocate 18.6 GiB)"),
        (
            RuntimeError("[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: "
                         "you tried to allocate 504000000000000008 bytes. Error code 12 (Cannot allocate memory)"),
            "not enough memory (tried to allocate 504000000000000008 bytes)",
        ),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 8"),
            "not enough memory (Tried to allocate 20.00 GiB)",
        ),
        (UsageError("no column \x1b[31m\u202ex\0"), "no column \\x1b[31m\\u202ex\\x00"),
        (
            UsageError("Caught UsageError in worker process 0.\nOriginal Traceback (most recent call last):\n"
                       '  File "a.py", line 1\nrince.errors.UsageError: a.png does not decode'),
            "a.png does not decode",
        ),
    ],
)  # fmt: skip
def test_errors_a_user_can_act_on_are_one_line(failing, capsys, error, sentence):
    failing(raises(error))
    assert cli.main(["failing"]) == 2
    assert capsys.readouterr().err == f"rince failing: {sentence}\n"


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_exit_code_of_a_stopped_command(failing, capsys, number, code):
    failing(lambda arguments: (os.kill(os.getpid(), number), time.sleep(10)))
    before = signal.getsignal(signal.SIGTERM)
    assert cli.main(["failing"]) == code
    assert capsys.readouterr().err.count("\n") == 1 and signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_stopped_command_says_whether_it_resumes(name, failing, monkeypatch, capsys):
    failing(raises(KeyboardInterrupt()))
    monkeypatch.setitem(cli.COMMANDS, name, cli.COMMANDS["failing"])
    assert cli.main([name]) == 130
    again = "resumes" if name in ("train", "finetune", "compare") else "starts over"
    told = capsys.readouterr().err
    assert told.startswith(f"rince {name}: interrupted: the same command {again}") and told.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--list"]])
def test_output_may_be_closed(arguments):
    code = f"import sys; from rince.cli import main; sys.exit(main({arguments}))"
    done = subprocess.run(["sh", "-c", f'exec "{sys.executable}" -c "{code}" >&-'], capture_output=True, text=True)
    assert done.returncode == 0 and not done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is always full")
def test_output_that_cannot_be_written_is_one_line_and_one_exit_code():
    run = f'"{sys.executable}" -m rince'
    done = subprocess.run(["sh", "-c", f"{run} --help > /dev/full"], capture_output=True, text=True)
    assert done.returncode == 2 and done.stderr == "rince --help: [Errno 28] No space left on device\n"
    for nowhere in ("2> /dev/full", "2>&-", ">&- 2>&-"):
        done = subprocess.run(["sh", "-c", f"{run} nonsense {nowhere}"], capture_output=True, text=True)
        assert done.returncode == 2 and not done.stderr and not done.stdout


@pytest.mark.parametrize("arguments", ("", "['--help']"))
def test_terminal_without_unicode_shows_escapes(arguments):
    code = "import sys; from rince import cli; cli.usage = lambda: '1 \u00b1 2'; sys.argv[1:] = ['--help'];"
    code += f"cli.main({arguments})"
    few = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run([sys.executable, "-c", code], env=few, capture_output=True, text=True)
    assert done.returncode == 0 and done.stdout == "1 \\xb1 2\n"


@pytest.mark.parametrize(
    "words",
    [
        ["audit", "a.npy", "b.npy"], ["compare", "a.npy", "b.npy"], ["demo"],
        ["train", "digits/simclr"], ["export", "run", "s3://bucket/x.safetensors"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_url_as_output_is_rejected(words, capsys, tmp_path, monkeypatch):
    """It would become a local folder called ``s3:``."""
    monkeypatch.chdir(tmp_path)
    assert cli.main(words if words[0] == "export" else [*words, "--out", "s3://bucket/x"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "local path, got the URL s3://bucket/x" in told
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("command", ["evaluate", "export", "demo", "train", "finetune"])
def test_unknown_option_is_one_line_in_every_command(capsys, command):
    assert cli.main([command, "digits/simclr", "--no-such-option", "3"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_missing_extra_is_named_before_anything_is_written(tmp_path):
    """In a Python of its own, since this one has imported what is to be missing."""
    missing = ["lightning", "jsonargparse", "yaml", "safetensors", "sklearn"]
    commands = [["train", "digits/simclr"], ["finetune", "a"], ["evaluate", "a"], ["export", "a", "e.safetensors"]]
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "config.yaml").write_text("seed: 1")
    code = f"import sys; from support import absent; sys.exit(absent.run({missing}, {commands}))"
    path = os.pathsep.join([os.path.dirname(__file__), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert done.returncode == 0 and named(done.stderr, "train") == len(commands)
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


def test_missing_pyg_names_the_graph_extra(tmp_path):
    commands = [["train", "tudataset/proteins"]]
    code, _, told = ranks.Alone(absent.run, ["torch_geometric"], commands, tmp_path).end()
    assert code == 0 and named(told, "graph") == len(commands) and not list(tmp_path.iterdir())


def named(told, extra):
    lines = told.splitlines()
    assert all("this needs " in line and f"pip install 'rince[{extra}]'" in line for line in lines), told
    return len(lines)


@pytest.mark.parametrize(
    ("number", "code", "word"), [(signal.SIGINT, 130, "interrupted"), (signal.SIGTERM, 143, "terminated")]
)
def test_signal_is_reported_if_its_exception_is_lost(number, code, word, monkeypatch, capsys):
    """As packages of C code lose it while they are imported."""

    def lose_it(arguments):
        try:
            signal.raise_signal(number)
        except BaseException:
            raise RecursionError("while importing") from None

    monkeypatch.setattr("rince.commands.audit.main", lose_it)
    assert cli.main(["audit"]) == code
    assert capsys.readouterr().err == f"rince audit: {word}: the same command starts over\n"
