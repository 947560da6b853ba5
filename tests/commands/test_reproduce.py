import pytest

from rince.cli import main
from rince.commands.reproduce import ROOM, experiments

EXPERIMENTS = experiments()


def test_alone_it_lists_the_experiments(capsys):
    assert main(["reproduce"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown and found.summary in shown for name, found in EXPERIMENTS.items())


def test_every_file_with_a_main_is_an_experiment_that_says_what_it_is():
    import re

    files = [path for path in ROOM.rglob("*.py") if re.search(r"^(def main\(|main =)", path.read_text(), re.MULTILINE)]
    assert {path.stem.replace("_", "-") for path in files} == set(EXPERIMENTS) >= {"demo", "tudataset", "spoken-digits"}
    assert all(20 < len(found.summary) < 140 for found in EXPERIMENTS.values())


def test_the_list_costs_no_torch():
    import subprocess
    import sys

    code = "import sys; from rince.cli import main; main(['reproduce']); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_an_unknown_experiment_suggests_the_nearest(capsys):
    assert main(["reproduce", "tudatset"]) == 2
    assert "did you mean 'tudataset'?" in capsys.readouterr().err


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_every_experiment_explains_itself(experiment, capsys):
    with pytest.raises(SystemExit) as end:
        main(["reproduce", experiment, "--help"])
    assert end.value.code == 0
    assert "--out" in capsys.readouterr().out


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
    assert main(["reproduce", *arguments]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
