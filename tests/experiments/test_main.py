import subprocess
import sys
from pathlib import Path

import pytest

from experiments.__main__ import EXPERIMENTS, main

ROOT = Path(__file__).parents[2]


def test_without_a_name_the_experiments_are_listed(capsys):
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown and summary in shown for name, (_, summary) in EXPERIMENTS.items())


def test_every_experiment_of_the_list_is_in_the_readme():
    text = (ROOT / "experiments" / "README.md").read_text("utf-8")
    assert not [name for name in EXPERIMENTS if f"experiments {name}" not in text]


def test_list_does_not_import_torch():
    code = "import sys; from experiments.__main__ import main; main([]); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, cwd=ROOT).returncode == 0


def test_unknown_experiment_suggests_the_nearest(capsys):
    assert main(["tudatset"]) == 2
    assert "did you mean 'tudataset'?" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["tudataset", "--seeds", "0"], "--seeds must be at least 1, got 0"),
        (["tudataset", "--seeds", "many"], "invalid int value: 'many'"),
        (["tudataset", "--losses", "hinge"], "there is no loss 'hinge' here"),
        (["tudataset", "--lose", "rince"], "there is no option '--lose'"),
        (["tudataset", "--datasets", "NONE", "--root", "nowhere"], "NONE is not in nowhere"),
        (["graph-perturbation", "--rates", "1.5", "--datasets"], "expected at least one argument"),
    ],
)
def test_bad_input_is_one_line(arguments, message, capsys):
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
