"""Configurations: short class names, defaults, and mistakes in one sentence with the nearest name."""

import sys

import pytest
from torch import nn

from rince._moved import current_settings
from rince.errors import UsageError
from rince.train.config import instantiate, named_classes, parse, parse_settings, train_parser
from rince.train.run import run_name
from rince.train.short_names import CONFIGS


@pytest.fixture(scope="module")
def parser():
    return train_parser()


@pytest.mark.parametrize("as_file", [True, False])
def test_named_class_takes_no_arguments_from_the_default_class(parser, tmp_path, as_file):
    (tmp_path / "own.yaml").write_text("encoder: {class_path: R2Plus1D}")
    arguments = [str(tmp_path / "own.yaml")] if as_file else ["--encoder", "R2Plus1D"]
    for _ in range(2):  # the parser is left as it was
        assert parse(parser, arguments).encoder.init_args.width == 64
        assert parse(parser, ["--encoder.depth", "2"]).encoder.init_args.width == 32
    settings = {"encoder": {"class_path": "rince.encoders.R2Plus1D"}}
    assert parse_settings(parser, settings).encoder.init_args.width == 64


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], set()),
        (["--encoder", "a.B", "--loss.q", "0.5"], {"encoder"}),
        (["--encoder.class_path", "a.B"], {"encoder"}),
        (["--encoder.width", "8", "--probe"], set()),
        (["--config", str(CONFIGS / "digits/moco.yaml")], {"method", "encoder", "loss", "views", "optimizer", "data"}),
    ],
)
def test_parts_with_a_named_class_are_found(arguments, named):
    assert named_classes(arguments) == named


def test_options_override_the_file(parser):
    config = parse(parser, [str(CONFIGS / "digits/simclr.yaml"), "--loss.q", "0.7", "--trainer.devices", "8"])
    arguments = config.loss.init_args
    assert arguments.q == 0.7 and str(config.trainer.devices) == "8" and arguments.temperature == 0.2


def test_options_before_their_class_are_kept(parser):
    config = parse(parser, ["--loss.temperature", "0.3", "--loss", "InfoNCE"])
    assert config.loss.class_path.endswith(".InfoNCE") and config.loss.init_args.temperature == 0.3


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ("--loss.qq 0.4", "loss: there is no option 'qq'; did you mean 'q'?"),
        ("--trainer.devics 3", "'--trainer.devics'; did you mean '--trainer.devices'?"),
        ("--method.hiden 4", "'hiden'; did you mean 'hidden'?"),
        ("--optimizer.lrr 3", "'lrr'; did you mean 'lr'?"),
        ("--data.batchsize 4", "'batchsize'; did you mean 'batch_size'?"),
        ("--loss.q abc", "loss.q must be float, got 'abc'"),
        ("--trainer.max_epochs abc", "trainer.max_epochs must be int or null, got 'abc'"),
        ("--seed abc", "seed must be int, got 'abc'"),
        ("--encoder.norm grp", "encoder.norm must be one of 'batch', 'group', 'none', got 'grp'"),
        ("--encoder ConvNett", "encoder: there is no class 'ConvNett'; did you mean 'ConvNet'?"),
        ("--loss.q 1.5", "got 1.5"),
        ("--loss.lam unbalanced", "loss.lam must be float or DensityRatio or one of 'balanced', got 'unbalanced'"),
        ("--data.nosie.rate 0.4", "did you mean 'noise'?"),
        ("--data.noise.rat 0.4", "data.noise: there is no option 'rat'; did you mean 'rate'?"),
        ("--dtaa.batch_size 4", "'--dtaa.batch_size'; did you mean '--data.batch_size'?"),
        ("--sed 3", "'--sed'; did you mean '--seed'?"),
        ("--method rince.methods.MoKo", "no class 'rince.methods.MoKo'; did you mean 'MoCo'?"),
        ("--method moco", "no class 'moco'; did you mean 'MoCo'?"),
        ("--loss rince.Rince", "no class 'rince.Rince'; did you mean 'RINCE'?"),
        ("--data.noise LabelFlip", "data.noise: there is no class 'LabelFlip'; did you mean 'LabelFlips'?"),
        ("--data.noise LabelFlips", "data.noise: rate must be given"),
        ("--data PairedArrays", "data: path must be given"),
        ("--optimizer torch.optim.Adm", "no class 'torch.optim.Adm'; did you mean 'Adam'?"),
        ("--views my_package.Views", "no class 'my_package.Views'"),
        ("--encoder ../x", "encoder: there is no class '../x'"),
        ("--trainer.logger TensorBoardLogger", "trainer.logger: save_dir must be given"),
    ],
)
def test_wrong_option_is_one_sentence_with_the_nearest_name(parser, options, told):
    with pytest.raises(UsageError) as caught:
        instantiate(parser, parse(parser, [str(CONFIGS / "digits/simclr.yaml"), *options.split()]))
    assert told in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("trainer: {max_epoch: 3}", "'--trainer.max_epoch'; did you mean '--trainer.max_epochs'?"),
        ("sed: 3", "did you mean '--seed'?"),
        ("loss: {class_path: rince.RINCE, init_args: {qq: 1}}", "did you mean 'q'?"),
        ("loss: {class_path: rince.RINCE, q: 1}", "under init_args"),
        ("trainer: 5", "trainer"),
        ("loss: [1", "bad.yaml is not valid YAML: expected ',' or ']'"),
        ("seed: 1\nseed: 2", "sets seed twice, in lines 1 and 2"),
        ("", "bad.yaml is empty"),
    ],
)
def test_wrong_file_is_one_sentence(parser, tmp_path, text, told):
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(UsageError) as caught:
        parse(parser, [str(tmp_path / "bad.yaml")])
    assert told in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("arguments", [["nowhere.yaml"], ["--config", "nowhere.yaml"], ["--config=nowhere.yaml"]])
def test_missing_file_is_named(parser, arguments):
    with pytest.raises(FileNotFoundError, match=r"no configuration nowhere\.yaml"):
        parse(parser, arguments)


@pytest.mark.parametrize("dash", ["-", "_"])
def test_short_names_and_both_spellings_of_options(parser, dash):
    options = "--method MoCo --data=CIFAR10 --data.noise LabelFlips --data.noise.rate 0.4"
    options += f" --checkpoint{dash}every 7 --trainer.max{dash}epochs 3"
    config = parse(parser, ["digits/simclr", *options.split()])
    assert config.method.class_path.endswith(".MoCo") and config.checkpoint_every == 7
    assert config.data.class_path.endswith(".CIFAR10") and config.trainer.max_epochs == 3
    assert config.data.init_args.noise.class_path.endswith(".LabelFlips")


def test_short_names_in_a_file(parser, tmp_path):
    (tmp_path / "pairs.yaml").write_text(
        "method: MoCo\nloss: {class_path: InfoNCE, init_args: {temperature: 3e-1}}\n"
        "encoder: {class_path: Towers, init_args: {a: ConvNet, b: {class_path: AudioConvNet, init_args: {width: 2}}}}\n"
        "trainer: {callbacks: [{class_path: PairMonitor}]}\n"
    )
    config = parse(parser, [str(tmp_path / "pairs.yaml"), "--optimizer", "LARS"])
    assert config.method.class_path.endswith(".MoCo") and config.loss.init_args.temperature == 0.3
    assert config.encoder.init_args.b.class_path.endswith(".AudioConvNet")
    assert config.trainer.callbacks[0].class_path.endswith(".PairMonitor")
    assert config.optimizer.class_path == "rince.optimizers.LARS" and run_name(config) == "pairs"


def test_name_of_a_run_comes_from_its_configuration(parser):
    assert run_name(parse(parser, ["digits/simclr"])) == "digits-simclr" and run_name(parse(parser, [])) == "simclr"


def test_flag_without_a_value_is_true(parser):
    assert parse(parser, ["--probe", "--seed", "3"]).probe is True and parse(parser, ["--probe=false"]).probe is False


def test_options_of_a_class_are_explained(parser, capsys):
    for option, name, told in (("loss", "RINCE", "--loss.q"), ("method", "MoCo", "--method.queue")):
        with pytest.raises(SystemExit) as stop:
            parse(parser, [f"--{option}.help", name])
        assert stop.value.code == 0 and told in capsys.readouterr().out


def test_old_spelling_of_optimizer_is_accepted(parser, tmp_path):
    (tmp_path / "own.yaml").write_text("optimiser: {class_path: SGD, init_args: {lr: 0.25}}\n")
    for config in (
        parse(parser, ["--optimiser", "SGD", "--optimizer.lr", "0.25"]),
        parse(parser, ["--optimizer.lr=0.25", "--optimizer=SGD"]),
        parse(parser, [str(tmp_path / "own.yaml")]),
        parse_settings(
            parser, current_settings({"optimiser": {"class_path": "torch.optim.SGD", "init_args": {"lr": 0.25}}})
        ),
    ):
        assert config.optimizer.class_path == "torch.optim.SGD" and config.optimizer.init_args.lr == 0.25


def test_trust_alone_is_its_source(parser, tmp_path):
    (tmp_path / "own.yaml").write_text("trust: auto  # weights before training\n")
    (tmp_path / "long.yaml").write_text("trust: {source: auto, folds: 3}\n")
    (tmp_path / "block.yaml").write_text("trust:\n  source: auto\n  folds: 3\n")
    (tmp_path / "none.yaml").write_text("trust: null\n")
    for config in (
        parse(parser, ["--trust", "auto"]),
        *(parse(parser, [str(tmp_path / f"{name}.yaml")]) for name in ("own", "long", "block")),
        parse_settings(parser, {"trust": "auto"}),
    ):
        assert config.trust.source == "auto"
    assert parse(parser, [str(tmp_path / "own.yaml"), "--trust", "a.csv", "--trust.folds", "4"]).trust.folds == 4
    assert parse(parser, [str(tmp_path / "own.yaml"), "--trust", "a.csv"]).trust.source == "a.csv"
    assert parse(parser, [str(tmp_path / "long.yaml")]).trust.folds == 3
    assert parse(parser, [str(tmp_path / "none.yaml")]).get("trust.source") is None


def test_parsing_leaves_the_defaults_unchanged(parser):
    parse(parser, ["--optimizer.lr", "7", "--encoder.width", "9"])
    config = parse(parser, [])
    assert config.optimizer.init_args.lr == 1e-3 and config.encoder.init_args.width == 32


def test_constructor_of_the_user_keeps_its_own_error(parser, monkeypatch):
    class Broken(nn.Module):
        def __init__(self, width: int = 3):
            super().__init__()
            len(width)

    module = type(sys)("tests_broken_module")
    module.Broken = Broken
    Broken.__module__, Broken.__qualname__ = "tests_broken_module", "Broken"
    monkeypatch.setitem(sys.modules, "tests_broken_module", module)
    config = parse(parser, ["--encoder", "tests_broken_module.Broken"])
    with pytest.raises(TypeError, match="has no len"):
        instantiate(parser, config)


def test_limit_of_one_batch_stays_an_integer(parser, tmp_path):
    """To the trainer, 1 is one batch and 1.0 all of them."""
    (tmp_path / "x.yaml").write_text("trainer:\n  limit_val_batches: 1\n  limit_test_batches: 0.5\n")
    words = ["digits/simclr", "--config", str(tmp_path / "x.yaml"), "--trainer.limit_train_batches", "1"]
    trainer = parse(parser, words).trainer
    limits = [trainer[f"limit_{part}_batches"] for part in ("train", "val", "test")]
    assert limits == [1, 1, 0.5] and [type(limit) for limit in limits] == [int, int, float]
