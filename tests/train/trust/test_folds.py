"""What the line about trust says, for everything that can be found."""

from pathlib import Path

import numpy as np
import pytest

from rince.audit import judge
from rince.train.parser import parse, train_parser
from rince.train.trust.folds import _sentence, _way_out


@pytest.mark.parametrize(
    ("right", "rate", "verdict"),
    [
        (8.0, 0.3, "% of the pairs are wrong (2"),
        (8.0, 0.0, "no wrong pairs found, so all of them weigh 1"),
        (0.6, 0.0, "cannot tell whether pairs are wrong, up to"),
        (0.0, 0.0, "the scores tell nothing about the pairs, so all of them weigh 1"),
    ],
)
def test_the_line_says_what_was_found_and_what_follows(right, rate, verdict):
    random = np.random.default_rng(0)
    wrong = random.random(1000) < rate
    scores = random.normal(size=1000) + np.where(wrong, 0, right)
    found = judge(scores.astype(np.float32), random.normal(size=20_000).astype(np.float32))
    said = _sentence(found, found.trust, Path("runs/a"))
    assert verdict in said and said.endswith(f"see {Path('runs/a/trust/audit.html')}")
    assert ("weigh 1" in said) == bool((found.trust == 1).all())


@pytest.mark.parametrize(
    ("right", "options", "folds", "more"),
    [
        (0.6, ["--trainer.max_epochs", "36"], 3, (36, 3)),
        (0.0, ["--trainer.max_epochs", "10"], 2, (20, 3)),
        (0.6, ["--trainer.max_epochs", "36", "--trust.epochs", "18"], 3, None),
        (0.6, ["--trainer.max_steps", "36"], 3, None),
        (8.0, ["--trainer.max_epochs", "36"], 3, None),
    ],
)
def test_where_it_cannot_tell_the_line_says_what_to_try_and_what_that_costs(right, options, folds, more):
    random = np.random.default_rng(0)
    scores = (random.normal(size=1000) + right).astype(np.float32)
    found = judge(scores, random.normal(size=20_000).astype(np.float32))
    config = parse(train_parser(), ["--data", "DigitImages", "--trust", "auto", *options])
    said = _way_out(found, config, folds)
    if more is None:
        assert said == ""
    else:
        assert f"--trust.epochs {more[0]} and" in said and f"about {more[1]} times the steps" in said
        assert ("--trust.folds 2" in said) == (folds > 2)
