"""`rince evaluate`, `export` and `finetune` run nothing that a run folder names unless it is rince's, or trusted."""

import json
import sys

import pytest
import yaml

from rince import cli
from rince.errors import UsageError
from rince.train.finetune import finetune_parser, read_source
from rince.train.foreign_code import allowed, dotted_names, foreign_classes, trusting
from rince.train.load import load_run
from rince.train.parser import parse, spelled_out

TINY = [
    "digits/simclr", "--encoder.width", "2", "--probe", "false", "--data.limit", "128", "--data.batch_size", "64",
    "--trainer.max_epochs", "1", "--trainer.accelerator", "cpu", "--trainer.enable_progress_bar", "false",
    "--trainer.enable_model_summary", "false",
]  # fmt: skip
EVIL = "untrusted_module.Evil"


def part(path, **arguments):
    return {"class_path": path, "init_args": arguments}


def own_views(transform):
    return {"views": part("rince.views.image.OwnViews", transform=transform)}


def of_torch(name, **arguments):
    return part(f"torch.nn.{name}", **arguments)


# Functions of torch that import what they are told to.
IMPORTERS = [
    part("torch.nn.attention._fa3.register_flash_attention_fa3", module_path="untrusted_module"),
    part("torch.nn.attention._fa4._fa4_import_module", module_path="untrusted_module"),
    part(
        "torch.nn.utils._deprecation_utils.lazy_deprecated_import",
        all=["Evil"], old_module="x", new_module="untrusted_module",
    ),
    json.dumps(part("torch.nn.attention._fa4._fa4_import_module", module_path="untrusted_module")),
]  # fmt: skip


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    assert cli.main(["train", *TINY, "--out", str(out), "--name", "a"]) == 0
    return out / "a"


@pytest.fixture
def folder(run, tmp_path, monkeypatch):
    """A copy of the run, and a module that leaves a trace when it is imported."""
    (tmp_path / "untrusted_module.py").write_text(
        f"from pathlib import Path\nPath({str(tmp_path / 'owned')!r}).mkdir(exist_ok=True)\n"
        "from rince.encoders.convnet import ConvNet\nclass Evil(ConvNet): pass\ndef evil(x): return x\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "untrusted_module", raising=False)
    copy = tmp_path / "a"
    copy.mkdir()
    for name in ("config.yaml", "last.ckpt", "encoder.safetensors", "result.json"):
        (copy / name).write_bytes((run / name).read_bytes())
    return copy


def change(folder, **parts):
    config = yaml.safe_load((folder / "config.yaml").read_text())
    (folder / "config.yaml").write_text(yaml.safe_dump(config | parts))


def commands(folder):
    yield ["evaluate", str(folder)]
    yield ["export", str(folder), str(folder / "x.safetensors")]
    yield ["finetune", str(folder), "--trainer.max_epochs", "1"]


@pytest.mark.parametrize(
    "parts",
    [
        {"encoder": {"class_path": EVIL, "init_args": {"channels": 1, "width": 2}}},
        {"encoder": EVIL},
        {"views": {"class_path": "rince.views.image.OwnViews", "init_args": {"transform": "untrusted_module.evil"}}},
        {"views": {"class_path": "rince.views.image.OwnViews", "init_args": {"transform": {"class_path": EVIL}}}},
        {"encoder": {"class_path": "rince.encoders.gin.Pooled", "init_args": {"network": EVIL, "features": 64}}},
        {"encoder": '{"class_path": "untrusted_module.Evil"}'},
        {"data": {"class_path": "rince.data.images.digit_images.DigitImages", "dict_kwargs": {"noise": EVIL}}},
        *(own_views(importer) for importer in IMPORTERS),
        {"encoder": of_torch("TransformerEncoderLayer", d_model=2, nhead=1, activation=IMPORTERS[0])},
        {"encoder": of_torch("TripletMarginWithDistanceLoss", distance_function=IMPORTERS[1])},
        {"encoder": IMPORTERS[2]},
        {"encoder": "torch.nn.attention._fa3.register_flash_attention_fa3"},
    ],
)
def test_what_is_not_rinces_is_not_imported(folder, tmp_path, capsys, parts):
    change(folder, **parts)
    for command in commands(folder):
        assert cli.main(command) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "owned").exists()


def test_foreign_classes_are_listed_and_imported_when_they_are_trusted(folder, tmp_path, capsys):
    arguments = yaml.safe_load((folder / "config.yaml").read_text())["encoder"]["init_args"]
    change(folder, encoder={"class_path": EVIL, "init_args": arguments})
    with pytest.raises(UsageError, match=r"are not rince's: untrusted_module.Evil. .*--trust-config"):
        load_run(folder)
    target = str(folder / "x.safetensors")
    assert cli.main(["export", str(folder), target]) == 2 and not (tmp_path / "owned").exists()
    assert cli.main(["export", str(folder), target, "--trust-config"]) == 0 and (tmp_path / "owned").exists()


def test_what_the_trainer_was_told_is_not_built_by_an_evaluation(folder, tmp_path, capsys):
    callbacks = [{"class_path": "untrusted_module.Evil"}]
    change(folder, trainer={"callbacks": callbacks, "logger": EVIL})
    assert cli.main(["export", str(folder), str(folder / "x.safetensors")]) == 0
    assert not (tmp_path / "owned").exists()


def test_a_class_that_the_user_names_needs_no_other_word(folder, tmp_path):
    words = ["--encoder", EVIL, "--encoder.channels", "1", "--encoder.width", "2", "--from_scratch", "true"]
    quiet = ["--trainer.max_epochs", "1", "--trainer.accelerator", "cpu", "--trainer.enable_progress_bar", "false"]
    assert cli.main(["finetune", str(folder), *words, *quiet]) == 0 and (tmp_path / "owned").exists()


def test_the_settings_of_jsonargparse_are_left_as_they_were(folder):
    from jsonargparse import _common

    before = dict(_common.parsing_settings)
    load_run(folder)
    assert before == _common.parsing_settings


@pytest.mark.parametrize("name", ["method", "optimiser", "loss"])
def test_no_function_makes_a_part(folder, tmp_path, capsys, name):
    loss = part("rince.losses.loss.ContrastiveLoss", objective=IMPORTERS[0])
    change(folder, **{name: loss if name == "loss" else IMPORTERS[0]})
    for command in list(commands(folder))[:2]:  # a fine-tuning has these from the user
        assert cli.main(command) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "owned").exists()


def test_functions_of_rince_are_not_called(folder, tmp_path, capsys):
    path = "rince.data.synthetic.generated_files.write_videos"
    change(folder, **own_views(part(path, root=str(tmp_path / "owned"), train=8, test=8)))
    for command in commands(folder):
        assert cli.main(command) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1 and path in told and "--trust-config" in told
    assert not (tmp_path / "owned").exists()


def test_objectives_of_rince_are_taken(folder):
    change(folder, loss=part("rince.ContrastiveLoss", objective="rince.objectives.info_nce"))
    assert load_run(folder)[0].loss is not None
    assert not allowed("rince.losses.objectives._positive") and not allowed("rince.losses.cached.cached")


def test_words_of_the_command_line_are_no_import_paths(folder, tmp_path, monkeypatch, capsys):
    """A module in the run's own folder, whose path is among the words: python -m rince searches the current folder."""
    (tmp_path / "a" / "payload.py").write_text((tmp_path / "untrusted_module.py").read_text())
    change(folder, **own_views("a.payload.evil"))
    monkeypatch.chdir(tmp_path)
    for words in (["--out", "a"], ["--out=a.payload"], ["--name", "a.payload.evil"], ["--data.limit", "a"]):
        assert cli.main(["finetune", "a", *words, "--trainer.max_epochs", "1"]) == 2
        assert capsys.readouterr().err.count("\n") == 1
    assert not (tmp_path / "owned").exists()


def test_which_words_of_a_user_are_import_paths(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pairs.parquet").touch()
    words = ["--name", "os.path", "--out=x.y", "--encoder", "mine.Encoder", "--encoder.width", "3", "--data.root", "os"]
    words += ["--data.path", "pairs.parquet", "--views.transform=mine.crop", "--data.download", "true"]
    assert dotted_names(words) == ("--download", "mine.Encoder", "mine.crop")
    own = {"name": "a.b", "data": {"class_path": "CIFAR10"}, "views": {"init_args": {"transform": "mine.crop"}}}
    own["trainer"] = {"callbacks": [{"class_path": "mine.Callback"}]}
    assert dotted_names([], [own]) == ("mine.Callback", "mine.crop", "rince.data.images.cifar10.CIFAR10")


def test_a_class_may_be_named_where_it_is_not_defined(folder, tmp_path, monkeypatch):
    """jsonargparse asks for the place where a class was made, too."""
    (tmp_path / "elsewhere.py").write_text("from untrusted_module import Evil\n")
    words = ["--encoder", "elsewhere.Evil", "--encoder.channels", "1", "--encoder.width", "2"]
    config = parsed_finetuning(folder, words)
    assert config.encoder.class_path == "elsewhere.Evil"
    with pytest.raises(UsageError, match="--trust-config"):
        parsed_finetuning(folder, [*words, "--views", "OwnViews", "--views.transform", "untrusted_module.evil"], words)


def parsed_finetuning(folder, words, said=None):
    source = read_source(str(folder))
    with trusting({}, folder, False, dotted_names(spelled_out(words if said is None else said))):
        return parse(finetune_parser(source), words)


def test_a_missing_peer_is_one_sentence(folder, capsys, monkeypatch):
    """The errors of a missing package refer to each other in a circle."""
    monkeypatch.setitem(sys.modules, "timm", None)
    change(folder, encoder=part("rince.integrations.timm.TimmEncoder", model_name="resnet18"))
    for command in commands(folder):
        assert cli.main(command) == 2
        assert capsys.readouterr().err.endswith(": this needs timm: run pip install timm\n")
    words = ["--encoder", "rince.integrations.timm.TimmEncoder", "--encoder.model_name", "resnet18"]
    assert cli.main(["train", "digits/simclr", *words, "--out", str(folder)]) == 2
    assert capsys.readouterr().err == "rince train: this needs timm: run pip install timm\n"


@pytest.mark.parametrize("data", [None, {}])
def test_a_folder_without_data_is_one_sentence(folder, capsys, data):
    config = yaml.safe_load((folder / "config.yaml").read_text())
    del config["data"]
    (folder / "config.yaml").write_text(yaml.safe_dump(config if data is None else {**config, "data": None}))
    for command in commands(folder):
        assert cli.main(command) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1 and "data" in told


def test_parts_that_cannot_be_built_are_one_sentence(folder, capsys):
    """A class of rince's that is no transform, which shows only where the defaults of a fine-tuning are checked."""
    inner = {"class_path": "rince.noise.labels.LabelFlips", "init_args": {"rate": "x"}}
    change(folder, views={"class_path": "rince.views.image.OwnViews", "init_args": {"transform": inner}})
    for command in commands(folder):
        assert cli.main(command) == 2
        assert capsys.readouterr().err.count("\n") == 1


def test_which_names_are_foreign():
    nested = {"a": [{"class_path": "x.Y"}], "b": {"class_path": "rince.RINCE", "c": {"class_path": "z"}}}
    assert foreign_classes(nested) == ["x.Y", "z"]
    assert not any(map(allowed, ("rince.audit.encode.function.Function", "rince.trust.clean", "rincex.y", "torch")))
    assert allowed("torch.optim.Adam") and not allowed("torch.load") and not allowed("rince.cli.main")
    assert allowed("torch.nn.Linear") and allowed("torch.nn.modules.linear.Linear") and allowed("rince.RINCE")
    assert not any(map(allowed, ("torch.nn.Linear.forward", "torch.nn.DataParallel", "torch.nn.utils.prune.Identity")))
    assert not any(map(allowed, ("torch.nn.functional.relu", "rince.data.images.cifar10.Path", "rince.views._x.Y")))
    assert not any(map(allowed, ("rince.data.graphs.tudataset.tudataset", "rince.data.video.decode.VideoFile")))
