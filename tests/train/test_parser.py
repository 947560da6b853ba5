import pytest

from rince.errors import UsageError
from rince.train.build import LAUNCHERS, check_trainer, instantiate
from rince.train.parser import named_classes, parse, parse_settings, train_parser
from rince.train.run import run_name
from rince.train.shipped import SHIPPED

CONFIGS = SHIPPED


@pytest.fixture(scope="module")
def parser():
    return train_parser()


@pytest.mark.parametrize("path", sorted(CONFIGS.glob("*/*.yaml")), ids=lambda p: f"{p.parent.name}-{p.stem}")
def test_every_configuration_describes_a_method_that_can_be_built(parser, path):
    if "tudataset" in str(path) or "graph" in str(path):
        pytest.importorskip("torch_geometric")
    config = parse(parser, [str(path)])
    parts = instantiate(parser, config)
    method = parts.method(parts.encoder, parts.loss, parts.views, parts.optimiser)
    assert method.encoder is parts.encoder


@pytest.mark.parametrize("as_file", [True, False])
def test_a_class_of_the_user_has_its_own_defaults_not_those_of_the_default_class(parser, tmp_path, as_file):
    name = "rince.encoders.r2plus1d.R2Plus1D"
    (tmp_path / "own.yaml").write_text(f"encoder: {{class_path: {name}}}")
    arguments = [str(tmp_path / "own.yaml")] if as_file else ["--encoder", name]
    for _ in range(2):  # the parser is left as it was
        assert parse(parser, arguments).encoder.init_args.width == 64
        assert parse(parser, ["--encoder.depth", "2"]).encoder.init_args.width == 32
    settings = {"encoder": {"class_path": name}}
    assert parse_settings(parser, settings).encoder.init_args.width == 64


def test_no_arguments_are_a_configuration_too(parser):
    assert parse(parser, []).encoder.class_path == "rince.encoders.ConvNet"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ([], set()),
        (["--encoder", "a.B", "--loss.q", "0.5"], {"encoder", "loss.q"}),
        (["--encoder=a.B"], {"encoder"}),
        (["--encoder.class_path", "a.B"], {"encoder"}),
        (["--encoder.width", "8", "--probe"], {"encoder.width"}),
        (["--config", str(CONFIGS / "digits/moco.yaml")],
         {"config", "method", "encoder", "loss", "views", "optimiser", "data"}),
    ],
)  # fmt: skip
def test_the_parts_whose_class_is_named_are_found(arguments, named):
    assert named_classes(arguments) == named


def test_options_on_the_command_line_win_over_the_file(parser):
    config = parse(parser, [str(CONFIGS / "digits/simclr.yaml"), "--loss.q", "0.7", "--trainer.devices", "8"])
    assert (
        config.loss.init_args.q == 0.7
        and str(config.trainer.devices) == "8"
        and config.loss.init_args.temperature == 0.2
    )


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ("--loss.qq 0.4", "loss: there is no option 'qq'; did you mean 'q'?"),
        ("--views.std null", "views.std must be Sequence[float], got null"),
        ("--data.batch_size null", "data.batch_size must be int, got null"),
        ("--data.batch_size ~", "data.batch_size must be int, got null"),
        ("--data TUGraphs --data.dataset X --data.root ~", "data.root must be str, got null"),
        ("--trainer.devics 3", "there is no option '--trainer.devics'; did you mean '--trainer.devices'?"),
        ("--method.hiden 4", "method: there is no option 'hiden'; did you mean 'hidden'?"),
        ("--optimiser.lrr 3", "optimiser: there is no option 'lrr'; did you mean 'lr'?"),
        ("--data.batchsize 4", "data: there is no option 'batchsize'; did you mean 'batch_size'?"),
        ("--loss.q abc", "loss.q must be float, got 'abc'"),
        ("--encoder.norm grp", "encoder.norm must be one of 'batch', 'group', 'none', got 'grp'"),
        ("--encoder ConvNett", "encoder: there is no class 'ConvNett'; did you mean 'rince.encoders.convnet.ConvNet'?"),
        ("--loss.q 1.5", "q must lie in [0, 1], got 1.5"),
        ("--loss.lam unbalanced", "loss.lam must be float or DensityRatio or one of 'balanced', got 'unbalanced'"),
        ("--data.nosie.rate 0.4", "data: there is no option 'nosie'; did you mean 'noise'?"),
        ("--data.noise.rat 0.4", "data.noise: there is no option 'rat'; did you mean 'rate'?"),
        ("--dtaa.batch_size 4", "there is no option '--dtaa.batch_size'; did you mean '--data.batch_size'?"),
        ("--sed 3", "there is no option '--sed'; did you mean '--seed'?"),
        ("--method rince.methods.MoKo", "no class 'rince.methods.MoKo'; did you mean 'rince.methods.moco.MoCo'?"),
        ("--method moco", "method: there is no class 'moco'; did you mean 'rince.methods.moco.MoCo'?"),
        ("--loss rince.Rince", "loss: there is no class 'rince.Rince'; did you mean 'rince.RINCE'?"),
        ("--data.noise LabelFlip", "data.noise: there is no class 'LabelFlip'; did you mean 'rince.noise.labels."),
        ("--data.noise LabelFlips", "data.noise: rate is missing: set data.noise.rate"),
        ("--data PairedArrays", "data: path is missing: set data.path"),
        ("--optimiser torch.optim.Adm", "no class 'torch.optim.Adm'; did you mean 'torch.optim.Adam'?"),
        ("--views my_package.Views", "there is no class 'my_package.Views'"),
        ("--encoder ../x", "encoder: there is no class '../x'"),
        ("--encoder ..ConvNet", "there is no class '..ConvNet'; did you mean 'rince.encoders.convnet.ConvNet'?"),
    ],
)
def test_a_wrong_key_or_value_is_one_line_with_the_nearest_name(parser, options, sentence):
    with pytest.raises(ValueError) as caught:
        instantiate(parser, parse(parser, [str(CONFIGS / "digits/simclr.yaml"), *options.split()]))
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("trainer: {max_epoch: 3}", "'trainer.max_epoch'; did you mean 'trainer.max_epochs'?"),
        ("loss: {class_path: rince.RINCE, init_args: {qq: 1}}", "did you mean 'q'?"),
        ("loss: [1", "bad.yaml is no YAML: expected ',' or ']'"),
    ],
)
def test_a_wrong_file_is_one_line_too(parser, tmp_path, text, sentence):
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(ValueError) as caught:
        parse(parser, [str(tmp_path / "bad.yaml")])
    assert sentence in str(caught.value) and "\n" not in str(caught.value)


@pytest.mark.parametrize("arguments", [["nowhere.yaml"], ["--config", "nowhere.yaml"], ["--config=nowhere.yaml"]])
def test_a_missing_file_is_named(parser, arguments):
    with pytest.raises(FileNotFoundError, match=r"no configuration nowhere\.yaml"):
        parse(parser, arguments)


@pytest.mark.parametrize("dash", ["-", "_"])
def test_short_names_and_both_spellings_are_understood(parser, dash):
    options = "--method MoCo --data=CIFAR10 --data.noise LabelFlips --data.noise.rate 0.4"
    options += f" --checkpoint{dash}every 7 --trainer.max{dash}epochs 3"
    config = parse(parser, ["digits/simclr", *options.split()])
    assert config.method.class_path == "rince.methods.MoCo" and config.checkpoint_every == 7
    assert config.data.class_path == "rince.data.images.cifar10.CIFAR10" and config.trainer.max_epochs == 3
    assert config.data.init_args.noise.class_path.endswith(".LabelFlips")


def test_short_names_in_a_file_of_the_users_and_its_name(parser, tmp_path):
    (tmp_path / "pairs.yaml").write_text("method: MoCo\nloss: {class_path: InfoNCE, init_args: {temperature: 3e-1}}\n")
    config = parse(parser, [str(tmp_path / "pairs.yaml"), "--optimiser", "LARS"])
    assert config.method.class_path == "rince.methods.MoCo" and config.loss.init_args.temperature == 0.3
    assert config.optimiser.class_path == "rince.optimisers.LARS" and run_name(config) == "pairs"
    assert run_name(parse(parser, ["digits/simclr"])) == "digits-simclr" and run_name(parse(parser, [])) == "simclr"


def test_the_options_of_a_class_are_explained(parser, capsys):
    for option, name, told in (("loss", "RINCE", "--loss.q"), ("method", "MoCo", "--method.queue")):
        with pytest.raises(SystemExit) as stop:
            parse(parser, [f"--{option}.help", name])
        assert stop.value.code == 0 and told in capsys.readouterr().out


def test_a_missing_extra_names_the_pip_install(parser, monkeypatch):
    import builtins

    real = builtins.__import__

    def without_sklearn(name, *rest):
        if name.startswith("sklearn"):
            raise ImportError(name)
        return real(name, *rest)

    import sys

    for name in [name for name in sys.modules if name.startswith("sklearn")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr("importlib.import_module", lambda name: without_sklearn(name))
    from rince.data.images.digit_images import DigitImages

    with pytest.raises(ImportError, match=r"pip install 'rince\[train\]'"):
        DigitImages().setup()


def test_optimizer_is_optimiser_wherever_it_stands(parser, tmp_path):
    (tmp_path / "own.yaml").write_text("optimizer: {class_path: SGD, init_args: {lr: 0.25}}\n")
    for config in (
        parse(parser, ["--optimizer", "SGD", "--optimizer.lr", "0.25"]),
        parse(parser, ["--optimizer.lr=0.25", "--optimizer=SGD"]),
        parse(parser, [str(tmp_path / "own.yaml")]),
        parse_settings(parser, {"optimizer": {"class_path": "torch.optim.SGD", "init_args": {"lr": 0.25}}}),
    ):
        assert config.optimiser.class_path == "torch.optim.SGD" and config.optimiser.init_args.lr == 0.25


def test_trust_in_short_is_its_source_wherever_it_stands(parser, tmp_path):
    (tmp_path / "own.yaml").write_text("trust: auto\n")
    (tmp_path / "long.yaml").write_text("trust: {source: auto, folds: 3}\n")
    (tmp_path / "none.yaml").write_text("trust: null\n")
    for config in (
        parse(parser, ["--trust", "auto"]),
        parse(parser, [str(tmp_path / "own.yaml")]),
        parse(parser, [str(tmp_path / "long.yaml")]),
        parse_settings(parser, {"trust": "auto"}),
    ):
        assert config.trust.source == "auto"
    assert parse(parser, [str(tmp_path / "own.yaml"), "--trust", "a.csv", "--trust.folds", "4"]).trust.folds == 4
    assert parse(parser, [str(tmp_path / "own.yaml"), "--trust", "a.csv"]).trust.source == "a.csv"
    assert parse(parser, [str(tmp_path / "long.yaml")]).trust.folds == 3
    assert parse(parser, [str(tmp_path / "none.yaml")]).get("trust.source") is None


def test_a_configuration_is_checked_without_touching_the_defaults(parser):
    """Nested defaults are shared by all parsers."""
    parse(parser, ["--optimiser.lr", "7", "--encoder.width", "9"])
    config = parse(parser, [])
    assert config.optimiser.init_args.lr == 1e-3 and config.encoder.init_args.width == 32


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        *(({part: None}, f"{part} must not be null") for part in ("method", "encoder", "loss", "optimiser")),
        ({"trainer": 5}, "trainer must have options below it, such as max_epochs: 10, got 5"),
        ({"trainer": None}, "trainer must have options"),
        ({"trust": ["auto"]}, "trust must have options below it"),
        ({1: 2}, "there is no option '1'"),
    ],
)
def test_values_where_parts_belong_are_one_sentence(parser, settings, message):
    with pytest.raises(UsageError, match=message):
        parse_settings(parser, settings)


def test_several_nodes_that_nobody_has_started_are_not_waited_for(monkeypatch):
    for name in LAUNCHERS:
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(UsageError, match=r"would wait for them for ever: start it with torchrun or SLURM"):
        check_trainer({"num_nodes": 2})
    monkeypatch.setenv("MASTER_ADDR", "10.0.0.1")
    check_trainer({"num_nodes": 2})


def test_a_constructor_of_the_users_keeps_its_own_error(parser):
    """Only what rince and torch refuse is a sentence."""
    import sys

    from torch import nn

    class Broken(nn.Module):
        def __init__(self, width: int = 3):
            super().__init__()
            len(width)

    module = type(sys)("tests_broken_module")
    module.Broken = Broken
    Broken.__module__, Broken.__qualname__ = "tests_broken_module", "Broken"
    sys.modules["tests_broken_module"] = module
    config = parse(parser, ["--encoder", "tests_broken_module.Broken"])
    with pytest.raises(TypeError, match="has no len"):
        instantiate(parser, config)


@pytest.mark.parametrize("words", (["--name", "~"], ["--name=null"], ["--out", "~"]))
def test_a_name_that_yaml_takes_for_nothing_is_one_sentence(parser, words):
    with pytest.raises(UsageError, match=r"--(name|out) must be a name, got (~|null), which means nothing"):
        parse(parser, words)


def test_one_batch_is_not_all_of_them(parser, tmp_path):
    """The trainer takes 1 for one batch, and 1.0 for all."""
    (tmp_path / "x.yaml").write_text("trainer:\n  limit_val_batches: 1\n  limit_test_batches: 0.5\n")
    words = ["digits/simclr", "--config", str(tmp_path / "x.yaml"), "--trainer.limit_train_batches", "1"]
    found = parse(parser, words).trainer
    limits = [found[f"limit_{part}_batches"] for part in ("train", "val", "test")]
    assert limits == [1, 1, 0.5] and [type(limit) for limit in limits] == [int, int, float]


def test_a_name_that_is_a_number_is_one_sentence():
    """As YAML reads it."""
    with pytest.raises(UsageError, match=r"no option '3'"):
        parse_settings(train_parser(), {"data": {"class_path": "rince.data.DigitImages", "init_args": {3: 1}}})


@pytest.mark.parametrize("name", ("seed", "checkpoint_every", "out", "probe"))
def test_null_in_a_file_for_what_is_needed_is_one_sentence(parser, tmp_path, name):
    (tmp_path / "x.yaml").write_text((CONFIGS / "digits/simclr.yaml").read_text() + f"\n{name}: null\n")
    with pytest.raises(UsageError, match=f"{name} must not be null"):
        parse(parser, [str(tmp_path / "x.yaml")])
