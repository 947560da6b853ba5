"""A run folder of somebody else's sends nobody to a server, in whichever way it says so."""

import importlib
import json
import sys
import types

import pytest
import yaml

from rince import cli
from rince.data.fetching import fetched_by
from rince.integrations.timm import TimmEncoder
from rince.integrations.torchvision import TorchvisionEncoder
from rince.integrations.transformers import ImageEncoder
from rince.train.foreign_code import without_fetching

TINY = [
    "digits/simclr", "--encoder.width", "2", "--probe", "false", "--data.limit", "128", "--data.batch_size", "64",
    "--trainer.max_epochs", "1", "--trainer.accelerator", "cpu", "--trainer.enable_progress_bar", "false",
    "--trainer.enable_model_summary", "false",
]  # fmt: skip
TIMM = "rince.integrations.timm.TimmEncoder"
CIFAR10 = "rince.data.CIFAR10"


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    out = tmp_path_factory.mktemp("runs")
    assert cli.main(["train", *TINY, "--out", str(out), "--name", "a"]) == 0
    return out / "a"


@pytest.fixture
def folder(run, tmp_path, monkeypatch):
    """A copy of the run, in a place where everything that could fetch fails the test."""

    def fetch(*args, **kwargs):
        pytest.fail("something was fetched")

    for module in ("images.cifar10", "graphs.tudataset"):
        monkeypatch.setattr(importlib.import_module(f"rince.data.{module}"), "fetch", fetch)
    for name, attributes in {
        "timm": {"create_model": fetch},
        "transformers": {"AutoModel": types.SimpleNamespace(from_pretrained=fetch, from_config=fetch)},
        "datasets": {"load_dataset": fetch, "load_from_disk": fetch},
    }.items():
        peer = types.ModuleType(name)
        vars(peer).update(attributes)
        monkeypatch.setitem(sys.modules, name, peer)
    monkeypatch.chdir(tmp_path)
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


def part(kind, **arguments):
    return {"class_path": kind, "init_args": arguments}


@pytest.mark.parametrize(
    "data",
    [
        part(CIFAR10, root="dl", download=True),
        part(CIFAR10, root="dl", download="true"),
        part(CIFAR10, root="dl", download="yes"),
        {**part(CIFAR10, root="dl"), "dict_kwargs": {"download": True}},
        {"class_path": CIFAR10, "init_args": {"root": "dl", "noise": None, "download": 1}},
        part("rince.data.HuggingFacePairs", path="evil/dataset", a="a", b="b"),
        part("rince.data.HuggingFacePairs", path="a", a="a", b="b"),  # a folder of their own, which may hold a script
    ],
)
def test_data_of_others_are_missing_where_they_are_not_there(folder, capsys, data):
    """Though the encoder can be had, which needs no data."""
    change(folder, data=data)
    for command in commands(folder):
        assert cli.main(command) == (0 if command[0] == "export" else 2)
        assert capsys.readouterr().err.count("\n") == (0 if command[0] == "export" else 1)


def test_graphs_of_others_are_not_fetched(folder, capsys):
    change(folder, data=part("rince.data.TUGraphs", dataset="MUTAG", root="dl", download="true"))
    for command in commands(folder):
        cli.main(command)
        assert capsys.readouterr().err.count("\n") <= 1


@pytest.mark.parametrize(
    "encoder",
    [
        part("rince.integrations.transformers.ImageEncoder", model="evil/hub-model"),
        part("rince.integrations.transformers.ImageEncoder", model="detr", config={}),
        part(TIMM, model_name="hf-hub:evil/model"),
        part(TIMM, model_name="resnet18", options={"checkpoint_path": "evil.pt"}),
        {**part(TIMM, model_name="resnet18"), "dict_kwargs": {"options": {"checkpoint_path": "evil.pt"}}},
    ],
)
def test_models_of_others_are_not_fetched(folder, capsys, encoder):
    change(folder, encoder=encoder)
    for command in commands(folder):
        assert cli.main(command) == 2
        told = capsys.readouterr().err
        assert told.count("\n") == 1 and "would fetch or load" in told and "--trust-config" in told


def test_neither_texts_nor_further_files_hide_what_fetches(folder, tmp_path, capsys):
    hidden = part(TIMM, model_name="resnet18", pretrained=True)
    (tmp_path / "hidden.yaml").write_text(yaml.safe_dump(hidden))
    for text in (json.dumps(hidden), str(tmp_path / "hidden.yaml"), "hidden.yaml"):
        change(folder, views=part("rince.views.image.OwnViews", transform=text))
        for command in commands(folder):
            assert cli.main(command) == 2
            assert capsys.readouterr().err.count("\n") == 1


def test_what_the_user_asks_for_is_fetched(folder, monkeypatch, capsys):
    asked = []
    monkeypatch.setattr("rince.data.images.cifar10.fetch", lambda *args: asked.append(args))
    change(folder, data=part(CIFAR10, root="dl", download=True))
    assert cli.main(["finetune", str(folder), "--data.download", "true"]) == 2 and len(asked) == 1
    words = ["--data", "CIFAR10", "--data.root", "dl", "--data.download", "true"]
    assert cli.main(["finetune", str(folder), *words]) == 2 and len(asked) == 2
    own = folder / "own.yaml"
    own.write_text("data: {class_path: CIFAR10, init_args: {root: dl, download: true}}\n")
    assert cli.main(["finetune", str(folder), str(own)]) == 2 and len(asked) == 3
    assert cli.main(["finetune", str(folder), "--trust-config"]) == 2 and len(asked) == 4


def test_settings_that_fetch_are_turned_off():
    parts = {"class_path": "x.TorchvisionEncoder", "init_args": {"weights": "DEFAULT", "inner": [{"init_args": {}}]}}
    assert without_fetching({"a": parts})["a"]["init_args"] == {"weights": None, "inner": [{"init_args": {}}]}
    loud = {"init_args": {"pretrained": True, "download": "yes", "inner.download": 1}, "dict_kwargs": {"download": "y"}}
    quiet = {"pretrained": False, "download": False, "inner.download": False}
    assert without_fetching(loud) == {"init_args": quiet, "dict_kwargs": {"download": False}}


def test_which_models_are_built_from_numbers_alone():
    small = {"hidden_size": 32, "image_size": [8, 8], "hidden_act": "gelu"}
    for kind, arguments in (
        (TimmEncoder, {"model_name": "vit_base_patch16_224.augreg", "options": {"drop_rate": 0.1}}),
        (TorchvisionEncoder, {"name": "resnet18", "weights": None, "options": None}),
        (ImageEncoder, {"model": "vit", "config": small}),
    ):
        assert fetched_by(kind, arguments) is None
        assert fetched_by(kind, arguments | {"pretrained": "yes"}) is not None
    for kind, arguments in (
        (TorchvisionEncoder, {"name": "fcn_resnet50"}),
        (TorchvisionEncoder, {"name": "resnet18", "weights": "DEFAULT"}),
        (TorchvisionEncoder, {"name": "resnet18", "options": {"weights_backbone": "DEFAULT"}}),
        (ImageEncoder, {"model": "vit", "config": small | {"attn_implementation": "evil/kernel"}}),
        (ImageEncoder, {"model": "vit", "config": small | {"quantization_config": {}}}),
        (ImageEncoder, {"model": "vit"}),
        (TimmEncoder, {"model_name": "resnet18", "options": {"pretrained_cfg": {"url": "x"}}}),
    ):
        assert fetched_by(kind, arguments) is not None, arguments
