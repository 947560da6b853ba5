"""Everything that ships is rince's and torch's: its runs are evaluated without --trust-config."""

import pytest
import yaml

from rince.train.build import build
from rince.train.finetune import finetune_parser
from rince.train.foreign_code import trusting, without_fetching
from rince.train.parser import parse, parse_settings, spelled_out, train_parser
from rince.train.shipped import shipped


@pytest.mark.parametrize("name", shipped())
def test_a_run_of_what_ships_needs_no_trust(name):
    finetuned = name.split("/")[1].startswith(("finetune", "linear"))
    parser = finetune_parser() if finetuned else train_parser()
    settings = yaml.safe_load(parser.dump(parse(parser, spelled_out([name]))))
    for unused in ("trainer", "config"):
        settings.pop(unused, None)
    settings = without_fetching(settings)
    with trusting(settings, shipped()[name], trust=False):
        again = parse_settings(parser, settings)
        if again.get("data") is not None and not finetuned:
            assert build(parser, again).method is not None
