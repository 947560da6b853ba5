import inspect
import subprocess
import sys

import pytest
from lightning.pytorch import Trainer

from rince.train.catalogue import classes
from rince.train.finetune import finetune_parser
from rince.train.help import OPTIONS, TRAINER, help_text, list_text
from rince.train.parser import train_parser
from rince.train.shipped import shipped


@pytest.mark.parametrize("command", ["train", "finetune"])
def test_help_fits_on_a_few_screens_and_has_every_class_of_ours(command):
    text = help_text(command)
    assert text.count("\n") < 130 and max(map(len, text.splitlines())) <= 120
    for part, paths in classes().items():
        for path in paths:
            assert part == "callback" or not path.startswith("rince.") or f"  {path.rsplit('.', 1)[1]} " in text
    assert ("--loss.q" in text and "--print_config" in text and "--loss.help" in text) or command == "finetune"


@pytest.mark.parametrize(("command", "make"), [("train", train_parser), ("finetune", finetune_parser)])
def test_every_plain_option_is_explained(command, make):
    plain = {a.dest for a in make()._actions if a.option_strings and "." not in a.dest}
    plain -= {"help", "print_config", "run", "trainer"}  # told elsewhere in the text
    missing = [name for name in plain if f"--{name} " not in help_text(command)]
    assert not missing and set(OPTIONS) <= plain


def test_the_options_of_the_trainer_are_lightnings():
    assert {name.rstrip("+") for name in TRAINER} <= set(inspect.signature(Trainer).parameters)


def test_lists_part_the_configurations_between_the_commands():
    lists = [list_text(command) for command in ("train", "finetune")]
    for name in shipped():
        assert [f"  {name} " in text for text in lists] == ([False, True] if "finetune" in name else [True, False])


@pytest.mark.parametrize("arguments", [["train", "--help"], ["finetune", "runs/x", "-h"], ["train", "--list"]])
def test_help_costs_no_torch(arguments):
    code = f"import sys; from rince.cli import main; main({arguments}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0
