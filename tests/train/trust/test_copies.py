"""The models that judge pairs: as many steps as the run, all together, and a loss that is hard to lead astray."""

import pytest

from rince.train.parser import parse, train_parser
from rince.train.trust.copies import fold_config, usual_folds


@pytest.fixture(scope="module")
def parser():
    return train_parser()


def configured(parser, *options):
    return parse(parser, ["--data", "DigitImages", "--trust", "auto", *options])


@pytest.mark.parametrize(
    ("options", "folds", "expected"),
    [
        (["--trainer.max_epochs", "20"], 2, (20, -1)),
        (["--trainer.max_epochs", "20"], 5, (5, -1)),
        (["--trainer.max_steps", "100"], 2, (None, 50)),
        (["--trainer.max_epochs", "20", "--trainer.max_steps", "60", "--trust.epochs", "4"], 3, (4, -1)),
    ],
)
def test_folds_take_no_more_steps_than_the_run(parser, options, folds, expected):
    config = configured(parser, *options)
    fold = fold_config(config, folds)
    assert (fold.trainer.max_epochs, fold.trainer.max_steps) == expected and fold.trust.source is None
    assert config.trust.source == "auto"


@pytest.mark.parametrize("loss", ["InfoNCE", "RINCE", "rince.losses.rince.RINCE"])
def test_infonce_and_rince_find_trust_with_gce_at_their_temperature(parser, loss):
    options = ["--loss", loss, "--loss.temperature", "0.3", "--method.q_schedule", "linear"]
    options = options[:4] if loss == "InfoNCE" else options
    config = configured(parser, *options)
    fold = fold_config(config, 3)
    assert fold.loss.class_path == "rince.GCE" and fold.method.init_args.q_schedule == "linear"
    assert fold.method.init_args.q_start == 0.7
    assert (fold.loss.init_args.q, fold.loss.init_args.temperature) == (1.0, 0.3)
    assert config.loss.class_path.endswith(loss.rpartition(".")[2]), "the run keeps its own"
    assert fold_config(configured(parser, *options, "--trust.loss", "same"), 3).loss == config.loss


@pytest.mark.parametrize("loss", ["DCL", "torch.nn.Identity"])
def test_other_losses_are_kept(parser, loss):
    config = configured(parser, "--loss", loss)
    assert fold_config(config, 3).loss == config.loss


def test_two_folds_in_short_runs_and_on_many_pairs_so_that_copies_are_as_long_as_the_run():
    assert [usual_folds(epochs, 1999) for epochs in (1, 19, 20, 100, -1, None)] == [2, 2, 3, 3, 3, 3]
    assert [usual_folds(epochs, 2000) for epochs in (1, 19, 20, 100, -1, None)] == [2] * 6
