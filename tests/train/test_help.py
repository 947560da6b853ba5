import inspect
import subprocess
import sys

import pytest
from lightning.pytorch import Trainer

from rince.train.config import finetune_parser, train_parser
from rince.train.help import OPTIONS, TRAINER, help_text, list_text
from rince.train.short_names import known_classes


@pytest.mark.parametrize("command", ["train", "finetune"])
def test_help_fits_on_a_few_screens_and_has_every_class_of_ours(command):
    text = help_text(command)
    assert text.count("\n") < 130 and max(map(len, text.splitlines())) <= 120
    for part, paths in known_classes().items():
        for name, path in paths.items():
            assert part == "callback" or not path.startswith("rince.") or f"  {name} " in text
    assert ("--loss.q" in text and "--print-config" in text and "--loss.help" in text) or command == "finetune"


@pytest.mark.parametrize(("command", "make"), [("train", train_parser), ("finetune", finetune_parser)])
def test_every_plain_option_is_explained(command, make):
    plain = {a.dest for a in make()._actions if a.option_strings and "." not in a.dest}
    plain -= {"help", "print_config", "run", "trainer"}  # told elsewhere in the text
    missing = [name for name in plain if f"--{name.replace('_', '-')} " not in help_text(command)]
    assert not missing and set(OPTIONS) <= plain


def test_the_options_of_the_trainer_are_lightnings():
    assert {name.rstrip("+") for name in TRAINER} <= set(inspect.signature(Trainer).parameters)


def test_list_of_train_has_no_configuration_for_finetuning():
    assert "  imagenet/simclr " in list_text("train") and "imagenet/linear " not in list_text("train")
    assert "  imagenet/linear " in list_text("finetune") and "  digits/simclr " not in list_text("finetune")


@pytest.mark.parametrize("arguments", [["train", "--help"], ["finetune", "runs/x", "-h"], ["train", "--list"]])
def test_help_costs_no_torch(arguments):
    code = f"import sys; from rince.cli import main; main({arguments}); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0
