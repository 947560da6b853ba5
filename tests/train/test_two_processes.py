"""A run of two processes on one machine, of which one is stopped or killed: both end, one line says how to go on."""

import os
import signal
import sys
import time

import pytest

from rince import cli
from support import ranks

SMALL = [
    "--encoder.channels", "1", "--encoder.width", "2", "--encoder.norm", "none", "--probe", "false",
    "--method.hidden", "0", "--method.width", "4", "--checkpoint_every", "2",
    "--views.size", "8", "--views.mean", "[0.3]", "--views.std", "[0.4]", "--views.jitter", "[0, 0, 0, 0]",
    "--data", "DigitImages", "--data.limit", "128", "--data.batch_size", "32",
    "--trainer.max_epochs", "3", "--trainer.log_every_n_steps", "1", "--trainer.accelerator", "cpu",
    "--trainer.devices", "2", "--trainer.strategy", "ddp",
    "--trainer.enable_progress_bar", "false", "--trainer.enable_model_summary", "false",
]  # fmt: skip
WAITS = "--trainer.callbacks+=support.crashes.Waits"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The same run, left alone."""
    out = tmp_path_factory.mktemp("whole")
    ranks.command(["train", *SMALL, WAITS, "--out", out, "--name", "a"])
    return out / "a"


def train(folder, *arguments):
    """``rince train`` as the script that Lightning starts again for rank 1."""
    tests = os.path.dirname(os.path.dirname(__file__))
    paths = os.pathsep.join([tests, *filter(None, [os.environ.get("PYTHONPATH")])])
    os.environ |= {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1", "WAITS_IN": str(folder)}
    script = folder / "start"
    script.write_text("import sys; from rince.cli import main; sys.exit(main())")
    sys.argv = [str(script), "train", *SMALL, WAITS, "--out", str(folder), "--name", "a", *arguments]
    sys.modules["__main__"].__spec__ = None
    signal.signal(signal.SIGINT, signal.default_int_handler)
    return cli.main()


def started(tmp_path):
    """`rince train` at the step where it waits, and the process of rank 1, which it has started itself."""
    main = ranks.Alone(train, tmp_path)
    end = time.monotonic() + 120
    while len(pids := {path.suffix: int(path.read_text() or 0) for path in tmp_path.glob("pid.*")}) < 2:
        assert main.process.is_alive() and time.monotonic() < end, main.end()
        time.sleep(0.05)
    return main, pids[".1"]


@pytest.mark.parametrize(
    ("number", "whom", "code", "line"),
    [
        (signal.SIGTERM, "main", 143, "rince train: terminated: saved at step 4: the same command resumes"),
        (signal.SIGINT, "main", 130, "rince train: interrupted: saved at step 4: the same command resumes"),
        (signal.SIGKILL, "child", 2, "the process of rank 1 was killed by signal 9: the same command resumes"),
    ],
)
def test_signal_to_one_process_ends_both(tmp_path, whole, number, whom, code, line):
    main, child = started(tmp_path)
    os.kill(main.process.pid if whom == "main" else child, number)
    returned, _, told = main.end(timeout=120)
    assert returned == code, told
    assert line in told and told.count("rince train:") == 1 and "Traceback" not in told
    assert not os.path.exists(f"/proc/{child}")
    assert not (tmp_path / "a" / "result.json").exists()
    if number != signal.SIGTERM:
        return  # one that resumes is enough; scripts/kill_results.py has many more
    ranks.command(["train", *SMALL, WAITS, "--out", tmp_path, "--name", "a"])
    for name in ("encoder.safetensors", "metrics.csv"):
        assert (tmp_path / "a" / name).read_bytes() == (whole / name).read_bytes()
