"""`rince evaluate`, `export` and `finetune` run nothing that a run folder names unless it is rince's, or trusted."""

import sys

import pytest
import yaml

from rince import cli
from rince.errors import UsageError
from rince.train.foreign_code import allowed, foreign_classes, without_fetching
from rince.train.load import load_run

TINY = [
    "digits/simclr", "--encoder.width", "2", "--probe", "false", "--data.limit", "128", "--data.batch_size", "64",
    "--trainer.max_epochs", "1", "--trainer.accelerator", "cpu", "--trainer.enable_progress_bar", "false",
    "--trainer.enable_model_summary", "false",
]  # fmt: skip
EVIL = "untrusted_module.Evil"


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


def test_a_folder_of_others_fetches_nothing(folder, monkeypatch):
    """Though it says so: data that are not there are missing."""
    monkeypatch.setattr("rince.data.images.cifar10.fetch", lambda *args: pytest.fail("it was fetched"))
    monkeypatch.chdir(folder)
    change(folder, data={"class_path": "rince.data.CIFAR10", "init_args": {"root": "dl", "download": True}})
    for command in commands(folder):
        assert cli.main(command) == 0 if command[0] == "export" else cli.main(command) == 2
    parts = {"class_path": "x.TorchvisionEncoder", "init_args": {"weights": "DEFAULT", "inner": [{"init_args": {}}]}}
    assert without_fetching({"a": parts})["a"]["init_args"] == {"weights": None, "inner": [{"init_args": {}}]}
    assert without_fetching({"init_args": {"pretrained": True, "download": "abc"}})["init_args"] == {
        "pretrained": False,
        "download": "abc",
    }


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
